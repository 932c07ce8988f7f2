"""Conditional randomized response for a whole fleet, step by step, bit for bit the device's.

A step takes two words u, v. Where u < T, or the value is not served, a symbol is sampled from the
marginal of the device's coupling, else from its value's row, of s units in all: by the unit
v div (N div s), v drawn again while that is s or more. What devices believe, and the couplings,
are in tinyldp.crr.beliefs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.crr.beliefs import Beliefs
from tinyldp.simulate.words import GivenWords, Words, within
from tinyldp_device.coupling import BELIEF
from tinyldp_protocol.task import SCALE, Task

Array = npt.NDArray[Any]

# Devices that are simulated together.
DEVICES = 1 << 16

# By units: the words of one.
_SHARES = (SCALE // np.maximum(np.arange(BELIEF + 1), 1)).astype(np.uint32)
_SHARES.setflags(write=False)


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
        bounds = self.beliefs.bounds.reshape(-1)
        first = self.numbers * (n + 1)
        fresh = self._words.row() < self._threshold
        fresh |= bounds.take((first + values) * n + (n - 1)) == 0
        # Rows of the coupling, or the marginal's behind them.
        row = (first + np.where(fresh, n, values)) * n
        unit = self._units(bounds.take(row + (n - 1)))
        released = np.zeros(len(values), dtype=np.int32)
        for symbol in range(n - 1):
            released += unit >= bounds.take(row + symbol)
        leakage = self.beliefs.leakage.reshape(-1).take(self.numbers * n + released)
        self.numbers = self.beliefs.follow(self.numbers, released)
        return released, leakage

    def _units(self, total: Array) -> Array:
        """(n,) a unit of each device, uniform below total (n,)."""
        share = _SHARES.take(total)
        unit = self._words.row() // share
        devices = np.flatnonzero(unit >= total)
        while len(devices):
            again = self._words.again(devices) // share[devices]
            unit[devices] = again
            devices = devices[again >= total[devices]]
        return unit


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
