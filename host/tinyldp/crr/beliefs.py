"""The beliefs that a Task's devices reach, each worked out once.

A belief follows from what was released before, and from nothing else: devices that released the
same have the same belief, and so have many whose releases differ only long ago, for integers
forget. So a fleet walks on a graph of beliefs, which is made as far as it is walked on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.crr.couplings import Coupled, Couplings, stored
from tinyldp.crr.index import RowIndex
from tinyldp_protocol.task import Task

Array = npt.NDArray[Any]

# Memory for beliefs, bytes.
_MEMORY = 1 << 28


class Beliefs:
    """Beliefs by number; 0 is the one that a device starts with.

    belief: (m, n) integers that sum to 2^15. bounds: (m, n + 1, n) where the symbols of each
    value's row of the coupling end, in the row n those of the marginal: the last one is the row's
    sum. leakage, gain: (m, n) nats that each release tells at most, and that are learned from it
    on average (Coupled.leakage). Rows beyond `size` mean nothing.
    """

    def __init__(self, task: Task) -> None:
        self.rule = Couplings(task)
        n = self.rule.symbols
        self.most = _MEMORY // (2 * n * (n + 8) + 16)
        self._index = RowIndex(n)
        self.bounds = np.zeros((1, n + 1, n), dtype=np.uint16)
        self.leakage = np.zeros((1, n), dtype=np.float32)
        self.gain = np.zeros((1, n), dtype=np.float32)
        self._next = np.zeros((1, n), dtype=np.int32)
        self._add(self.rule.start[np.newaxis])

    @property
    def size(self) -> int:
        return self._index.size

    @property
    def belief(self) -> Array:
        return self._index.rows

    def coupled(self, numbers: Array) -> Coupled:
        """The couplings of beliefs (m,)."""
        parts = np.diff(self.bounds[numbers].astype(np.int64), axis=2, prepend=0)
        return Coupled(parts[:, :-1], parts[:, -1])

    def marginal(self, numbers: Array) -> Array:
        """(m, n) floats: the law of what is released under beliefs (m,)."""
        bounds = self.bounds[numbers, -1].astype(np.float64)
        return np.diff(bounds, axis=1, prepend=0) / bounds[:, -1:]

    def kernel(self, numbers: Array) -> Array:
        """(m, n, n) M(y|x) of beliefs (m,)."""
        return self.coupled(numbers).kernel(self.rule.q)

    def told(self, numbers: Array, released: Array) -> Array:
        """(m, n) M(y|x) for all x, of beliefs (m,) and the symbols y (m,) that are released."""
        column = self.bounds[numbers, :, released].astype(np.float64)
        column -= np.where(released[:, None] > 0, self.bounds[numbers, :, released - 1], 0)
        total = self.bounds[numbers, :, -1]
        share = column / np.maximum(total, 1)
        marginal = share[:, -1:]
        q = self.rule.q
        return np.where(total[:, :-1] > 0, q * marginal + (1 - q) * share[:, :-1], marginal)

    def follow(self, numbers: Array, released: Array) -> Array:
        """(m,) the beliefs after those of these numbers (m,), once symbols (m,) are released.

        Numbers from before this call may have another meaning after it, but for 0.
        """
        n = self.rule.symbols
        at = numbers * n
        at += released
        found = self._next.reshape(-1).take(at)
        unknown = found < 0
        if unknown.any():
            self._learn(np.unique(at[unknown]))
            found = self._next.reshape(-1).take(at)
            if self.size > self.most:
                found = self._forget(found)
        return found

    def _learn(self, edges: Array) -> None:
        """Find what follows; edges: (m,) numbers * n + symbols, each once."""
        numbers, released = np.divmod(edges, self.rule.symbols)
        beliefs = self.belief[numbers].astype(np.int64)
        following = self.rule.update(beliefs, self.coupled(numbers), released)
        self._next.reshape(-1)[edges] = self._add(following)

    def _add(self, beliefs: Array) -> Array:
        """(m,) the numbers of beliefs (m, n), new ones where there are none."""
        before = self.size
        numbers = self._index.numbers(beliefs)
        if self.size > before:
            self._write(before)
        return numbers

    def _write(self, before: int) -> None:
        """The couplings of the beliefs from this number on."""
        part = slice(before, self.size)
        self._reserve(self.size)
        beliefs = self.belief[part].astype(np.int64)
        coupled = self.rule.make(beliefs)
        self.bounds[part, :-1] = np.cumsum(coupled.joint, axis=2)
        self.bounds[part, -1] = np.cumsum(coupled.marginal, axis=1)
        leakage, self.gain[part] = coupled.leakage(beliefs, self.rule.q)
        self.leakage[part] = stored(leakage, self.rule.q)
        self._next[part] = -1

    def _reserve(self, size: int) -> None:
        had = len(self.bounds)
        if size <= had:
            return
        for name in ("bounds", "leakage", "gain", "_next"):
            old = getattr(self, name)
            new = np.zeros((max(size, 2 * had), *old.shape[1:]), dtype=old.dtype)
            new[:had] = old
            setattr(self, name, new)

    def _forget(self, numbers: Array) -> Array:
        """Keep these (m,) and the first one alone; their new numbers."""
        kept, where = np.unique(np.append(numbers, 0), return_inverse=True)
        for name in ("bounds", "leakage", "gain"):
            values = getattr(self, name)
            values[: len(kept)] = values[kept]
        self._next[: len(kept)] = -1
        self._index.clear(kept)
        return where[:-1].astype(np.int32)
