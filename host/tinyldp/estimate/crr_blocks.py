"""Smoothing of what was released in blocks: the chain of a block's last symbols is hidden."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyldp.crr.blocks import OfBlocks
from tinyldp.crr.model import PRIOR_SCALE, ROW_SCALE
from tinyldp.errors import UserError
from tinyldp_protocol.task import Task

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.signedinteger]
Flags = npt.NDArray[np.bool_]


def smoothed_blocks(
    task: Task, symbols: Integers, known: Flags, beliefs: OfBlocks
) -> tuple[Floats, Floats, Floats]:
    """(n, T, d) posteriors, and (n, T) leakages and gains, at each block's first step.

    symbols, known: (n, T); what is known ends with a block, of which the last may be short.
    """
    n, length = symbols.shape
    d, width = task.symbols, beliefs.block
    chain = _Chain(task)
    posterior = np.full((n, length, d), np.nan)
    leakage, gain = np.full((2, n, length), np.nan)
    there = known.sum(axis=1)
    starts = range(0, length, width)
    numbers = np.zeros(n, dtype=np.int32)
    ahead = np.tile(chain.prior, (n, 1))
    # Of each block: the devices, its length, what its release says, and its filtered law.
    kept: list[list[tuple[Integers, int, Floats, Floats]]] = []
    for start in starts:
        blocks = []
        left = np.minimum(there - start, width)
        # Whole blocks come last: what follows them may give every belief another number.
        for size in np.unique(left[left > 0]).tolist():
            devices = np.flatnonzero(left == size)
            mine = numbers[devices]
            if size < width:
                mine = beliefs.shorter(mine, size)
            released = symbols[devices, start : start + size] @ d ** np.arange(size)[::-1]
            place = _places(beliefs, mine, released, start)
            told = beliefs.told(mine, place)[:, : d**size]
            law = chain.blocks(ahead[devices], size, start == 0)
            leakage[devices, start : start + size] = gain[devices, start : start + size] = 0.0
            leakage[devices, start], gain[devices, start] = beliefs.nats(mine, place, law, told)
            law = law * told
            total = law.sum(axis=1, keepdims=True)
            if not total.all():
                raise UserError(f"No device can have released what one did at its step {start}.")
            law /= total
            blocks.append((devices, size, told, law))
            if size == width:
                ahead[devices] = chain.last(law)
                following = beliefs.follow(mine, place)
                numbers = np.zeros(n, dtype=np.int32)
                numbers[devices] = following
        kept.append(blocks)
        if not blocks:
            break
    # Probability of all that is released later, by the last symbols.
    later = np.ones((n, chain.states))
    for start, blocks in reversed(list(zip(starts, kept, strict=False))):
        for devices, size, told, law in blocks:
            after = chain.spread(later[devices], size)
            both = law * after
            both /= both.sum(axis=1, keepdims=True)
            for place in range(size):
                parts = both.reshape(len(devices), d**place, d, -1)
                posterior[devices, start + place] = parts.sum(axis=(1, 3))
            before = (told * after) @ chain.rows(size).T
            later[devices] = before / before.sum(axis=1, keepdims=True)
    return posterior, leakage, gain


def _places(beliefs: OfBlocks, numbers: Integers, released: Integers, start: int) -> Integers:
    """(m,) where in kept the released blocks are."""
    count = beliefs.count[numbers]
    columns = np.arange(int(count.max()))
    same = beliefs.kept[numbers][:, columns] == released[:, np.newaxis]
    same &= columns < count[:, np.newaxis]
    if not same.any(axis=1).all():
        raise UserError(f"No device can have released what one did at its step {start}.")
    return same.argmax(axis=1)


class _Chain:
    """The Task's chain, a block at a time: from the last L symbols to the next ones."""

    def __init__(self, task: Task) -> None:
        self._symbols = task.symbols
        self._memory = task.memory or 1
        self.states = task.symbols**self._memory
        self.prior = np.array(task.prior) / PRIOR_SCALE
        self._step = np.array(task.transitions).reshape(self.states, task.symbols) / ROW_SCALE
        self._rows: dict[int, Floats] = {0: np.ones((self.states, 1))}

    def rows(self, size: int) -> Floats:
        """(n^L, n^size) probability of each block after each last L symbols."""
        if size not in self._rows:
            shorter = self.rows(size - 1)
            symbols = np.arange(shorter.shape[1])
            state = np.arange(self.states)[:, np.newaxis] * shorter.shape[1] + symbols
            found = shorter[:, :, np.newaxis] * self._step[state % self.states]
            self._rows[size] = found.reshape(self.states, -1)
        return self._rows[size]

    def blocks(self, ahead: Floats, size: int, first: bool) -> Floats:
        """(m, n^size) law of the next block, of what is known about the last symbols: (m, n^L).

        first: that is about the block's own first L symbols.
        """
        if not first:
            return ahead @ self.rows(size)
        number = self._symbols**size
        if number <= self.states:
            return ahead.reshape(len(ahead), number, -1).sum(axis=2)
        # What follows the first L symbols within the block.
        more = self.rows(size - self._memory)
        return (ahead[:, :, np.newaxis] * more).reshape(len(ahead), number)

    def last(self, law: Floats) -> Floats:
        """(m, n^L) law of the last symbols of blocks, of which law: (m, n^w) is."""
        return law.reshape(len(law), -1, self.states).sum(axis=1)

    def spread(self, later: Floats, size: int) -> Floats:
        """(m, n^size) of each block what is said of its last symbols: (m, n^L)."""
        number = self._symbols**size
        if number < self.states:
            # The last block of all, after which nothing comes.
            return np.ones((len(later), number))
        return np.tile(later, number // self.states)
