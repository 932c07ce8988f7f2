"""Simulated epochs: changes are found, at the accuracy that is promised, and nothing else is.

Statistical tests fail once in a million when the law is right, and tell apart devices that
lose 0.7 or 1.3 times as much.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from tests.epochs_tasks import epoch_task, heavy_task, thresh_task, tuned_losses
from tests.simulating import FALSE_ALARM
from tinyldp.certify import certify
from tinyldp.certify.bounds import float_up
from tinyldp.cli import main
from tinyldp.coordinate import HELD, PUBLISHED
from tinyldp.epoch_study import EpochStream
from tinyldp.errors import UserError
from tinyldp.estimate.mean import mean
from tinyldp.planning import choose
from tinyldp.simulate import EpochSimulation, simulate, text_simulation, write_picture
from tinyldp.simulate.epoch_sources import Heavy, Means, default_stream
from tinyldp.simulate.epochs import simulate_epochs
from tinyldp.study import load_study
from tinyldp_protocol.task import Task

SEEDS = 100
# Half-way through 16 epochs.
CHANGE = EpochStream("means", (1, 9), means=(0.2, 0.7))
CALM = EpochStream("means", (1,), means=(0.2,))


def paper_task(n: int, epsilon: float) -> Task:
    """a, b and the caps as public code has them, for one subgroup, T = 16, l = 8192, delta = .1."""
    log = math.log(12 * 16 / 0.1)
    a = 4 * math.sqrt(2 * n * log) / (n - 3 / math.sqrt(2) * math.sqrt(n * log))
    q = math.sqrt(log / (2 * n))
    r = 4 * math.sqrt(math.log(12 * n * 16 / 0.1) / (2 * 8192))
    b = 2 * q / (r - q)
    return thresh_task(n, epsilon, int(epsilon / 4 / a), int(epsilon / 4 / b), losses=(a, b))


SETTINGS = {
    "tuned, n = 1000": (thresh_task(1000, 4, 2, 2), 1000, 0.03),
    "tuned, n = 2000": (thresh_task(2000, 2, 4, 2), 2000, 0.045),
    "tuned, n = 10000": (thresh_task(10_000, 1, 4, 2), 10_000, 0.04),
    "paper, n = 20000": (paper_task(20_000, 2), 20_000, 0.03),
}


@cache
def runs(setting: str, stream: EpochStream, seeds: int = SEEDS) -> list[EpochSimulation]:
    task, n, _ = SETTINGS[setting]
    return [
        simulate_epochs(task, n, seed, stream=stream, stream_seed=seed) for seed in range(seeds)
    ]


# Accuracy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_change_is_found_at_the_accuracy_promised(setting: str) -> None:
    found = runs(setting, CHANGE)
    assert np.mean([run.mean_error for run in found]) <= SETTINGS[setting][2]
    # The forced one, and one within four epochs of the change.
    right = [len(run.updates) == 2 and 9 <= run.updates[1] <= 12 for run in found]
    assert {run.updates[0] for run in found} == {1}
    assert np.mean(right) >= 0.95
    assert np.mean([any(2 <= t <= 8 for t in run.updates) for run in found]) <= 0.02


@pytest.mark.parametrize("setting", list(SETTINGS)[:2])
def test_without_a_change_there_is_no_update(setting: str) -> None:
    """Nor is one voted for that devices had no estimate for."""
    found = runs(setting, CALM)
    quiet = [[d.outcome for d in run.decisions] == [PUBLISHED] + 15 * [HELD] for run in found]
    assert np.mean(quiet) >= 0.98
    # Nobody's votes are used: data that stay the same cost nothing but the first estimate.
    assert all((run.votes_left, run.estimates_left) == (run.task.votes, 1) for run in found)


def test_a_change_below_the_level_is_no_change() -> None:
    """Levels, not votes, decide how small a change may be: 0.03 is far below the least one."""
    task, n, _ = SETTINGS["tuned, n = 1000"]
    small = EpochStream("means", (1, 9), means=(0.2, 0.23))
    for seed in range(10):
        run = simulate_epochs(task, n, seed, stream=small, stream_seed=seed)
        assert run.votes_left == 2


@pytest.mark.parametrize(("factor", "held"), [(1.0, True), (0.7, False), (1.3, False)])
def test_published_means_are_unbiased_and_of_their_variance(factor: float, held: bool) -> None:
    """Of the first estimates: the mean of their errors, with the Task's own threshold."""
    task, n, _ = SETTINGS["tuned, n = 10000"]
    a, b = tuned_losses(1, 4, 2)
    other = thresh_task(10_000, 1, 4, 2, losses=(a, factor * b))
    calm = EpochStream("means", (1,), means=(0.9,))
    errors, variances = [], []
    for seed in range(40):
        run = simulate_epochs(other, n, seed, stream=calm, stream_seed=seed, epochs=1)
        ones = mean_to_ones(other, float(run.published[0, 0]), n)
        found = mean(task.thresholds[1], ones, n)
        errors.append(found.mean - run.truth[0, 0])
        variances.append(found.variance)
    z = np.mean(errors) / math.sqrt(np.mean(variances) / len(errors))
    assert (abs(z) < norm.isf(FALSE_ALARM / 2)) == held
    if held:
        # 40 errors: their mean square is within a factor of 3 but for once in a million.
        assert 1 / 3 < np.mean(np.square(errors)) / np.mean(variances) < 3


