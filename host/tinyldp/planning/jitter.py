"""JitterSort's integer weights that meet a target with least latency.

The offset of a key is j or -j with a probability proportional to e^(-slope j), and
with slope = epsilon / (2 (k-1)) only the law's ends cost delta. Weights are integers
over 2^24, though, and rounding moves their ratios, most where they are small: so
gentler slopes are tried, too, and each candidate is judged by its rounded weights.
That also bounds what can be reached: a tail of weights of 1 has ratios of 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tinyldp.certify import jittersort
from tinyldp.planning.floats import exp_float
from tinyldp_protocol.task import SCALE

MOST_L = 511
ALL = range(1, MOST_L + 1)
_SOME = sorted({round(MOST_L ** (i / 60)) for i in range(61)})
Weights = npt.NDArray[np.float64]

# Slopes tried, as parts of epsilon / (2 (k-1)): the steeper, the less displacement.
_PARTS = (1, 0.999, 0.998, 0.995, 0.99, 0.98, 0.97, 0.95, 0.9, 0.8, 0.6, 0.4, 0.2, 0)
# Deltas in floats are right to some 1e-14.
_FLOAT = 1e-12
# Weights stay above 0, and no ratio of two pairs of them reaches the largest exp_float.
_STEEPEST = 64.0


def jittersort_weights(
    k: int, epsilon: Fraction, delta: Fraction, halves: Iterable[int] | None = None
) -> list[int] | None:
    """[c_0, ..., c_L] with the least L that meets the target, or None if none does.

    Among weights of that L those with the least jitter. halves: the L to try, ascending.
    """
    factor, target = exp_float(epsilon), float(delta) + _FLOAT
    for half in _halves(k, epsilon, delta) if halves is None else halves:
        for weights in _candidates(half, k, epsilon):
            if _delta(weights, k, factor) <= target:
                found = weights.astype(int).tolist()
                if jittersort.delta(found, k, epsilon) <= delta:
                    return found
    return None


def jittersort_least(k: int, epsilon: Fraction, halves: Iterable[int] = ALL) -> Fraction:
    """The resolution limit: the least delta that any of these L reaches at epsilon, rounded up."""
    factor = exp_float(epsilon)
    best = min(
        (weights for half in halves for weights in _candidates(half, k, epsilon)),
        key=lambda weights: _delta(weights, k, factor),
    )
    return jittersort.delta(best.astype(int).tolist(), k, epsilon)


def jittersort_epsilon(k: int, delta: Fraction, halves: Iterable[int] = _SOME) -> Fraction | None:
    """About the least epsilon (to 1 %, from above) at which delta is reached; None up to 64."""
    failing, reached = Fraction(0), Fraction(1, 4)
    while jittersort_weights(k, reached, delta, halves) is None:
        failing, reached = reached, 2 * reached
        if reached > 64:
            return None
    while reached - failing > reached / 100:
        middle = (failing + reached) / 2
        if jittersort_weights(k, middle, delta, halves) is None:
            failing = middle
        else:
            reached = middle
    return reached


def _halves(k: int, epsilon: Fraction, delta: Fraction) -> range:
    """The L that can meet the target, from the least: unrounded, full slope is the best one."""
    if delta >= Fraction(1, 2):
        # But for the widest targets.
        return ALL
    factor, slope = exp_float(epsilon), float(epsilon) / (2 * (k - 1))
    reached, failing = MOST_L + 1, 0
    while reached - failing > 1:
        middle = (failing + reached) // 2
        if _delta(_law(middle, slope), k, factor) <= float(delta):
            reached = middle
        else:
            failing = middle
    return range(max(1, reached - 1), MOST_L + 1)


def _candidates(half: int, k: int, epsilon: Fraction) -> Iterator[Weights]:
    """(L+1,) whole weights for L = half, the steepest first."""
    for part in _PARTS:
        weights = np.maximum(1, np.rint(_law(half, part * float(epsilon) / (2 * (k - 1)))))
        # The middle has the most, and bears what rounding left over.
        weights[0] = SCALE - 2 * weights[1:].sum()
        yield weights


def _law(half: int, slope: float) -> Weights:
    """(L+1,) weights that fall with the slope, unrounded."""
    weights = np.exp(-np.minimum(slope * np.arange(half + 1), _STEEPEST))
    return weights * (SCALE / (2 * weights.sum() - weights[0]))


def _delta(weights: Weights, k: int, factor: float) -> float:
    """certify's jittersort.delta in floats, where e^epsilon = factor; at m = k-1, the worst."""
    law = np.concatenate([weights[:0:-1], weights]) / SCALE
    if len(law) <= k - 1:
        return 1.0
    here, there = law[k - 1 :], law[: len(law) - (k - 1)]
    ratios = here / there
    order = np.argsort(-ratios, kind="stable")
    here, there, ratios = here[order], there[order], ratios[order]
    mass, shifted = np.cumsum(np.append(0, here)), np.cumsum(np.append(0, there))
    many = np.searchsorted(-ratios, -factor / ratios, side="left")
    return float(1 - mass[-1] ** 2 + here @ mass[many] - factor * (there @ shifted[many]))
