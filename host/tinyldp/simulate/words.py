"""Random words for a whole fleet: each device consumes its own, in its own order.

A word is uniform in [0, 2^24), as on the device. `row` gives every device its next
word; `again` gives some of them one more, where a mechanism draws again.

The words of DrawnWords come from a seeded generator that anybody can run again.
They are for simulated devices alone: no data of people is ever randomized with them.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tinyldp_protocol.task import SCALE

Array = npt.NDArray[Any]

_BITS = 24


class Words(Protocol):
    """Where a fleet of n devices takes its words from."""

    def row(self) -> Array:
        """(n,) uint32: the next word of each device. Not to be written to."""
        ...

    def again(self, devices: Array) -> Array:
        """(m,) uint32: one more word for each of the m devices, which ascend."""
        ...


class GivenWords:
    """Words that are known beforehand.

    words: (n, m) integers in [0, 2^24): those of device i in row i, in order. A
    transposed array is taken as it lies in memory, without a copy.
    Raises ValueError when a word is too large, and later when a device's words end.
    """

    def __init__(self, words: Array) -> None:
        if words.ndim != 2 or not within(words, SCALE):
            raise ValueError("words must be an array (devices, words) of integers below 2^24")
        self._words = np.ascontiguousarray(words.T, dtype=np.uint32)
        self._columns = np.arange(words.shape[0])
        self._rows = 0
        # Words that each device has taken, once they differ.
        self._taken: Array | None = None

    def row(self) -> Array:
        if self._taken is not None:
            return self._next(self._columns)
        if self._rows == len(self._words):
            raise ValueError("the words end")
        self._rows += 1
        return self._words[self._rows - 1]

    def again(self, devices: Array) -> Array:
        if self._taken is None:
            self._taken = np.full(len(self._columns), self._rows)
        return self._next(devices)

    def taken(self) -> Array:
        """(n,) how many words each device has taken."""
        if self._taken is None:
            return np.full(len(self._columns), self._rows)
        return self._taken.copy()

    def _next(self, devices: Array) -> Array:
        assert self._taken is not None
        at = self._taken[devices]
        if at.size and at.max() >= len(self._words):
            raise ValueError("the words end")
        self._taken[devices] = at + 1
        return self._words[at, devices]


class DrawnWords:
    """Fresh words for n simulated devices; the same seed gives the same words."""

    def __init__(self, n: int, seed: np.random.SeedSequence) -> None:
        first, more = (np.random.PCG64DXSM(child) for child in seed.spawn(2))
        self._n = n
        self._source = first
        # Apart, so that the rows do not depend on who draws again, nor on when.
        self._again = more

    def row(self) -> Array:
        return _draw(self._source, self._n)

    def again(self, devices: Array) -> Array:
        return _draw(self._again, len(devices))


def _draw(source: np.random.BitGenerator, n: int) -> Array:
    """(n,) words: the upper 24 bits of each half of 64-bit draws; an odd half is dropped."""
    halves = source.random_raw((n + 1) // 2).view(np.uint32)[:n]
    return np.right_shift(halves, 32 - _BITS, out=halves)


def within(array: Array, limit: int) -> bool:
    """Whether all entries are integers in 0..limit-1."""
    if array.dtype.kind not in "iu":
        return False
    return not array.size or 0 <= array.min() <= array.max() < limit


def below(words: Words, limits: Array | int) -> Array:
    """(n,) the next word of each device that is below its limit: a number or (n,)."""
    row = words.row()
    devices = np.flatnonzero(row >= limits)
    if not len(devices):
        return row
    row = row.copy()
    while len(devices):
        fresh = words.again(devices)
        row[devices] = fresh
        refused = fresh >= (limits if isinstance(limits, int) else limits[devices])
        devices = devices[refused]
    return row