def mean_to_ones(task: Task, published: float, n: int) -> int:
    q = task.thresholds[1] / (1 << 24)
    return round((published * (1 - 2 * q) + q) * n)


@pytest.mark.parametrize(("factor", "held"), [(1.0, True), (0.7, False), (1.3, False)])
def test_votes_have_their_law(factor: float, held: bool) -> None:
    """Those of the epoch of the change, in which all vote for it, and of all others."""
    task, n, _ = SETTINGS["tuned, n = 2000"]
    a, b = tuned_losses(2, 4, 2)
    other = thresh_task(n, 2, 4, 2, losses=(factor * a, b))
    truth = task.thresholds[0] / (1 << 24)
    yes = no = 0
    for seed in range(20):
        votes = [
            d.ones
            for d in simulate_epochs(other, n, seed, stream=CHANGE, stream_seed=seed).decisions
        ]
        yes += votes[8]
        no += sum(votes[1:8])
    tails = [binom.cdf(yes, 20 * n, 1 - truth), binom.cdf(no, 140 * n, truth)]
    assert all(FALSE_ALARM < tail < 1 - FALSE_ALARM for tail in tails) == held


def test_intervals_hold_with_what_moved_unseen() -> None:
    """Also where a few move far, and too few vote for an update."""
    part = EpochStream("means", (1, 5), means=(0.2, 1.0), groups=(0.1,))
    inside = unseen = epochs = 0
    for seed in range(SEEDS):
        run = simulate_epochs(
            SETTINGS["tuned, n = 1000"][0], 1000, seed, stream=part, stream_seed=seed, epochs=8
        )
        for decision, truth in zip(run.decisions, run.truth[:, 0], strict=True):
            assert decision.low is not None
            assert decision.high is not None
            inside += decision.low <= truth <= decision.high
            unseen += not decision.published
            epochs += 1
    assert unseen > epochs / 2
    assert inside / epochs >= 0.917


def test_limits_of_an_estimate_cover() -> None:
    """Over 400 first and second estimates."""
    covered = total = 0
    for setting in SETTINGS:
        for run in runs(setting, CHANGE):
            for t in run.updates:
                decision = run.decisions[t - 1]
                assert decision.low is not None
                assert decision.high is not None
                covered += decision.low <= run.truth[t - 1, 0] <= decision.high
                total += 1
    assert covered / total >= 0.917


# Subgroups and schedules ------------------------------------------------------------------------


def test_groups_change_one_after_the_other() -> None:
    task = epoch_task(symbols=5, rounds=100, levels=[20, 40, 60, 80, 100])
    stream = EpochStream("means", (1, 4, 7), means=(0.1, 0.5, 0.9), groups=(0.25, 0.5))
    means = Means(task, 100, stream)
    for t, expected in [
        (1, [0.1] * 100),
        (3, [0.1] * 100),
        (4, [0.5] * 25 + [0.1] * 75),
        (7, [0.5] * 25 + [0.9] * 50 + [0.1] * 25),
        (16, [0.5] * 25 + [0.9] * 50 + [0.1] * 25),
    ]:
        assert means.chances(t).tolist() == expected
    sums, truth = means.draw(7, np.random.default_rng(1))
    assert truth[0] == pytest.approx(0.6, abs=0.02)
    assert sums[:25].mean() == pytest.approx(200, abs=10)


def test_a_subgroup_that_changes_is_found() -> None:
    """A third of the devices, which alone use up votes."""
    task = thresh_task(3000, 4, 2, 2)
    stream = EpochStream("means", (1, 9), means=(0.2, 0.8), groups=(1 / 3,))
    run = simulate_epochs(task, 3000, 1, stream=stream)
    assert run.updates == (1, 9)
    assert run.votes_left == pytest.approx(2 - 1 / 3, abs=1e-3)
    assert run.truth[15, 0] == pytest.approx(0.4, abs=0.01)


