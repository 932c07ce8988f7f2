"""Figures in sentences, rounded so that they stay true, and short."""

from __future__ import annotations

import decimal
from fractions import Fraction


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """The number with its noun, in the plural if need be: with an s, if none is named."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def in_a_row(steps: int) -> str:
    return "one step" if steps == 1 else f"{steps} consecutive steps"


def fixed(x: float, digits: int) -> str:
    """So many digits after the point, and no minus before a zero."""
    return f"{round(x, digits) + 0.0:.{digits}f}"


def percent(share: float, digits: int) -> str:
    """The number before the sign."""
    return fixed(100 * share, digits)


def stated(value: Fraction, unit: int) -> str:
    """The shortest decimal that a study could have stated: it was rounded down to the unit."""
    digits = 1
    while Fraction(text := _rounded(value, decimal.ROUND_CEILING, digits)) >= value + Fraction(
        1, unit
    ):
        digits += 1
    return text


def up(value: Fraction, unit: int) -> str:
    """Four digits, rounded up, and still no less when a study rounds them down to its unit."""
    return _rounded(value + Fraction(1, unit), decimal.ROUND_CEILING, 4)


def down(value: Fraction) -> str:
    """Four digits, rounded down."""
    return _rounded(value, decimal.ROUND_FLOOR, 4)


def near(value: Fraction) -> str:
    """Four digits, the nearest."""
    return _rounded(value, decimal.ROUND_HALF_EVEN, 4)


def _rounded(value: Fraction, rounding: str, digits: int) -> str:
    context = decimal.Context(prec=digits, rounding=rounding)
    quotient = context.divide(decimal.Decimal(value.numerator), decimal.Decimal(value.denominator))
    return f"{quotient:f}" if quotient > decimal.Decimal("1e-4") else f"{quotient:g}"
