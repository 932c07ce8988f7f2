"""Series that follow a Task's own chain: its prior first, then its transitions.

Whoever plays these finds what CRR promises when its model holds, and no more than that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.crr.model import ROW_SCALE
from tinyldp.simulate.words import Words
from tinyldp_protocol.task import Task

Array = npt.NDArray[Any]

# A word's upper bits choose by the prior over 2^15, or by transitions over 2^14.
_PRIOR_SHIFT = 9
_ROW_SHIFT = 10


class Chain:
    """n series of a Task with prior and transitions, one step after the other."""

    def __init__(self, task: Task, n: int, words: Words) -> None:
        self._symbols = task.symbols
        self._memory = task.memory or 1
        self._states = task.symbols**self._memory
        self._prior = np.cumsum(task.prior)
        rows = np.array(task.transitions).reshape(self._states, self._symbols)
        # All rows in one ascending list, each above the one before it.
        self._rows = (
            np.cumsum(rows, axis=1) + (np.arange(self._states)[:, None] * ROW_SCALE)
        ).ravel()
        self._words = words
        self._state = np.zeros(n, dtype=np.int64)
        self._step = 0

    def next(self) -> Array:
        """(n,) the values of the next step."""
        if self._step == 0:
            chosen = self._words.row() >> _PRIOR_SHIFT
            self._state = np.searchsorted(self._prior, chosen, side="right")
        elif self._step >= self._memory:
            target = self._state * ROW_SCALE + (self._words.row() >> _ROW_SHIFT)
            place = np.searchsorted(self._rows, target, side="right")
            # The place is state * symbols + the symbol: the oldest symbol leaves.
            self._state = place % self._states
        left = max(0, self._memory - 1 - self._step)
        self._step += 1
        return self._state // self._symbols**left % self._symbols
