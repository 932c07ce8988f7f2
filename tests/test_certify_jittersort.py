"""JitterSort's finite sum: figures, the plain double sum, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from tests.oracle.brute.jittersort import pairs_delta
from tinyldp.certify import jittersort
from tinyldp.certify.bounds import exp_bounds
from tinyldp_protocol.task import SCALE

F = Fraction


def geometric(k: int, epsilon: float, reach: int) -> list[int]:
    """Weights near a^|j| with a = e^(-epsilon / (2 (k-1)))."""
    a = math.exp(-epsilon / (2 * (k - 1)))
    total = 1 + 2 * sum(a**j for j in range(1, reach + 1))
    outer = [max(1, round(SCALE * a**j / total)) for j in range(1, reach + 1)]
    return [SCALE - 2 * sum(outer), *outer]


@pytest.mark.parametrize(
    ("k", "epsilon", "shape", "delta", "reach"),
    [
        (5, 2, 2.0, F(1, 10**3), 30),
        (5, 2, 1.99, F(1, 10**6), 58),
        (10, 2, 2.0, F(1, 100), 46),
        (24, 2, 2.0, F(1, 100), 118),
    ],
)
def test_least_window(k: int, epsilon: int, shape: float, delta: Fraction, reach: int) -> None:
    assert jittersort.delta(geometric(k, shape, reach), k, F(epsilon)) <= delta
    assert jittersort.delta(geometric(k, shape, reach - 1), k, F(epsilon)) > delta


def test_equals_the_plain_double_sum() -> None:
    for k, epsilon, reach in ((3, F(1, 2), 9), (6, F(2), 12), (2, F(7, 3), 5), (40, F(3), 6)):
        weights = geometric(k, float(epsilon), reach)
        low = exp_bounds(epsilon)[0]
        # Beyond 2L a shifted key meets none of the other's.
        plain = max(pairs_delta(weights, m, low) for m in range(1, min(k, 2 * reach + 2)))
        assert jittersort.delta(weights, k, epsilon) == plain


def test_curve_falls_and_grows_with_k() -> None:
    weights = geometric(5, 2, 30)
    deltas = [jittersort.delta(weights, 5, F(n, 4)) for n in range(20)]
    assert deltas == sorted(deltas, reverse=True)
    by_k = [jittersort.delta(weights, k, F(2)) for k in range(2, 70)]
    assert by_k == sorted(by_k)
    assert by_k[-1] == 1


def test_widest_window_and_uniform_keys() -> None:
    """All keys equally probable: delta is the probability that the ranges do not overlap."""
    weights = [SCALE - 2 * 511 * (SCALE // 1023), *[SCALE // 1023] * 511]
    kept = F(1022 * (SCALE // 1023) + weights[0] - (SCALE // 1023) * 8, SCALE)
    assert float(jittersort.delta(weights, 10, F(3))) == pytest.approx(
        float(1 - (kept - F(1, 1023)) ** 2), abs=1e-4
    )


@pytest.mark.parametrize(
    "weights", [[SCALE], [SCALE - 2, 2], [SCALE, 0], [SCALE - 4, 3, -1], [SCALE - 3, 1, 1]]
)
def test_weights_that_are_no_law(weights: list[int]) -> None:
    if weights == [SCALE]:
        # A law, of a window of 1: nothing is hidden.
        assert jittersort.delta(weights, 2, F(1)) == 1
        return
    with pytest.raises(ValueError, match="a law over"):
        jittersort.delta(weights, 2, F(1))
