"""How many ticks a step may take, where devices are too slow for one."""

from __future__ import annotations

# Ticks that a step may take at most; the part of the devices whose late answers double it.
MOST_TICKS = 4
_TOO_LATE = 1 / 4
# Steps in a row whose answers would have come in half as many ticks, but for that part,
# before steps take half as many; twice as many each time that this was too few after all.
_CALM = 32


class Pace:
    """ticks: that a step may take, 1 to MOST_TICKS. late: devices whose answers came too late for
    the last one's; slow: those that would have been too late in half as many ticks."""

    def __init__(self) -> None:
        self.ticks = 1
        self.late: set[int] = set()
        self.slow: set[int] = set()
        # Calm steps in a row.
        self._calm = 0
        self._patience = _CALM
        self._shortened = False

    def step(self, present: int, answered: bool) -> None:
        """How many ticks the next step may take, by how the last one went.

        present: devices that are there; answered: whether there was an answer in time.
        """
        many = _TOO_LATE * present
        if len(self.late) >= many:
            self.ticks = min(MOST_TICKS, 2 * self.ticks)
            self._calm = 0
            if self._shortened:
                self._shortened = False
                self._patience *= 2
        elif len(self.late | self.slow) >= many:
            self._calm = 0
        elif answered:
            self._calm += 1
            if self._calm >= self._patience:
                self._shortened = self.ticks > 1
                self.ticks = max(1, self.ticks // 2)
                self._calm = 0
        self.late.clear()
        self.slow.clear()
