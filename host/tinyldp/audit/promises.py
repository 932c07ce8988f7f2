"""What else a certificate promises, checked on the same frames; each check can only fail.

A device that keeps its law fails one of the statistical checks once in a million audits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, bdtrc

from tinyldp.audit import oracles
from tinyldp.audit.pairs import Pair
from tinyldp.audit.streams import Integers, numbered, places
from tinyldp.audit.transcripts import Transcripts
from tinyldp.figures import counted
from tinyldp_protocol.hashing import PRIME
from tinyldp_protocol.task import OLH, OUE, STASWITCH, Task

FALSE_ALARM = 1e-6
# Statistical checks of an audit, at most: each has its part of the false alarms.
_CHECKS = 10

Simulated = npt.NDArray[np.uint16]


@dataclass(frozen=True)
class Promise:
    """One statement about what the device sends, and whether it held."""

    name: str
    held: bool
    detail: str


def _likely(name: str, chances: Iterable[float], tests: int) -> Promise:
    """Whether the least of so many tests' p-values is one that a sound device shows."""
    p = min(1.0, float(min(chances, default=1.0)) * max(1, tests))
    return Promise(name, p >= FALSE_ALARM / _CHECKS, f"p = {p:.3g}")


def one_length(transcripts: Transcripts) -> Promise:
    """Each kind of message has one length, whatever it carries."""
    sizes = {kind: sorted(found) for kind, found in sorted(transcripts.sizes.items())}
    said = ", ".join(f"{kind} {'/'.join(map(str, found))}" for kind, found in sizes.items())
    return Promise(
        "frame length", all(len(found) == 1 for found in sizes.values()), f"bytes: {said}"
    )


def whole_segments(transcripts: Transcripts) -> Promise:
    """As many values leave as came in."""
    return Promise("whole segments", not transcripts.short, f"{transcripts.short} were not whole")


def padding(transcripts: Transcripts) -> Promise:
    """What a segment's last frame lacks in values is zeros."""
    return Promise(
        "padding", not transcripts.padded, f"of {counted(transcripts.padded, 'segment')} not zeros"
    )


def of_stream(
    task: Task, pair: Pair, first: Integers, second: Integers, again: Simulated
) -> list[Promise]:
    """What holds for the (n, steps) symbols that were released under two neighbours.

    again: (m, steps) symbols of simulated segments under the first.
    """
    same = _same_values(pair, first, second)
    # Where a value is missing, nothing can be said about its place.
    if not same.held or not len(first):
        return [same]
    kept = [same, _stream_law(pair, first, again)]
    if task.mechanism == STASWITCH:
        kept.append(_never_later(task, pair, first))
    return kept


def _same_values(pair: Pair, first: Integers, second: Integers) -> Promise:
    """The values of a segment are released, each as often as it came; only the order changes."""
    came = np.sort(pair.symbols)
    different = sum(
        int((np.sort(released, axis=1) != came).any(axis=1).sum()) for released in (first, second)
    )
    return Promise(
        f"same values, {pair.where}", not different, f"different in {counted(different, 'segment')}"
    )


def _followed(pair: Pair) -> list[int]:
    """The steps whose values can be followed: no other step has the same."""
    return [step for step, value in enumerate(pair.symbols) if pair.symbols.count(value) == 1]


def _never_later(task: Task, pair: Pair, released: Integers) -> Promise:
    """StaSwitch: nothing is released more than k-1 steps after it came."""
    steps = _followed(pair)
    latest = int((places(pair, released, steps) - steps).max())
    return Promise(
        f"delay, {pair.where}",
        latest <= task.k - 1,
        f"at most {counted(latest, 'step')}, k-1 = {task.k - 1}",
    )


def _stream_law(pair: Pair, released: Integers, again: Simulated) -> Promise:
    """Values go where the simulated mechanism takes them: alone, the two, and beside each other."""
    chances = [
        _two_samples(one, other)
        for one, other in zip(_looked_at(pair, released), _looked_at(pair, again), strict=True)
    ]
    return _likely(f"law, {pair.where}", chances, len(chances))


def _looked_at(pair: Pair, released: Integers | Simulated) -> list[Integers]:
    """What is compared of (n, steps) released symbols, each as n rows of numbers.

    Where each value went, where the two did, and how many left before the one before them.
    """
    found = places(pair, released, _followed(pair))
    overtaking = (np.diff(found, axis=1) < 0).sum(axis=1, keepdims=True)
    return [*np.hsplit(found, found.shape[1]), places(pair, released), overtaking]


def _two_samples(found: Integers, again: Integers) -> float:
    """p-value of two samples of rows, (n, m) each, being of one law.

    Each row that occurs, however often, falls to either sample with a known chance.
    """
    (one, other), kinds = numbered(found, again)
    counts = np.bincount(one, minlength=kinds)
    total = counts + np.bincount(other, minlength=kinds)
    share = len(found) / (len(found) + len(again))
    return float(_binomial(counts, total, share).min()) * kinds


