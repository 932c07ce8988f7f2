"""The beliefs that a Task's devices reach, each worked out once, whatever they are about.

A belief follows from what was released before, and from nothing else: devices that released the
same have the same belief, and so have many whose releases differ only long ago, for integers
forget. So a fleet walks on a graph of beliefs, which is made as far as it is walked on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.crr.index import RowIndex

Array = npt.NDArray[Any]

# Memory for beliefs, bytes.
_MEMORY = 1 << 28


class BeliefGraph:
    """Beliefs by number; 0 is the one that a device starts with.

    Each is known by a row (width,) of 16-bit integers, and leads to another one with each of
    `releases` that can follow it. leakage, gain: (m, releases) nats that each release tells at
    most, and that are learned from it on average (couplings.Coupled.leakage). Rows beyond `size`
    mean nothing, of these and of all arrays that a subclass has for each belief.
    """

    def __init__(self, width: int, releases: int, cost: int, arrays: dict[str, Array]) -> None:
        """cost: bytes of a belief. arrays: one row (1, ...) of each that the subclass has."""
        self.most = _MEMORY // cost
        self.leakage = np.zeros((1, releases), dtype=np.float32)
        self.gain = np.zeros((1, releases), dtype=np.float32)
        self._next = np.zeros((1, releases), dtype=np.int32)
        self._index = RowIndex(width)
        self._kept = ("leakage", "gain", *arrays)
        for name, row in arrays.items():
            setattr(self, name, row)

    @property
    def size(self) -> int:
        return self._index.size

    def follow(self, numbers: Array, released: Array) -> Array:
        """(m,) the beliefs after those of these numbers (m,), once these (m,) are released.

        Numbers from before this call may have another meaning after it, but for 0.
        """
        at = numbers * self._next.shape[1]
        at += released
        found = self._next.reshape(-1).take(at)
        unknown = found < 0
        if unknown.any():
            edges = np.unique(at[unknown])
            following = self._find(self._after(*np.divmod(edges, self._next.shape[1])))
            self._next.reshape(-1)[edges] = following
            found = self._next.reshape(-1).take(at)
            if self.size > self.most:
                found = self._forget(found)
        return found

    def _after(self, numbers: Array, released: Array) -> Array:
        """(m, width) the rows of what follows beliefs (m,) and releases (m,)."""
        raise NotImplementedError

    def _write(self, part: slice) -> None:
        """Fill all arrays for these beliefs, whose rows are new."""
        raise NotImplementedError

    def _find(self, rows: Array) -> Array:
        """(m,) the numbers of rows (m, width), new ones where there are none."""
        before = self.size
        numbers = self._index.numbers(rows)
        if self.size > before:
            part = slice(before, self.size)
            self._reserve(self.size)
            self._next[part] = -1
            self._write(part)
        return numbers

    def _reserve(self, size: int) -> None:
        had = len(self._next)
        if size <= had:
            return
        for name in (*self._kept, "_next"):
            old = getattr(self, name)
            new = np.zeros((max(size, 2 * had), *old.shape[1:]), dtype=old.dtype)
            new[:had] = old
            setattr(self, name, new)

    def _forget(self, numbers: Array) -> Array:
        """Keep these (m,) and the first one alone; their new numbers."""
        kept, where = np.unique(np.append(numbers, 0), return_inverse=True)
        for name in self._kept:
            values = getattr(self, name)
            values[: len(kept)] = values[kept]
        self._next[: len(kept)] = -1
        self._index.clear(kept)
        return where.reshape(-1)[:-1].astype(np.int32)
