"""Floats that guide the planner; what it decides is decided with certify's rationals."""

from __future__ import annotations

import math
from fractions import Fraction

# Beyond, no float is left, and none of the mechanisms' ratios either: they end at 2^48.
_MOST = 700.0


def exp_float(epsilon: Fraction) -> float:
    """e^epsilon, or something as good as infinite."""
    return math.exp(min(float(epsilon), _MOST))