def of_oracle(
    task: Task,
    constant: list[tuple[int, oracles.Reports]],
    every: tuple[tuple[int, ...], oracles.Reports],
) -> list[Promise]:
    """What holds for (segments, reports) of one value each, and for those of many in turn."""
    all_reports = [*(reports for _, reports in constant), every[1]]
    impossible = sum(
        int((~oracles.possible(task, reports.reshape(-1, *reports.shape[2:]))).sum())
        for reports in all_reports
    )
    kept = [Promise("reports", not impossible, f"{impossible} are none that a device can give")]
    if impossible:
        return kept
    kept += [
        check(task, value, reports)
        for value, reports in constant
        for check in (_law, _first, _successive)
    ]
    kept.append(_law_of_every(task, *every))
    if task.mechanism == OUE:
        kept.append(_side_by_side(task, *constant[0]))
    if task.mechanism == OLH:
        kept.append(_fresh_keys(all_reports))
    return kept


def _law(task: Task, value: int, reports: oracles.Reports) -> Promise:
    """Reports of a value are as frequent as the Task's integers say."""
    n = reports.shape[0] * reports.shape[1]
    chances = _binomial(oracles.counts(task, reports, value), n, oracles.law(task))
    return _likely(f"law of value {value}", [chances.min()], len(chances))


def _first(task: Task, value: int, reports: oracles.Reports) -> Promise:
    """So are the first reports of the segments."""
    chances = _binomial(
        oracles.counts(task, reports[:, :1], value), len(reports), oracles.law(task)
    )
    return _likely(f"first report of value {value}", [chances.min()], len(chances))


def _successive(task: Task, value: int, reports: oracles.Reports) -> Promise:
    """A report does not depend on the one before: in pairs that have no report in common."""
    last = reports.shape[1] // 2 * 2
    both = [
        np.count_nonzero(event[:, 0:last:2] & event[:, 1:last:2])
        for event in oracles.events(task, reports, value)
    ]
    law = oracles.law(task)[: len(both)]
    chances = _binomial(np.array(both), len(reports) * last // 2, law**2)
    return _likely(f"fresh reports of value {value}", chances, len(chances))


def _side_by_side(task: Task, value: int, reports: oracles.Reports) -> Promise:
    """OUE: a bit does not depend on the one beside it."""
    before = None
    both = []
    for event in oracles.events(task, reports, value):
        if before is not None:
            both.append(np.count_nonzero(before & event))
        before = event
    law = oracles.law(task)
    n = reports.shape[0] * reports.shape[1]
    chances = _binomial(np.array(both), n, law[:-1] * law[1:])
    return _likely("independent bits", chances, len(chances))


def _law_of_every(task: Task, values: tuple[int, ...], reports: oracles.Reports) -> Promise:
    """As frequent for every value, whatever came before it."""
    law = oracles.law(task)
    total = np.zeros(len(law), np.int64)
    truths = []
    own = reports.reshape(-1, len(values), *reports.shape[2:])
    for place, value in enumerate(values):
        counts = oracles.counts(task, own[:, place], value)
        truths.append(counts[0])
        total += counts
    n = len(own)
    chances = np.append(
        _binomial(total, n * len(values), law), _binomial(np.array(truths), n, law[:1])
    )
    return _likely("law of every value", chances, len(chances))


def _fresh_keys(reports: list[oracles.Reports]) -> Promise:
    """OLH: both halves of the key are uniform, and a new key has nothing of the last one's."""
    chances: list[float] = []
    share = np.bincount(np.arange(PRIME) >> 8) / PRIME
    for own in reports:
        for half in oracles.keys(own):
            counts = np.bincount(half.reshape(-1) >> 8, minlength=len(share))
            chances += _binomial(counts, half.size, share).tolist()
            last = half.shape[1] // 2 * 2
            again = np.count_nonzero(half[:, 0:last:2] == half[:, 1:last:2])
            chances += _binomial(np.array([again]), len(half) * last // 2, 1 / PRIME).tolist()
    return _likely("fresh keys", chances, len(chances))


def _binomial(
    counts: npt.NDArray[np.int64],
    n: npt.NDArray[np.int64] | int,
    chance: npt.NDArray[np.float64] | float,
) -> npt.NDArray[np.float64]:
    """Two-sided p-values of counts out of n; exact, so that rare events may be counted, too."""
    low = bdtr(counts, n, chance)
    high = np.where(counts > 0, bdtrc(np.maximum(counts - 1, 0), n, chance), 1.0)
    return np.minimum(1.0, 2 * np.minimum(low, high))
