"""CRR in blocks by a table for a whole fleet, bit for bit the device's.

Of each block one word v is drawn: y is the first for which the numbers of the block's row, up to
and with y's, exceed v >> 9. What a release tells is worked out beside it, against the exact belief
of whoever knows the chain and all that the device released before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.crr.index import place_values
from tinyldp.crr.tables import TABLE_SCALE, TableBeliefs, nats, table_of
from tinyldp.simulate.words import Words
from tinyldp_protocol.task import Task

Array = npt.NDArray[Any]

# A word's upper bits choose by numbers over 2^15.
_SHIFT = 9


class TableFleet:
    """n devices of one Task of CRR_BATCH with a table."""

    def __init__(
        self, task: Task, n: int, words: Words, beliefs: TableBeliefs | None = None
    ) -> None:
        self.beliefs = TableBeliefs(task) if beliefs is None else beliefs
        table = table_of(task)
        self._blocks = len(table)
        # All rows in one ascending list, each above the one before it.
        ends = np.cumsum(table, axis=1) + TABLE_SCALE * np.arange(self._blocks)[:, np.newaxis]
        self._ends = ends.ravel()
        self._powers = place_values(self.beliefs.symbols, self.beliefs.block)
        self._words = words
        # Each device's law of its next block.
        self._ahead = np.tile(self.beliefs.first, (n, 1))

    def release(self, values: Array) -> tuple[Array, Array]:
        """A block of values (task.block, n); the symbols, and the leakages at its first step.

        Both are (task.block, n). An incomplete block is never released: (0, n), and no word drawn.
        """
        if len(values) < len(self._powers):
            none = np.zeros((0, values.shape[1]))
            return none.astype(np.int64), none
        block = self._powers @ values.astype(np.int64)
        drawn = block * TABLE_SCALE + (self._words.row() >> _SHIFT)
        released = np.searchsorted(self._ends, drawn, side="right") - block * self._blocks
        told = self.beliefs.kernel[:, released].T
        leakage = np.zeros(values.shape)
        leakage[0] = nats(self._ahead, told)[0]
        law = self._ahead * told
        states = len(self.beliefs.after)
        last = law.reshape(len(law), -1, states).sum(axis=1)
        last /= last.sum(axis=1, keepdims=True)
        self._ahead = last @ self.beliefs.after
        return released // self._powers[:, np.newaxis] % self.beliefs.symbols, leakage
