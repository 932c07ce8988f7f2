"""What a device does in one step of CRR, or with one block: its belief, and what it makes of it.

With B = 2^15 and q = e / 2^14 a value x (of a block: its number, the first symbol most
significant) is released as y with probability

    M(y|x) = q P_y / B + (1 - q) J_xy / b_x      (P_y / B where the belief b_x is 0)

P, the sums of J's columns, is the output's law under the belief. Source: Sequence Information
Privacy, and the decomposition of its constraint into a sample of P and a remap.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from tinyldp.crr.model import PRIOR_SCALE, ROW_SCALE
from tinyldp_protocol.task import Task


@dataclass(frozen=True)
class Step:
    """belief, marginal: (S,) integers that sum to 2^15. rows: J, row by row, without zeros.

    memory: what the device carries from step to step, of whatever kind its policy has; equal
    ones lead to equal steps.
    """

    belief: tuple[int, ...]
    marginal: tuple[int, ...]
    rows: tuple[dict[int, int], ...]
    memory: Hashable = None


class Policy(Protocol):
    """From what was released to the next step; a step depends on nothing else."""

    def first(self) -> Step: ...

    def after(self, step: Step, released: int) -> Step:
        """released: with a positive marginal."""
        ...


def q_of(task: Task) -> Fraction:
    """e^-epsilon of a Task, exactly."""
    return Fraction(share_of(task), ROW_SCALE)


def share_of(task: Task) -> int:
    """e = q 2^14."""
    return task.thresholds[0] >> 10


def kernel(step: Step, share: int) -> list[list[Fraction]]:
    """M, exactly: (S, S). share: q 2^14."""
    found = []
    for x, belief in enumerate(step.belief):
        row = [Fraction(p, PRIOR_SCALE) for p in step.marginal]
        if belief:
            q = Fraction(share, ROW_SCALE)
            row = [q * m for m in row]
            for y, joint in step.rows[x].items():
                row[y] += (1 - q) * Fraction(joint, belief)
        found.append(row)
    return found


def expected_loss(step: Step, share: int, loss: Callable[[int, int], float]) -> float:
    """Of what is released, under the step's belief."""
    q = share / ROW_SCALE
    fresh = remap = 0.0
    released = [(y, p) for y, p in enumerate(step.marginal) if p]
    for x, belief in enumerate(step.belief):
        if not belief:
            continue
        fresh += belief * sum(p * loss(x, y) for y, p in released)
        remap += sum(joint * loss(x, y) for y, joint in step.rows[x].items())
    return q * fresh / PRIOR_SCALE**2 + (1 - q) * remap / PRIOR_SCALE


class DevicePolicy:
    """The device package's own Coupling, as a Policy; steps are remembered.

    coupling: it, fresh, or one with a fault, for who checks the checker.
    """

    def __init__(self, coupling: Any, most: int = 20_000) -> None:
        self._coupling = coupling
        self._size = len(coupling.belief)
        self._most = most
        self._known: dict[Hashable, Step] = {}
        self._first = self._step()

    def first(self) -> Step:
        return self._first

    def after(self, step: Step, released: int) -> Step:
        coupling = self._coupling
        for x, belief in enumerate(step.belief):
            coupling.belief[x] = belief
            coupling.marginal[x] = step.marginal[x]
            for y in range(self._size):
                coupling.joint[x * self._size + y] = step.rows[x].get(y, 0)
        coupling.update(released)
        known = self._known.get(tuple(coupling.belief))
        if known is not None:
            return known
        coupling.make()
        return self._step()

    def _step(self) -> Step:
        coupling, size = self._coupling, self._size
        belief = tuple(coupling.belief)
        step = Step(
            belief,
            tuple(coupling.marginal),
            tuple(sparse(coupling.joint[x * size : (x + 1) * size]) for x in range(size)),
            belief,
        )
        if len(self._known) < self._most:
            self._known[belief] = step
        return step


def sparse(row: Sequence[int]) -> dict[int, int]:
    return {y: joint for y, joint in enumerate(row) if joint}


def policy_of(task: Task) -> Policy:
    """What a device with this Task does."""
    from tinyldp.crr.device import device_policy

    return device_policy(task)
