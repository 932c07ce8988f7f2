"""Support counts to frequencies: unbiased, with variance and confidence interval."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tinyldp.errors import UserError
from tinyldp.estimate.chances import support_chances
from tinyldp.estimate.tails import limits
from tinyldp_protocol.task import Task

Floats = npt.NDArray[np.float64]

CONFIDENCE = 0.95
# Confidences for which the limits' tails are right.
_LEAST, _MOST = 0.5, 1 - 1e-6


@dataclass(frozen=True)
class Estimate:
    """Frequencies of the d values among n reports, raw: nothing clipped or projected.

    frequencies: (d,) unbiased shares; noise can take them below 0 or above 1.
    variances: (d,) of the frequencies, with the estimate in the place of the truth.
    low, high: (d,) limits in 0..1 that hold each true share alone with `confidence`.
    n: reports that came. All of them speak of the devices that reported, not of
    others that these may stand for.
    """

    frequencies: Floats
    variances: Floats
    low: Floats
    high: Floats
    n: int
    confidence: float


def frequencies(
    task: Task, supports: npt.ArrayLike, n: int, confidence: float = CONFIDENCE
) -> Estimate:
    """Estimate how often each value occurs among the devices behind n reports.

    supports: (d,) support counts, as estimate.supports gives them. The estimate is
    (count/n - q) / (p - q), with the Task's exact p and q (Wang et al. 2017, "pure"
    protocols). Given the true share f, a count is the sum of n f events of chance p
    and n (1 - f) of chance q, all independent, so its variance is
    n (f p(1-p) + (1-f) q(1-q)), and the interval inverts the exact law of that sum:
    it covers with at least `confidence`, whatever f and n (see tails.limits).
    Raises UserError when n is 0, and for counts or a confidence that cannot be.
    """
    exact_p, exact_q = support_chances(task)
    p, q, gap = float(exact_p), float(exact_q), float(exact_p - exact_q)
    if n < 1:
        raise UserError("There are no reports, so no frequency can be estimated.")
    if not _LEAST <= confidence <= _MOST:
        raise UserError(f"The confidence must lie in {_LEAST}..{_MOST}, but is {confidence}.")
    counts = np.asarray(supports)
    if counts.shape != (task.symbols,) or counts.dtype.kind not in "iu":
        raise UserError(f"The supports must be {task.symbols} integers, one for each value.")
    counts = counts.astype(np.int64)
    if counts.min() < 0 or counts.max() > n:
        raise UserError(f"A support count lies outside 0..{n}, the number of reports.")
    raw = (counts / n - q) / gap
    share = np.clip(raw, 0, 1)
    variances = (share * p * (1 - p) + (1 - share) * q * (1 - q)) / (n * gap**2)
    least, most = limits(counts, n, p, q, (1 - confidence) / 2)
    return Estimate(raw, variances, least / n, most / n, n, confidence)


def report_variance(task: Task) -> Fraction:
    """n times the variance of a frequency estimated from n reports, averaged over the d values.

    n V = q(1-q) / (p-q)^2 + (1-p-q) / (d (p-q)), exact whatever the frequencies, as they
    add up to 1; computed from the Task's integers with rationals.
    """
    p, q = support_chances(task)
    gap = p - q
    return q * (1 - q) / gap**2 + (1 - p - q) / (task.symbols * gap)


def expected_variance(task: Task, n: int) -> float:
    """Variance V of a frequency estimated from n reports, averaged: see report_variance.

    Raises UserError when n is 0.
    """
    if n < 1:
        raise UserError("There are no reports, so an estimate has no variance.")
    return float(report_variance(task) / n)
