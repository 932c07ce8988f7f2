"""Numbers of devices as ranges on the circle on which hashing.group places each device.

A query names one range, so that it stays of one size however many devices it is meant for.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from tinyldp_protocol.hashing import GROUPS


def meant(positions: npt.ArrayLike, start: int, size: int) -> npt.NDArray[np.bool_]:
    """(n,) whether the query for this range is meant for the device at each position."""
    return (np.asarray(positions, dtype=np.int64) - start) % GROUPS < size


class Circle:
    """Takes known devices in circular order, as many at a time as are wanted.

    positions: (n,) integers in 0..GROUPS-1. w: no place is taken twice within so many steps,
    whoever joins; None: there are no steps. Each range begins where the last one ended, so
    that every place of the circle is in one range of each lap, whoever stands there. Whenever
    the numbers wanted in some w takes in a row add up to at most n, no device is in two of
    their ranges.

    Devices at one and the same position cannot be parted: the sum of what was wanted so far
    is then rounded down to a position, which keeps the promise above (as it is the same in
    each lap); what is left over is taken with the next range.
    """

    def __init__(self, positions: npt.ArrayLike = (), w: int | None = None) -> None:
        self._at = 0
        # How much of the circle was taken in this step and those before it, w at most.
        self._resting: deque[int] | None = None if w is None else deque([0], w)
        # Wanted before, and not yet taken for lack of a place to part devices.
        self._owed = 0
        self.update(positions)

    def update(self, positions: npt.ArrayLike) -> None:
        """These are the known devices from now on; the next range begins where it would have."""
        array = np.asarray(positions, dtype=np.int64)
        if array.ndim != 1 or (array.size and not 0 <= array.min() <= array.max() < GROUPS):
            raise ValueError("positions must be integers in 0..GROUPS-1")
        self._places, counts = np.unique(array, return_counts=True)
        # How many stand below each place, and how many there are.
        self._below = np.concatenate([[0], np.cumsum(counts)])

    def __len__(self) -> int:
        return int(self._below[-1])

    def step(self) -> None:
        """The next step begins: what was taken w steps ago may be taken again."""
        if self._resting is not None:
            self._resting.append(0)

    def take(self, wanted: int) -> list[tuple[int, int]]:
        """[(start, size)] of the next `wanted` devices, or [] when there is nobody to ask.

        Fewer where they are too few until the places that still rest: those who have
        joined among these rest with them.
        """
        if wanted < 0:
            raise ValueError("a number of devices is never negative")
        devices = len(self)
        if not devices:
            return []
        wanted = self._owed + min(wanted, devices)
        rested = self._rested()
        if rested < devices:
            wanted = min(wanted, rested)
        first = int(np.searchsorted(self._places, self._at))
        # More than a lap is owed only after devices have left.
        reached = int(self._below[first]) + min(wanted, devices)
        laps, within = divmod(reached, devices)
        # The last place up to which no more than `within` devices stand.
        last = int(np.searchsorted(self._below, within, side="right")) - 1
        taken = laps * devices + int(self._below[last]) - int(self._below[first])
        self._owed = min(wanted - taken, devices)
        if not taken:
            return []
        start = self._at
        self._at = (int(self._places[last - 1]) + 1) % GROUPS
        # A whole lap ends where it began.
        size = (self._at - start) % GROUPS or GROUPS
        if self._resting is not None:
            self._resting[-1] += size
        return [(start, size)]

    def _rested(self) -> int:
        """How many devices stand before the places that rest."""
        if self._resting is None:
            return len(self)
        free = GROUPS - sum(self._resting)
        return self.count(self._at, free) if free else 0

    def count(self, start: int, size: int) -> int:
        """How many known devices a range holds."""
        return int(np.diff(self._below)[meant(self._places, start, size)].sum())
