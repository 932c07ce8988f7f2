"""JitterSort's privacy: the hockey-stick divergence of two keys' truncated laws.

What is released depends on the set of (value, key) pairs alone. Exchanging the
values at positions i and j = i + m shifts the keys of these two by m, one up and
one down, and nothing else. So, with P the law of the key offset on -L..L,

    delta(epsilon) <= max over m < k of
        sum over x, y of max(0, P(x) P(y) - e^epsilon P(x-m) P(y+m)).

P is even, so both keys have the same pairs (P(x), P(x-m)), and the sum is that of
a product of a law with itself; the other direction gives the same. It is exact for
who sees the keys, and a bound for who sees the order only (data processing).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tinyldp.certify.bounds import exp_bounds
from tinyldp_protocol.task import SCALE


def delta(weights: Sequence[int], k: int, epsilon: Fraction) -> Fraction:
    """A delta, rounded up by less than 2^-100, for which it is (epsilon, delta)-private.

    weights: c_0, ..., c_L over 2^24: the key offset is j or -j with c_j / 2^24 each
    (c_0 + 2 (c_1 + ... + c_L) = 2^24, each at least 1); k: neighbours exchange two
    values less than k apart; epsilon >= 0. Time: k L log L.
    Raises ValueError when the weights are no such law.
    """
    if min(weights) < 1 or 2 * sum(weights) - weights[0] != SCALE:
        raise ValueError("JitterSort's weights must be a law over 2^24, each at least 1")
    low = exp_bounds(epsilon)[0]
    law = [*weights[:0:-1], *weights]
    # From this distance on a shifted key never meets the other's range.
    far = min(k - 1, len(law))
    return Fraction(
        max(_divergence(law, m, low) for m in range(1, far + 1)), SCALE**2 * low.denominator
    )


def _divergence(law: list[int], m: int, factor: Fraction) -> int:
    """The sum for one m, over SCALE^2 * factor.denominator."""
    top, bottom = factor.numerator, factor.denominator
    # No two ratios of integers below 2^24 are nearer than 2^-48: this sorts exactly.
    pairs = sorted(zip(law[m:], law, strict=False), key=lambda pair: (pair[0] << 48) // pair[1])
    mass, shifted = [0], [0]
    for here, there in reversed(pairs):
        mass.append(mass[-1] + here)
        shifted.append(shifted[-1] + there)
    # All that the other stream can't give, times anything.
    total = (SCALE**2 - mass[-1] ** 2) * bottom
    many = len(pairs)
    for here, there in reversed(pairs):
        # The partners y, by falling ratio, with P(x) P(y) > e^epsilon P(x-m) P(y+m): fewer as
        # x's own ratio falls.
        while many and (here * pairs[-many][0] * bottom <= top * there * pairs[-many][1]):
            many -= 1
        total += here * mass[many] * bottom - top * there * shifted[many]
    return total
