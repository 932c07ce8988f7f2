"""What a simulated fleet measures in each epoch: means or items that change on a schedule.

means   At each step a device's symbol is binomial: of symbols - 1 trials, each with the mean
        of its group. So its sum over an epoch is binomial, too, of rounds * (symbols - 1). From
        epoch at[i] on (i = 0, 1, ...) the mean of all devices is means[i]; with `groups`, only
        of the i-th share of the devices (i = 1, 2, ...): all others keep what they had.
heavy   At each step a device's item is one of `support` items of the dictionary, the same for
        all epochs: from epoch at[i] on another `heavy` of them, of `weight` each, and all
        the others of what is left, in equal parts.

Nothing else about devices differs. Only the epochs' sums and counts are drawn.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.epoch_study import EpochStream, check_support
from tinyldp_protocol.task import Task

Array = npt.NDArray[Any]

# Devices whose items are drawn at a time; picks for each place up to which one by one is faster.
_DEVICES = 2048
_PICKS = 100


def default_stream(task: Task) -> EpochStream:
    """Where a study names none: one change, half-way."""
    at = (1, task.epochs // 2 + 1)
    if task.items is None:
        return EpochStream("means", at, means=(0.2, 0.7))
    support = min(64, task.items, task.symbols)
    return EpochStream("heavy", at, heavy=min(5, support // 2 or 1), weight=0.15, support=support)


class Means:
    """Sums for Thresh."""

    def __init__(self, task: Task, devices: int, stream: EpochStream) -> None:
        self._most = task.rounds * (task.symbols - 1)
        self._devices = devices
        self._stream = stream
        self._ends = [round(devices * end) for end in np.cumsum((0, *stream.groups))]

    def chances(self, t: int) -> Array:
        """(devices,) the mean of each device's symbols, of 0..1, in epoch t."""
        means = self._stream.means
        now = bisect_right(self._stream.at, t)
        if not self._stream.groups:
            return np.full(self._devices, means[now - 1])
        chances = np.full(self._devices, means[0])
        for i in range(1, now):
            chances[self._ends[i - 1] : self._ends[i]] = means[i]
        return chances

    def draw(self, t: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """(devices,) sums of epoch t, and (1,) their mean of 0..1."""
        sums = rng.binomial(self._most, self.chances(t))
        return sums, np.array([sums.mean() / self._most])


class Heavy:
    """Counts of items for HeavyThresh. items: (support,) ascending, those that occur."""

    def __init__(
        self, task: Task, devices: int, stream: EpochStream, rng: np.random.Generator
    ) -> None:
        heavy, support = stream.heavy, stream.support
        check_support(stream, task.items)
        self._rounds = task.rounds
        self._devices = devices
        self._stream = stream
        self.items = np.sort(rng.choice(task.symbols, support, replace=False))
        order = rng.permutation(support)
        self._heavy = [
            np.take(order, range(i * heavy, (i + 1) * heavy), mode="wrap")
            for i in range(len(stream.at))
        ]

    def _now(self, t: int) -> Array:
        return self._heavy[bisect_right(self._stream.at, t) - 1]

    def heavy(self, t: int) -> Array:
        """The items that are heavy in epoch t, ascending."""
        return np.sort(self.items[self._now(t)])

    def shares(self, t: int) -> Array:
        """(support,) of the items in epoch t."""
        heavy = self._now(t)
        rest = len(self.items) - len(heavy)
        left = 1 - len(heavy) * self._stream.weight
        shares = np.full(len(self.items), left / rest if rest else 0.0)
        shares[heavy] = self._stream.weight if rest else 1 / len(heavy)
        return shares

    def draw(self, t: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """(devices, support) counts of epoch t, and (support,) their shares in the fleet."""
        heavy = self._now(t)
        light = np.setdiff1d(np.arange(len(self.items)), heavy)
        shares = self.shares(t)
        counts = np.empty((self._devices, len(self.items)), dtype=np.int32)
        for start in range(0, self._devices, _DEVICES):
            part = counts[start : start + _DEVICES]
            chances = [*shares[heavy], max(0.0, 1 - shares[heavy].sum())]
            drawn = rng.multinomial(self._rounds, chances, size=len(part))
            part[:, heavy] = drawn[:, :-1]
            if len(light):
                part[:, light] = _evenly(drawn[:, -1], len(light), rng)
        return counts, counts.sum(axis=0, dtype=np.int64) / (self._rounds * self._devices)


def _evenly(totals: Array, places: int, rng: np.random.Generator) -> Array:
    """(n, places) numbers, row i a multinomial of totals[i] with equal chances."""
    if totals.sum() > _PICKS * len(totals) * places:
        return rng.multinomial(totals, np.full(places, 1 / places))
    # Of few, faster one by one.
    picks = rng.integers(0, places, totals.sum(), dtype=np.uint16)
    rows = np.repeat(np.arange(len(totals)) * places, totals)
    return np.bincount(rows + picks, minlength=len(totals) * places).reshape(-1, places)
