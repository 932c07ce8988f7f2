"""The shares of values behind CRR's releases, whatever series people have: unbiased.

A device's release y was drawn with M(y|x) of its belief. Any h with

    sum over y of M(y|x') h(y) = 1 if x' = x, else 0      for all x'

has the expectation 1 if its value is x and 0 if not; where M can be inverted, h(y) = M^-1[y, x].
Some M can't be, or nearly can't, for a rule that tells little of rare values gives several the
same row, or nearly so. Yet a value x whose row is like no others' has its h. Who has none for x,
or one of so large a variance that the interval is narrower without, is not counted for x. What
is counted depends on beliefs, and so on earlier releases alone: given these, the estimate is
unbiased for those who are counted. Of all devices no more is known than that each of the others
may have the value or not: by so much their interval is wider.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from tinyldp.crr.beliefs import Beliefs
from tinyldp.crr.model import PRIOR_SCALE

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# Condition of a kernel, its columns scaled, from which on it is looked at direction by direction.
_CONDITION = 1e7
# By how much the expectation of an h may be off, for numbers are floats.
_OFF = 1e-6
# Devices: half of what one lie changes.
_CONTINUITY = 0.5


def raw_sums(
    beliefs: Beliefs, numbers: Integers, released: Integers, repeated: float, z: float
) -> Floats:
    """(4, d) of m devices at a step: how many are counted, the sums of h and of its variances.

    These are twice there: from the releases, unbiased (h^2 - h, for the mean of h^2 is the
    variance, plus 1 for the value itself), and as the beliefs expect them.

    numbers, released: (m,) beliefs and releases. repeated: how many times as many devices there
    are as these, which are as good as the others. z: half the interval, in standard deviations.
    """
    different, which, count = np.unique(numbers, return_inverse=True, return_counts=True)
    law = beliefs.marginal(different)
    found, known = unmixed(beliefs.kernel(different), law)
    variance = np.einsum("my,myx->mx", law, np.square(found))
    variance -= beliefs.belief[different] / PRIOR_SCALE
    variance = np.where(known, np.maximum(variance, 0), np.inf)
    kept = _worth(variance, count, repeated, z)
    estimate = np.where(kept[which], found[which, released], 0.0)
    sums = np.empty((4, law.shape[1]))
    sums[0] = count @ kept
    sums[1] = estimate.sum(axis=0)
    sums[2] = (estimate * (estimate - 1)).sum(axis=0)
    sums[3] = count @ np.where(kept, variance, 0)
    return sums


def half_width(variance: Floats, confidence: float) -> Floats:
    """How far the sum of h may be from the number of devices with the value, of its variance.

    That is z standard deviations, and half a device: few lies make a sum of few different numbers,
    about one apart, between which the normal law has its limits. (Without it those of 95 % hold in
    82 % at a variance of .15 even if that is exact.) Where the variance is below 1 - confidence,
    lies are rarer than a miss may be, and there is nothing to allow for. Source: the interval with
    a continuity correction, method 2 of Newcombe 1998, here for numbers of devices.
    """
    z = float(ndtri((1 + confidence) / 2))
    return z * np.sqrt(variance) + np.where(variance > 1 - confidence, _CONTINUITY, 0.0)


def unmixed(kernel: Floats, law: Floats) -> tuple[Floats, Flags]:
    """h of each value, (m, n, n) releases before values, and (m, n) whether there is one.

    kernel: (m, n, n) M(y|x), values before releases; law: (m, n) of the releases.
    """
    # Of nearly equal likelihoods, not of small ones, h is large: so columns are scaled.
    scale = 1 / np.sqrt(np.where(law > 0, law, 1))
    scaled = kernel * scale[:, np.newaxis]
    found = np.zeros_like(kernel)
    known = np.zeros(law.shape, np.bool_)
    plain = np.flatnonzero(np.linalg.det(scaled) != 0)
    inverse = np.linalg.inv(scaled[plain])
    condition = np.linalg.norm(scaled[plain], axis=(1, 2)) * np.linalg.norm(inverse, axis=(1, 2))
    good = condition < _CONDITION
    found[plain[good]] = inverse[good]
    known[plain[good]] = True
    rest = np.setdiff1d(np.arange(len(kernel)), plain[good])
    if len(rest):
        found[rest] = np.linalg.pinv(scaled[rest], rcond=1 / _CONDITION)
        off = np.abs(scaled[rest] @ found[rest] - np.eye(law.shape[1]))
        known[rest] = off.max(axis=1) < _OFF
    return found * scale[:, :, np.newaxis], known


def _worth(variance: Floats, count: Integers, repeated: float, z: float) -> Flags:
    """(m, n) which groups of `count` devices (m,) are counted, of the variances of each's h.

    Who is left out widens the interval by one device; so those with the least variances, as many
    as make it narrowest. Where it says nothing either way all are counted that can be.
    """
    order = np.argsort(variance, axis=0, kind="stable")
    ordered = np.take_along_axis(variance, order, axis=0)
    there = np.isfinite(ordered)
    number = np.cumsum(np.where(there, count[order], 0), axis=0)
    total = np.cumsum(np.where(there, count[order] * np.where(there, ordered, 0), 0), axis=0)
    devices = count.sum()
    width = 2 * z * np.sqrt(total * repeated) + (devices - number) * repeated
    best = width.argmin(axis=0)
    last = np.where(width.min(axis=0) < devices * repeated, best, len(count) - 1)
    kept = np.zeros(variance.shape, np.bool_)
    np.put_along_axis(kept, order, there & (np.arange(len(count))[:, np.newaxis] <= last), axis=0)
    return kept
