"""Bounds from counts: right as often as they say, by enumeration of all counts."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import binom

from tests.faults import planted
from tinyldp.audit import intervals

CHANCES = (0.0, 0.01, 0.1, 0.3, 0.5, 0.8, 0.97, 1.0)
WRONG = (0.2, 0.05, 1e-3)
ROUNDING = 1e-9


def limits_wrong(module: ModuleType, n: int, p: float, wrong: float) -> float:
    """The larger of the chances that a limit lies on the wrong side of p."""
    hits = np.arange(n + 1)
    weights = binom.pmf(hits, n, p)
    above = weights[module.lower(hits, n, wrong) > p + ROUNDING].sum()
    below = weights[module.upper(hits, n, wrong) < p - ROUNDING].sum()
    return float(max(above, below))


def bounds_wrong(module: ModuleType, n: int, wrong: float) -> float:
    """The largest chance that a bound exceeds what two known probabilities need."""
    worst = 0.0
    hits, other_hits = (grid.reshape(-1) for grid in np.meshgrid(*[np.arange(n + 1)] * 2))
    for p in CHANCES:
        for other in CHANCES:
            weights = binom.pmf(hits, n, p) * binom.pmf(other_hits, n, other)
            for delta in (0.0, 0.1, 0.8):
                more = max(0.0, p - delta)
                needed = math.log(max(1.0, more / other)) if other else math.inf * (more > 0)
                needed = 0.0 if math.isnan(needed) else needed
                found = module.epsilon_at_least(hits, n, other_hits, n, delta, wrong)
                worst = max(worst, float(weights[found > needed + ROUNDING].sum()))
            for epsilon in (0.0, 1.0):
                needed = max(0.0, p - math.exp(epsilon) * other)
                found = module.delta_at_least(hits, n, other_hits, n, epsilon, wrong)
                worst = max(worst, float(weights[found > needed + ROUNDING].sum()))
    return worst


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("wrong", WRONG)
def test_limits_and_bounds_are_wrong_as_seldom_as_they_say(n: int, wrong: float) -> None:
    assert all(limits_wrong(intervals, n, p, wrong) <= wrong + ROUNDING for p in CHANCES)
    assert bounds_wrong(intervals, n, wrong) <= wrong + ROUNDING


def test_limits_are_as_tight_as_can_be() -> None:
    """At the limit itself, as many hits or more have just the stated chance."""
    for n, hits, wrong in ((10, 3, 0.05), (1000, 400, 1e-6), (10**6, 1, 1e-6)):
        assert binom.sf(hits - 1, n, float(intervals.lower(hits, n, wrong))) == pytest.approx(wrong)
        assert binom.cdf(hits, n, float(intervals.upper(hits, n, wrong))) == pytest.approx(wrong)
    assert intervals.lower(0, 10, 0.05) == 0
    assert intervals.upper(10, 10, 0.05) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("n - hits + 1, wrong)", "n - hits + 1, 2 * wrong)"),
        ("np.maximum(hits, 1), n - hits + 1", "np.maximum(hits, 1) + 1, n - hits"),
        ("return 1 - lower(n - np.asarray(hits), n, wrong)", "return lower(hits, n, 1 - wrong)"),
    ],
)
def test_a_limit_that_is_wrong_more_often_is_found(old: str, new: str) -> None:
    faulty = planted(intervals, old, new)
    worst = max(limits_wrong(faulty, n, p, 0.05) for n in (5, 8) for p in CHANCES)
    assert worst > 0.05 + ROUNDING


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("wrong / 2) - delta, 0)", "wrong / 2), 0)"),
        (
            "less = upper(other_hits, other_n, wrong / 2)\n    return np.log",
            "less = 0.01\n    return np.log",
        ),
        ("np.exp(epsilon) * less", "less"),
        (
            "less = upper(other_hits, other_n, wrong / 2)\n    return np.maximum",
            "less = other_hits / other_n\n    return np.maximum",
        ),
    ],
)
def test_a_bound_that_is_wrong_more_often_is_found(old: str, new: str) -> None:
    faulty = planted(intervals, old, new)
    assert bounds_wrong(faulty, 8, 0.05) > 0.05 + ROUNDING
