"""What reports of a frequency oracle say: of two values, and beside the Task's own law.

By the truth's place: where GRR's report, or OLH's bucket, lies from the true one, or a
bit of OUE's from the true value's, going round. Place 0 is the truth.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tinyldp_protocol.hashing import PRIME
from tinyldp_protocol.task import GRR, OLH, OUE, SCALE, Task

Reports = npt.NDArray[np.int64] | npt.NDArray[np.uint8]
Events = npt.NDArray[np.bool_]
# Places that are looked at one by one; of OUE all are.
_PLACES = 64


def telling(task: Task, reports: Reports, value: int, other: int) -> Events:
    """Which reports speak for `value` against `other`: (n,) of (n,) or (n, width) reports.

    GRR: the value itself; OUE: its bit set and the other's clear; OLH: the value's hash,
    under a key that gives the other another one.
    """
    if task.mechanism == GRR:
        return reports == value
    if task.mechanism == OUE:
        return bit(reports, value) & ~bit(reports, other)
    a, b = keys(reports)
    hashed = _hash(task, a, b, value)
    return (hashed == _bucket(task, reports)) & (hashed != _hash(task, a, b, other))


def bit(reports: Reports, place: int) -> Events:
    """Whether each of (..., width) OUE reports has this bit set."""
    return (reports[..., place >> 3] >> (place & 7) & 1).astype(bool)


def keys(reports: Reports) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The two halves of the hash keys of (..., width) OLH reports."""
    column = reports.astype(np.int64)
    return column[..., 0] | column[..., 1] << 8, column[..., 2] | column[..., 3] << 8


def hashes(
    task: Task, reports: Reports, value: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """What each OLH report's key makes of the value, and what the report says."""
    return _hash(task, *keys(reports), value), _bucket(task, reports)


def _hash(
    task: Task, a: npt.NDArray[np.int64], b: npt.NDArray[np.int64], value: int
) -> npt.NDArray[np.int64]:
    return (a + b * value) % PRIME % _size(task)


def _bucket(task: Task, reports: Reports) -> npt.NDArray[np.int64]:
    said = reports[..., 4].astype(np.int64)
    return said | reports[..., 5].astype(np.int64) << 8 if task.width > 5 else said


def possible(task: Task, reports: Reports) -> Events:
    """Which reports the mechanism can give at all: (n,)."""
    if task.mechanism == GRR:
        return reports < task.symbols
    if task.mechanism == OUE:
        return (reports[:, -1].astype(int) >> ((task.symbols - 1) % 8 + 1)) == 0
    a, b = keys(reports)
    return (a < PRIME) & (b < PRIME) & (_bucket(task, reports) < _size(task))


def law(task: Task) -> npt.NDArray[np.float64]:
    """The probability of each place from the truth's."""
    lie = task.thresholds[0] / SCALE
    chances = np.full(_size(task), lie)
    chances[0] = 0.5 if task.mechanism == OUE else 1 - (len(chances) - 1) * lie
    return chances


def counts(task: Task, reports: Reports, value: int) -> npt.NDArray[np.int64]:
    """How many reports of a value have each place: as law()."""
    if task.mechanism == OUE:
        ones = [np.count_nonzero(bit(reports, place)) for place in range(task.symbols)]
        return np.roll(ones, -value)
    return np.bincount(_places(task, reports, value).reshape(-1), minlength=_size(task))


def events(task: Task, reports: Reports, value: int) -> Iterator[Events]:
    """Of each place in turn, the truth's first, which reports of a value have it."""
    if task.mechanism == OUE:
        for place in range(task.symbols):
            yield bit(reports, (value + place) % task.symbols)
    else:
        places = _places(task, reports, value)
        for place in range(min(_size(task), _PLACES)):
            yield places == place


def _places(task: Task, reports: Reports, value: int) -> npt.NDArray[np.int64]:
    if task.mechanism == GRR:
        return (reports.astype(np.int64) - value) % task.symbols
    hashed, said = hashes(task, reports, value)
    return (said - hashed) % _size(task)


def _size(task: Task) -> int:
    if task.mechanism != OLH:
        return task.symbols
    assert task.buckets is not None
    return task.buckets
