"""Conditional randomized response for a whole fleet, step by step, bit for bit the device's.

A step takes two words u, v. Where u < T, or the value is not served, a symbol is sampled from the
marginal of the device's coupling, else from its value's row, of s units in all: by the unit
v div (N div s), v drawn again while that is s or more. What devices believe, and the couplings,
are in tinyldp.crr.beliefs. Whole blocks, of CRR_BATCH, are released as values are; but the most
probable one alone is sampled from its row, others go where their row says (crr.blocks).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.crr.beliefs import Beliefs
from tinyldp.crr.blocks import AllBeliefs, BlockBeliefs, make_beliefs
from tinyldp.crr.index import place_values
from tinyldp.crr.model import PRIOR_SCALE
from tinyldp.crr.tables import TableBeliefs
from tinyldp.simulate.crr_tables import TableFleet
from tinyldp.simulate.words import GivenWords, Words, within
from tinyldp_device.blocks import NOWHERE
from tinyldp_protocol.task import SCALE, TABLE, Task

Array = npt.NDArray[Any]

# Devices that are simulated together.
DEVICES = 1 << 16

# By units: the words of one.
_SHARES = (SCALE // np.maximum(np.arange(PRIOR_SCALE + 1), 1)).astype(np.uint32)
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

    def release(self, values: Array) -> tuple[Array, Array]:
        """Steps with values (steps, n): the symbols, and each release's leakage, of that shape."""
        released = np.empty(values.shape, dtype=np.int32)
        leakage = np.empty(values.shape)
        for at, row in enumerate(values):
            released[at], leakage[at] = self.step(row)
        return released, leakage

    def step(self, values: Array) -> tuple[Array, Array]:
        """Release a symbol for each value (n,); the symbols (n,), and each release's leakage."""
        n = self._symbols
        bounds = self.beliefs.bounds.reshape(-1)
        first = self.numbers * (n + 1)
        fresh = self._words.row() < self._threshold
        fresh |= bounds.take((first + values) * n + (n - 1)) == 0
        # Rows of the coupling, or the marginal's behind them.
        row = (first + np.where(fresh, n, values)) * n
        unit = units(self._words, bounds.take(row + (n - 1)))
        released = np.zeros(len(values), dtype=np.int32)
        for symbol in range(n - 1):
            released += unit >= bounds.take(row + symbol)
        leakage = self.beliefs.leakage.reshape(-1).take(self.numbers * n + released)
        self.numbers = self.beliefs.follow(self.numbers, released)
        return released, leakage


class BlockFleet:
    """n devices of one Task of CRR_BATCH."""

    def __init__(
        self, task: Task, n: int, words: Words, beliefs: BlockBeliefs | None = None
    ) -> None:
        self.beliefs = BlockBeliefs(task) if beliefs is None else beliefs
        self._symbols = task.symbols
        self._threshold = task.thresholds[0]
        self._words = words
        self.numbers = np.zeros(n, dtype=np.int32)

    def release(self, values: Array) -> tuple[Array, Array]:
        """A block of values (steps, n), task.block of them but for the last one of a segment.

        Gives the symbols, and the leakages, at the block's first step: (steps, n) each.
        """
        beliefs = self.beliefs
        numbers = self.numbers
        length = len(values)
        if length < beliefs.block:
            numbers = beliefs.shorter(numbers, length)
        powers = place_values(self._symbols, length)
        block = powers @ values.astype(np.int64)
        target = beliefs.target[numbers, block]
        fresh = self._words.row() < self._threshold
        fresh |= target == NOWHERE
        total = np.where(fresh, PRIOR_SCALE, beliefs.belief[numbers, block])
        unit = units(self._words, total)
        ends = beliefs.ends.reshape(-1)
        most = beliefs.ends.shape[2]
        row = (numbers.astype(np.int64) * 2 + fresh) * most
        kept = np.zeros(len(block), dtype=np.int64)
        for k in range(int(beliefs.count[numbers].max()) - 1):
            kept += unit >= ends.take(row + k)
        # A block that is not the most probable one goes where it goes.
        kept = np.where(fresh | (block == beliefs.kept[numbers, 0]), kept, target)
        released = beliefs.kept[numbers, kept].astype(np.int64)
        leakage = np.zeros(values.shape)
        leakage[0] = beliefs.leakage[numbers, kept]
        if length == beliefs.block:
            self.numbers = beliefs.follow(numbers, kept)
        return released // powers[:, np.newaxis] % self._symbols, leakage


def units(words: Words, total: Array) -> Array:
    """(n,) a unit of each device, uniform below total (n,)."""
    share = _SHARES.take(total)
    unit = words.row() // share
    devices = np.flatnonzero(unit >= total)
    while len(devices):
        again = words.again(devices) // share[devices]
        unit[devices] = again
        devices = devices[again >= total[devices]]
    return unit


def make_fleet(
    task: Task, n: int, words: Words, beliefs: AllBeliefs
) -> CrrFleet | BlockFleet | TableFleet:
    """n devices of a Task; `beliefs` of make_beliefs, for fleets that run one after the other."""
    if isinstance(beliefs, TableBeliefs):
        return TableFleet(task, n, words, beliefs)
    if isinstance(beliefs, Beliefs):
        return CrrFleet(task, n, words, beliefs)
    return BlockFleet(task, n, words, beliefs)


def release(task: Task, values: Array, words: Array) -> Array:
    """What n devices release in one whole segment, flush included.

    values: (n, T) integers in 0..task.symbols-1, in order of arrival. words: (n, m) integers
    below 2^24, each device's own, from its first step on. Both are best transposed views of
    arrays in order of time. Gives (n, T) symbols in order of release, uint16; with a table those
    of whole blocks, which alone are released.
    Raises ValueError for a value outside the alphabet and when the words end.
    """
    if values.ndim != 2 or not within(values, task.symbols):
        raise ValueError("values must be an array (devices, steps) within the alphabet")
    n, steps = values.shape
    released = np.empty((steps, n), dtype=np.uint16)
    beliefs = make_beliefs(task)
    size = task.block or 1
    if task.rule == TABLE:
        released = released[: steps - steps % size]
    for start in range(0, n, DEVICES):
        part = slice(start, min(n, start + DEVICES))
        fleet = make_fleet(task, part.stop - start, GivenWords(words[part]), beliefs)
        for at in range(0, len(released), size):
            released[at : at + size, part] = fleet.release(values[part, at : at + size].T)[0]
    return released.T
