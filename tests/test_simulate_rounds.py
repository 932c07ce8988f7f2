"""Simulated rounds: accuracy by the theory, the two ways to get answers, what devices spend.

Two-sample tests fail once in a million when the laws are the same, and tell apart answers
that lose 0.7 or 1.3 times as much.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import ks_2samp

from tests.rounds_studies import (
    ADAPTIVE,
    NAMES,
    rounds_task,
    with_losses,
)
from tests.simulating import FALSE_ALARM, two_samples
from tinyldp.coordinate import Circle, schedules
from tinyldp.simulate import RoundSimulation
from tinyldp.simulate.rounds import simulate_rounds
from tinyldp_protocol.task import Task

STREAMS = ("lns", "sin", "log")
DEVICES = 200_000
STEPS = 800
SEEDS = 10
# LSP has 40 samples in a run only: its mean over ten runs has a deviation of 6 %.
LSP_SEEDS = 120


@cache
def runs(method: str, source: str, domain: int, seeds: int = SEEDS) -> list[RoundSimulation]:
    """At the settings of the literature, w = 20 and epsilon = 1."""
    task = rounds_task(method, domain)
    return [
        simulate_rounds(
            task, DEVICES, STEPS, seed, source=source, stream_seed=seed, aggregated=True
        )
        for seed in range(seeds)
    ]


def small(task: Task, seed: int, aggregated: bool, devices: int = 200) -> RoundSimulation:
    """A short run in which stream and noise both follow from the seed."""
    return simulate_rounds(
        task, devices, 16, seed, source="sin", stream_seed=seed, aggregated=aggregated
    )


# Accuracy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", [2, 5])
@pytest.mark.parametrize("source", STREAMS)
def test_errors_rank_as_the_theory_says(source: str, domain: int) -> None:
    """Devices divided are better than budgets divided, in the mean and for every seed.

    Only this order is promised. On these slow streams LSP is best of all, LBD is no better
    than LBU (what is left after a few publications is too little), and LPD about as good as
    LPU.
    """
    errors = {name: np.array([run.mse for run in runs(name, source, domain)]) for name in NAMES}
    for better, worse in [
        ("lpu", "lbu"),
        *((a, b) for a in ("lpa", "lpd") for b in ("lba", "lbd")),
    ]:
        assert (errors[better] < errors[worse]).all()
        assert 4 * errors[better].mean() < errors[worse].mean()
    # Absorption is what the literature finds better than distribution.
    assert errors["lba"].mean() < errors["lbd"].mean()
    assert errors["lpa"].mean() < errors["lpd"].mean()


@pytest.mark.parametrize("domain", [2, 5])
@pytest.mark.parametrize("source", STREAMS)
@pytest.mark.parametrize("method", ["lbu", "lsp", "lpu"])
def test_error_is_the_derived_one_within_a_tenth(method: str, source: str, domain: int) -> None:
    """The deviation of these means is below 2 %."""
    found = runs(method, source, domain, LSP_SEEDS if method == "lsp" else SEEDS)
    measured = np.mean([run.mse for run in found])
    derived = np.mean([run.expected_mse or np.nan for run in found])
    assert measured == pytest.approx(derived, rel=0.1)
    if method == "lsp":
        # Without the drift between publications it would be another error.
        sampled = np.arange(STEPS) // 20 * 20
        drift = np.mean([np.square(run.truth - run.truth[sampled]).mean() for run in found])
        assert derived - drift != pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize("factor", [0.7, 1.3])
@pytest.mark.parametrize("method", ["lbu", "lpu"])
def test_another_noise_is_not_within_a_tenth(method: str, factor: float) -> None:
    task = rounds_task(method, 2)
    other = simulate_rounds(with_losses(task, factor), DEVICES, STEPS, 1, aggregated=True)
    derived = simulate_rounds(task, DEVICES, STEPS, 1, aggregated=True)
    assert derived.mse == pytest.approx(derived.expected_mse, rel=0.1)
    assert other.mse != pytest.approx(derived.expected_mse, rel=0.1)


def test_no_error_is_derived_where_there_is_none() -> None:
    for method in ADAPTIVE:
        assert small(rounds_task(method), 1, True).expected_mse is None
    # Two devices, twenty groups.
    assert small(rounds_task("lpu"), 1, True, devices=2).expected_mse is None


# Communication and budgets ----------------------------------------------------------------------


@pytest.mark.parametrize("aggregated", [True, False])
@pytest.mark.parametrize("method", NAMES)
def test_communication_is_the_formulas(method: str, aggregated: bool) -> None:
    """CFPU of mechanisms over T = 800 steps, a multiple of w, counted in answers."""
    run = simulate_rounds(rounds_task(method), 1234, 800, 1, aggregated=aggregated)
    asked = [
        (made.dissimilarity_users, made.publication_users, made.published) for made in run.decisions
    ]
    formula = {
        "lbu": 1.0,
        "lsp": 1 / 20,
        "lpu": 1 / 20,
        "lbd": 1 + run.publications / 800,
        "lba": 1 + run.publications / 800,
        "lpd": sum(first + second for first, second, _ in asked) / (1234 * 800),
        "lpa": sum(first + second for first, second, _ in asked) / (1234 * 800),
    }[method]
    assert run.cfpu == pytest.approx(formula, rel=1e-12)
    assert run.expected_cfpu == pytest.approx(formula, rel=1e-12)
    assert run.answers == sum(m.dissimilarity_n + m.publication_n for m in run.decisions)
    assert run.publications == sum(published for *_, published in asked) > 0


@pytest.mark.parametrize("aggregated", [True, False])
@pytest.mark.parametrize("method", NAMES)
def test_no_window_of_any_device_exceeds_epsilon(method: str, aggregated: bool) -> None:
    """All but LBA and LBD reach it on any stream (for these see the next test)."""
    task = rounds_task(method, 3, w=6)
    run = simulate_rounds(task, 600, 400, 1, source="log", aggregated=aggregated)
    most = 12 * (task.epsilon // 12)  # type: ignore[operator]
    assert 0 < run.max_window_spend <= most
    assert run.refused == 0
    if method not in ("lba", "lbd"):
        assert run.max_window_spend == most


@pytest.mark.parametrize("aggregated", [True, False])
def test_jumps_after_a_rest_take_all_that_a_window_has(tmp_path: Path, aggregated: bool) -> None:
    """LBA reaches it; LBD halves what is left, and so never comes to its end."""
    csv = tmp_path / "jumps.csv"
    csv.write_text("".join(f"{int(t % 50 > 24)}\n" for t in range(300)))
    spent = {}
    for method in ("lba", "lbd"):
        task = rounds_task(method, 2, 2.0, w=6)
        run = simulate_rounds(task, 20_000, 300, 1, source=str(csv), aggregated=aggregated)
        assert run.refused == 0
        spent[method] = run.max_window_spend / (12 * (task.epsilon // 12))  # type: ignore[operator]
    assert spent["lba"] == 1
    assert 0.7 < spent["lbd"] <= 1


def eagerly(self: schedules.Sampling, step: int, users: int) -> schedules.Wanted | None:
    """A sample every w-1 steps."""
    return schedules.Wanted(0, None) if (step - 1) % (self._w - 1) == 0 else None


def test_devices_refuse_what_a_wrong_host_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no refusals above means something."""
    monkeypatch.setattr(schedules.Sampling, "wanted", eagerly)
    task = rounds_task("lsp", 3, w=6)
    run = simulate_rounds(task, 600, 60, 1, aggregated=False)
    assert run.refused == 600 * 6
    assert run.max_window_spend <= (task.epsilon or 0)
    monkeypatch.setattr(Circle, "take", lambda self, wanted: [(0, 1 << 22)])
    groups = simulate_rounds(rounds_task("lpu", 3, w=6), 600, 60, 1, aggregated=False)
    assert groups.refused > 0
    assert groups.max_window_spend <= (task.epsilon or 0)


