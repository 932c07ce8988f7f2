"""Conditional randomized response for a whole fleet, step by step, bit for bit the device's.

A step takes two words u, v of a device whose value is x and whose belief is b, with the coupling
J of b and its column sums P: where u < T or b_x = 0, v >> 9 chooses a symbol by P; else v modulo
b_x by the row J_x, v drawn again while it would not be uniform. What devices believe, and the
couplings, are in tinyldp.crr.beliefs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.crr.beliefs import Beliefs
from tinyldp.crr.couplings import WHOLE
from tinyldp.simulate.words import GivenWords, Words, within
from tinyldp_protocol.task import SCALE, Task

Array = npt.NDArray[Any]

# Devices that are simulated together.
DEVICES = 1 << 16
_SHIFT = 9

_BELIEFS = np.arange(WHOLE + 1)
# Words below are uniform modulo a belief; of one that is 0 none is drawn again.
_EVEN = np.where(_BELIEFS > 0, _BELIEFS * (SCALE // np.maximum(_BELIEFS, 1)), SCALE)
_EVEN = _EVEN.astype(np.uint32)
_EVEN.setflags(write=False)


class CrrFleet:
    """n devices of one Task; `beliefs` may be shared by fleets that run one after the other."""

    def __init__(self, task: Task, n: int, words: Words, beliefs: Beliefs | None = None) -> None:
        self.beliefs = Beliefs(task) if beliefs is None else beliefs
        self._symbols = task.symbols
        self._threshold = task.thresholds[0]
        self._words = words
        # Of each device's belief in `beliefs`.
        self.numbers = np.zeros(n, dtype=np.int32)

    def step(self, values: Array) -> tuple[Array, Array]:
        """Release a symbol for each value (n,); the symbols (n,), and each release's leakage."""
        n = self._symbols
        beliefs = self.beliefs
        at = self.numbers * n
        held = beliefs.belief.reshape(-1).take(at + values)
        fresh = self._words.row() < self._threshold
        fresh |= held == 0
        words = self._uniform(fresh, held)
        target = np.where(fresh, words >> _SHIFT, words % np.maximum(held, 1))
        # Rows of the coupling, or the marginal's behind them.
        row = (at + self.numbers + np.where(fresh, n, values)) * n
        bounds = beliefs.bounds.reshape(-1)
        released = np.zeros(len(values), dtype=np.int32)
        for symbol in range(n - 1):
            released += target >= bounds.take(row + symbol)
        leakage = beliefs.leakage.reshape(-1).take(at + released)
        self.numbers = beliefs.follow(self.numbers, released)
        return released, leakage

    def _uniform(self, fresh: Array, held: Array) -> Array:
        """(n,) the second word of each device."""
        words = self._words.row()
        limit = np.where(fresh, np.uint32(SCALE), _EVEN.take(held))
        devices = np.flatnonzero(words >= limit)
        if len(devices):
            words = words.copy()
            while len(devices):
                again = self._words.again(devices)
                words[devices] = again
                devices = devices[again >= limit[devices]]
        return words


def release(task: Task, values: Array, words: Array) -> Array:
    """What n devices release in one whole segment, flush included.

    values: (n, T) integers in 0..task.symbols-1, in order of arrival. words: (n, m) integers
    below 2^24, each device's own, from its first step on. Both are best transposed views of
    arrays in order of time. Gives (n, T) symbols in order of release, uint16.
    Raises ValueError for a value outside the alphabet and when the words end.
    """
    if values.ndim != 2 or not within(values, task.symbols):
        raise ValueError("values must be an array (devices, steps) within the alphabet")
    n, steps = values.shape
    released = np.empty((steps, n), dtype=np.uint16)
    beliefs = Beliefs(task)
    for start in range(0, n, DEVICES):
        part = slice(start, min(n, start + DEVICES))
        fleet = CrrFleet(task, part.stop - start, GivenWords(words[part]), beliefs)
        for out, row in zip(released, values[part].T, strict=True):
            out[part] = fleet.step(row)[0]
    return released.T
