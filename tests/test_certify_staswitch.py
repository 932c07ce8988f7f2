"""StaSwitch's coupled chain: figures, what must hold of any likelihood ratio, its limits."""

from __future__ import annotations

from fractions import Fraction
from types import ModuleType

import pytest

from tests.faults import planted
from tests.oracle.brute import switching
from tinyldp.certify import ranswitch, staswitch
from tinyldp.certify.bounds import exp_bounds, log_upper
from tinyldp.errors import UserError
from tinyldp_protocol.task import SCALE

F = Fraction


def from_p(p: float, k: int) -> int:
    return round((1 - p) / (k - 1) * SCALE)


def test_worked_value() -> None:
    """k = 5, epsilon = 4, delta = .125: the largest p is .93597."""
    assert staswitch.delta(5, from_p(0.93598, 5), F(4)) > F(125, 1000)
    assert staswitch.delta(5, from_p(0.93596, 5), F(4)) < F(125, 1000)


def test_infeasible_target() -> None:
    """k = 5, epsilon = 2, delta = .45: no threshold reaches it."""
    least = min(staswitch.delta(5, n * (SCALE // 5) // 200, F(2)) for n in range(1, 201))
    assert F(45, 100) < least < F(7, 10)


@pytest.mark.parametrize("k", [2, 3, 4, 5, 6, 7, 8])
def test_its_least_delta_is_above_ranswitch(k: int) -> None:
    """Never below, and its pure part is at most 1 - (1-q)^(2(k-1))."""
    for threshold in (SCALE // (50 * k), SCALE // (3 * k), SCALE // k):
        law = staswitch.law(k, threshold)
        q = F(threshold, SCALE)
        assert law.impossible <= 1 - (1 - q) ** (2 * (k - 1))
        for factor in (F(1), F(3), F(20), F(10**9)):
            assert law.delta(factor) >= ranswitch.delta_at(k, k, threshold, factor)


def check_law(module: ModuleType, k: int) -> None:
    """Exchanging u and v exchanges the streams: what has ratio r here has 1/r there."""
    law = module.law(k, SCALE // (4 * k) + 1)
    masses = dict(law.finite)
    assert law.impossible + law.undecided + sum(masses.values()) == 1
    assert law.undecided < F(1, 1 << 60)
    assert list(masses) == sorted(masses, reverse=True)
    for ratio, mass in masses.items():
        # What was left undecided would have gone to either.
        assert abs(masses[1 / ratio] - mass / ratio) <= law.undecided
    assert law.delta(F(10**9)) == law.impossible + law.undecided
    factors = [F(n, 4) for n in range(4, 80)]
    deltas = [law.delta(factor) for factor in factors]
    assert deltas == sorted(deltas, reverse=True)


@pytest.mark.parametrize("k", range(2, 10))
def test_law_of_the_likelihood_ratio(k: int) -> None:
    check_law(staswitch, k)


def check_k5(module: ModuleType) -> None:
    """The whole law, one size beyond what all neighbours are enumerated for."""
    threshold = 5 * SCALE >> 7
    law = module.law(5, threshold)
    pairs = switching.pair_law(switching.Switch("staswitch", 5, threshold), 15, 4, 8)
    assert law.impossible == sum(p for p, other in pairs if other == 0)
    enumerated = {p / other: p for p, other in pairs if p and other}
    assert dict(law.finite) == enumerated


def test_law_for_k_5_equals_enumeration() -> None:
    check_k5(staswitch)


def check_beyond_small_k(module: ModuleType) -> None:
    check_k5(module)
    for k in (6, 7, 8):
        check_law(module, k)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("other_b, other_a + ahead]", "other_b, other_a]"),
        ("b, other_b, (switch", "b, other_a, (switch"),
        ("at_b >= self._k", "at_b > self._k"),
    ],
)
def test_a_fault_beyond_small_k_is_seen(old: str, new: str) -> None:
    faulty = planted(staswitch, old, new)
    with pytest.raises((AssertionError, KeyError, IndexError)):
        check_beyond_small_k(faulty)


def test_undecided_mass_counts() -> None:
    """From k = 8 on the chain is stopped; a delta without what was left would be too small."""
    law = staswitch.law(8, SCALE // 8)
    assert 0 < law.undecided < F(1, 1 << 60)
    without = staswitch.Law(law.impossible, law.finite, F(0))
    assert law.delta(F(5)) - without.delta(F(5)) == law.undecided


def test_e_to_the_epsilon_is_rounded_down() -> None:
    low, high = exp_bounds(F(2))
    law = staswitch.law(4, 10**6)
    assert staswitch.delta(4, 10**6, F(2)) == law.delta(low) > law.delta(high)


def test_natural_epsilon_is_where_delta_falls_no_further() -> None:
    for k, threshold in ((2, 10**6), (5, 10**6), (8, SCALE // 8)):
        law = staswitch.law(k, threshold)
        natural = staswitch.natural_epsilon(k, threshold)
        assert log_upper(law.finite[0][0]) <= natural
        assert staswitch.delta(k, threshold, natural) == law.impossible + law.undecided
        below = natural - F(2, 1 << 16)
        assert staswitch.delta(k, threshold, below) > law.impossible + law.undecided


def test_above_k_9_it_is_refused_with_what_to_take() -> None:
    with pytest.raises(UserError, match=r"k up to 9 only.*10.*RanSwitch or JitterSort"):
        staswitch.delta(10, 1000, F(1))


@pytest.mark.parametrize(("k", "threshold"), [(1, 5), (4, 0), (4, SCALE // 4 + 1)])
def test_integers_that_are_no_staswitch(k: int, threshold: int) -> None:
    with pytest.raises(ValueError, match="0 < q <= p"):
        staswitch.law(k, threshold)


def check_starts(k: int, threshold: int) -> None:
    """No start and no distance is worse than the one that is certified, at any epsilon."""
    law = staswitch.law(k, threshold)
    factors = [F(1), F(2), F(5), F(20), F(100), F(10**9)]
    certified = [law.delta(factor) for factor in factors]
    buffers = staswitch.buffers(k)
    assert len(buffers) == BELL[k]
    largest = F(0)
    for buffer in buffers:
        for distance in range(1, k):
            other = staswitch.law_from(k, threshold, buffer, distance)
            for factor, delta in zip(factors, certified, strict=True):
                assert other.delta(factor) - other.undecided <= delta
            largest = max(largest, other.finite[0][0])
    # Not proved either, and never seen otherwise.
    q = F(threshold, SCALE)
    if k >= 4:
        assert largest == (1 - q) ** 2 / (q * (1 - (k - 2) * q))


BELL = {2: 2, 3: 5, 4: 15, 5: 52, 6: 203}


@pytest.mark.parametrize("k", [2, 3, 4])
def test_no_other_start_or_distance_is_worse(k: int) -> None:
    for threshold in (SCALE // 400, SCALE // (10 * k), SCALE // (3 * k), SCALE // k):
        check_starts(k, threshold)


@pytest.mark.soak
@pytest.mark.parametrize("k", [5, 6])
def test_no_other_start_or_distance_is_worse_either(k: int) -> None:
    for threshold in (SCALE // 400, SCALE // (10 * k), SCALE // (3 * k), SCALE // k):
        check_starts(k, threshold)


@pytest.mark.soak
def test_no_end_of_a_stream_is_worse() -> None:
    """Every neighbour in a short stream, with its flush, for k = 5."""
    for threshold in (SCALE // 200, SCALE // 40, SCALE // 10, SCALE // 5):
        law = staswitch.law(5, threshold)
        for i, j in switching.neighbours(13, 5):
            pairs = switching.pair_law(switching.Switch("staswitch", 5, threshold), 13, i, j)
            for factor in (F(1), F(2), F(8), F(50), F(10**6)):
                assert switching.pairs_delta(pairs, factor) <= law.delta(factor)
