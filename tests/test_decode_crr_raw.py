"""Raw shares behind CRR's releases where some kernels can't be inverted: of whom, and how sure."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pytest
from scipy.special import ndtri

from tests.crr_studies import crr_task
from tests.crr_tasks import random_crr, sticky
from tests.faults import planted
from tinyldp.crr.beliefs import Beliefs
from tinyldp.estimate import crr, crr_raw
from tinyldp.estimate.crr import population
from tinyldp.estimate.crr_raw import unmixed
from tinyldp.simulate.chains import Chain
from tinyldp.simulate.crr import CrrFleet
from tinyldp.simulate.words import DrawnWords
from tinyldp_protocol.task import MIN_ERROR, Task

# After some of the releases the least likely value is left out, after others none is.
MIXED = crr_task(
    [14000, 11000, 7768],
    [12000, 3384, 1000, 4000, 10000, 2384, 3000, 3384, 10000],
    6028,
    MIN_ERROR,
)
# Six values of which four are rare: a small determinant, of kernels that can be inverted.
RARE = crr_task([31748, 420, 150, 150, 150, 150], [15874, 210, 75, 75, 75, 75] * 6, 6028)


def series(task: Task, n: int, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.random.SeedSequence(seed).spawn(2)
    chain, fleet = Chain(task, n, DrawnWords(n, first)), CrrFleet(task, n, DrawnWords(n, second))
    values = np.array([chain.next() for _ in range(steps)])
    return values.T, np.array([fleet.step(row)[0] for row in values]).T


def test_one_kernel_does_not_take_the_estimates_of_all() -> None:
    values, released = series(MIXED, 4000, 2, 1)
    found = population(MIXED, released)
    assert (found.counted[0] == 1).all()
    assert (found.counted[1] > 0.3).all()
    assert (found.counted[1] < 1).all()
    assert np.isfinite(found.raw).all()
    # Who is counted at the second step follows from the first release: of these it is unbiased.
    beliefs = Beliefs(MIXED)
    numbers = beliefs.follow(np.zeros(4000, np.int64), released[:, 0])
    _, known = unmixed(beliefs.kernel(numbers), beliefs.marginal(numbers))
    assert found.counted[1] == pytest.approx(known.mean(axis=0))
    truth = [(values[known[:, x], 1] == x).mean() for x in range(3)]
    # Three normal numbers beyond 5.5: once in ten million.
    off = np.abs(found.raw[1] - truth) / np.sqrt(found.variances[1])
    assert off.max() < 5.5


@pytest.mark.parametrize("seed", range(8))
def test_expectations_are_exact(seed: int) -> None:
    """h has the expectation 1 for its value and 0 for others, or there is no such h."""
    rng = np.random.default_rng(seed)
    task = random_crr(rng)
    beliefs = Beliefs(task)
    numbers = np.zeros(40, np.int64)
    for _ in range(3):
        law = beliefs.marginal(numbers)
        released = (law.cumsum(axis=1) < rng.random((40, 1))).sum(axis=1).clip(0, task.symbols - 1)
        numbers = beliefs.follow(numbers, released)
    numbers = np.unique(numbers)
    kernels, law = beliefs.kernel(numbers), beliefs.marginal(numbers)
    found, known = unmixed(kernels, law)
    for kernel, h, knows, p in zip(kernels, found, known, law, strict=True):
        wanted = np.eye(task.symbols)
        assert np.abs(kernel @ h - wanted)[:, knows].max(initial=0) < 1e-5
        # Of some directions of the values nothing can be seen at all.
        left, singular, _ = np.linalg.svd(kernel / np.sqrt(np.where(p > 0, p, 1)))
        blind = left[:, singular < 1e-7 * singular[0]]
        assert np.array_equal(knows, np.abs(blind).max(axis=1, initial=0) < 1e-6)


def test_a_small_determinant_is_no_reason() -> None:
    values, released = series(RARE, 5000, 1, 2)
    beliefs = Beliefs(RARE)
    first = np.zeros(1, np.int64)
    assert abs(np.linalg.det(beliefs.kernel(first)[0])) < 1e-8
    found = population(RARE, released, beliefs=beliefs)
    assert found.counted[0, 0] == 1
    truth = (values[:, 0] == 0).mean()
    assert abs(found.raw[0, 0] - truth) < 5.5 * np.sqrt(found.variances[0, 0])
    assert found.variances[0, 0] < 0.1


def covered(module: ModuleType, task: Task, step: int, kept: slice) -> float:
    """Share of intervals that hold the share among all devices, of 400 fleets of 60."""
    values, released = series(task, 24_000, step + 1, 3)
    beliefs = Beliefs(task)
    held = []
    for at in range(0, 24_000, 60):
        part = slice(at, at + 60)
        found = module.population(task, released[part], steps=[step], beliefs=beliefs)
        truth = np.array([(values[part, step] == x).mean() for x in range(task.symbols)])
        there = (np.isfinite(found.raw[0]) & (np.sqrt(found.variances[0]) < 0.5))[kept]
        held += ((found.low[0] <= truth) & (truth <= found.high[0]))[kept][there].tolist()
    assert len(held) > 100
    return float(np.mean(held))


def test_intervals_hold_the_share_of_all() -> None:
    """At least 95 % of 1,200, less 5.5 deviations of a binomial: 91.5 %; and not without room."""
    assert covered(crr, MIXED, 1, slice(3)) > 0.915
    narrow = planted(crr, " / n + (1 - share) / 2", " / n")
    assert covered(narrow, MIXED, 1, slice(3)) < 0.915


def test_a_seldom_large_number_that_did_not_come_up_is_not_forgotten() -> None:
    """400 intervals of a common value beside rare ones: at least 89 %, 5.5 deviations below 95."""
    task = crr_task(
        [31000, 1500, 268], [15800, 500, 84, 8000, 8000, 384, 8000, 384, 8000], 6028
    )  # fmt: skip
    assert covered(crr, task, 1, slice(1)) > 0.89
    blind = planted(crr, "np.maximum(unmixed[2], unmixed[3])", "np.maximum(unmixed[2], 0)")
    assert covered(blind, task, 5, slice(1)) < 0.89


# Of fleets of one size, each with an interval for every value.
FLEETS = 800
# Of their intervals of 95 %: 5.5 deviations of a binomial, as if each fleet had one alone.
LEAST = 0.95 - 5.5 * np.sqrt(0.95 * 0.05 / FLEETS)


@dataclass(frozen=True)
class Fleets:
    """The raw shares' errors at a step, half their intervals, and half of what the normal law asks
    for, given the values: (fleets, 3) each, in devices.
    """

    error: np.ndarray
    half: np.ndarray
    normal: np.ndarray

    def held(self, width: float = 1) -> float:
        return float((np.abs(self.error) <= width * self.half + 1e-9).mean())

    @property
    def wider(self) -> float:
        """How many times the normal law's the mean width is."""
        return float(self.half.mean() / self.normal.mean())


