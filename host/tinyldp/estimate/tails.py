"""Tails of the law of a support count, and where they reach a given probability.

A support count S is the sum of two independent binomials: Bin(m, p) of the reports
from devices that have the value, Bin(n-m, q) of the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, gammaln, ndtr

Floats = npt.NDArray[np.float64]

# Least variance of S at which the saddlepoint's tails are used: there they are right
# to 2e-4 of themselves (against exact sums, any p and q, tails of 0.3 to 6 %).
_SMOOTH = 64.0
# Taken off the tail that is asked for where it is approximated: the limits err outwards.
_MARGIN = 1e-3
_HALVINGS = 64
_ROOT = math.sqrt(2 * math.pi)


def limits(
    counts: npt.NDArray[np.int64], n: int, p: float, q: float, tail: float
) -> tuple[Floats, Floats]:
    """The m of 0..n that the counts do not rule out, from the least to the largest.

    counts: (d,) observed support counts, each 0..n; p > q. Gives two (d,) arrays:
    below the first, S >= count has a probability of at most `tail`, and above the
    second, S <= count has (Clopper and Pearson 1934, with the exact law of S, which
    is narrower than the binomial of the same mean). Exact where S varies
    little; elsewhere by the lattice saddlepoint formula (Lugannani and Rice 1980,
    Daniels 1987), outwards. Both are 0 where even m = 0 is ruled out by a low count,
    and n where m = n is by a high one.
    """
    unique, where = np.unique(counts, return_inverse=True)
    least = _smooth_limits(unique, n, p, q, tail, upper=True)
    most = _smooth_limits(unique, n, p, q, tail, upper=False)
    for i, count in enumerate(unique.tolist()):
        if _variance(least[i], n, p, q) < _SMOOTH:
            least[i] = _first(
                lambda m, s=count: tail_sum(m, s, n, p, q, True) > tail, n, round(least[i])
            )
        if _variance(most[i], n, p, q) < _SMOOTH:
            most[i] = n - _first(
                lambda m, s=count: tail_sum(n - m, s, n, p, q, False) > tail, n, n - round(most[i])
            )
    return least[where], most[where]


def tail_sum(m: int, count: int, n: int, p: float, q: float, upper: bool) -> float:
    """P(S >= count), or P(S <= count): the exact sum, but for terms below 1e-20."""
    reach = 12 * math.sqrt(m * p * (1 - p)) + 40
    own = np.arange(max(0, math.floor(m * p - reach)), min(m, math.ceil(m * p + reach)) + 1)
    weight = gammaln(m + 1) - gammaln(own + 1) - gammaln(m - own + 1)
    weight = np.exp(weight + own * math.log(p) + (m - own) * math.log1p(-p))
    others = n - m
    # Above k for the upper tail, up to k for the lower one.
    k = count - own - upper
    inside = (k >= 0) & (k < others)
    kept = np.where(inside, k, 0)
    rest = np.maximum(others - kept, 1)
    if upper:
        part = np.where(inside, betainc(kept + 1, rest, q), k < 0)
    else:
        part = np.where(inside, betainc(rest, kept + 1, 1 - q), k >= others)
    return float(weight @ part)


def saddle_tail(m: Floats, count: Floats, n: int, p: float, q: float, upper: bool) -> Floats:
    """Approximate P(S >= count), or P(S <= count); m: (d,) reals in 0..n; count: (d,).

    Half a step is taken off (put on) the count, which must then lie inside (0, n).
    The saddlepoint solves a quadratic equation in e^t.
    """
    x = count - 0.5 if upper else count + 0.5
    square = p * q * (n - x)
    linear = m * p * (1 - q) + (n - m) * q * (1 - p) - x * (p * (1 - q) + q * (1 - p))
    constant = x * (1 - p) * (1 - q)
    root = np.sqrt(linear * linear + 4 * square * constant)
    # The form without cancellation, for either sign.
    turn = np.where(linear > 0, 2 * constant / (linear + root), (root - linear) / (2 * square))
    t = np.log(turn)
    own = p * turn / (1 - p + p * turn)
    other = q * turn / (1 - q + q * turn)
    exponent = t * x - m * np.log1p(p * (turn - 1)) - (n - m) * np.log1p(q * (turn - 1))
    w = np.sign(t) * np.sqrt(2 * np.maximum(exponent, 0))
    u = 2 * np.sinh(t / 2) * np.sqrt(m * own * (1 - own) + (n - m) * other * (1 - other))
    with np.errstate(divide="ignore", invalid="ignore"):
        correction = np.exp(-w * w / 2) / _ROOT * (1 / u - 1 / w)
    # Near the mean, where the formula divides by zero, no limit is looked for.
    correction = np.where(np.abs(w) > 1e-3, correction, 0)
    return ndtr(-w) + correction if upper else ndtr(w) - correction


def _variance(m: float, n: int, p: float, q: float) -> float:
    return m * p * (1 - p) + (n - m) * q * (1 - q)


def _smooth_limits(
    counts: npt.NDArray[np.int64], n: int, p: float, q: float, tail: float, upper: bool
) -> Floats:
    """The outermost integer m by the approximate tails, of which upper ones grow with m."""
    end = 0 if upper else n
    if _variance(n if p * (1 - p) > q * (1 - q) else 0, n, p, q) < _SMOOTH:
        # No limit will be approximated: a start for the exact ones.
        return np.clip((counts - n * q) / (p - q), 0.0, float(n)).astype(np.float64)
    certain = counts == end
    count = np.where(certain, n // 2, counts).astype(np.float64)
    low = np.zeros(len(counts))
    high = np.full(len(counts), float(n))
    wanted = tail * (1 - _MARGIN)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = (saddle_tail(middle, count, n, p, q, upper) < wanted) == upper
        low = np.where(above, middle, low)
        high = np.where(above, high, middle)
    found = np.ceil(low) if upper else np.floor(high)
    return np.where(certain, float(end), found)


def _first(kept: Callable[[int], bool], n: int, start: int) -> int:
    """The least m of 0..n from which on all are kept, found from `start`; n if none is."""
    low, high = -1, n
    at, step = start, 1
    while low < at < high:
        if kept(at):
            high = at
            at -= step
        else:
            low = at
            at += step
        step *= 2
    while high - low > 1:
        middle = (low + high) // 2
        if kept(middle):
            high = middle
        else:
            low = middle
    return high
