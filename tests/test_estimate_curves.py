"""Mean curves: the release law by brute force, no bias through it, the variance by simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from tests import collecting
from tests.oracle.brute import jittersort, switching
from tinyldp.errors import UserError
from tinyldp.estimate.curves import _undoing, mean_curve
from tinyldp.estimate.released import release_law
from tinyldp.simulate import streams
from tinyldp_protocol.task import JITTERSORT, RANSWITCH, SCALE, STASWITCH, Task

# Each statistical test of what is right fails once in a million.
FALSE_ALARM = 1e-6

RAN = (RANSWITCH, 4, 4, 0.12)
WIDE = (RANSWITCH, 6, 3, 0.06)
STA = (STASWITCH, 4, 4, 0.12)
JITTER = (JITTERSORT, 5, 3, 0.6)
each = pytest.mark.parametrize("settings", [RAN, WIDE, STA, JITTER])


def make_task(mechanism: int, window: int, k: int, chance: float, symbols: int = 16) -> Task:
    """chance: of each switch distance, or from one key offset to the next."""
    thresholds = [round(chance * SCALE)]
    if mechanism == JITTERSORT:
        half = chance ** np.arange(window // 2 + 1)
        thresholds = np.floor(half / (2 * half.sum() - 1) * SCALE).astype(int).tolist()
        thresholds[0] = SCALE - 2 * sum(thresholds[1:])
    return collecting.make_task(
        mechanism=mechanism, window=window, k=k, symbols=symbols, thresholds=thresholds
    )


def scaled(settings: Any, factor: float) -> Task:
    """With its chance multiplied."""
    mechanism, window, k, chance = settings
    return make_task(mechanism, window, k, factor * chance)


def matrix(task: Task, releases: int, ended: bool) -> np.ndarray:
    """(releases, steps): the release law, spread out; nothing lies outside."""
    law = release_law(task, releases, ended)
    full = np.zeros((releases, law.steps))
    for r, row in enumerate(law.rows):
        for x, chance in enumerate(row):
            value = r - law.late + x
            if 0 <= value < law.steps:
                full[r, value] = chance
            else:
                assert chance == 0
    return full


def brute_matrix(task: Task, steps: int) -> np.ndarray:
    values = list(range(steps))
    if task.mechanism == JITTERSORT:
        law = jittersort.distribution(task.thresholds, values)
    else:
        kind = "ranswitch" if task.mechanism == RANSWITCH else "staswitch"
        law = switching.distribution(kind, task.window, task.k, task.thresholds[0], values)
    full = np.zeros((steps, steps))
    for order, chance in law.items():
        full[np.arange(steps), order] += float(chance)
    return full


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ((RANSWITCH, 2, 2, 0.3), 7),
        ((RANSWITCH, 3, 3, 0.2), 7),
        ((RANSWITCH, 4, 2, 0.1), 8),
        ((STASWITCH, 2, 2, 0.3), 7),
        ((STASWITCH, 3, 3, 0.2), 7),
        ((STASWITCH, 4, 4, 0.1), 8),
        ((JITTERSORT, 3, 2, 0.5), 7),
    ],
)
def test_release_law_by_brute_force(settings: Any, steps: int) -> None:
    """Start, inside and flush; and the start alone of a segment that goes on."""
    task = make_task(*settings)
    truth = brute_matrix(task, steps)
    assert matrix(task, steps, True) == pytest.approx(truth, abs=1e-12)
    releases = steps - task.window + 1
    assert matrix(task, releases, False) == pytest.approx(truth[:releases], abs=1e-12)
    # A wrong law is noticed.
    changed = scaled(settings, 0.9)
    assert np.abs(matrix(changed, steps, True) - truth).max() > 1e-3


@each
def test_release_law_is_doubly_stochastic(settings: Any) -> None:
    """Each release is one value, and each value is released once."""
    full = matrix(make_task(*settings), 60, True)
    assert full.sum(axis=0) == pytest.approx(1, abs=1e-9)
    assert full.sum(axis=1) == pytest.approx(1, abs=1e-9)
    running = matrix(make_task(*settings), 60, False)
    assert running.sum(axis=1) == pytest.approx(1, abs=1e-9)
    window = settings[1]
    assert running[: 60 - 4 * window] == pytest.approx(
        np.pad(full, ((0, 0), (0, window - 1)))[: 60 - 4 * window], abs=1e-12
    )


@each
@pytest.mark.parametrize("every", [1, 3, 7])
def test_exactly_unbiased_through_the_law(settings: Any, every: int) -> None:
    """Any curve for every = 1, and any that is straight between the knots for more."""
    task = make_task(*settings)
    steps = 64
    law = release_law(task, steps, True)
    knots, undo = _undoing(law, np.ones(steps), True, every)
    full = matrix(task, steps, True)
    heights = np.random.default_rng(every).normal(size=len(knots))
    curve = np.interp(np.arange(steps), knots, heights)
    assert undo @ full @ curve == pytest.approx(heights, abs=1e-6)
    # Weights, as where devices are missing, change the estimator but not that.
    weights = np.random.default_rng(1).uniform(0.2, 1, steps)
    _, undo = _undoing(law, weights, True, every)
    assert undo @ full @ curve == pytest.approx(heights, abs=1e-6)
    # Undoing another law is biased.
    other = scaled(settings, 0.7)
    assert np.abs(undo @ matrix(other, steps, True) @ curve - heights).max() > 0.01


@each
def test_what_came_after_the_last_release_hardly_matters(settings: Any) -> None:
    task = make_task(*settings)
    law = release_law(task, 120, False)
    knots, undo = _undoing(law, np.ones(120), False, 4)
    assert 60 < knots[-1] < 119
    full = matrix(task, 120, False)
    curve = np.zeros(law.steps)
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(20):
        curve[120:] = rng.choice([-1, 1], law.steps - 120)
        worst = max(worst, np.abs(undo @ full @ curve).max())
    assert 0 < worst <= 0.01


def population(rng: np.random.Generator, n: int, steps: int) -> np.ndarray:
    """Series of devices that differ, with steps that depend on each other."""
    bump = 6 + 5 * np.sin(np.arange(steps) / 4)
    own = rng.integers(-3, 4, (n, 1)) + rng.integers(-1, 2, (n, steps))
    return np.clip(np.round(bump + own), 0, 15).astype(np.int64)


def truth(steps: int) -> np.ndarray:
    return population(np.random.default_rng(99), 200_000, steps).mean(axis=0)


def released_by(task: Task, series: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    n, steps = series.shape
    words = rng.integers(0, SCALE, (n, 3 * steps + 40 * task.window), dtype=np.uint32)
    return streams.release(task, series, words).astype(np.int64)


@each
@pytest.mark.parametrize("lossy", [False, True])
def test_mean_and_variance_by_simulation(settings: Any, lossy: bool) -> None:
    """Many fleets: estimates about the truth, with the variance that they state."""
    task = make_task(*settings)
    rng = np.random.default_rng(4)
    n, steps, rounds = 30, 40, 300
    curves = []
    for _ in range(rounds):
        released = released_by(task, population(rng, n, steps), rng)
        present = rng.random((n, steps)) > 0.2 if lossy else None
        curves.append(mean_curve(task, released, present, ended=True))
    means = np.array([curve.means for curve in curves])
    stated = np.array([curve.variances for curve in curves]).mean(axis=0)
    expected = truth(steps)
    # The truth is itself a mean of 200,000.
    z = (means.mean(axis=0) - expected) / np.sqrt(stated / rounds + 9 / 200_000)
    worst = norm.isf(FALSE_ALARM / 2 / steps)
    assert np.abs(z).max() < worst
    for factor in (0.7, 1.3):
        z = (factor * means.mean(axis=0) - expected) / np.sqrt(stated / rounds + 9 / 200_000)
        assert np.abs(z).max() > worst
    # Steps depend on each other through the devices, so their mean is tested by rounds.
    ratio = ((means - expected) ** 2 / stated).mean(axis=1)
    error = ratio.std() / np.sqrt(rounds)
    assert abs(ratio.mean() - 1) < norm.isf(FALSE_ALARM / 2) * error + 0.01
    for factor in (0.7, 1.3):
        assert abs(factor * ratio.mean() - 1) > norm.isf(FALSE_ALARM / 2) * error + 0.01
    covered = np.array([(c.low <= expected) & (expected <= c.high) for c in curves]).mean()
    assert 0.92 < covered < 0.975


def test_released_means_alone_are_biased() -> None:
    """What the deconvolution is for: a sharp change comes out smeared."""
    task = make_task(RANSWITCH, 10, 10, 0.06)
    rng = np.random.default_rng(5)
    steps = 200
    series = np.repeat(np.where(np.arange(steps) < 100, 2, 12)[None], 4000, axis=0)
    curve = mean_curve(task, released_by(task, series, rng), ended=True, every=3)
    near = np.abs(curve.steps - 100) < 15
    undone = np.abs(curve.means - np.interp(curve.steps, np.arange(steps), series[0]))[near]
    smeared = np.abs(curve.released - series[0])
    assert smeared.max() > 3
    assert np.sort(undone)[: len(undone) // 2].max() < 0.75


def test_segments_that_go_on_and_differ_in_length() -> None:
    task = make_task(*RAN)
    rng = np.random.default_rng(6)
    n, steps = 400, 60
    released = released_by(task, population(rng, n, steps), rng)[:, : steps - 3]
    present = np.arange(steps - 3) < rng.integers(40, steps - 3, (n, 1))
    curve = mean_curve(task, released, present, every=2)
    expected = np.interp(curve.steps, np.arange(steps), truth(steps))
    assert len(curve.steps) > 15
    z = (curve.means - expected) / np.sqrt(curve.variances)
    assert np.abs(z).max() < norm.isf(FALSE_ALARM / 2 / len(z)) + 1


def test_segments_of_one_device_are_not_independent() -> None:
    task = make_task(*RAN)
    rng = np.random.default_rng(7)
    released = released_by(task, population(rng, 40, 40), rng)
    once = mean_curve(task, released, ended=True)
    twice = np.repeat(released, 2, axis=0)
    same = mean_curve(task, twice, ended=True, devices=np.repeat(np.arange(40), 2))
    assert same.means == pytest.approx(once.means)
    assert same.variances == pytest.approx(once.variances)
    assert (same.devices, once.devices) == (40, 40)
    fooled = mean_curve(task, twice, ended=True)
    assert fooled.variances.mean() < 0.6 * once.variances.mean()


def test_levels_and_missing_readings() -> None:
    task = make_task(*RAN)
    rng = np.random.default_rng(8)
    n, steps = 500, 40
    series = np.minimum(population(rng, n, steps), 14)
    expected = series.mean(axis=0)
    gone = rng.random((n, steps)) < 0.2
    released = released_by(task, np.where(gone, 15, series), rng)
    levels = 10.0 * np.arange(16)
    curve = mean_curve(task, released, ended=True, levels=levels, excluded=15)
    z = (curve.means - 10 * expected) / np.sqrt(curve.variances)
    assert np.abs(z).max() < 5
    counted = mean_curve(task, released, ended=True, levels=levels)
    assert (np.abs(counted.means - 10 * expected) / np.sqrt(counted.variances)).max() > 5
    # Without missing readings nothing changes.
    released = released_by(task, series, rng)
    plain = mean_curve(task, released, ended=True)
    ratio = mean_curve(task, released, ended=True, excluded=15)
    assert ratio.means == pytest.approx(plain.means)
    assert ratio.variances == pytest.approx(plain.variances)


@each
def test_least_distance_that_does_not_amplify_noise(settings: Any) -> None:
    task = make_task(*settings)
    rng = np.random.default_rng(9)
    released = released_by(task, population(rng, 10, 200), rng)
    curve = mean_curve(task, released, ended=True, every=None)
    assert curve.noise <= 1
    assert 1 < curve.every < 40
    finer = mean_curve(task, released, ended=True, every=round(curve.every / 2.2))
    assert finer.noise > 1


def test_wide_jitter_is_refused_step_by_step_and_not_in_general() -> None:
    task = make_task(JITTERSORT, 93, 10, float(np.exp(-1 / 9)))
    rng = np.random.default_rng(10)
    released = released_by(task, population(rng, 20, 400), rng)
    with pytest.raises(UserError, match="cannot be undone"):
        mean_curve(task, released, ended=True)
    assert mean_curve(task, released, ended=True, every=None).noise <= 1


@pytest.mark.parametrize(
    ("released", "more", "sentence"),
    [
        (np.zeros((1, 40), int), {}, "two devices"),
        (np.zeros((3, 40), int), {"devices": [1, 1, 1]}, "two devices"),
        (np.zeros((3, 40), int), {"devices": [1, 2]}, "one device"),
        (np.zeros(40, int), {}, "shape"),
        (np.zeros((3, 0), int), {}, "shape"),
        (np.zeros((3, 40)), {}, "integers"),
        (np.full((3, 40), 16), {}, "outside 0..15"),
        (np.full((3, 40), -1), {}, "outside 0..15"),
        (np.zeros((3, 40), int), {"present": np.ones((3, 39), bool)}, "shape of the released"),
        (np.zeros((3, 40), int), {"every": 0}, "1 or more"),
        (np.zeros((3, 40), int), {"levels": [1, 2]}, "16 levels"),
        (np.zeros((3, 40), int), {"excluded": 0}, "too few values"),
        (np.zeros((3, 7), int), {"ended": True}, "takes 8 values"),
        (np.zeros((3, 3000), int), {"ended": True}, "at least 2 steps apart"),
    ],
)
def test_wrong_input(released: np.ndarray, more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        mean_curve(make_task(*RAN), released, **more)


def test_no_law_no_curve() -> None:
    task = make_task(STASWITCH, 12, 12, 0.02)
    with pytest.raises(UserError, match="No exact displacement law"):
        mean_curve(task, np.zeros((3, 400), int))
