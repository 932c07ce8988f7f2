"""Numbers for different rows of integers: many rows at a time, found again by a hash table."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Splitmix64's multipliers (Steele, Lea and Flood 2014), which spread what is alike.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


def place_values(symbols: int, length: int) -> Array:
    """(length,) what each symbol of a block counts in its number, the first one the most."""
    return symbols ** np.arange(length)[::-1]


class RowIndex:
    """The rows (width,) of uint16 that were seen, numbered in the order of their first use.

    rows: (room, width), of which those below `size` are meant. Open addressing with linear
    probing; equal hashes are told apart by the rows themselves.
    """

    def __init__(self, width: int) -> None:
        self.size = 0
        self.rows = np.zeros((16, width), dtype=np.uint16)
        self._slots = np.full(64, -1, dtype=np.int32)
        powers = np.arange(1, width + 1, dtype=np.uint64)
        self._factors = (powers * _SPREAD) * (powers * _MIX | np.uint64(1)) | np.uint64(1)

    def numbers(self, rows: Array) -> Array:
        """(m,) the number of each row (m, width), a new one where it is new."""
        rows = np.ascontiguousarray(rows, dtype=np.uint16)
        hashes = self._hashes(rows)
        _, first, which = np.unique(hashes, return_index=True, return_inverse=True)
        if not (rows == rows[first][which]).all():
            # Two rows of one hash, once in 10^9 years: then rows are sorted themselves.
            _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        return self._place(rows[first], hashes[first])[which.reshape(-1)]

    def clear(self, kept: Array) -> None:
        """Forget all rows but those of these numbers (m,), each once, which are numbered anew."""
        rows = self.rows[kept]
        self.size = len(kept)
        self.rows[: self.size] = rows
        self._build(len(self._slots))

    def _hashes(self, rows: Array) -> Array:
        mixed = rows.astype(np.uint64) @ self._factors
        mixed ^= mixed >> np.uint64(31)
        mixed *= _MIX
        return mixed ^ (mixed >> np.uint64(29))

    def _place(self, rows: Array, hashes: Array) -> Array:
        """Numbers of different rows."""
        self._reserve(self.size + len(rows))
        slots = self._slots
        mask = len(slots) - 1
        at = (hashes & np.uint64(mask)).astype(np.int64)
        numbers = np.empty(len(rows), dtype=np.int32)
        pending = np.arange(len(rows))
        while len(pending):
            here = slots[at]
            free = here < 0
            same = ~free
            same[same] = (self.rows[here[same]] == rows[pending[same]]).all(axis=1)
            numbers[pending[same]] = here[same]
            # The last who writes has the slot.
            claims = -2 - np.arange(len(pending), dtype=np.int32)
            slots[at[free]] = claims[free]
            won = free & (slots[at] == claims)
            fresh = self.size + np.arange(np.count_nonzero(won), dtype=np.int32)
            slots[at[won]] = fresh
            self.rows[fresh] = rows[pending[won]]
            numbers[pending[won]] = fresh
            self.size += len(fresh)
            left = ~(same | won)
            pending = pending[left]
            at = (at[left] + 1) & mask
        return numbers

    def _reserve(self, size: int) -> None:
        if size > len(self.rows):
            rows = np.zeros((max(size, 2 * len(self.rows)), self.rows.shape[1]), dtype=np.uint16)
            rows[: self.size] = self.rows[: self.size]
            self.rows = rows
        if 2 * size > len(self._slots):
            room = len(self._slots)
            while room < 4 * size:
                room *= 2
            self._build(room)

    def _build(self, room: int) -> None:
        """The table anew, of what is there."""
        self._slots = np.full(room, -1, dtype=np.int32)
        rows = self.rows[: self.size].copy()
        self.size = 0
        numbers = self._place(rows, self._hashes(rows))
        # Who claimed a slot first has the lower number: back to the order that they had.
        slots = self._slots
        used = slots >= 0
        order = np.empty(len(rows), dtype=np.int32)
        order[numbers] = np.arange(len(rows), dtype=np.int32)
        slots[used] = order[slots[used]]
        self.rows[: self.size] = rows
