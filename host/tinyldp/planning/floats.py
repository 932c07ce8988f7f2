"""Floats that guide the planner; what it decides is decided with certify's rationals."""

from __future__ import annotations

import math
from fractions import Fraction

# No ratio of probabilities over 2^24 that a mechanism has is as large.
_MOST = 200.0


def exp_float(epsilon: Fraction) -> float:
    """e^epsilon, or something as good as infinite."""
    return math.exp(min(float(epsilon), _MOST))
