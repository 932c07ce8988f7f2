"""What releases of CRR say about the people, and what they gave away."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tinyldp.crr.blocks import make_beliefs
from tinyldp.crr_study import LOSS_NAMES, RULE_NAMES
from tinyldp.errors import UserError
from tinyldp.estimate.crr import Population, decode, known_steps, population
from tinyldp.figures import counted
from tinyldp.report.symbols import clean, symbol_name
from tinyldp.study import CRRS, TITLES
from tinyldp_protocol.messages import ENDED
from tinyldp_protocol.task import SCALE, Task

if TYPE_CHECKING:
    from tinyldp.collect.records import Stream
    from tinyldp.collect.store import Store

# Steps of a table, and values that are followed in it: all, or of many the most frequent ones.
STEPS = 200
FOLLOWED = 8
OF_STEPS = (
    "step", "devices", "leakage", "largest", "total", "most", "bound", "gain", "learned",
)  # fmt: skip
OF_VALUES = (
    "released", "smoothed", "low", "high", "raw", "raw_deviation", "raw_low", "raw_high",
    "raw_counted",
)  # fmt: skip
# A raw estimate of a larger standard deviation says nothing of a share, and is not given.
_SAYS_NOTHING = 0.5
# Of a normal number: once in a thousand million reports of 32 values.
_SURPRISING = 8.0


def crr_tables(
    store: Store, streams: Sequence[Stream], tasks: Mapping[str, Task], confidence: float
) -> list[dict[str, Any]]:
    """For each Task of CRR shares over time and what was told, at up to STEPS steps.

    Steps are those of a device's segment (one boot), from 0; of each segment all before its
    first loss is used. "epsilon": of each step (block) against the device's belief. "steps": one
    entry for each step: "step", "devices", "leakage" and "largest" (nats of a release: mean and
    most), "total" and "most" (of all releases so far), "bound" (epsilon for each), "gain" and
    "learned" (nats learned of a value on average, and of all so far), and for the values
    "followed": "released" (their share of the symbols), "smoothed", "low", "high" (its
    limits if series follow the Task's chain), "raw" and "raw_deviation" (of any series, the share
    among the devices that are counted; None where the releases alone say nothing), "raw_low" and
    "raw_high" (limits of the share among all devices), "raw_counted" (what share of the devices
    is counted: those whose release can tell the value from others). "cut": segments with a
    loss. "excess": None, or where releases do not follow the chain the most surprising "before",
    "symbol" and their "excess". "problem": why there is no estimate, or None; "left_out":
    sentences about streams that claim the impossible.
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
    try:
        symbols, present, ended, senders = _gathered(store, streams, task, table["left_out"])
        ahead = known_steps(task, present, ended)
        if not ahead.any():
            raise UserError("Of no segment a whole block has arrived: nothing can be smoothed.")
        last = int(np.flatnonzero(ahead.any(axis=0))[-1])
        wanted = np.unique(np.linspace(0, last, STEPS).astype(np.int64))
        found = population(task, symbols, present, wanted, confidence, ended=ended)
    except UserError as error:
        table["problem"] = clean(error)
        return table
    # Where it ends, a segment has no more releases; before, one was lost.
    ends = present.shape[1] - np.argmax(present[:, ::-1], axis=1)
    cut = np.count_nonzero(present.sum(axis=1) < ends)
    table |= {"segments": len(symbols), "devices": len(senders), "cut": int(cut)}
    followed = np.sort(np.argsort(-found.smoothed.mean(axis=0), kind="stable")[:FOLLOWED])
    table["followed"] = followed.tolist()
    if task.bins is not None:
        table["names"] = [symbol_name(task, value) for value in table["followed"]]
    table["steps"] = [_step(task, found, at, followed) for at in range(len(wanted))]
    table["steps_in_all"] = last + 1
    table["excess"] = _excess(task, found)
    return table


