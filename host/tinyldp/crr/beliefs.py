"""What devices believe about their next value, as far as a fleet gets to it: see graph.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.crr.couplings import Coupled, Couplings, mixed, stored
from tinyldp.crr.graph import BeliefGraph
from tinyldp_protocol.task import Task

Array = npt.NDArray[Any]


class Beliefs(BeliefGraph):
    """Beliefs by number, each known by its n integers; what is released is a symbol.

    belief: (m, n) integers that sum to 2^15. bounds: (m, n + 1, n) where the symbols of each
    value's row of the coupling end, in the row n those of the marginal: the last one is the row's
    sum.
    """

    bounds: Array

    def __init__(self, task: Task) -> None:
        self.rule = Couplings(task)
        n = self.rule.symbols
        bounds = np.zeros((1, n + 1, n), dtype=np.uint16)
        super().__init__(n, n, 2 * n * (n + 8) + 16, {"bounds": bounds})
        self._find(self.rule.start[np.newaxis])

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
        return mixed(self.rule.q, share[:, -1:], share[:, :-1], total[:, :-1] > 0)

    def _after(self, numbers: Array, released: Array) -> Array:
        beliefs = self.belief[numbers].astype(np.int64)
        return self.rule.update(beliefs, self.coupled(numbers), released)

    def _write(self, part: slice) -> None:
        beliefs = self.belief[part].astype(np.int64)
        coupled = self.rule.make(beliefs)
        self.bounds[part, :-1] = np.cumsum(coupled.joint, axis=2)
        self.bounds[part, -1] = np.cumsum(coupled.marginal, axis=1)
        leakage, gain = coupled.leakage(beliefs, self.rule.q)
        self.leakage[part] = stored(leakage, self.rule.q)
        self.gain[part] = np.where(self.leakage[part] > 0, gain, 0.0)
