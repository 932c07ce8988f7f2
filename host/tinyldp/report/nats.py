"""How nats are written: what someone was told at most is never less than it was."""

from __future__ import annotations

from fractions import Fraction

from tinyldp.certify.bounds import digits_up
from tinyldp.figures import near

# Of floats that are summed up: what is less than this is nothing, or no more than is allowed.
_ROUNDING = 1e-9


def most_nats(nats: float, allowed: float) -> str:
    """Six digits, rounded up as `allowed` is (digits_up), which it does not exceed."""
    if nats < _ROUNDING:
        return "0"
    above = nats - allowed
    return digits_up(Fraction(float(allowed if 0 < above < _ROUNDING * allowed else nats)))


def mean_nats(nats: float) -> str:
    """An average: four digits, the nearest."""
    return "0" if abs(nats) < _ROUNDING else near(Fraction(float(nats)))
