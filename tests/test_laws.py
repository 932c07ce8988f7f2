"""The exact displacement laws, against enumeration and against the device's own code."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from tests import collecting
from tests.fit import FALSE_ALARM, fit
from tinyldp.laws import TAIL, Law, displacement_law, why_no_law
from tinyldp.replay import bytes_needed, displacements
from tinyldp_protocol.task import GRR, JITTERSORT, RANSWITCH, SCALE, STASWITCH, Task

STEPS = 200_000


def make_task(mechanism: int, k: int, q: float, window: int | None = None) -> Task:
    thresholds = [round(q * SCALE)]
    return collecting.make_task(
        mechanism=mechanism, window=window or k, k=k, symbols=16, thresholds=thresholds
    )


def make_jittersort(reach: int, a: float) -> Task:
    """Key offsets 0..2L with chances near a^|z - L|."""
    half = a ** np.arange(reach + 1)
    weights = np.floor(half / (2 * half.sum() - 1) * SCALE).astype(int).tolist()
    weights[0] = SCALE - 2 * sum(weights[1:])
    return collecting.make_task(
        mechanism=JITTERSORT, window=2 * reach + 1, k=2, symbols=16, thresholds=weights
    )


def law_of(task: Task) -> Law:
    law = displacement_law(task)
    assert law is not None
    return law


def draws(task: Task) -> list[Fraction]:
    q = Fraction(task.thresholds[0], SCALE)
    return [1 - (task.window - 1) * q] + [q] * (task.window - 1)


def enumerate_ranswitch(task: Task, steps: int) -> dict[int, Fraction]:
    """Displacement of the value that came in last into a full buffer, over every draw."""
    chances = draws(task)
    window = task.window
    tagged = window - 1
    law: Counter[int] = Counter()
    denominator = SCALE**steps
    for sequence in itertools.product(range(window), repeat=steps):
        stream = list(range(steps + window))
        for now, ahead in enumerate(sequence):
            stream[now], stream[now + ahead] = stream[now + ahead], stream[now]
        at = stream.index(tagged)
        if at < steps:
            weight = math.prod(int(chances[ahead] * SCALE) for ahead in sequence)
            law[at - tagged] += weight
    return {offset: Fraction(weight, denominator) for offset, weight in law.items()}


def iterate_staswitch(task: Task, steps: int) -> dict[int, float]:
    """Displacement after many steps; the state is where each slot's value came from."""
    chances = [float(chance) for chance in draws(task)]
    k = task.k
    states: dict[tuple[int, ...], float] = {tuple(range(k)): 1.0}
    law: Counter[int] = Counter()
    for _ in range(steps):
        following: Counter[tuple[int, ...]] = Counter()
        law = Counter()
        for origins, weight in states.items():
            for ahead, chance in enumerate(chances):
                slots = list(origins)
                if ahead - slots[0] <= k - 1:
                    slots[0], slots[ahead] = slots[ahead], slots[0]
                law[-slots[0]] += weight * chance  # type: ignore[assignment]
                following[tuple([o - 1 for o in slots[1:]] + [k - 1])] += weight * chance  # type: ignore[assignment]
        states = dict(following)
    return dict(law)


@pytest.mark.parametrize(("window", "q", "steps"), [(2, 0.3, 12), (3, 0.2, 9), (4, 0.25, 7)])
def test_ranswitch_law_equals_enumeration(window: int, q: float, steps: int) -> None:
    task = make_task(RANSWITCH, 2, q, window)
    truth = enumerate_ranswitch(task, steps)
    law = law_of(task)
    assert min(truth) == law.offsets[0] == 1 - window
    assert len(truth) == steps
    for offset, probability in truth.items():
        found = law.probabilities[offset - law.offsets[0]]
        assert found == pytest.approx(float(probability), abs=1e-14)


@pytest.mark.parametrize(
    ("window", "k", "q"), [(10, 10, 0.06014), (2, 2, 0.5), (64, 64, 1 / 64), (300, 5, 0.003)]
)
def test_ranswitch_mean_equals_the_closed_form(window: int, k: int, q: float) -> None:
    task = make_task(RANSWITCH, k, q, window)
    q = task.thresholds[0] / SCALE
    law = law_of(task)
    formula = 2 * ((window - 1) - (1 - q) * (1 - (1 - q) ** (window - 1)) / q)
    assert law.mean_absolute == pytest.approx(formula, rel=1e-9)
    assert law.probabilities.sum() + law.tail == pytest.approx(1, abs=1e-13)
    assert 0 <= law.tail < TAIL
    # Nothing is lost or repeated, so on average nothing moves.
    assert float(law.offsets @ law.probabilities) == pytest.approx(0, abs=1e-6)


def test_ranswitch_published_value() -> None:
    assert law_of(make_task(RANSWITCH, 10, 0.06014)).mean_absolute == pytest.approx(4.630, abs=5e-4)


@pytest.mark.parametrize(("k", "q"), [(2, 0.3), (3, 0.2), (4, 0.12), (5, 0.2)])
def test_staswitch_law_equals_iteration(k: int, q: float) -> None:
    task = make_task(STASWITCH, k, q)
    truth = iterate_staswitch(task, 200)
    law = law_of(task)
    assert list(law.offsets) == list(range(1 - k, k))
    for offset, probability in zip(law.offsets, law.probabilities, strict=True):
        assert probability == pytest.approx(truth[int(offset)], abs=1e-12)


def test_staswitch_law_near_the_approximation() -> None:
    law = law_of(make_task(STASWITCH, 4, 0.12))
    near = [0.0879, 0.0898, 0.0897, 0.4688, 0.0851, 0.0880, 0.0907]
    assert law.probabilities == pytest.approx(near, rel=0.02)
    assert law.probabilities.sum() == pytest.approx(1, abs=1e-13)


