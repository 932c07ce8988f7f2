"""RanSwitch's closed form: figures, and what must hold of any privacy curve."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest

from tinyldp.certify import ranswitch
from tinyldp.certify.bounds import exp_bounds
from tinyldp_protocol.task import SCALE

F = Fraction


def test_three_slots() -> None:
    """k = 3, q = 1/10 at epsilon = 3.887: delta = .19."""
    assert float(ranswitch.delta(3, 3, round(SCALE / 10), F(3887, 1000))) == pytest.approx(
        0.19, abs=1e-6
    )


def test_ten_slots_at_the_papers_two() -> None:
    """k = 10, q = .06014: (2.03, .428)."""
    threshold = round(0.06014 * SCALE)
    natural = ranswitch.natural_epsilon(10, threshold)
    assert float(natural) == pytest.approx(2.03, abs=0.005)
    assert float(ranswitch.delta(10, 10, threshold, natural)) == pytest.approx(0.428, abs=5e-4)


def test_worked_value() -> None:
    """k = 5, epsilon = 4, delta = .125: the largest p is .93608."""
    for p, above in ((0.93609, True), (0.93607, False)):
        delta = ranswitch.delta(5, 5, round((1 - p) / 4 * SCALE), F(4))
        assert (delta > F(125, 1000)) is above


def test_curve_falls_to_the_natural_point_and_stays() -> None:
    rng = random.Random(1)
    for _ in range(50):
        k = rng.randint(2, 40)
        window = k + rng.randint(0, 20)
        threshold = rng.randint(1, SCALE // window)
        natural = ranswitch.natural_epsilon(window, threshold)
        points = [natural * n / 6 for n in range(10)]
        deltas = [ranswitch.delta(window, k, threshold, point) for point in points]
        assert deltas == sorted(deltas, reverse=True)
        at_rest = 1 - (1 - F(threshold, SCALE)) ** (k - 1)
        assert deltas[6] == deltas[-1] == at_rest
        if natural > 0:
            assert ranswitch.delta(window, k, threshold, natural - F(2, 1 << 16)) > at_rest
        assert ranswitch.delta(window, k + 1, threshold, F(1)) >= ranswitch.delta(
            window, k, threshold, F(1)
        )


def test_rounding_is_outward_and_small() -> None:
    rng = random.Random(2)
    for _ in range(50):
        k = rng.randint(2, 12)
        threshold = rng.randint(1, SCALE // k)
        epsilon = F(rng.randint(1, 1 << 18), 1 << 16)
        delta = ranswitch.delta(k, k, threshold, epsilon)
        q = threshold / SCALE
        p = 1 - (k - 1) * q
        d0 = 1 - (1 - q) ** (k - 1)
        floating = d0 + (1 - d0) * max(0.0, (p - math.exp(epsilon) * q) / (p + q))
        assert float(delta) == pytest.approx(floating, rel=1e-9)
        low, high = exp_bounds(epsilon)
        least = ranswitch.delta_at(k, k, threshold, high)
        assert least <= delta == ranswitch.delta_at(k, k, threshold, low)
        assert delta - least < F(1, 1 << 99)


@pytest.mark.parametrize(("window", "threshold"), [(4, 0), (4, SCALE // 4 + 1), (4, -1)])
def test_beyond_the_proof_it_is_refused(window: int, threshold: int) -> None:
    with pytest.raises(ValueError, match="0 < q <= p"):
        ranswitch.delta(window, 3, threshold, F(1))
