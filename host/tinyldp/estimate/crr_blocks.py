"""Smoothing of what was released in blocks: the chain of a block's last symbols is hidden."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinyldp.crr.blocks import BlockBeliefs, OfBlocks
from tinyldp.crr.index import place_values
from tinyldp.crr.model import PRIOR_SCALE, ROW_SCALE
from tinyldp.crr.tables import TableBeliefs, nats
from tinyldp.errors import UserError
from tinyldp_device.blocks import NOWHERE
from tinyldp_protocol.task import Task

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.signedinteger]
Flags = npt.NDArray[np.bool_]
Nats = npt.NDArray[np.floating]

# In the place of a block of which not all has arrived.
_NOT_WHOLE = -1


def smoothed_blocks(
    task: Task, symbols: Integers, here: Flags, known: Flags, beliefs: OfBlocks
) -> tuple[Floats, Floats, Floats, Floats]:
    """(n, T, d) posteriors, and (n, T) leakages and gains, at each block's first step.

    Then (3, d^w, d^w) by the block that was released before and by the block: how often it came
    beyond what was expected, the variance of that, and how many whole blocks followed. Expected of
    the chain and all that arrived before, so that a belief's rounding has no part in it.

    symbols: (n, T), of which those of `here` have arrived. known: (n, T) the steps that are
    smoothed, of each device from its start to the end of a block, of which the last may be short.
    Some of them may not have arrived where beliefs are a table's alone.
    """
    releases = _OfTable(beliefs) if isinstance(beliefs, TableBeliefs) else _OfBeliefs(beliefs)
    chain = _Chain(task)
    posterior = np.full((*symbols.shape, task.symbols), np.nan)
    leakage, gain = np.full((2, *symbols.shape), np.nan)
    compared = _Compared(len(symbols), task.symbols, beliefs.block)
    kept = _forward(chain, releases, (symbols, here, known), (leakage, gain), compared)
    _backward(chain, kept, beliefs.block, posterior)
    return posterior, leakage, gain, compared.drawn


@dataclass(frozen=True)
class _Blocks:
    """Blocks of some devices (m,), of one length, at one step.

    told: (m, n^size) probability of what arrived of each release, by the block behind it; law:
    of the block, given all that arrived up to now.
    """

    devices: Integers
    size: int
    told: Floats
    law: Floats


class _Compared:
    """What whole blocks were released, and what was expected: drawn as of smoothed_blocks."""

    def __init__(self, n: int, symbols: int, block: int) -> None:
        size = symbols**block
        self.drawn = np.zeros((3, size, size))
        self._powers = place_values(symbols, block)
        # The last whole block of each device, while nothing was lost since.
        self._before = np.full(n, _NOT_WHOLE)

    def add(self, devices: Integers, symbols: Integers, here: Flags, expected: Floats) -> None:
        """Blocks of some devices: (m, w) each, and (m, d^w) the law that each was to have."""
        now = np.where(here.all(axis=1), symbols @ self._powers, _NOT_WHOLE)
        before = self._before[devices]
        self._before[devices] = now
        rows = np.flatnonzero((before != _NOT_WHOLE) & (now != _NOT_WHOLE))
        if not len(rows):
            return
        rows = rows[np.argsort(before[rows], kind="stable")]
        groups, starts, number = np.unique(before[rows], return_index=True, return_counts=True)
        law = expected[rows]
        self.drawn[0, groups] -= np.add.reduceat(law, starts)
        np.add.at(self.drawn[0], (before[rows], now[rows]), 1)
        self.drawn[1, groups] += np.add.reduceat(law * (1 - law), starts)
        self.drawn[2, groups] += number[:, np.newaxis]


def _forward(
    chain: _Chain,
    releases: _OfBeliefs | _OfTable,
    series: tuple[Integers, Flags, Flags],
    told_and_taught: tuple[Floats, Floats],
    compared: _Compared,
) -> list[list[_Blocks]]:
    """Go through the series, block by block, and fill in what each tells; what is found there."""
    symbols, here, known = series
    n, length = symbols.shape
    width = releases.block
    there = known.sum(axis=1)
    ahead = np.tile(chain.prior, (n, 1))
    releases.begin(n)
    kept: list[list[_Blocks]] = []
    for start in range(0, length, width):
        blocks = []
        left = np.minimum(there - start, width)
        # Whole blocks come last: what follows them may give every belief another number.
        for size in np.unique(left[left > 0]).tolist():
            devices = np.flatnonzero(left == size)
            part = devices, slice(start, start + size)
            law = chain.blocks(ahead[devices], size, start == 0)
            if size == width:
                compared.add(devices, symbols[part], here[part], releases.expected(devices, law))
            told, *found = releases.read(devices, symbols[part], here[part], law, start)
            for all_of_them, mine in zip(told_and_taught, found, strict=True):
                all_of_them[part] = 0.0
                all_of_them[devices, start] = mine
            law = law * told
            total = law.sum(axis=1, keepdims=True)
            if not total.all():
                raise _impossible(start)
            law /= total
            blocks.append(_Blocks(devices, size, told, law))
            if size == width:
                ahead[devices] = chain.last(law)
        kept.append(blocks)
        if not blocks:
            break
    return kept


def _backward(chain: _Chain, kept: list[list[_Blocks]], width: int, posterior: Floats) -> None:
    """Go back from the last blocks, and fill in the posteriors (n, T, d)."""
    d = posterior.shape[2]
    # Probability of all that is released later, by the last symbols.
    later = np.ones((len(posterior), chain.states))
    for at in range(len(kept) - 1, -1, -1):
        for blocks in kept[at]:
            devices, size = blocks.devices, blocks.size
            after = chain.spread(later[devices], size)
            both = blocks.law * after
            both /= both.sum(axis=1, keepdims=True)
            for place in range(size):
                parts = both.reshape(len(devices), d**place, d, -1)
                posterior[devices, at * width + place] = parts.sum(axis=(1, 3))
            before = (blocks.told * after) @ chain.rows(size).T
            later[devices] = before / before.sum(axis=1, keepdims=True)


class _OfBeliefs:
    """What releases say that were made by a belief, all of which have arrived."""

    def __init__(self, beliefs: BlockBeliefs) -> None:
        self.block = beliefs.block
        self._beliefs = beliefs

    def begin(self, n: int) -> None:
        """Of n devices, each at its start."""
        self._numbers = np.zeros(n, dtype=np.int32)

    def expected(self, devices: Integers, law: Floats) -> Floats:
        """(m, n^w) probability of each release of a whole block, of the law of the block."""
        beliefs = self._beliefs
        numbers = self._numbers[devices]
        kept = beliefs.kept[numbers].astype(np.int64)
        fill = beliefs.fill[numbers]
        rows = np.arange(len(numbers))
        top = kept[:, 0]
        target = beliefs.target[numbers]
        served = np.where(target != NOWHERE, law, 0.0)
        total = served.sum(axis=1, keepdims=True)
        of_top = served[rows, top] / beliefs.belief[numbers, top]
        # The most probable block fills up what is kept, the others go where they go.
        served[rows, top] = 0.0
        goes = rows[:, np.newaxis] * kept.shape[1] + np.where(target != NOWHERE, target, 0)
        share = np.bincount(goes.ravel(), served.ravel(), kept.size).reshape(kept.shape)
        share += of_top[:, np.newaxis] * fill
        marginal = beliefs.marginal[numbers] / PRIOR_SCALE
        chance = marginal * (1 - (1 - beliefs.q) * total) + (1 - beliefs.q) * share
        places = rows[:, np.newaxis] * law.shape[1] + kept
        found = np.bincount(places.ravel(), chance.ravel(), law.size).astype(np.float64)
        return found.reshape(law.shape)

    def read(
        self, devices: Integers, symbols: Integers, here: Flags, law: Floats, start: int
    ) -> tuple[Floats, Nats, Nats]:
        """(m, n^size) M(y|x) of the blocks of some devices, (m,) their leakages and gains.

        symbols: (m, size). law: (m, n^size) of the block before. With whole ones it goes on.
        """
        del here, law
        beliefs, size = self._beliefs, symbols.shape[1]
        numbers = self._numbers[devices]
        if size < self.block:
            numbers = beliefs.shorter(numbers, size)
        place = self._places(numbers, symbols @ place_values(beliefs.symbols, size), start)
        told = beliefs.told(numbers, place)[:, : beliefs.symbols**size]
        leakage, gain = beliefs.leakage[numbers, place], beliefs.gain[numbers, place]
        if size == self.block:
            following = beliefs.follow(numbers, place)
            # No other device goes on, and other numbers may mean something else by now.
            self._numbers = np.zeros_like(self._numbers)
            self._numbers[devices] = following
        return told, leakage, gain

    def _places(self, numbers: Integers, released: Integers, start: int) -> Integers:
        """(m,) where in kept the released blocks are."""
        count = self._beliefs.count[numbers]
        columns = np.arange(int(count.max()))
        same = self._beliefs.kept[numbers][:, columns] == released[:, np.newaxis]
        same &= columns < count[:, np.newaxis]
        if not same.any(axis=1).all():
            raise _impossible(start)
        return same.argmax(axis=1)


class _OfTable:
    """What releases by a table say, also those of which a part has arrived, or nothing."""

    def __init__(self, beliefs: TableBeliefs) -> None:
        self.block = beliefs.block
        self._kernel = beliefs.kernel
        self._powers = place_values(beliefs.symbols, beliefs.block)
        # (n^w, w) the symbols of each block.
        blocks = np.arange(len(beliefs.kernel))[:, np.newaxis]
        self._symbols = blocks // self._powers % beliefs.symbols

    def begin(self, n: int) -> None:
        """Nothing is to be known of n devices."""

    def expected(self, devices: Integers, law: Floats) -> Floats:
        """As of _OfBeliefs."""
        del devices
        return law @ self._kernel

    def read(
        self, devices: Integers, symbols: Integers, here: Flags, law: Floats, start: int
    ) -> tuple[Floats, Nats, Nats]:
        """As of _OfBeliefs; all blocks are whole. What is told is against the law."""
        del devices
        told = np.empty_like(law)
        places = here @ (1 << np.arange(self.block))
        for pattern in np.unique(places):
            mine = places == pattern
            powers = np.where(here[mine.argmax()], self._powers, 0)
            # Which blocks may have been released, for they have the symbols that arrived.
            same = (symbols[mine] @ powers)[:, np.newaxis] == self._symbols @ powers
            told[mine] = same @ self._kernel.T
        if not told.any(axis=1).all():
            raise _impossible(start)
        leakage, gain = nats(law, told)
        arrived = here.any(axis=1)
        return told, np.where(arrived, leakage, 0.0), np.where(arrived, gain, 0.0)


def _impossible(start: int) -> UserError:
    return UserError(f"No device can have released what one did at its step {start}.")


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
