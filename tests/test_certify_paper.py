"""The paper's claim for RanSwitch, and the events in which it fails."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.oracle.brute import switching
from tinyldp.certify import ranswitch
from tinyldp.certify.paper import Claim, Counterexample, ranswitch_claim
from tinyldp_protocol.task import SCALE

F = Fraction


def failing(k: int, threshold: int) -> tuple[Claim, Counterexample]:
    claim = ranswitch_claim(k, k, threshold)
    assert claim is not None
    assert not claim.holds
    assert claim.counterexample is not None
    return claim, claim.counterexample


def test_three_slots() -> None:
    """k = 3, q = 1/10: claimed (3.887, .1); an event has 19/100 against 0."""
    claim, example = failing(3, round(SCALE / 10))
    assert float(claim.epsilon) == pytest.approx(3.887, abs=5e-4)
    assert float(claim.delta) == pytest.approx(0.1, abs=1e-6)
    assert example.series == "1, 2, 3, 4, 5"
    assert example.neighbour == "the same with 3 and 5 exchanged"
    assert example.event == "3 is among the first 2 released"
    assert float(example.probability) == pytest.approx(0.19, abs=1e-6)
    assert example.neighbour_probability == 0


def test_ten_slots() -> None:
    claim, _ = failing(10, round(0.06014 * SCALE))
    assert float(claim.epsilon) == pytest.approx(2, abs=5e-3)


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("sixteenths", [1, 2, 3, 4])
def test_events_have_the_probabilities_stated(k: int, sixteenths: int) -> None:
    """By enumeration of the whole stream; where it is said to hold, no set of outputs fails."""
    threshold = sixteenths * SCALE // 16
    claim = ranswitch_claim(k, k, threshold)
    assert claim is not None
    u, v = k, 2 * k - 1
    stream = list(range(1, v + 1))
    other = [v if x == u else u if x == v else x for x in stream]
    law = switching.distribution("ranswitch", k, k, threshold, stream)
    other_law = switching.distribution("ranswitch", k, k, threshold, other)
    if claim.holds:
        assert switching.delta(law, other_law, claim.factor) <= claim.delta
        return
    example = claim.counterexample
    assert example is not None

    def happens(released: tuple) -> bool:
        if "before" in example.event:
            return released.index(u) < released.index(v)
        return released.index(u) < k - 1

    here = sum((p for released, p in law.items() if happens(released)), F(0))
    there = sum((p for released, p in other_law.items() if happens(released)), F(0))
    assert (here, there) == (example.probability, example.neighbour_probability)
    assert here - claim.factor * there > claim.delta


def test_what_is_stated_as_exact_is() -> None:
    for k, threshold in ((2, SCALE // 4), (3, SCALE // 10), (7, SCALE // 9)):
        claim, example = failing(k, threshold)
        q = F(threshold, SCALE)
        values = (example.probability, example.neighbour_probability)
        for text, value in zip(example.exact, values, strict=True):
            formula, _, given = text.partition(" with ")
            assert given.startswith(f"q = {threshold}/{SCALE}") or (text, value) == ("0", 0)
            formula = formula.replace("^", "**").replace("q (", "q * (")
            assert eval(formula, {"q": q}) == value
        assert claim.to_json()["counterexample"]["event"] == example.event


def test_it_fails_for_every_k_above_2() -> None:
    for k in (3, 4, 5, 12, 100):
        for divisor in (k, 2 * k, 100 * k):
            claim, example = failing(k, SCALE // divisor)
            gap = example.probability - claim.factor * example.neighbour_probability
            assert claim.delta < gap <= ranswitch.delta_at(k, k, SCALE // divisor, claim.factor)


def test_where_any_epsilon_is_said_to_do() -> None:
    """q > p (1-q)^(k-1): claimed without a bound, and false."""
    claim, example = failing(4, SCALE // 5)
    assert claim.factor == 1
    assert claim.epsilon == 0
    assert example.event == "4 is among the first 3 released"


def test_two_slots_with_little_noise() -> None:
    """k = 2 is the only case in which the claim can hold."""
    claim = ranswitch_claim(2, 2, SCALE // 100)
    assert claim is not None
    assert claim.holds
    assert claim.counterexample is None
    assert not failing(2, SCALE // 4)[0].holds


def test_a_wide_ranswitch_is_not_in_the_paper() -> None:
    assert ranswitch_claim(5, 4, 1000) is None
