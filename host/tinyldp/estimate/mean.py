"""Randomized response of many devices to a mean: unbiased, with variance and interval.

A device with the number p in [0, 1] reports 1 with probability q + p (1 - 2q), q = T / N with
the Task's threshold T over N = 2^24: Thresh's estimates (p the local mean), and votes and
polls (p is 1 for yes and 0 for no) (Joseph et al. 2018, algorithms Vote and Est).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from scipy.special import betaincinv

from tinyldp.errors import UserError
from tinyldp_protocol.task import SCALE

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Mean:
    """Mean of p over the n devices that reported, raw: noise can take it below 0 or above 1.

    variance: at most this, with the estimate in the place of the truth. low, high: limits in
    0..1 that hold the true mean with at least `confidence`.
    """

    mean: float
    variance: float
    low: float
    high: float
    n: int
    confidence: float


def exact_mean(threshold: int, ones: int, n: int) -> Fraction:
    """(ones/n - q) / (1 - 2q), the unbiased estimate; n >= 1."""
    return (Fraction(ones, n) * SCALE - threshold) / (SCALE - 2 * threshold)


def mean(threshold: int, ones: int, n: int, confidence: float = CONFIDENCE) -> Mean:
    """Estimate the mean of p over the devices behind n reports, of which `ones` are 1.

    The reports are independent, of chances whose mean is P: the variance of their sum is at
    most that of a binomial of P, and so are its tails (Hoeffding 1956). So the limits of a
    binomial (Clopper and Pearson 1934) cover with at least `confidence`, whatever the p are.
    Raises UserError when n is 0, ValueError for counts that cannot be.
    """
    if n < 1:
        raise UserError("There are no reports, so no mean can be estimated.")
    if not 0 <= ones <= n:
        raise ValueError("the ones must lie in 0..n")
    gap = (SCALE - 2 * threshold) / SCALE
    chance = ones / n
    tail = (1 - confidence) / 2
    least = float(betaincinv(ones, n - ones + 1, tail)) if ones else 0.0
    most = float(betaincinv(ones + 1, n - ones, 1 - tail)) if ones < n else 1.0
    return Mean(
        float(exact_mean(threshold, ones, n)),
        chance * (1 - chance) / (n * gap**2),
        _share(least, threshold),
        _share(most, threshold),
        n,
        confidence,
    )


def _share(chance: float, threshold: int) -> float:
    return min(1.0, max(0.0, (chance * SCALE - threshold) / (SCALE - 2 * threshold)))
