"""Lower bounds on privacy parameters from counts of an event.

The event is chosen before its counts are drawn. Clopper-Pearson limits on its two
probabilities hold together with the stated confidence (each takes half of the rest),
whatever the mechanism is: what follows from them is a fact about the device, not about
a model of it. Counts may be arrays; n and other_n are how many draws each is out of.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

Counts = int | npt.NDArray[np.int64]
Bounds = npt.NDArray[np.float64]


def lower(hits: Counts, n: int, confidence: float) -> Bounds:
    """Clopper-Pearson: the event's probability is at least this, with the confidence."""
    hits = np.asarray(hits)
    return np.where(hits == 0, 0.0, betaincinv(np.maximum(hits, 1), n - hits + 1, 1 - confidence))


def upper(hits: Counts, n: int, confidence: float) -> Bounds:
    """Clopper-Pearson: the event's probability is at most this, with the confidence."""
    hits = np.asarray(hits)
    return np.where(hits == n, 1.0, betaincinv(hits + 1, np.maximum(n - hits, 1), confidence))


def epsilon_at_least(
    hits: Counts, n: int, other_hits: Counts, other_n: int, delta: float, confidence: float
) -> Bounds:
    """The smallest epsilon with which (epsilon, delta) can still hold; 0 when any can."""
    each = 1 - (1 - confidence) / 2
    more = np.maximum(lower(hits, n, each) - delta, 0)
    less = upper(other_hits, other_n, each)
    return np.log(np.maximum(more / less, 1.0))


def delta_at_least(
    hits: Counts, n: int, other_hits: Counts, other_n: int, epsilon: float, confidence: float
) -> Bounds:
    """The smallest delta with which (epsilon, delta) can still hold."""
    each = 1 - (1 - confidence) / 2
    less = upper(other_hits, other_n, each)
    return np.maximum(lower(hits, n, each) - np.exp(epsilon) * less, 0.0)
