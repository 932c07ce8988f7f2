"""The thresholds of GRR, OUE and OLH for a target, rounded toward more noise.

T = ceil(2^24 / (e^epsilon + n - 1)) with n the number of values between which GRR
chooses (OUE: 2), so that the exact ratio of truth and lie is at most e^epsilon and
that of T - 1 above it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tinyldp.certify.bounds import exp_bounds
from tinyldp.estimate.chances import collision_chance
from tinyldp.planning.floats import exp_float
from tinyldp_protocol.task import SCALE

MOST_BUCKETS = 4096


def grr_threshold(values: int, epsilon: Fraction) -> int | None:
    """For each lie among `values`; None where rounding would make the truth no likelier."""
    low, _ = exp_bounds(epsilon)
    threshold = math.ceil(SCALE / (low + values - 1))
    return threshold if values * threshold < SCALE else None


def grr_domain(epsilon: Fraction) -> int:
    """The largest domain up to which GRR works at every size."""
    low, _ = exp_bounds(epsilon)
    scaled, top = SCALE * low.denominator, low.numerator - low.denominator
    for values in range(2, 65537):
        if values * -(-scaled // (top + values * low.denominator)) >= SCALE:
            return values - 1
    return 65536


def oue_threshold(epsilon: Fraction) -> int:
    """Of each zero bit that is sent as one."""
    low, _ = exp_bounds(epsilon)
    return math.ceil(SCALE / (low + 1))


def olh_integers(
    domain: int, epsilon: Fraction, buckets: int | None, least: Fraction | None = None
) -> tuple[int, int] | None:
    """(threshold, buckets) with the least variance, or for these buckets; None if none work.

    The variance is estimate's averaged one, which falls with 1/n whatever g is.
    least: an epsilon, no larger, at which the buckets must work, too.
    """
    if buckets is None:
        counts = np.arange(2, MOST_BUCKETS + 1)
        lie = np.ceil(SCALE / (exp_float(epsilon) + counts - 1)) / SCALE
        truth = 1 - (counts - 1) * lie
        works = truth > lie
        if least is not None:
            # With one to spare, as these are floats.
            works &= counts * np.ceil(SCALE / (exp_float(least) + counts - 1) + 1) < SCALE
        q = lie + (truth - lie) * _collisions()
        gap = np.where(works, truth - q, 1.0)
        variance = q * (1 - q) / gap**2 + (1 - gap - 2 * q) / (domain * gap)
        buckets = int(counts[np.argmin(np.where(works, variance, np.inf))])
    threshold = grr_threshold(buckets, epsilon)
    if least is not None and grr_threshold(buckets, least) is None:
        return None
    return None if threshold is None else (threshold, buckets)


@lru_cache(maxsize=1)
def _collisions() -> npt.NDArray[np.float64]:
    """(MOST_BUCKETS - 1,) that two values share a bucket, by the number of buckets from 2."""
    return np.array([float(collision_chance(g)) for g in range(2, MOST_BUCKETS + 1)])
