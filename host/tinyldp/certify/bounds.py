"""Rational bounds of e^x and ln r, and floats that never lie on the generous side.

Certificates are computed with integers; only e^epsilon is no rational number.
Both functions give bounds less than 2^-100 of the value apart.
"""

from __future__ import annotations

import decimal
import math
from fractions import Fraction

# Fractional bits of what is given, and more to spend on the way.
_BITS = 128
_GUARD = 32


def exp_bounds(x: Fraction) -> tuple[Fraction, Fraction]:
    """Rationals low <= e^x <= high with high / low <= 1 + 2^-100.

    x: any rational up to a few ten thousand in size.
    """
    x = Fraction(x)
    if x == 0:
        return Fraction(1), Fraction(1)
    low, high = _exp_positive(abs(x))
    if x > 0:
        return low, high
    return _round(1 / high, up=False), _round(1 / low, up=True)


def _exp_positive(x: Fraction) -> tuple[Fraction, Fraction]:
    """Taylor's series of e^(x / 2^halvings), squared as often; each way rounded outward."""
    halvings = max(0, math.ceil(x).bit_length()) + 4
    bits = _BITS + _GUARD + halvings
    one = 1 << bits
    y_low = (x.numerator << bits) // (x.denominator << halvings)
    y_high = y_low + 1
    low = high = term_low = term_high = one
    n = 0
    while term_high > 1:
        n += 1
        term_low = term_low * y_low // (n * one)
        term_high = -(-term_high * y_high // (n * one))
        low += term_low
        high += term_high
    # y < 1/8: all terms left out amount to less than the last one.
    high += term_high
    for _ in range(halvings):
        low = low * low >> bits
        high = -(-high * high >> bits)
    return Fraction(low, one), Fraction(high, one)


def log_bounds(r: Fraction) -> tuple[Fraction, Fraction]:
    """Rationals low <= ln r <= high, less than 2^-100 apart; r > 0.

    Raises ValueError for r <= 0.
    """
    r = Fraction(r)
    if r <= 0:
        raise ValueError("only positive numbers have a logarithm")
    if r == 1:
        return Fraction(0), Fraction(0)
    # r = 2^shift * m with 1/2 < m < 2, and ln m = 2 artanh((m-1)/(m+1)).
    shift = r.numerator.bit_length() - r.denominator.bit_length()
    m = r / (1 << shift) if shift >= 0 else r * (1 << -shift)
    low, high = _artanh((m - 1) / (m + 1))
    if shift:
        two_low, two_high = _artanh(Fraction(1, 3))
        low += shift * (two_low if shift > 0 else two_high)
        high += shift * (two_high if shift > 0 else two_low)
    return 2 * low, 2 * high


def log_upper(r: Fraction) -> Fraction:
    """The upper one of log_bounds."""
    return log_bounds(r)[1]


def _artanh(z: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds of z + z^3/3 + z^5/5 + ... for |z| <= 1/3."""
    if z < 0:
        low, high = _artanh(-z)
        return -high, -low
    bits = _BITS + _GUARD
    one = 1 << bits
    power_low = (z.numerator << bits) // z.denominator
    power_high = power_low + 1
    square_low = power_low * power_low >> bits
    square_high = -(-power_high * power_high >> bits)
    low = high = 0
    n = 1
    while power_high > 1:
        low += power_low // n
        high += -(-power_high // n)
        power_low = power_low * square_low >> bits
        power_high = -(-power_high * square_high >> bits)
        n += 2
    # z^2 <= 1/9 and a bit: all terms left out amount to less than twice the next.
    return Fraction(low, one), Fraction(high + 2 * power_high, one)


def _round(x: Fraction, up: bool) -> Fraction:
    """x > 0 with some _BITS + _GUARD significant bits, rounded down or up."""
    bits = _BITS + _GUARD + max(0, x.denominator.bit_length() - x.numerator.bit_length())
    scaled = (x.numerator << bits) // x.denominator
    return Fraction(scaled + (1 if up else 0), 1 << bits)


def float_up(x: Fraction) -> float:
    """The least float that is not below x."""
    nearest = float(x)
    return nearest if Fraction(nearest) >= x else math.nextafter(nearest, math.inf)


def digits_up(x: Fraction) -> str:
    """x >= 0 in six digits, rounded up: what people read is a bound, too."""
    rounding = decimal.Context(prec=6, rounding=decimal.ROUND_CEILING)
    found = rounding.create_decimal_from_float(float_up(x)).normalize(rounding)
    # Not 1e+1 for ten.
    return f"{found:f}" if 0 <= found.adjusted() < 6 else f"{found:g}"


def ceil_to(x: Fraction, unit: int) -> Fraction:
    """The least multiple of 1/unit that is not below x."""
    return Fraction(math.ceil(x * unit), unit)