def test_staswitch_beyond_the_solved_chain() -> None:
    assert displacement_law(make_task(STASWITCH, 9, 0.05)) is not None
    task = make_task(STASWITCH, 10, 0.05)
    assert displacement_law(task) is None
    assert "k is 10" in why_no_law(task)


def enumerate_jittersort(task: Task) -> np.ndarray:
    """P(-2L..2L): over every key of the value and of those that can share its place."""
    reach = task.window // 2
    half = np.array(task.thresholds) / SCALE
    chances = np.concatenate([half[:0:-1], half])
    others = [j for j in range(-2 * reach, 2 * reach + 1) if j]
    law = np.zeros(4 * reach + 1)
    for own, chance in enumerate(chances):
        offsets = np.indices((task.window,) * len(others)).reshape(len(others), -1)
        weights = chance * chances[offsets].prod(axis=0)
        keys = offsets + np.array(others)[:, None]
        ahead = (keys < own).sum(axis=0)
        equal = (keys == own).sum(axis=0)
        for ties in range(equal.max() + 1):
            here = equal == ties
            for place in range(ties + 1):
                # 2L earlier ones would be ahead of a value that does not move.
                np.add.at(law, ahead[here] + place, weights[here] / (ties + 1))
    return law


@pytest.mark.parametrize(("reach", "a"), [(1, 0.5), (1, 0.01), (1, 1.0), (2, 0.7)])
def test_jittersort_law_equals_enumeration(reach: int, a: float) -> None:
    task = make_jittersort(reach, a)
    law = law_of(task)
    assert list(law.offsets) == list(range(-2 * reach, 2 * reach + 1))
    assert law.probabilities == pytest.approx(enumerate_jittersort(task), abs=1e-11)


@pytest.mark.parametrize(("reach", "a"), [(1, 0.5), (30, 0.7788), (58, 0.78), (511, 0.995)])
def test_jittersort_law_is_whole_and_even(reach: int, a: float) -> None:
    law = law_of(make_jittersort(reach, a))
    assert law.probabilities.sum() == pytest.approx(1, abs=1e-12)
    assert law.probabilities == pytest.approx(law.probabilities[::-1], abs=1e-15)
    assert law.probabilities.min() >= 0


@pytest.mark.parametrize(("reach", "k", "cost"), [(30, 5, 4.0), (46, 10, 8.7)])
def test_jittersort_published_costs(reach: int, k: int, cost: float) -> None:
    """At epsilon = 2, where a = e^(-epsilon/(2(k-1)))."""
    law = law_of(make_jittersort(reach, math.exp(-1 / (k - 1))))
    assert law.mean_absolute == pytest.approx(cost, abs=0.1)


def test_sorting_by_key_follows_the_law() -> None:
    rng = np.random.default_rng(21)
    task = make_jittersort(12, 0.8)
    bounds = np.cumsum(np.concatenate([task.thresholds[:0:-1], task.thresholds]))
    steps = 2_000_000
    offsets = np.searchsorted(bounds, rng.integers(0, SCALE, steps), side="right")
    order = np.argsort(np.arange(steps) + offsets + rng.random(steps))
    moved = (np.arange(steps) - order)[np.argsort(order)]
    # Where a value goes depends on no key of those 2L or more away.
    spacing = 2 * task.window
    seen = Counter(moved[spacing:-spacing:spacing].tolist())
    assert fit(seen, law_of(task), 24) > FALSE_ALARM
    for factor in (0.7, 1.3):
        assert fit(seen, law_of(make_jittersort(12, 0.8**factor)), 24) < FALSE_ALARM


def test_oracles_move_nothing() -> None:
    numbers = {"mechanism": GRR, "symbols": 4, "thresholds": [SCALE // 16], "tick": 10, "batch": 2}
    task = Task({**numbers, "resend": 20, "beacon": 10, "outbox": 255})
    assert displacement_law(task) is None
    assert "nothing is moved" in why_no_law(task)


def test_laws_cannot_be_changed_by_a_caller() -> None:
    with pytest.raises(ValueError, match="read-only"):
        law_of(make_task(RANSWITCH, 6, 0.1)).probabilities[0] = 0


@pytest.mark.parametrize(
    ("mechanism", "k", "q", "window"),
    [
        (RANSWITCH, 2, 0.3, 2),
        (RANSWITCH, 10, 0.06014, 10),
        (RANSWITCH, 5, 0.03, 24),
        (STASWITCH, 2, 0.3, 2),
        (STASWITCH, 4, 0.12, 4),
        (STASWITCH, 8, 0.05, 8),
    ],
)
def test_device_follows_the_law(mechanism: int, k: int, q: float, window: int) -> None:
    task = make_task(mechanism, k, q, window)
    words = np.random.default_rng(20).bytes(bytes_needed(task, STEPS))
    released = displacements(task, words, STEPS)
    assert len(released) == STEPS
    if mechanism == STASWITCH:
        assert released.max() == k - 1
    # By origin: where a value goes depends on the draws of the window before it came
    # and of the steps until it left, so such values share none. (StaSwitch's cap looks
    # further back; over six windows that fades.)
    measured = np.empty(STEPS, dtype=np.int64)
    measured[np.arange(STEPS) - released] = released
    latest = 3 * window if mechanism == RANSWITCH else k - 1
    spacing = window + latest if mechanism == RANSWITCH else 6 * k
    seen = Counter(measured[2 * spacing : -2 * spacing : spacing].tolist())
    assert fit(seen, law_of(task), latest) > FALSE_ALARM
    for factor in (0.7, 1.3):
        wrong = law_of(make_task(mechanism, k, factor * q, window))
        assert fit(seen, wrong, latest) < FALSE_ALARM