# Two ways ---------------------------------------------------------------------------------------

SAMPLES = 300
Statistic = Callable[[RoundSimulation], float]
CONTINUOUS: tuple[Statistic, ...] = (
    lambda run: run.mse,
    lambda run: float(run.estimates[-1, 0]),
    lambda run: float(run.estimates[12, 1] - run.estimates[11, 1]),
)


def differences(one: list[RoundSimulation], other: list[RoundSimulation]) -> list[float]:
    """p-values: errors, releases, and in which steps they are new."""
    values = []
    for of in CONTINUOUS:
        result: Any = ks_2samp([of(run) for run in one], [of(run) for run in other])
        values.append(float(result.pvalue))
    marks = [
        [tuple(m.outcome for m in run.decisions[-3:]) for run in sample] for sample in (one, other)
    ]
    return [*values, two_samples(*marks)]


@pytest.mark.parametrize(
    ("method", "oracle"),
    [
        *((name, "grr") for name in NAMES),
        ("lba", "oue"),
        ("lpd", "oue"),
        ("lba", "olh"),
        ("lpa", "olh"),
    ],
)
def test_counts_drawn_directly_have_the_law_of_single_devices(method: str, oracle: str) -> None:
    """OLH with two values: for more, its hash is taken to be ideal."""
    # Where it is all spent at once, the noise hardly depends on a larger one.
    epsilon = 4.0 if method in ("lbu", "lbd", "lba") else 1.5
    task = rounds_task(method, 2 if oracle == "olh" else 3, epsilon, 4, oracle)
    directly = [small(task, seed, True) for seed in range(SAMPLES)]
    singly = [small(task, seed, False) for seed in range(SAMPLES, 2 * SAMPLES)]
    assert min(differences(directly, singly)) > FALSE_ALARM
    for factor in (0.7, 1.3):
        wrong = with_losses(task, factor)
        other = [small(wrong, seed, True) for seed in range(SAMPLES)]
        assert min(differences(other, singly)) < FALSE_ALARM
