"""What the order of a released stream gives away: where the two exchanged values went.

The most telling event is chosen on one half of the segments, by the likelihood ratio of
the two places; its probabilities are bounded on the other half.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from tinyldp.audit.intervals import Bounds, delta_at_least, epsilon_at_least
from tinyldp.audit.pairs import Pair

Integers = npt.NDArray[np.int64]


def places(pair: Pair, released: Integers, steps: Sequence[int] | None = None) -> Integers:
    """Where each segment released the values of these steps: (n, len(steps)) steps.

    released: (n, all steps). steps: of the first series; absent, the two exchanged ones.
    A value that comes more than once can't be followed: -1.
    """
    steps = pair.at if steps is None else steps
    found = np.full((len(released), len(steps)), -1, np.int64)
    for column, step in enumerate(steps):
        value = pair.symbols[step]
        if pair.symbols.count(value) == 1:
            found[:, column] = np.argmax(released == value, axis=1)
    return found


def numbered(first: Integers, second: Integers) -> tuple[Integers, Integers, int]:
    """The rows of both, (n, c) and (m, c), as numbers: equal rows have equal ones."""
    _, number = np.unique(np.concatenate([first, second]), axis=0, return_inverse=True)
    number = number.reshape(-1)
    return number[: len(first)], number[len(first) :], int(number.max()) + 1


def lower_bounds(
    first: Integers, second: Integers, epsilon: float, delta: float, wrong: float
) -> tuple[float, float]:
    """(an epsilon at this delta, a delta at this epsilon): neither can be smaller.

    first, second: (n, 2) places under two neighbours, n segments each. wrong: the chance that
    one of the two figures is wrong, for each alone.
    """
    if not len(first):
        return 0.0, 0.0
    one, other, kinds = numbered(first, second)
    half = len(first) // 2
    hits = np.bincount(one[:half], minlength=kinds)
    other_hits = np.bincount(other[:half], minlength=kinds)
    order = np.argsort(-(hits + 0.5) / (other_hits + 0.5), kind="stable")
    rank = np.empty(kinds, np.int64)
    rank[order] = np.arange(kinds)
    hits, other_hits = np.cumsum(hits[order]), np.cumsum(other_hits[order])
    left = len(first) - half

    def tested(bound: Callable[..., Bounds], parameter: float) -> float:
        last = int(np.argmax(bound(hits, half, other_hits, half, parameter, wrong)))
        found = int((rank[one[half:]] <= last).sum())
        found_other = int((rank[other[half:]] <= last).sum())
        return float(bound(found, left, found_other, left, parameter, wrong))

    return tested(epsilon_at_least, delta), tested(delta_at_least, epsilon)