def fleets(module: ModuleType, epsilon: float, n: int, count: int = FLEETS) -> Fleets:
    """Whose kernels can all be inverted, so that everybody is counted."""
    task = sticky(3, epsilon, 0.45)
    values, released = series(task, count * n, 2, 8)
    beliefs = Beliefs(task)
    numbers = beliefs.follow(np.zeros(count * n, np.int64), released[:, 0])
    different, which = np.unique(numbers, return_inverse=True)
    kernel = beliefs.kernel(different)
    found, known = unmixed(kernel, beliefs.marginal(different))
    assert known.all()
    each = np.einsum("mxy,myz->mxz", kernel, found**2) - np.eye(3)
    spread = each[which, values[:, 1]].reshape(count, n, 3).sum(axis=1)
    error, half = [], []
    for at in range(0, count * n, n):
        part = slice(at, at + n)
        shares = module.population(task, released[part], steps=[1], beliefs=beliefs)
        truth = np.array([(values[part, 1] == x).sum() for x in range(3)])
        error.append(n * shares.raw[0] - truth)
        # Of both sides one at the least is not cut off at 0 or 1.
        sides = shares.raw[0] - shares.low[0], shares.high[0] - shares.raw[0]
        half.append(n * np.maximum(*sides))
    return Fleets(np.array(error), np.array(half), ndtri(0.975) * np.sqrt(spread))


@pytest.mark.parametrize(("epsilon", "n"), [(4, 20), (6, 100), (2, 100)])
def test_intervals_hold_where_few_lies_are_told(epsilon: float, n: int) -> None:
    """From one in ten fleets to some in each. False alarms: three of 5.5 deviations, 6e-8."""
    found = fleets(crr, epsilon, n)
    assert found.held() > LEAST
    assert found.held(0.7) < LEAST


def test_the_normal_law_alone_does_not_hold_there() -> None:
    narrow = planted(crr_raw, "_CONTINUITY = 0.5", "_CONTINUITY = 0.0")
    faulty = planted(crr, "half_width(spread, confidence)", "narrow(spread, confidence)")
    vars(faulty)["narrow"] = narrow.half_width
    assert fleets(faulty, 4, 20).held() < LEAST


@pytest.mark.parametrize(("epsilon", "n"), [(6, 10), (3, 100), (2, 100)])
def test_intervals_are_not_needlessly_wide(epsilon: float, n: int) -> None:
    """At most 1.3 times the normal law's where that holds: hardly a lie in any fleet, or many."""
    assert 0.99 < fleets(crr, epsilon, n, 100).wider < 1.3
    wide = planted(crr, "half_width(spread, confidence)", "(1.3 * half_width(spread, confidence))")
    assert fleets(wide, epsilon, n, 100).wider > 1.3


def test_where_hardly_a_lie_is_told_there_is_nothing_to_allow_for() -> None:
    variance = np.array([0.0, 0.04, 0.06, 1.0])
    assert (crr_raw.half_width(variance, 0.95) - ndtri(0.975) * np.sqrt(variance)).tolist() == (
        pytest.approx([0, 0, 0.5, 0.5])
    )


def test_who_widens_the_interval_is_left_out() -> None:
    """Two devices' variances are beyond what they are worth, and then nobody's is worth it."""
    variance = np.array([[0.3], [400.0], [np.inf]])
    count = np.array([60, 2, 1])
    kept = crr_raw._worth(variance, count, 1.0, 1.96)
    assert kept[:, 0].tolist() == [True, False, False]
    # A thousand times as many devices: then their noise averages out.
    kept = crr_raw._worth(variance, count, 10_000.0, 1.96)
    assert kept[:, 0].tolist() == [True, True, False]
    # Of few devices nothing is known either way: all that can be are counted.
    kept = crr_raw._worth(variance, np.array([1, 1, 1]), 1.0, 1.96)
    assert kept[:, 0].tolist() == [True, True, False]


def test_all_are_counted_where_all_kernels_are_plain() -> None:
    task = sticky(3, 1.5, 0.45)
    _, released = series(task, 50, 10, 4)
    assert (population(task, released).counted == 1).all()
