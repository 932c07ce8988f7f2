"""Thresholds of RanSwitch and StaSwitch that meet a target with least displacement.

The fewer switches, the smaller the displacement: the least threshold T (over 2^24,
of each switch distance) is wanted at which the exact delta does not exceed the
target. Left of its minimum delta falls with T, so T - 1 exceeds the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from tinyldp.certify import ranswitch, staswitch
from tinyldp.certify.bounds import exp_bounds, log_upper
from tinyldp.planning.coupled import coupled_chain
from tinyldp.planning.floats import exp_float
from tinyldp_protocol.task import SCALE

# Told how many steps of how many are done: as progress.WorkProgress.update.
Progress = Callable[[int, int], None]
# Of planning StaSwitch: chain, threshold, its exact delta, its costs.
STEPS = 4

# Of two deltas of StaSwitch in floats; they are right to some 1e-13.
_FLOAT = 1e-10


def ranswitch_best(window: int, k: int, epsilon: Fraction) -> tuple[int, Fraction]:
    """The threshold with the least delta at epsilon, and that delta, an upper bound.

    delta falls with q up to q* = 1 / (e^epsilon + W - 1), where p = e^epsilon q, and
    rises after it, for any W >= k (Stateful Switch, section on calibration, with the
    set definition's delta).
    """
    low, _ = exp_bounds(epsilon)
    most = SCALE // window
    below = min(most, math.floor(SCALE / (low + window - 1)))
    deltas = {
        threshold: ranswitch.delta_at(window, k, threshold, low)
        for threshold in {max(1, below), min(most, below + 1)}
    }
    return min(deltas.items(), key=lambda item: (item[1], item[0]))


def ranswitch_threshold(window: int, k: int, epsilon: Fraction, delta: Fraction) -> int | None:
    """The least threshold that meets the target, or None."""
    high, least = ranswitch_best(window, k, epsilon)
    if least > delta:
        return None
    low, _ = exp_bounds(epsilon)
    failing = 0
    while high - failing > 1:
        middle = (failing + high) // 2
        if ranswitch.delta_at(window, k, middle, low) <= delta:
            high = middle
        else:
            failing = middle
    return high


def ranswitch_epsilon(window: int, k: int, delta: Fraction) -> Fraction | None:
    """The least epsilon, rounded up, at which RanSwitch reaches delta; None if at none.

    It is ln(p/q) at the largest q with 1 - (1-q)^(k-1) <= delta.
    """
    reachable, failing = 0, SCALE // window + 1
    while failing - reachable > 1:
        middle = (reachable + failing) // 2
        if 1 - (1 - Fraction(middle, SCALE)) ** (k - 1) <= delta:
            reachable = middle
        else:
            failing = middle
    if reachable == 0:
        return None
    q, p = ranswitch.probabilities(window, reachable)
    return log_upper(p / q)


def ranswitch_window(k: int, epsilon: Fraction, delta: Fraction) -> int | None:
    """The fewest slots, k..1024, with which RanSwitch meets the target; None if none do."""
    reachable, failing = 1025, k - 1
    while reachable - failing > 1:
        middle = (reachable + failing) // 2
        if ranswitch_best(middle, k, epsilon)[1] <= delta:
            reachable = middle
        else:
            failing = middle
    return None if reachable > 1024 else reachable


def staswitch_best(k: int, epsilon: Fraction) -> tuple[int, float]:
    """The threshold with the least delta at epsilon, and that delta, in floats.

    The minimum lies left of RanSwitch's, and is found on a grid, then by thirds.
    """
    chain, factor = coupled_chain(k), exp_float(epsilon)
    most = min(SCALE // k, math.ceil(SCALE / (factor + k - 1)))
    return _least(lambda threshold: chain.law(threshold).delta(factor), most)


def staswitch_threshold(
    k: int, epsilon: Fraction, delta: Fraction, progress: Progress | None = None
) -> int | None:
    """The least threshold that meets the target, or None; k up to 9.

    Found in floats and then tried exactly, in single steps towards more noise.
    """
    tell = progress or (lambda done, total: None)
    tell(0, STEPS)
    chain, factor, target = coupled_chain(k), exp_float(epsilon), float(delta)
    tell(1, STEPS)
    high, least = staswitch_best(k, epsilon)
    if least > target + _FLOAT:
        return None
    failing, best = 0, high
    while high - failing > 1:
        middle = (failing + high) // 2
        if chain.law(middle).delta(factor) <= target:
            high = middle
        else:
            failing = middle
    tell(2, STEPS)
    while staswitch.delta(k, high, epsilon) > delta:
        high += 1
        if high > best:
            return None
    # Where floats can't tell, the one before is tried, too.
    while (
        high > 1
        and chain.law(high - 1).delta(factor) <= target + _FLOAT
        and staswitch.delta(k, high - 1, epsilon) <= delta
    ):
        high -= 1
    return high


def staswitch_epsilon(k: int, delta: Fraction) -> float | None:
    """About the least epsilon at which StaSwitch reaches delta; None if at none."""
    chain, target = coupled_chain(k), float(delta)
    found = _least(lambda threshold: chain.law(threshold).factor(target), SCALE // k)[1]
    return math.log(found) if math.isfinite(found) else None


def _least(value: Callable[[int], float], most: int) -> tuple[int, float]:
    """Where a function that falls and then rises on 1..most is least, and its value there."""
    grid = sorted({max(1, round(most ** (i / 40))) for i in range(41)})
    values = {threshold: value(threshold) for threshold in grid}
    at = min(range(len(grid)), key=lambda i: values[grid[i]])
    low, high = grid[max(0, at - 1)], grid[min(len(grid) - 1, at + 1)]
    while high - low > 2:
        third = (high - low) // 3
        left, right = low + third, high - third
        for threshold in (left, right):
            if threshold not in values:
                values[threshold] = value(threshold)
        if values[left] <= values[right]:
            high = right
        else:
            low = left
    for threshold in range(low, high + 1):
        if threshold not in values:
            values[threshold] = value(threshold)
    best = min(values, key=lambda threshold: (values[threshold], threshold))
    return best, values[best]
