"""What releases of CRR say about the people, and what they gave away."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tinyldp.certify.bounds import digits_up
from tinyldp.crr.blocks import make_beliefs
from tinyldp.crr.index import place_values
from tinyldp.crr_study import LOSS_NAMES, RULE_NAMES
from tinyldp.errors import UserError
from tinyldp.estimate.crr import AllBeliefs, Population, decode, known_steps, population
from tinyldp.figures import counted, percent
from tinyldp.report.nats import mean_nats, most_nats
from tinyldp.report.symbols import clean, has_names, symbol_name
from tinyldp.study import CRRS, TITLES
from tinyldp_protocol.messages import ENDED
from tinyldp_protocol.task import SCALE, TABLE, Task

if TYPE_CHECKING:
    from tinyldp.collect.records import Stream
    from tinyldp.collect.store import Store

# Values that are followed: all, or of many the most frequent ones.
FOLLOWED = 8
# Numbers of posteriors that are held at a time.
_HELD = 1 << 22
OF_STEPS = (
    "step", "devices", "leakage", "largest", "total", "most", "allowed", "gain", "learned",
)  # fmt: skip
OF_VALUES = (
    "released", "smoothed", "low", "high", "raw", "raw_deviation", "raw_low", "raw_high",
    "raw_counted",
)  # fmt: skip
# A raw estimate of a larger standard deviation says nothing of a share, and is not given.
_SAYS_NOTHING = 0.5
_NO_BLOCK = "Of no segment a whole block has arrived: nothing can be smoothed."
# In how many reports of a Task at most, with all its pairs, the chain is wrongly said not to hold.
_FALSE_ALARMS = 1e-6


def crr_tables(
    store: Store, streams: Sequence[Stream], tasks: Mapping[str, Task], confidence: float
) -> list[dict[str, Any]]:
    """For each Task of CRR shares over time and what was told, at each step.

    Steps are those of a device's segment (one boot), from 0; of each segment all before its first
    loss is used, with a table all that arrived. "epsilon": of each step (block) against the
    device's belief, with a table against what is known of the chain and all releases before.
    "steps": one entry for each step: "step", "devices", "leakage" and "largest" (nats of a
    release: mean and most; 0 of one that was lost), "total" and "most" (of all releases so far),
    "allowed" (at most, by the device's own belief, or the table: epsilon for each; the certificate
    has other figures), "gain" and "learned" (nats learned of a value on average, and of all so
    far; of blocks, "leakage", "largest" and "gain" stand at the first step, and are None at the
    others), and for the values "followed": "released" (their share of the symbols, None where none
    arrived), "smoothed", "low", "high" (its limits if series follow the Task's chain), "raw" and
    "raw_deviation" (of any series, the share among the devices that are counted; None where the
    releases alone say nothing), "raw_low" and "raw_high" (limits of the share among all devices),
    "raw_counted" (what share of the devices is counted: those whose release can tell the value
    from others). "cut": segments with a loss. "excess": None, or where releases do not follow the
    chain the most surprising "before", "symbol" (of blocks, all symbols of a whole block, as a
    sentence has them), the "share" that it has of what follows, what is "expected", the "excess",
    and its standard "deviations", rather fewer. "problem": why there is no estimate, or None;
    "left_out": sentences about streams that claim the impossible.
    """
    return [
        _table(store, [stream for stream in streams if stream.task_id == task_id], task, confidence)
        for task_id, task in tasks.items()
        if task.mechanism in CRRS
    ]


def _table(store: Store, streams: Sequence[Stream], task: Task, confidence: float) -> Any:
    table: dict[str, Any] = {
        "task": task.id.hex(),
        "mechanism": TITLES[task.mechanism],
        "rule": RULE_NAMES[task.rule],
        "loss": LOSS_NAMES[task.loss],
        "epsilon": -math.log(task.thresholds[0] / SCALE),
        "block": task.block,
        "symbols": task.symbols,
        "segments": 0,
        "devices": 0,
        "cut": 0,
        "confidence": confidence,
        "followed": [],
        "names": None,
        "steps": [],
        "steps_in_all": 0,
        "excess": None,
        "left_out": [],
        "problem": None,
    }
    beliefs = make_beliefs(task)
    try:
        series = _possible(store, streams, task, beliefs, table["left_out"])
        symbols, present, ended, senders = _gathered(task, series)
        ahead = known_steps(task, present, ended)
        if not ahead.any():
            raise UserError(_NO_BLOCK)
        last = int(np.flatnonzero(ahead.any(axis=0))[-1])
        found = population(
            task, symbols, present, np.arange(last + 1), confidence, ended=ended, beliefs=beliefs
        )
    except UserError as error:
        table["problem"] = clean(error)
        return table
    # Where it ends, a segment has no more releases; before, one was lost.
    ends = present.shape[1] - np.argmax(present[:, ::-1], axis=1)
    cut = np.count_nonzero(present.sum(axis=1) < ends)
    table |= {"segments": len(symbols), "devices": len(senders), "cut": int(cut)}
    followed = np.sort(np.argsort(-found.smoothed.mean(axis=0), kind="stable")[:FOLLOWED])
    table["followed"] = followed.tolist()
    if has_names(task):
        table["names"] = [symbol_name(task, value) for value in table["followed"]]
    table["steps"] = [_step(task, found, at, followed) for at in range(last + 1)]
    table["steps_in_all"] = last + 1
    table["excess"] = _excess(task, found, symbols, present & ahead)
    return table


def smoothed_series(
    store: Store, streams: Sequence[Stream], task: Task
) -> Iterator[tuple[int, npt.NDArray[Any], npt.NDArray[Any]]]:
    """For each boot whose start is there (boot, values, probabilities) of its known steps.

    With a table that is each of which a whole block is there, and all steps up to its last one.
    values: (t,) the most probable value of each step, given all that the device released;
    probabilities: (t,) of these. Who sends what no device can send is left out.
    """
    beliefs = make_beliefs(task)
    for part in _parts(_possible(store, streams, task, beliefs, []), task):
        symbols, present, ended, _ = _gathered(task, part)
        found = decode(task, symbols, present, ended=ended, beliefs=beliefs)
        for row, one in enumerate(part):
            posterior = found.posterior[row, found.known[row]]
            yield one.stream.boot, posterior.argmax(axis=1), posterior.max(axis=1)


@dataclass(frozen=True)
class _Series:
    """A segment: (t,) symbols, and which of them are present: some of them are of use."""

    stream: Stream
    symbols: npt.NDArray[Any]
    present: npt.NDArray[np.bool_]


def _possible(
    store: Store,
    streams: Sequence[Stream],
    task: Task,
    beliefs: AllBeliefs,
    left_out: list[str],
) -> list[_Series]:
    """The series where the start is there, or with a table any whole block.

    Whoever sends what no device can send is left out as a whole, with a sentence.
    """
    begun = []
    for stream in streams:
        try:
            symbols, present = store.values(stream.boot)
            if present.any() and symbols[present].max() >= task.symbols:
                raise UserError(f"A released symbol lies outside 0..{task.symbols - 1}.")
            if _useful(task, present):
                begun.append(_Series(stream, symbols, present))
        except UserError as error:
            left_out.append(f"Boot {clean(stream.nonce)}: {clean(error)}")
    kept: list[_Series] = []
    for part in _parts(begun, task):
        try:
            _decode(task, part, beliefs)
            kept += part
        except UserError:
            # Whose fault it is shows one by one, which takes long.
            for one in part:
                try:
                    _decode(task, [one], beliefs)
                    kept.append(one)
                except UserError as error:
                    left_out.append(f"Boot {clean(one.stream.nonce)}: {clean(error)}")
    return kept


def _useful(task: Task, present: npt.NDArray[np.bool_]) -> bool:
    """Whether anything of a segment can be smoothed, or will be once its first block is whole."""
    if task.rule == TABLE:
        return bool(known_steps(task, present[np.newaxis], False).any())
    return bool(len(present) and present[0])


def _decode(task: Task, series: list[_Series], beliefs: AllBeliefs) -> None:
    symbols, present, ended, _ = _gathered(task, series)
    decode(task, symbols, present, ended=ended, beliefs=beliefs)


def _parts(series: list[_Series], task: Task) -> list[list[_Series]]:
    """By length, so that little is filled up, and so many together as can be held."""
    ordered = sorted(series, key=lambda one: len(one.symbols))
    longest = max((len(one.symbols) for one in series), default=1)
    size = max(1, _HELD // (longest * task.symbols))
    return [ordered[at : at + size] for at in range(0, len(ordered), size)]


def _gathered(
    task: Task, series: list[_Series]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_], npt.NDArray[np.bool_], set[str]]:
    """((segments, steps) symbols, which are present, who ended, senders)."""
    if not series and task.rule == TABLE:
        raise UserError(_NO_BLOCK)
    if not series:
        raise UserError(
            "Of no segment the first release has arrived: nothing can be smoothed, as the devices'"
            " beliefs are unknown. Raw symbols are there all the same (--csv). To have the next"
            " segment from its start on, start collect before the device, or reset the board while"
            " it runs; a larger outbox keeps more frames until the host is there."
        )
    longest = max(len(one.symbols) for one in series)
    together = np.zeros((len(series), longest), np.int64)
    here = np.zeros((len(series), longest), np.bool_)
    for row, one in enumerate(series):
        together[row, : len(one.symbols)] = one.symbols
        here[row, : len(one.symbols)] = one.present
    ended = np.array([one.stream.health == ENDED for one in series])
    return together, here, ended, {one.stream.pseudonym for one in series}


def _step(task: Task, found: Population, at: int, followed: Any) -> dict[str, Any]:
    step = int(found.steps[at])
    deviation = np.sqrt(found.variances[at])
    said = deviation < _SAYS_NOTHING
    raw = {
        name: [
            float(x) if ok else None for x, ok in zip(row[followed], said[followed], strict=True)
        ]
        for name, row in (
            ("raw", found.raw[at]),
            ("raw_deviation", deviation),
            ("raw_low", found.low[at]),
            ("raw_high", found.high[at]),
        )
    }
    block, within = divmod(step, task.block or 1)
    # A whole block is released together: what it tells is not of its other steps.
    leakage, largest, gain = (
        None if within else float(row[at]) for row in (found.leakage, found.largest, found.gain)
    )
    return {
        "step": step,
        "devices": int(found.devices[at]),
        "leakage": leakage,
        "largest": largest,
        "total": float(found.total[at]),
        "most": float(found.most[at]),
        "allowed": -math.log(task.thresholds[0] / SCALE) * (block + 1),
        "gain": gain,
        "learned": float(found.learned[at]),
        "released": [None if np.isnan(x) else float(x) for x in found.released[at][followed]],
        "smoothed": found.smoothed[at][followed].tolist(),
        "low": found.smoothed_low[at][followed].tolist(),
        "high": found.smoothed_high[at][followed].tolist(),
        **raw,
        "raw_counted": found.counted[at][followed].tolist(),
    }


def _excess(
    task: Task, found: Population, symbols: npt.NDArray[Any], used: npt.NDArray[np.bool_]
) -> dict[str, Any] | None:
    """symbols, used: (segments, steps)."""
    size = np.abs(found.surprise)
    # Each of them exceeds z with 2 exp(-z^2 / 2) at most.
    if size.max() < math.sqrt(2 * math.log(2 * size.size / _FALSE_ALARMS)):
        return None
    before, symbol = np.unravel_index(int(size.argmax()), size.shape)
    before, symbol = int(before), int(symbol)
    block = task.block or 1
    shape = len(symbols), -1, block
    whole = symbols.shape[1] // block * block
    powers = place_values(task.symbols, block)
    released: npt.NDArray[Any] = symbols[:, :whole].reshape(shape) @ powers
    there = np.asarray(used[:, :whole].reshape(shape).all(axis=2))
    followed = there[:, 1:] & there[:, :-1] & (released[:, :-1] == before)
    share = float((released[:, 1:][followed] == symbol).mean())
    excess = float(found.excess[before, symbol])
    return {
        "before": _release_name(task, before),
        "symbol": _release_name(task, symbol),
        "share": share,
        "expected": share - excess,
        "excess": excess,
        "deviations": float(found.surprise[before, symbol]),
    }


def _release_name(task: Task, number: int) -> Any:
    """A symbol, or what it stands for; of a block all of them, in a text."""
    places = reversed(range(task.block or 1))
    values = [number // task.symbols**place % task.symbols for place in places]
    names = [symbol_name(task, value) if has_names(task) else value for value in values]
    return names[0] if task.block is None else ", ".join(str(name) for name in names)


def releases(table: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps at which something was released: all, or each block's first one."""
    return table["steps"][:: table["block"] or 1]


def alone(table: dict[str, Any]) -> bool:
    """Whether there is one segment alone: then nothing is shared."""
    return table["segments"] == 1


def crr_summary(table: dict[str, Any]) -> str:
    """One paragraph of what a table holds."""
    unit = "step" if table["block"] is None else f"block of {table['block']} steps"
    belief = (
        "the device's own belief; what holds against the exact one, and if the chain is another,"
        " is in the certificate."
    )
    by_table = table["rule"] == RULE_NAMES[TABLE]
    if by_table:
        belief = (
            "what is known of the chain and of all releases before; what holds if the chain is"
            " another is in the certificate."
        )
    said = (
        f"{counted(table['segments'], 'segment')} of {counted(table['devices'], 'device')};"
        f" rule {table['rule']},"
        f" loss {table['loss']}. The release of a {unit} makes no value likelier or less likely"
        f" than it was just before, by more than {digits_up(Fraction(table['epsilon']))} nats"
        f" against {belief} Later releases tell of the same values again: what they add comes on"
        " top."
    )
    if table["steps"]:
        last = table["steps"][-1]
        said += (
            f" Up to step {last['step']:,} the releases told {mean_nats(last['total'])} nats"
            f" on average and {most_nats(last['most'], last['allowed'])} at most, where"
            f" {'the table' if by_table else 'that belief'} allows"
            f" {digits_up(Fraction(last['allowed']))}. On average {mean_nats(last['learned'])} nats"
            " were learned of a device's values by them."
        )
    if table["cut"] and by_table:
        said += (
            f" Of {counted(table['cut'], 'segment')} some releases were lost: of these steps the"
            " chain alone tells, and what arrived before and after."
        )
    elif table["cut"]:
        said += (
            f" Of {counted(table['cut'], 'segment')} nothing more is known after a loss, for then"
            " the belief is unknown."
        )
    if table["excess"] is not None:
        excess = table["excess"]
        said += (
            f" The series do not follow the Task's chain: of the releases after a"
            f" “{excess['before']}”, {percent(excess['share'], 1)} % were a “{excess['symbol']}”,"
            f" where the chain lets expect {percent(excess['expected'], 1)} %"
            f" ({math.floor(abs(excess['deviations']))} standard deviations or more), so that"
            " smoothed shares lean towards the chain, and what was told may be more than this, up"
            " to twice the bound."
        )
    return " ".join([said, *table["left_out"]])
