"""Goodness of fit of measured displacements to a law."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.stats import chi2

from tinyldp.laws import Law

# Each test of a true law fails once in a million.
FALSE_ALARM = 1e-6
# Classes expected to hold fewer values are put together with the next.
_FEWEST = 8


def fit(seen: Mapping[int, int], law: Law, latest: int) -> float:
    """p-value of a chi-square test of independent displacements.

    seen: how often each displacement was measured; those beyond `latest` are one class.
    """
    first = int(law.offsets[0])
    inside = law.offsets <= latest
    expected = np.append(law.probabilities[inside], 1 - law.probabilities[inside].sum())
    observed = np.zeros(len(expected))
    for moved, n in seen.items():
        observed[min(moved, latest + 1) - first] += n
    expected *= observed.sum()
    classes: list[list[float]] = [[0.0, 0.0]]
    for count, mean in zip(observed, expected, strict=True):
        if classes[-1][1] >= _FEWEST:
            classes.append([0.0, 0.0])
        classes[-1][0] += count
        classes[-1][1] += mean
    last = classes.pop() if classes[-1][1] < _FEWEST else [0.0, 0.0]
    classes[-1] = [classes[-1][0] + last[0], classes[-1][1] + last[1]]
    statistic = sum((count - mean) ** 2 / mean for count, mean in classes)
    return float(chi2.sf(statistic, len(classes) - 1))
