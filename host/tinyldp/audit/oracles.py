"""What a report of a frequency oracle gives away: the event that tells two values apart best."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyldp_protocol.hashing import PRIME
from tinyldp_protocol.task import GRR, OUE, SCALE, Task

Reports = npt.NDArray[np.int64] | npt.NDArray[np.uint8]


def telling(task: Task, reports: Reports, value: int, other: int) -> npt.NDArray[np.bool_]:
    """Which reports speak for `value` against `other`: (n,) of (n,) or (n, width) reports.

    GRR: the value itself; OUE: its bit set and the other's clear; OLH: the value's hash,
    under a key that gives the other another one.
    """
    if task.mechanism == GRR:
        return reports == value
    if task.mechanism == OUE:
        return bit(reports, value) & ~bit(reports, other)
    hashed, reported = hashes(task, reports, value)
    return (hashed == reported) & (hashed != hashes(task, reports, other)[0])


def bit(reports: Reports, place: int) -> npt.NDArray[np.bool_]:
    """Whether each of (n, width) OUE reports has this bit set."""
    return (reports[:, place >> 3] >> (place & 7) & 1).astype(bool)


def hashes(
    task: Task, reports: Reports, value: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """What each OLH report's key makes of the value, and what the report says: (n,) each."""
    assert task.buckets is not None
    column = reports.astype(np.int64)
    a = column[:, 0] | column[:, 1] << 8
    b = column[:, 2] | column[:, 3] << 8
    said = column[:, 4] if task.width == 5 else column[:, 4] | column[:, 5] << 8
    return (a + b * value) % PRIME % task.buckets, said


def classes(
    task: Task, reports: Reports, value: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], int]:
    """How many reports fall in each class, how many the Task lets expect, degrees of freedom.

    GRR: a class for each symbol. OUE: a bit set, a bit clear, place by place. OLH: what
    was said by how far round the hash range it lies from the value's hash.
    """
    n = len(reports)
    lie = task.thresholds[0] / SCALE
    if task.mechanism == OUE:
        ones = np.array([bit(reports, place).sum() for place in range(task.symbols)])
        law = np.full(task.symbols, lie)
        law[value] = 0.5
        return np.append(ones, n - ones), n * np.append(law, 1 - law), task.symbols
    if task.mechanism == GRR:
        size, observed = task.symbols, np.bincount(reports, minlength=task.symbols)
        truth = value
    else:
        assert task.buckets is not None
        size, truth = task.buckets, 0
        hashed, said = hashes(task, reports, value)
        observed = np.bincount((said - hashed) % size, minlength=size)
    law = np.full(size, lie)
    law[truth] = 1 - (size - 1) * lie
    return observed, n * law, size - 1
