"""Lower bounds on privacy parameters from counts of an event.

The event is chosen before its counts are drawn. Clopper-Pearson limits on its two
probabilities are both right but for the stated chance (each takes half of it),
whatever the mechanism is: what follows from them is a fact about the device, not about
a model of it. Counts may be arrays; n and other_n are how many draws each is out of;
wrong is the chance that a limit or bound is wrong.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

Counts = int | npt.NDArray[np.int64]
Bounds = npt.NDArray[np.float64]


def lower(hits: Counts, n: int, wrong: float) -> Bounds:
    """Clopper-Pearson: the event's probability is at least this."""
    hits = np.asarray(hits)
    return np.where(hits == 0, 0.0, betaincinv(np.maximum(hits, 1), n - hits + 1, wrong))


def upper(hits: Counts, n: int, wrong: float) -> Bounds:
    """Clopper-Pearson: the event's probability is at most this."""
    return 1 - lower(n - np.asarray(hits), n, wrong)


def epsilon_at_least(
    hits: Counts, n: int, other_hits: Counts, other_n: int, delta: float, wrong: float
) -> Bounds:
    """The smallest epsilon with which (epsilon, delta) can still hold; 0 when any can."""
    more = np.maximum(lower(hits, n, wrong / 2) - delta, 0)
    less = upper(other_hits, other_n, wrong / 2)
    return np.log(np.maximum(more / less, 1.0))


def delta_at_least(
    hits: Counts, n: int, other_hits: Counts, other_n: int, epsilon: float, wrong: float
) -> Bounds:
    """The smallest delta with which (epsilon, delta) can still hold."""
    less = upper(other_hits, other_n, wrong / 2)
    return np.maximum(lower(hits, n, wrong / 2) - np.exp(epsilon) * less, 0.0)
