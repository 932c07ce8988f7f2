"""Reports to support counts: how many reports speak for each value."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyldp.errors import UserError
from tinyldp.study import ORACLES
from tinyldp_protocol.hashing import PRIME
from tinyldp_protocol.task import GRR, OUE, Task

Counts = npt.NDArray[np.int64]

# Which bits each byte sets: (256, 8), the least significant one first.
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
# OLH: reports whose hash values are worked on at a time; they stay in the cache.
_CHUNK = 1 << 14


def supports(task: Task, reports: npt.ArrayLike) -> Counts:
    """(d,) how many of the reports support each of the d values.

    reports: as for check_reports(), which raises UserError for others.
    """
    array = check_reports(task, reports)
    if task.mechanism == GRR:
        return np.bincount(array.astype(np.int64, copy=False), minlength=task.symbols)
    # Bytes they are already.
    as_bytes = array.astype(np.uint8, copy=False)
    return (_oue if task.mechanism == OUE else _olh)(task, as_bytes)


def check_reports(task: Task, reports: npt.ArrayLike) -> npt.NDArray[np.integer]:
    """The reports as an array, if each is one that a device can have sent.

    reports: GRR (n,) integers; OUE and OLH (n, task.width) bytes, one report a row,
    as the device sends it. Raises UserError for other shapes, and for a report that
    no device can have sent.
    """
    if task.mechanism not in ORACLES:
        raise UserError("Only reports of GRR, OUE and OLH support values.")
    array = np.asarray(reports)
    if not array.size:
        array = array.astype(np.uint8)
    if array.dtype.kind not in "iu":
        raise UserError("Reports must be integers.")
    if task.mechanism == GRR:
        if array.ndim != 1:
            raise UserError(f"Reports of GRR must have shape (n,), not {array.shape}.")
        if array.size and not 0 <= array.min() <= array.max() < task.symbols:
            raise UserError(f"A report of GRR lies outside 0..{task.symbols - 1}.")
        return array
    if array.ndim != 2 or array.shape[1] != task.width:
        raise UserError(
            f"Reports of this Task must have shape (n, {task.width}), not {array.shape}."
        )
    if array.dtype != np.uint8:
        raise UserError("Reports of this Task must be bytes.")
    if task.mechanism == OUE:
        # Bits of the last byte beyond the last value.
        if (array[:, -1] >> ((task.symbols - 1) % 8 + 1)).any():
            raise UserError("A report of OUE sets a bit that stands for no value.")
    elif len(array):
        words, bucket = _olh_parts(task, array)
        if words.max() >= PRIME or bucket.max() >= task.buckets:
            raise UserError("A report of OLH has a key or a bucket that no device can have drawn.")
    return array


def _oue(task: Task, reports: npt.NDArray[np.uint8]) -> Counts:
    """How often each byte takes each of its 256 values says how often each bit is set."""
    counts = np.empty((task.width, 8), dtype=np.int64)
    for column in range(task.width):
        counts[column] = np.bincount(reports[:, column], minlength=256) @ _BITS
    return counts.ravel()[: task.symbols]


def _olh_parts(
    task: Task, reports: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    """(the two words of each key, (n, 2); the buckets, (n,))."""
    words = reports[:, :4].copy().view("<u2").astype(np.uint16)
    bucket = reports[:, 4].astype(np.uint16)
    if task.width == 6:
        bucket += reports[:, 5].astype(np.uint16) << 8
    return words, bucket


def _olh(task: Task, reports: npt.NDArray[np.uint8]) -> Counts:
    """The hash of v+1 is that of v plus b, modulo P: no product, and all in 16 bits."""
    words, bucket = _olh_parts(task, reports)
    counts = np.zeros(task.symbols, dtype=np.int64)
    prime = np.uint16(PRIME)
    buckets = np.uint16(task.buckets)
    for start in range(0, len(reports), _CHUNK):
        part = slice(start, start + _CHUNK)
        value = words[part, 0].copy()
        slope = words[part, 1].copy()
        # value mod g == bucket: value less its remainder, plus the bucket, is value again.
        wanted = bucket[part]
        lower = np.empty_like(value)
        for v in range(task.symbols):
            np.floor_divide(value, buckets, out=lower)
            lower *= buckets
            lower += wanted
            counts[v] += np.count_nonzero(lower == value)
            value += slope
            # Below zero is far above P in 16 bits.
            np.subtract(value, prime, out=lower)
            np.minimum(value, lower, out=value)
    return counts
