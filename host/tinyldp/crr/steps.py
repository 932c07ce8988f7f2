"""What a device does in one step of CRR, or with one block: its belief, and what it makes of it.

With q = e / 2^14 a value x (of a block: its number, the first symbol most significant) that is
served is released as y with probability

    M(y|x) = q P_y / S + (1 - q) J_xy / b_x

and one that is not, with P_y / S. The rows of J that are served sum to the belief b_x, of all
2^15, its columns to P, in sum S. P / S is the output's law under the belief. Source: Sequence
Information Privacy, and the decomposition of its constraint into a sample of P and a remap.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tinyldp.crr.model import PRIOR_SCALE, ROW_SCALE
from tinyldp_protocol.task import Task

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Step:
    """belief: integers that sum to 2^15. marginal: P. rows: J, row by row, without zeros.

    Empty is the row of a value that is not served.

    memory: what the device carries from step to step, of whatever kind its policy has; equal
    ones lead to equal steps.
    """

    belief: tuple[int, ...]
    marginal: tuple[int, ...]
    rows: tuple[dict[int, int], ...]
    memory: Hashable = None

    @property
    def total(self) -> int:
        """S."""
        return sum(self.marginal)


class Policy(Protocol):
    """From what was released to the next step; a step depends on nothing else."""

    def first(self) -> Step: ...

    def after(self, step: Step, released: int) -> Step:
        """released: with a positive marginal."""
        ...

    def ends(self, step: Step) -> list[Step]:
        """What may come in place of `step` when a segment ends: shorter blocks."""
        ...


def q_of(task: Task) -> Fraction:
    """e^-epsilon of a Task, exactly."""
    return Fraction(share_of(task), ROW_SCALE)


def share_of(task: Task) -> int:
    """e = q 2^14."""
    return task.thresholds[0] >> 10


def expected_loss(step: Step, share: int, losses: Array) -> float:
    """Of what is released, under the step's belief. losses: of every value and output."""
    q = share / ROW_SCALE
    served = np.array([bool(row) for row in step.rows])
    fresh = np.array(step.belief) / PRIOR_SCALE * np.where(served, q, 1.0)
    law = np.array(step.marginal) / step.total
    remap = sum(joint * losses[x, y] for x, row in enumerate(step.rows) for y, joint in row.items())
    return float(fresh @ losses @ law + (1 - q) * remap / PRIOR_SCALE)
