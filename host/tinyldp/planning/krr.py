"""k-ary randomized response on a chain: its loss, and what a whole sequence of it tells.

The yardstick of CRR: it knows nothing of the chain, and its epsilon is that of any two values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Sequences that are followed at once: a second or two for all rounds of bisection.
_MOST = 1 << 16
_ROUNDS = 32
_LARGEST = 60.0


@dataclass(frozen=True)
class SequenceMatch:
    """The epsilon of each step at which `steps` steps tell no more than the budget."""

    steps: int
    budget: float
    epsilon: float


def krr_kernel(symbols: int, epsilon: float) -> Array:
    """(n, n): the truth with e^epsilon / (e^epsilon + n - 1), each lie with as much less."""
    lie = 1 / (math.exp(min(epsilon, _LARGEST)) + symbols - 1)
    return np.full((symbols, symbols), lie) + np.eye(symbols) * (1 - symbols * lie)


def krr_loss(shares: Array, epsilon: float, losses: Array) -> float:
    """Expected loss of a step whose values have these shares."""
    return float(shares @ (krr_kernel(len(shares), epsilon) * losses).sum(axis=1))


def steps_followed(symbols: int, w: int) -> int:
    """How many steps of w are followed exactly."""
    steps = 1
    while steps < w and symbols ** (steps + 1) <= _MOST:
        steps += 1
    return steps


def sequence_leakage(prior: Array, rows: Array, kernel: Array, steps: int) -> float:
    """What all y tell of any x that can be, at most: max |ln Pr(y|x) / Pr(y)|, in floats.

    prior: (n,), rows: (n, n) of a chain of memory 1. kernel: (n, n), used at every step.
    """
    n = len(prior)
    forward = prior[None, :] * kernel.T
    possible = np.where(prior > 0, 0.0, -np.inf)
    open_rows = np.where(rows > 0, 0.0, -np.inf)
    with np.errstate(divide="ignore"):
        log_kernel = np.log(kernel)
    most = possible[None, :] + log_kernel.T
    least = np.where(np.isfinite(possible)[None, :], log_kernel.T, np.inf)
    for _ in range(steps - 1):
        forward = ((forward @ rows)[:, None, :] * kernel.T[None]).reshape(-1, n)
        reach = (most[:, :, None] + open_rows[None]).max(axis=1)
        most = (reach[:, None, :] + log_kernel.T[None]).reshape(-1, n)
        reach = (least[:, :, None] - open_rows[None]).min(axis=1)
        least = (reach[:, None, :] + log_kernel.T[None]).reshape(-1, n)
    law = np.log(forward.sum(axis=1))
    return float(max((most.max(axis=1) - law).max(), (law - least.min(axis=1)).max()))


def match_sequence(prior: Array, rows: Array, epsilon: float, w: int) -> SequenceMatch:
    """k-RR's largest epsilon with which w steps tell no more than w epsilon, exactly.

    Of w steps as many are followed as there is room for. It is never below epsilon: k-RR's
    steps tell no more than epsilon each of a sequence.
    """
    symbols = len(prior)
    steps = steps_followed(symbols, w)
    budget = steps * epsilon
    low, high = epsilon, min(_LARGEST, 2 * epsilon + 40)
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        told = sequence_leakage(prior, rows, krr_kernel(symbols, middle), steps)
        low, high = (middle, high) if told <= budget else (low, middle)
    return SequenceMatch(steps, budget, low)
