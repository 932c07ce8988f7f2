"""GRR, OUE and OLH for a whole fleet: one report of each device, bit for bit the device's.

Source: Wang et al. 2017 (GRR, OUE, OLH), with the Task's integers over 2^24.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.simulate.words import GivenWords, Words, below, within
from tinyldp_protocol.hashing import PRIME
from tinyldp_protocol.task import GRR, OLH, OUE, SCALE, Task

Array = npt.NDArray[Any]

# Words below this, modulo the prime, are uniform.
_EVEN = SCALE // PRIME * PRIME


def reports(task: Task, values: Array, words: Array) -> Array:
    """One report of each of n devices.

    values: (n,) integers in 0..task.symbols-1. words: (n, m) integers below 2^24, each
    device's own. Gives (n,) symbols for GRR (uint8 or uint16), (n, task.width) bytes
    for OUE and OLH. Raises ValueError for a value outside the alphabet, when the
    words end, and for a mechanism that is no oracle.
    """
    if values.ndim != 1 or not within(values, task.symbols):
        raise ValueError("values must be an array (devices,) within the alphabet")
    return draw(task, values, GivenWords(words))


def draw(task: Task, values: Array, words: Words) -> Array:
    """As reports, with words from anywhere; the values are not checked."""
    if task.mechanism == GRR:
        told = _respond(values.astype(np.uint32), task.symbols, task.thresholds[0], words)
        return told.astype(np.uint8 if task.width == 1 else np.uint16)
    if task.mechanism == OUE:
        return _unary(task, values, words)
    if task.mechanism == OLH:
        return _hashed(task, values.astype(np.uint32), words)
    raise ValueError("not an oracle")


def _respond(values: Array, size: int, threshold: int, words: Words) -> Array:
    """Randomized response over `size` values: each lie with threshold / 2^24; (n,) uint32."""
    lie = words.row() // np.uint32(threshold)
    truthful = lie >= size - 1
    # The lies are numbered without the true value.
    lie += lie >= values
    return np.where(truthful, values, lie)


def _unary(task: Task, values: Array, words: Words) -> Array:
    # Bytes in rows, so that one bit of all devices is decided in one go.
    out = np.zeros((task.width, len(values)), dtype=np.uint8)
    values = values.astype(np.uint16)
    bit = np.empty(len(values), dtype=np.bool_)
    for symbol in range(task.symbols):
        row = words.row()
        np.less(row, task.thresholds[0], out=bit)
        own = np.flatnonzero(values == symbol)
        bit[own] = row[own] < SCALE // 2
        out[symbol >> 3] |= bit.view(np.uint8) << np.uint8(symbol & 7)
    return out.T


def _hashed(task: Task, values: Array, words: Words) -> Array:
    a = below(words, _EVEN) % PRIME
    b = below(words, _EVEN) % PRIME
    buckets = (a + b * values) % PRIME % task.buckets
    told = _respond(buckets, task.buckets, task.thresholds[0], words)
    out = np.empty((len(values), task.width), dtype=np.uint8)
    out[:, 0] = a & 0xFF
    out[:, 1] = a >> 8
    out[:, 2] = b & 0xFF
    out[:, 3] = b >> 8
    out[:, 4] = told & 0xFF
    if task.width == 6:
        out[:, 5] = told >> 8
    return out
