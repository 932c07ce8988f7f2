"""What a simulated fleet measures in each epoch: means or items that change on a schedule.

means   At each step a device's symbol is binomial: of symbols - 1 trials, each with the mean
        of its group. So its sum over an epoch is binomial, too, of rounds * (symbols - 1). From
        epoch at[i] on the mean of those who change is means[i]; with `groups` only the first
        of these shares of the devices changes at at[1], the first two at at[2] ..., each
        group once it began, and the others keep means[0].
heavy   At each step a device's item is one of `support` items of the dictionary, the same for
        all epochs: from epoch at[i] on another `heavy` of them, of `weight` each, and all
        the others of what is left, in equal parts.

Nothing else about devices differs. Only the epochs' sums and counts are drawn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.errors import UserError
from tinyldp_protocol.task import Task

Array = npt.NDArray[Any]

SOURCES_OF_EPOCHS = ("means", "heavy")

# Devices whose items are drawn at a time; picks for each place up to which one by one is faster.
_DEVICES = 2048
_PICKS = 100


def period(at: Sequence[int], t: int) -> int:
    """Which of the periods that begin at these epochs t lies in."""
    return bisect_right(at, t) - 1


class Means:
    """Sums for Thresh.

    means, at: as above, at[0] = 1, ascending. groups: shares of the devices, or () for one
    of all. Raises UserError when there are not as many groups as changes at most.
    """

    def __init__(
        self,
        task: Task,
        devices: int,
        means: Sequence[float],
        at: Sequence[int],
        groups: Sequence[float] = (),
    ) -> None:
        assert task.rounds is not None
        self._most = task.rounds * (task.symbols - 1)
        self._devices = devices
        self._means = means
        self._at = at
        self._ends = [round(devices * end) for end in np.cumsum(groups)]

    def chances(self, t: int) -> Array:
        """(devices,) the mean of each device's symbols, of 0..1, in epoch t."""
        now = period(self._at, t)
        chances = np.full(self._devices, self._means[0] if self._ends else self._means[now])
        if self._ends and now:
            chances[: self._ends[min(now, len(self._ends)) - 1]] = self._means[now]
        return chances

    def draw(self, t: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """(devices,) sums of epoch t, and (1,) their mean of 0..1."""
        sums = rng.binomial(self._most, self.chances(t))
        return sums, np.array([sums.mean() / self._most])


class Heavy:
    """Counts of items for HeavyThresh. items: (support,) ascending, those that occur."""

    def __init__(
        self,
        task: Task,
        devices: int,
        heavy: int,
        weight: float,
        support: int,
        at: Sequence[int],
        rng: np.random.Generator,
    ) -> None:
        assert task.items is not None
        if support > task.items:
            raise UserError(
                f"[stream] support must be {task.items} or less, the items of a device's table, "
                f"but is {support}: which of more it keeps depends on their order."
            )
        if heavy * min(len(at), 2) > support:
            raise UserError(f"[stream] support is too small for {heavy} other items each time.")
        self._rounds = task.rounds or 0
        self._devices = devices
        self._at = at
        self.items = np.sort(rng.choice(task.symbols, support, replace=False))
        order = rng.permutation(support)
        self._heavy = [np.take(order, range(i * heavy, (i + 1) * heavy), mode="wrap")
                       for i in range(len(at))]  # fmt: skip
        self._weight = weight

    def heavy(self, t: int) -> Array:
        """The items that are heavy in epoch t, ascending."""
        return np.sort(self.items[self._heavy[period(self._at, t)]])

    def shares(self, t: int) -> Array:
        """(support,) of the items in epoch t."""
        heavy = self._heavy[period(self._at, t)]
        rest = len(self.items) - len(heavy)
        left = 1 - len(heavy) * self._weight
        shares = np.full(len(self.items), left / rest if rest else 0.0)
        shares[heavy] = self._weight if rest else 1 / len(heavy)
        return shares

    def draw(self, t: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """(devices, support) counts of epoch t, and (support,) their shares in the fleet."""
        heavy = self._heavy[period(self._at, t)]
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