def _gathered(
    store: Store, streams: Sequence[Stream], task: Task, left_out: list[str]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_], npt.NDArray[np.bool_], set[str]]:
    """((segments, steps) symbols, which are present, who ended, senders) where the start is there.

    Whoever sends what no device can send is left out as a whole, with a sentence.
    """
    kept = []
    beliefs = make_beliefs(task)
    for stream in streams:
        try:
            symbols, present = store.values(stream.boot)
            if present.any() and symbols[present].max() >= task.symbols:
                raise UserError(f"A released symbol lies outside 0..{task.symbols - 1}.")
            if len(present) and present[0]:
                ended = stream.health == ENDED
                decode(task, symbols[np.newaxis], present[np.newaxis], ended=ended, beliefs=beliefs)
                kept.append((stream.pseudonym, symbols, present, ended))
        except UserError as error:
            left_out.append(f"Boot {clean(stream.nonce)}: {clean(error)}")
    if not kept:
        raise UserError("Of no segment the first release has arrived: nothing can be smoothed.")
    longest = max(len(symbols) for _, symbols, _, _ in kept)
    together = np.zeros((len(kept), longest), np.int64)
    here = np.zeros((len(kept), longest), np.bool_)
    for row, (_, symbols, present, _) in enumerate(kept):
        together[row, : len(symbols)] = symbols
        here[row, : len(symbols)] = present
    ended = np.array([each[3] for each in kept])
    return together, here, ended, {each[0] for each in kept}


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
    blocks = step // (task.block or 1) + 1
    return {
        "step": step,
        "devices": int(found.devices[at]),
        "leakage": float(found.leakage[at]),
        "largest": float(found.largest[at]),
        "total": float(found.total[at]),
        "most": float(found.most[at]),
        "bound": -math.log(task.thresholds[0] / SCALE) * blocks,
        "gain": float(found.gain[at]),
        "learned": float(found.learned[at]),
        "released": found.released[at][followed].tolist(),
        "smoothed": found.smoothed[at][followed].tolist(),
        "low": found.smoothed_low[at][followed].tolist(),
        "high": found.smoothed_high[at][followed].tolist(),
        **raw,
        "raw_counted": found.counted[at][followed].tolist(),
    }


def _excess(task: Task, found: Population) -> dict[str, Any] | None:
    size = np.abs(found.surprise)
    if size.max() < _SURPRISING:
        return None
    before, symbol = np.unravel_index(int(size.argmax()), size.shape)
    names = [
        value if task.bins is None else symbol_name(task, value) for value in range(task.symbols)
    ]
    return {
        "before": names[int(before)],
        "symbol": names[int(symbol)],
        "excess": float(found.excess[before, symbol]),
        "deviations": float(found.surprise[before, symbol]),
    }


def crr_summary(table: dict[str, Any]) -> str:
    """One paragraph of what a table holds."""
    unit = "step" if table["block"] is None else f"block of {table['block']} steps"
    said = (
        f"{counted(table['segments'], 'segment')} of {counted(table['devices'], 'device')};"
        f" rule {table['rule']},"
        f" loss {table['loss']}. The release of a {unit} makes no value likelier or less likely"
        f" than it was just before, by more than {table['epsilon']:.4g} nats against the device's"
        " own belief; what holds against the exact one, and if the chain is another, is in the"
        " certificate. Later releases tell of the same values again: what they add comes on top."
    )
    if table["steps"]:
        last = table["steps"][-1]
        said += (
            f" Up to step {last['step']:,} the releases told {last['total']:.4g} nats on average"
            f" and {last['most']:.4g} at most, where that belief allows {last['bound']:.4g}. Of the"
            f" values behind them {last['learned']:.4g} nats were learned on average."
        )
    if table["cut"]:
        said += (
            f" Of {counted(table['cut'], 'segment')} nothing more is known after a loss, for then"
            " the belief is unknown."
        )
    if table["excess"] is not None:
        excess = table["excess"]
        said += (
            f" The series do not follow the Task's chain: after {excess['before']}"
            f" {excess['symbol']} came {100 * abs(excess['excess']):.2g} % of the times"
            f" {'more' if excess['excess'] > 0 else 'less'} often than it says"
            f" ({abs(excess['deviations']):.0f} standard deviations), so that smoothed shares lean"
            " towards the chain, and what was told may be more than this, up to twice the bound."
        )
    return " ".join([said, *table["left_out"]])
