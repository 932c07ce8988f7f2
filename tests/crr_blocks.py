"""Blocks by a plain rule, apart from the device package's: for tests of what looks at any."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tests.crr_studies import crr_task, kernel
from tinyldp.crr.model import PRIOR_SCALE, ROW_SCALE, whole_shares
from tinyldp.crr.steps import Step
from tinyldp_protocol.task import CRR_BATCH, Task


def batch_task(
    prior: Sequence[int], transitions: Sequence[int], share: int, block: int, memory: int = 1
) -> Task:
    symbols = len(transitions) // len(prior)
    return crr_task(
        prior, transitions, share, rule=2, mechanism=CRR_BATCH, symbols=symbols, block=block,
        memory=memory,
    )  # fmt: skip


class PlainBlocks:
    """Blocks that are not rare are served as they are, the others as the likeliest one.

    The belief is the exact one of the device's model, rounded. A policy of Step.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._share = task.thresholds[0] >> 10
        self._size = len(task.prior)

    def first(self) -> Step:
        return self._step([Fraction(p, PRIOR_SCALE) for p in self._task.prior])

    def after(self, step: Step, released: int) -> Step:
        rows = kernel(step, self._share)
        mass = [Fraction(b, PRIOR_SCALE) * rows[x][released] for x, b in enumerate(step.belief)]
        states = [Fraction(0)] * self._size
        for x, m in enumerate(mass):
            states[x % self._size] += m
        for _ in range(self._task.memory or 1):
            states = self._moved(states)
        total = sum(states)
        return self._step(
            [
                Fraction(n, PRIOR_SCALE)
                for n in whole_shares([s / total for s in states], PRIOR_SCALE)
            ]
        )

    def ends(self, step: Step) -> list[Step]:
        return []

    def chain(self, state: int, symbol: int) -> Fraction:
        return Fraction(self._task.transitions[state * self._task.symbols + symbol], ROW_SCALE)

    def blocks(self, states: list[Fraction]) -> list[Fraction]:
        """The law of the next block."""
        mass = states
        for _ in range((self._task.block or 1) - (self._task.memory or 1)):
            mass = [
                m * self.chain(i % self._size, x)
                for i, m in enumerate(mass)
                for x in range(self._task.symbols)
            ]
        return mass

    def _moved(self, states: list[Fraction]) -> list[Fraction]:
        n = self._task.symbols
        moved = [Fraction(0)] * self._size
        for state, m in enumerate(states):
            for x in range(n):
                moved[(state * n + x) % self._size] += m * self.chain(state, x)
        return moved

    def _step(self, states: list[Fraction]) -> Step:
        belief = whole_shares(self.blocks(states), PRIOR_SCALE)
        kappa = -(-PRIOR_SCALE * self._share // (ROW_SCALE + self._share))
        likeliest = max(range(len(belief)), key=belief.__getitem__)
        marginal = [0] * len(belief)
        rows: list[dict[int, int]] = []
        for x, b in enumerate(belief):
            y = x if b >= kappa else likeliest
            rows.append({y: b} if b else {})
            marginal[y] += b
        return Step(tuple(belief), tuple(marginal), tuple(rows), tuple(belief))
