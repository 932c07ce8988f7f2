"""Bounds of e^x and ln r, and outward rounding, against the decimal module at 80 digits."""

from __future__ import annotations

import decimal
import math
import random
from decimal import Decimal
from fractions import Fraction
from types import ModuleType

import pytest

from tests.faults import planted
from tinyldp.certify import bounds

DIGITS = decimal.Context(prec=80)
TIGHT = Fraction(1, 1 << 100)
# What 80 digits leave open.
SLACK = Fraction(1, 10**70)


def numbers(seed: int) -> list[Fraction]:
    """Rationals of either sign and all sizes that certificates meet."""
    rng = random.Random(seed)
    found = [Fraction(n, 1 << 16) for n in (1, 1 << 16, 254_738, 16384 << 16, (1 << 30) - 1)]
    found += [Fraction(rng.randint(1, 1 << 22), rng.randint(1, 1 << 22)) for _ in range(40)]
    found += [Fraction(rng.randint(1, 1 << 40), 1 << 60) for _ in range(10)]
    return found + [-x for x in found]


def exp(x: Fraction) -> Fraction:
    """e^x to 80 digits less those of x."""
    context = decimal.Context(prec=90, Emax=10**6, Emin=-(10**6))
    quotient = context.divide(Decimal(x.numerator), Decimal(x.denominator))
    return Fraction(context.exp(quotient))


def check_exp(module: ModuleType) -> None:
    for x in numbers(1):
        low, high = module.exp_bounds(x)
        true = exp(x)
        assert low <= true * (1 + SLACK)
        assert high >= true * (1 - SLACK)
        assert low <= high <= low * (1 + TIGHT)
        # e^x is irrational: bounds that meet would be wrong.
        assert low < high
    assert module.exp_bounds(Fraction(0)) == (1, 1)


def check_log(module: ModuleType) -> None:
    for r in map(abs, numbers(2)):
        low, high = module.log_bounds(r)
        logarithms = DIGITS.ln(Decimal(r.numerator)), DIGITS.ln(Decimal(r.denominator))
        true = Fraction(DIGITS.subtract(*logarithms))
        assert low <= true + SLACK
        assert high >= true - SLACK
        assert high - low <= TIGHT
        assert module.log_upper(r) == high
        # The bounds fit those of the exponential: ln r <= high means r <= e^high.
        assert bounds.exp_bounds(high)[1] >= r >= bounds.exp_bounds(low)[0]
    assert module.log_bounds(Fraction(1)) == (0, 0)


def check_rounding(module: ModuleType) -> None:
    rng = random.Random(3)
    for _ in range(200):
        x = Fraction(rng.randint(0, 1 << 80), rng.randint(1, 1 << rng.randint(1, 120)))
        up = module.float_up(x)
        assert Fraction(up) >= x
        assert Fraction(math.nextafter(up, -math.inf)) < x
        shown = Fraction(module.digits_up(x))
        assert x <= shown <= x * (1 + Fraction(2, 10**5))
        grid = module.ceil_to(x, 1 << 16)
        assert (grid * (1 << 16)).denominator == 1
        assert x <= grid < x + Fraction(1, 1 << 16)


CHECKS = [check_exp, check_log, check_rounding]


@pytest.mark.parametrize("check", CHECKS)
def test_bounds_bracket_and_are_tight(check) -> None:
    check(bounds)


@pytest.mark.parametrize(
    ("check", "old", "new"),
    [
        (check_exp, "low = low * low >> bits", "low = -(-low * low >> bits) + (1 << 40)"),
        (check_exp, "high = -(-high * high >> bits)", "high = high * high - (high << 40) >> bits"),
        (check_exp, "return low, high\n    return _round", "return high, high\n    return _round"),
        (check_exp, "_BITS = 128", "_BITS = 60"),
        (check_exp, "_round(1 / low, up=True)", "_round(1 / high, up=False)"),
        (check_log, "two_low if shift > 0 else two_high", "two_high"),
        (check_log, "return log_bounds(r)[1]", "return log_bounds(r)[0]"),
        (check_log, "return -high, -low", "return -low, -high"),
        (check_rounding, "return nearest if Fraction(nearest) >= x else", "return nearest or"),
        (check_rounding, "ROUND_CEILING", "ROUND_HALF_EVEN"),
        (check_rounding, "math.ceil(x * unit)", "round(x * unit)"),
    ],
)
def test_a_fault_in_the_bounds_is_seen(check, old: str, new: str) -> None:
    faulty = planted(bounds, old, new)
    with pytest.raises(AssertionError):
        check(faulty)


def test_only_positive_numbers_have_a_logarithm() -> None:
    with pytest.raises(ValueError, match="positive"):
        bounds.log_bounds(Fraction(0))
