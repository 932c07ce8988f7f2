"""The exact belief beside the device's: what who knows the model makes of what was released.

Its numbers grow without end, so they are kept between two integers each, rounded apart. Since
nothing is ever subtracted, the distance between them stays below 2^-100 of them for any number
of steps that is run here.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tinyldp.crr.model import ROW_SCALE, longer
from tinyldp.crr.steps import Step, share_of
from tinyldp_protocol.task import Task

_BITS = 256
# As numerators of drift, rounded apart.
_DRIFT_BITS = 96


@dataclass(frozen=True)
class Exact:
    """Bounds of the joint belief of the next L symbols, (n^L,), up to one factor."""

    low: tuple[int, ...]
    high: tuple[int, ...]


class ExactFilter:
    """The chain of a Task; blocks of one symbol for CRR without blocks."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._memory = task.memory or 1
        self._block = task.block or 1
        self._size = len(task.prior)
        self._share = share_of(task)

    def first(self) -> Exact:
        scaled = tuple(p << _BITS for p in self._task.prior)
        return Exact(scaled, scaled)

    def blocks(self, exact: Exact) -> Exact:
        """The same of the next block, (n^w,)."""
        more = self._block - self._memory
        low, high = (longer(self._task, each, more) for each in (exact.low, exact.high))
        return Exact(tuple(low), tuple(high))

    def drift(self, step: Step, exact: Exact) -> Fraction:
        """The largest factor, either way, between the exact law of the output and the step's.

        Rounded up by less than 2^-90 of it.
        """
        blocks = self.blocks(exact)
        worst = Fraction(1)
        low, high = sum(blocks.low), sum(blocks.high)
        shared_low = self._shared(step, blocks.low)
        shared_high = self._shared(step, blocks.high)
        columns = self._columns(step)
        rest = (ROW_SCALE - self._share) * step.total
        for y, marginal in enumerate(step.marginal):
            if not marginal:
                continue
            # 2^14 S sum b(x) M(y|x), with bounds of b up to one factor.
            least, most = marginal * shared_low, marginal * shared_high
            for x, joint in columns.get(y, {}).items():
                least += blocks.low[x] * rest * joint // step.belief[x]
                most -= -blocks.high[x] * rest * joint // step.belief[x]
            mine = marginal * ROW_SCALE
            worst = max(worst, _up(mine * high, least), _up(most, mine * low))
        return worst

    def after(self, step: Step, exact: Exact, released: int) -> Exact:
        """Of the L symbols after the block, once `released` is known."""
        blocks = self.blocks(exact)
        column = self._columns(step).get(released, {})
        low, high = [0] * self._size, [0] * self._size
        marginal = step.marginal[released]
        for x, (a, b) in enumerate(zip(blocks.low, blocks.high, strict=True)):
            weight, over = self._weight(step, x, marginal, column)
            state = x % self._size
            low[state] += a * weight // over
            high[state] += -(-b * weight // over)
        for _ in range(self._memory):
            low, high = self._moved(low), self._moved(high)
        shift = max(0, sum(high).bit_length() - _BITS)
        return Exact(tuple(a >> shift for a in low), tuple(-(-b >> shift) for b in high))

    def _shared(self, step: Step, mass: tuple[int, ...]) -> int:
        """2^14 times what is drawn from P in any case: q, and all of what is not served."""
        known = sum(m for m, row in zip(mass, step.rows, strict=True) if row)
        return self._share * known + ROW_SCALE * (sum(mass) - known)

    def _weight(self, step: Step, x: int, marginal: int, column: dict[int, int]) -> tuple[int, int]:
        """2^14 S M(y|x) as a numerator and a denominator."""
        if not step.rows[x]:
            return ROW_SCALE * marginal, 1
        joint = column.get(x)
        if not joint:
            return self._share * marginal, 1
        belief = step.belief[x]
        rest = (ROW_SCALE - self._share) * step.total
        return self._share * marginal * belief + rest * joint, belief

    def _columns(self, step: Step) -> dict[int, dict[int, int]]:
        found: dict[int, dict[int, int]] = {}
        for x, row in enumerate(step.rows):
            for y, joint in row.items():
                found.setdefault(y, {})[x] = joint
        return found

    def _moved(self, mass: list[int]) -> list[int]:
        """By one symbol: of L + 1 in a row, the oldest one leaves."""
        size = self._size
        moved = [0] * size
        for at, m in enumerate(longer(self._task, mass, 1)):
            moved[at % size] += m
        return moved


def _up(over: int, under: int) -> Fraction:
    """The quotient, rounded up."""
    return Fraction(-((-over << _DRIFT_BITS) // under), 1 << _DRIFT_BITS)
