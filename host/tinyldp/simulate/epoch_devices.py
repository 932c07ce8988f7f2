"""Thresh and HeavyThresh for a whole fleet: every device's reports, bit for bit the device's.

Devices take the words of tinyldp_device's thresh and heavythresh in the same order, and count
as its lifetime does: a vote when there is one to cast, an estimate at each update. Source:
Joseph et al. 2018, algorithms Vote, Est, HeavyVote and HeavyEst.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.simulate.words import Words, below
from tinyldp_device.epochs import polled
from tinyldp_protocol.task import SCALE, Task

Array = npt.NDArray[Any]

# Devices whose signed sums are held at a time.
_DEVICES = 2048


class Devices:
    """What both mechanisms share. n devices, each with words of its own.

    votes, estimates: (n,) how many each has used. Once in each epoch: vote(), then
    estimate(), which all devices answer.
    """

    def __init__(self, task: Task, n: int, words: Words) -> None:
        self._task = task
        self._words = words
        self._levels = np.array(task.levels)
        self.votes = np.zeros(n, dtype=np.int32)
        self.estimates = np.zeros(n, dtype=np.int32)
        # Whether there was an update to compare with.
        self._known = False

    def _vote(self, t: int, moved: Array) -> Array:
        """(n, width) reports of phase 0. moved: (n,) what is compared with the levels."""
        task = self._task
        # The highest level that is exceeded, -1 for none.
        highest = np.searchsorted(self._levels, moved, side="left") - 1
        # A shift by one more than the last level: no t is divided by it.
        divisors = np.left_shift(1, len(self._levels) - 1 - highest)
        yes = (highest >= 0) & (t % divisors == 0)
        yes &= (self.votes < task.votes) & self._known
        self.votes += yes
        bits = self._respond(yes, task.thresholds[0])
        if polled(task, t):
            bits |= self._respond(self.votes < task.votes, task.thresholds[2]) << 1
        reports = np.zeros((len(moved), task.width), dtype=np.uint8)
        reports[:, 0] = bits
        return reports

    def _said(self, update: bool) -> Array:
        """(n,) whether each device speaks of its data; counts it and takes the reference."""
        said = (self.estimates < self._task.estimates) & update
        self.estimates += said
        self._known |= update
        return said

    def _respond(self, yes: Array, threshold: int) -> Array:
        """(n,) uint8: 1 with N - T where yes, else with T."""
        limits = np.where(yes, SCALE - threshold, threshold)
        return (self._words.row() < limits).astype(np.uint8)


class ThreshDevices(Devices):
    """Sums of an epoch's symbols, 0..rounds * (symbols - 1)."""

    def __init__(self, task: Task, n: int, words: Words) -> None:
        super().__init__(task, n, words)
        self._most = task.rounds * (task.symbols - 1)
        self._sums = np.zeros(n, dtype=np.int64)
        self._reference = np.zeros(n, dtype=np.int64)

    def vote(self, t: int, sums: Array) -> Array:
        """(n, 1) uint8 reports of phase 0; sums: (n,) of the epoch that t is bound to."""
        self._sums = np.asarray(sums, dtype=np.int64)
        return self._vote(t, np.abs(self._sums - self._reference))

    def estimate(self, update: bool) -> Array:
        """(n, 1) uint8 reports of phase 1."""
        said = self._said(update)
        places = below(self._words, self._most * (SCALE // self._most)) % self._most
        bits = self._respond(said & (places < self._sums), self._task.thresholds[1])
        if update:
            self._reference = self._sums
        return bits[:, None]


class HeavyDevices(Devices):
    """Counts of an epoch's items.

    signs: (m, w) of the m items that occur (estimate.phi); histograms are (n, m) counts of
    these, each device's adding up to at most rounds.
    """

    def __init__(self, task: Task, signs: Array, n: int, words: Words) -> None:
        super().__init__(task, n, words)
        self._signs = signs
        # Sums of 2 * rounds at most, below 2^24: exact.
        self._floats = signs.astype(np.float32)
        self._counts = np.zeros((n, len(signs)), dtype=np.int32)
        self._reference = self._counts

    def vote(self, t: int, counts: Array) -> Array:
        """(n, 3) uint8 reports of phase 0; counts: (n, m) of the epoch that t is bound to."""
        self._counts = np.asarray(counts, dtype=np.int32)
        return self._vote(t, self._moved())

    def estimate(self, update: bool) -> Array:
        """(n, 3) uint8 reports of phase 1."""
        task = self._task
        said = self._said(update)
        w, span = len(self._signs[0]), 2 * task.rounds
        where = (below(self._words, w * (SCALE // w)) % w).astype(np.intp)
        places = below(self._words, span * (SCALE // span)) % span
        hashed = np.zeros(len(where), dtype=np.int64)
        if update:
            for start in range(0, len(where), _DEVICES):
                part = slice(start, start + _DEVICES)
                mine = self._signs.T[where[part]]
                hashed[part] = np.einsum("nm,nm->n", mine, self._counts[part], dtype=np.int64)
            self._reference = self._counts
        fair = places < task.rounds
        bits = self._respond(
            np.where(said, places < task.rounds + hashed, fair), task.thresholds[1]
        )
        reports = np.empty((len(where), 3), dtype=np.uint8)
        reports[:, 0] = bits
        reports[:, 1] = where & 255
        reports[:, 2] = where >> 8
        return reports

    def _moved(self) -> Array:
        """(n,) the largest difference of a signed sum from the reference's."""
        moved = np.zeros(len(self._counts), dtype=np.int64)
        if not self._known:
            return moved
        for start in range(0, len(moved), _DEVICES):
            part = slice(start, start + _DEVICES)
            apart = (self._counts[part] - self._reference[part]).astype(np.float32)
            moved[part] = np.abs(apart @ self._floats).max(axis=1, initial=0)
        return moved


def table(items: Array, symbols: Array, slots: int) -> Array:
    """(m,) the counts of `items` that a device's table holds after these symbols, in order.

    items: (m,) ascending, all that occur. An item for which there is no room takes the
    place of the one that came longest ago; its count is lost.
    """
    counts = np.zeros(len(items), dtype=np.int32)
    held: dict[int, int] = {}
    for symbol in symbols.tolist():
        if symbol not in held and len(held) == slots:
            # A dict is in the order in which its keys came.
            del held[next(iter(held))]
        held[symbol] = held.get(symbol, 0) + 1
    if held:
        counts[np.searchsorted(items, list(held))] = list(held.values())
    return counts