def test_progress_goes_on_while_a_dictionary_is_scanned() -> None:
    task = heavy_task(1000, 4, 2, 2)
    told: list[tuple[int, int]] = []
    run = simulate_epochs(task, 200, 1, lambda *now: told.append(now), epochs=2)
    assert run.updates[0] == 1
    each = 200 * task.rounds
    scan = [*range(2048, 100_000, 2048), 100_000, 100_000]
    assert told[:50] == [(each * done // 100_000, 2 * each) for done in scan]
    assert told == sorted(told)
    assert told[-1] == (2 * each, 2 * each)


def test_items_change_on_schedule() -> None:
    task = heavy_task(1000, 4, 2, 2)
    stream = EpochStream("heavy", (1, 3, 6), heavy=5, weight=0.15, support=64)
    rng = np.random.default_rng(1)
    data = Heavy(task, 1000, stream, rng)
    sets = [set(data.heavy(t).tolist()) for t in range(1, 9)]
    assert sets[0] == sets[1]
    assert sets[2] == sets[4]
    assert sets[5] == sets[7]
    assert len(sets[0] | sets[2] | sets[5]) == 15
    counts, truth = data.draw(4, rng)
    assert (counts.sum(axis=1) == 4096).all()
    assert truth.sum() == pytest.approx(1)
    heavy = np.isin(data.items, data.heavy(4))
    assert truth[heavy] == pytest.approx(0.15, abs=0.002)
    assert truth[~heavy] == pytest.approx(0.25 / 59, abs=0.0003)
    # Each device's counts of an item are binomial.
    for item, share in ((heavy, 0.15), (~heavy, 0.25 / 59)):
        spread = counts[:, item].var(axis=0).mean() / (4096 * share * (1 - share))
        assert spread == pytest.approx(1, abs=0.1)


def test_streams_are_one_change_if_none_is_named() -> None:
    assert default_stream(epoch_task()) == CHANGE
    heavy = default_stream(heavy_task(1000, 4, 2, 2))
    assert heavy == EpochStream("heavy", (1, 5), heavy=5, weight=0.15, support=64)


# HeavyThresh ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 12))]
)
def test_heavy_hitters_are_found_at_their_time(seed: int) -> None:
    """100,000 devices, 100,000 items, five heavy ones that are replaced by five others."""
    task = heavy_task(100_000, 4, 2, 2)
    run = simulate_epochs(task, 100_000, seed, stream_seed=seed)
    assert run.updates == (1, 5)
    assert run.items is not None
    for t, found in zip(run.updates, run.found, strict=True):
        truth = dict(zip(run.items.tolist(), run.truth[t - 1], strict=True))
        heavy = {item for item, share in truth.items() if share > 0.1}
        assert len(heavy) == 5
        assert heavy <= set(found.items.tolist())
        assert all(truth.get(item, 0) >= found.error / 2 for item in found.items.tolist())
        assert 0.05 < found.error < 0.1
        for item, low, high in zip(found.items.tolist(), found.low, found.high, strict=True):
            assert low <= truth.get(item, 0) <= high
        # And of all that occur, not only of those that were found.
        assert np.abs(run.published[t - 1] - run.truth[t - 1]).max() <= found.error
    assert (run.votes_left, run.estimates_left) == (1, 0)


# What is shown ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small() -> dict[str, EpochSimulation]:
    polled = epoch_task(
        epochs=8, rounds=64, polls=2, levels=[8, 16, 24, 32],
        thresholds=[2_000_000, 2_000_000, 1_000_000],
    )  # fmt: skip
    heavy = heavy_task(500, 40, 2, 2, rounds=512, dictionary=500, coordinates=128)
    return {
        "thresh": simulate_epochs(polled, 500, 1),
        "heavythresh": simulate_epochs(heavy, 500, 1),
    }


@pytest.mark.parametrize("name", ["thresh", "heavythresh"])
def test_json(small: dict[str, EpochSimulation], name: str) -> None:
    run = small[name]
    found: dict[str, Any] = run.to_json()
    assert found["mechanism"] == name
    assert found["updates"] == len(run.updates) >= 2
    assert 0 <= found["mean_error"] <= found["max_error"]
    assert found["mean_error"] == pytest.approx(np.abs(run.published - run.truth).mean())
    assert (found["votes_left"], found["estimates_left"]) == tuple(run.lives[-1])
    assert found["certified_epsilon"] == float_up(certify(run.task).epsilon)
    assert found["devices"] == 500
    if name == "thresh":
        assert [poll["t"] for poll in found["polls"]] == [4, 8]
        assert found["polls"][0]["with_votes"] == pytest.approx(1, abs=0.2)
    else:
        assert [update["t"] for update in found["heavy_hitters"]] == list(run.updates)


@pytest.mark.parametrize("name", ["thresh", "heavythresh"])
def test_text_and_picture(small: dict[str, EpochSimulation], name: str, tmp_path: Any) -> None:
    run = small[name]
    text = text_simulation(run)
    lines = text.splitlines()
    assert sum(line.endswith((PUBLISHED, HELD)) or "have votes left" in line for line in lines) == 8
    assert f"updates                {len(run.updates)}, in epoch 1" in text
    for ending in (".svg", ".png"):
        path = tmp_path / f"picture{ending}"
        write_picture(run, path)
        assert path.stat().st_size > 10_000
    drawn = (tmp_path / "picture.svg").read_text()
    assert "votes for an update" in drawn
    assert "estimates left" in drawn


def test_the_same_seed_gives_the_same(small: dict[str, EpochSimulation]) -> None:
    run = small["thresh"]
    again = simulate_epochs(run.task, 500, 1)
    assert str(again.decisions) == str(run.decisions)
    for other in (
        simulate_epochs(run.task, 500, 2),
        simulate_epochs(run.task, 500, 1, stream_seed=1),
    ):
        assert str(other.decisions) != str(run.decisions)


def test_parts_of_a_task() -> None:
    task = epoch_task(epochs=4, rounds=64, levels=[8, 16, 24])
    whole = simulate(task, devices=50)
    part = simulate(task, devices=50, steps=130)
    assert isinstance(whole, EpochSimulation)
    assert isinstance(part, EpochSimulation)
    assert (whole.steps, part.steps) == (256, 128)
    assert part.decisions[1].ones == whole.decisions[1].ones
    with pytest.raises(UserError, match="steps must be 64 or more"):
        simulate(task, devices=50, steps=63)
    with pytest.raises(UserError, match="take fewer devices"):
        simulate(task, devices=1 << 30)
    with pytest.raises(UserError, match="support must be 16 or less"):
        simulate_epochs(
            heavy_task(50, 4, 2, 2, items=16), 50, 1,
            stream=EpochStream("heavy", (1,), heavy=1, weight=0.5, support=17),
        )  # fmt: skip


# Through the study ------------------------------------------------------------------------------

THRESH_STUDY = """
[study]
name = "half-way"
[mechanism]
name = "thresh"
epochs = 16
rounds = 8192
{caps}
[privacy]
epsilon = {epsilon}
[values]
domain = 2
[fleet]
devices = {devices}
[stream]
source = "means"
means = [0.2, 0.7]
at = [1, 9]
seed = 5
"""
HEAVY_STUDY = """
[study]
name = "half-way"
[mechanism]
name = "heavythresh"
epochs = 8
rounds = 512
votes = 2
estimates = 2
dictionary = 5000
items = 64
[privacy]
epsilon = 40
[fleet]
devices = 2000
[stream]
source = "heavy"
weight = 0.18
support = 20
at = [1, 5]
"""
TUNED = "votes = {}\nestimates = {}"


def written(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("setting", "devices", "epsilon", "caps"),
    [
        ("tuned, n = 1000", 1000, 4, TUNED.format(2, 2)),
        ("tuned, n = 2000", 2000, 2, TUNED.format(4, 2)),
        ("tuned, n = 10000", 10_000, 1, TUNED.format(4, 2)),
        ("paper, n = 20000", 20_000, 2, 'profile = "paper"'),
    ],
)
def test_these_settings_are_the_planners(
    setting: str, devices: int, epsilon: int, caps: str, tmp_path: Path
) -> None:
    text = THRESH_STUDY.format(devices=devices, epsilon=epsilon, caps=caps)
    task, mine = choose(load_study(written(tmp_path, text))), SETTINGS[setting][0]
    for name in ("thresholds", "levels", "votes", "estimates", "epochs", "rounds", "failure"):
        assert getattr(task, name) == getattr(mine, name)


def test_the_command_plays_the_studys_stream(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, THRESH_STUDY.format(devices=1000, epsilon=4, caps=TUNED.format(2, 2)))
    assert main(["simulate", str(path), "--json", "--seed", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    for key in ("updates", "mean_error", "max_error", "votes_left", "estimates_left"):
        assert key in found
    assert found["updated"] == [1, 9]
    assert found["certified_epsilon"] == pytest.approx(4, abs=1e-3)
    assert found["truth"] == pytest.approx([0.2] * 8 + [0.7] * 8, abs=0.01)
    # Other noise, the same data; and other data with another of its seeds.
    other = simulate(path, seed=2)
    assert other.to_json()["truth"] == found["truth"]
    path = written(tmp_path, path.read_text().replace("seed = 5", "seed = 6"))
    assert simulate(path, seed=1).to_json()["truth"] != found["truth"]


def test_the_command_plays_heavy_items(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, picture = written(tmp_path, HEAVY_STUDY), tmp_path / "picture.png"
    assert main(["simulate", str(path), "--picture", str(picture)]) == 0
    text = capsys.readouterr().out
    assert "heavy in epoch 1 " in text
    assert "certified epsilon" in text
    assert picture.stat().st_size > 10_000
    assert main(["simulate", str(path), "--steps", "511"]) == 2
    assert "steps must be 512 or more, an epoch" in capsys.readouterr().err
