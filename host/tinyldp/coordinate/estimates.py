"""Estimates as exact rationals with one denominator, so that decisions are exact, too."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np
import numpy.typing as npt

from tinyldp.estimate import support_chances
from tinyldp_protocol.task import Task


@dataclass(frozen=True)
class Release:
    """Frequency k is numerators[k] / denominator; numerators: (d,) Python integers."""

    numerators: npt.NDArray[np.object_]
    denominator: int

    def floats(self) -> npt.NDArray[np.float64]:
        """(d,) the nearest floats."""
        return (self.numerators / self.denominator).astype(np.float64)


def nothing(symbols: int) -> Release:
    """All frequencies 0: what stands before the first publication."""
    return Release(np.zeros(symbols, dtype=np.int64).astype(object), 1)


def estimate(task: Task, supports: npt.NDArray[np.integer], n: int) -> Release:
    """Unbiased and raw: (count/n - q) / (p - q), with the Task's exact p and q; n >= 1."""
    p, q = support_chances(task)
    scale = lcm(p.denominator, q.denominator)
    high, low = int(p * scale), int(q * scale)
    return Release(supports.astype(object) * scale - low * n, n * (high - low))


def difference(one: Release, other: Release) -> Fraction:
    """Mean over the domain of the squared difference."""
    apart = one.numerators * other.denominator - other.numerators * one.denominator
    both = one.denominator * other.denominator
    return Fraction(int((apart * apart).sum()), len(apart) * both * both)
