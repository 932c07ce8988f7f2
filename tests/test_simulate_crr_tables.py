"""CRR in blocks by a table: the simulator against the device, the decoder against all series."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.crr_table_tasks import (
    GAPS,
    MILD,
    STICKY,
    kernel_of,
    random_table,
    series_chance,
    table_task,
)
from tests.faults import planted
from tests.simulating import played, random_words
from tests.test_report import FakeStore
from tests.test_report_estimates import add_reports
from tinyldp.certify import certify
from tinyldp.crr.blocks import make_beliefs
from tinyldp.crr.tables import TABLE_SCALE, TableBeliefs, table_of
from tinyldp.errors import UserError
from tinyldp.estimate.crr import decode, population
from tinyldp.report import report_data, text_report
from tinyldp.simulate import CrrSimulation, crr_tables, simulate, text_simulation
from tinyldp.simulate.crr import release
from tinyldp.simulate.crr_sweeps import sweep_crr
from tinyldp.simulate.words import DrawnWords, GivenWords
from tinyldp.study import load_study
from tinyldp_protocol.messages import ENDED
from tinyldp_protocol.task import SCALE, Task

DEVICES = 3


def same_series(module: ModuleType, tasks: int, seed: int) -> bool:
    """Whether whole segments, and the words taken, agree for this many random Tasks."""
    rng = np.random.default_rng(seed)
    for _ in range(tasks):
        task = random_table(rng)
        steps = int(rng.integers(1, 25))
        values = rng.integers(0, task.symbols, (steps, DEVICES))
        given = random_words(rng, (DEVICES, 30))
        words = GivenWords(given)
        fleet = module.TableFleet(task, DEVICES, words)
        found = [
            fleet.release(values[at : at + task.block])[0] for at in range(0, steps, task.block)
        ]
        released = np.concatenate(found)
        taken = words.taken().tolist()
        for i in range(DEVICES):
            theirs, used = played(task, values[:, i], given[i])
            if theirs != released[:, i].tolist() or used != taken[i]:
                return False
    return True


def test_series_equal_the_device() -> None:
    assert same_series(crr_tables, 60, 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('side="right"', 'side="left"'),
        ("_SHIFT = 9", "_SHIFT = 10"),
        (
            "self.beliefs.symbols, self.beliefs.block)",
            "self.beliefs.symbols, self.beliefs.block)[::-1]",
        ),
        ("if len(values) < len(self._powers):", "if False:"),
    ],
)
def test_a_fault_is_seen(old: str, new: str) -> None:
    try:
        same = same_series(planted(crr_tables, old, new), 60, 1)
    except (ValueError, IndexError):
        same = False
    assert not same


def test_a_segment_is_released_but_for_its_incomplete_block() -> None:
    task = table_task(*GAPS, 2)
    rng = np.random.default_rng(2)
    for steps in (1, 2, 7, 8):
        values, words = rng.integers(0, 3, (4, steps)), rng.integers(0, SCALE, (4, 20))
        released = release(task, values, words)
        assert released.shape == (4, steps - steps % 2)
        for i in range(4):
            assert played(task, values[i], words[i])[0] == released[i].tolist()


def worst_deviation(module: ModuleType, scale: float) -> float:
    """Of the shares of releases from the table with `scale` of its truth, in deviations."""
    task = table_task(*MILD, 2)
    size, many = 4, 40_000
    kernel = table_of(task) / TABLE_SCALE
    told = np.diag(kernel) * scale
    stated = kernel * ((1 - told) / (1 - np.diag(kernel)))[:, None]
    np.fill_diagonal(stated, told)
    worst = 0.0
    for x in range(size):
        values = np.tile([[x // 2], [x % 2]], (1, many))
        fleet = module.TableFleet(task, many, DrawnWords(many, np.random.SeedSequence(x + 9)))
        released = fleet.release(values)[0]
        shares = np.bincount(released[0] * 2 + released[1], minlength=size) / many
        for y in range(size):
            p = min(max(stated[x, y], 0.0), 1.0)
            off = abs(shares[y] - p)
            worst = max(worst, off / math.sqrt(max(p * (1 - p) / many, 1e-12)))
    return worst


def test_releases_have_the_table_s_probabilities() -> None:
    """16 shares within 5 deviations of 40,000: false alarms in 1e-5 of all seeds."""
    assert worst_deviation(crr_tables, 1.0) < 5
    assert worst_deviation(crr_tables, 0.7) > 5
    assert worst_deviation(crr_tables, 1.3) > 5


@pytest.mark.parametrize("chain", [STICKY, MILD, GAPS])
def test_smoothing_is_that_of_all_series(chain: tuple[list[int], list[int]]) -> None:
    """Posteriors, leakage and gain of two blocks, by going through everything."""
    task = table_task(*chain, 2)
    n = task.symbols
    kernel = [[float(m) for m in row] for row in kernel_of(task)]
    series = list(itertools.product(range(n), repeat=4))
    prior = np.array([float(series_chance(task, values)) for values in series])
    blocks = [(v[0] * n + v[1], v[2] * n + v[3]) for v in series]
    used = np.flatnonzero(table_of(task).any(axis=0)).tolist()
    for one, two in itertools.product(used[:3], used[-3:]):
        told_one = np.array([kernel[a][one] for a, _ in blocks])
        told_two = np.array([kernel[b][two] for _, b in blocks])
        law = prior * told_one * told_two
        law /= law.sum()
        found = decode(task, [[one // n, one % n, two // n, two % n]])
        for step in range(4):
            expected = [law[[v[step] == x for v in series]].sum() for x in range(n)]
            assert found.posterior[0, step] == pytest.approx(expected)
        before = prior
        for at, (y, told) in enumerate(((one, told_one), (two, told_two))):
            chance = (before * told).sum()
            column = [row[y] for row in kernel]
            leak = math.log(max(max(column) / chance, chance / min(column)))
            assert found.leakage[0, 2 * at] == pytest.approx(leak)
            assert found.leakage[0, 2 * at + 1] == 0
            after = before * told / chance
            index = [pair[at] for pair in blocks]
            was = np.bincount(index, before, n * n)
            is_now = np.bincount(index, after, n * n)
            there = is_now > 0
            gain = (is_now[there] * np.log(is_now[there] / was[there])).sum()
            assert found.gain[0, 2 * at] == pytest.approx(gain)
            before = after


def test_only_whole_blocks_are_smoothed() -> None:
    task = table_task(*MILD, 2)
    y = int(np.flatnonzero(table_of(task).any(axis=0))[0])
    symbols = [[y // 2, y % 2, y // 2]]
    found = decode(task, symbols, ended=True)
    assert found.known.tolist() == [[True, True, False]]
    assert np.isnan(found.posterior[0, 2]).all()


def test_a_block_that_no_table_releases_is_refused() -> None:
    task = table_task(*GAPS, 0.5)
    never = int(np.flatnonzero(~table_of(task).any(axis=0))[0])
    with pytest.raises(UserError, match="No device can have released"):
        decode(task, [[never // 3, never % 3]])


def test_a_simulation_keeps_to_the_certificate() -> None:
    task = table_task(*MILD, 1, w=50)
    assert isinstance(make_beliefs(task), TableBeliefs)
    found = simulate(task, 400, 51)
    assert isinstance(found, CrrSimulation)
    assert found.steps == 50
    assert found.notes == (
        "The last step is left out: by a table only whole blocks, here of 2 steps, are released.",
    )
    assert found.to_json()["notes"] == list(found.notes)
    assert found.notes[0] in text_simulation(found)
    assert simulate(task, 3, 50).notes == ()
    epsilon = found.epsilon
    assert 0 < found.leakage.max() <= found.largest.max() <= epsilon + 1e-12
    assert found.most[-1] <= 25 * epsilon
    assert (found.leakage[1::2] == 0).all()
    per_window = certify(task).per_window
    assert per_window is not None
    assert found.total_bound <= float(per_window)
    told = decode(task, found.released)
    assert found.leakage == pytest.approx(told.leakage.mean(axis=0))
    assert found.largest == pytest.approx(told.leakage.max(axis=0))
    assert found.smoothed_loss is not None
    assert found.smoothed_loss < found.sample_loss
    shown = json.loads(json.dumps(found.to_json()))
    assert shown["rule"] == "table"
    assert shown["mean_loss"] < shown["krr_loss"]
    assert "block of 2" in text_simulation(found)
    with pytest.raises(UserError, match="blocks of 2 steps"):
        simulate(task, 5, 1)


def test_smoothed_shares_cover_the_truth() -> None:
    """60 shares within 5.5 deviations of 800 devices on the chain: false alarms: 3e-6."""
    task = table_task(*MILD, 1)
    found = simulate(task, 800, 60, 3)
    assert isinstance(found, CrrSimulation)
    shares = population(task, found.released, confidence=1 - 3.8e-8)
    low, high = shares.smoothed_low[:, 1], shares.smoothed_high[:, 1]
    truth = (found.original == 1).mean(axis=0)
    for factor in (0.7, 1.0, 1.3):
        missed = (factor * truth < low) | (factor * truth > high)
        assert missed.any() == (factor != 1.0)


def reported(task: Task, released: np.ndarray) -> FakeStore:
    store = FakeStore()
    for i, row in enumerate(released):
        add_reports(store, task, row, health=ENDED, boot=i + 1, pseudonym=f"{i:016x}")
    return store


def test_a_report_follows_the_leakage() -> None:
    task = table_task(*GAPS, 1)
    found = simulate(task, 6, 20)
    assert isinstance(found, CrrSimulation)
    store = reported(task, found.released)
    data = report_data(store.store)
    (table,) = data["crr"]
    assert table["problem"] is None
    assert table["rule"] == "table"
    assert (table["segments"], table["steps_in_all"]) == (6, 20)
    last = table["steps"][-1]
    assert last["allowed"] == pytest.approx(10 * found.epsilon)
    assert last["most"] == pytest.approx(found.most[-1])
    assert last["total"] == pytest.approx(found.leakage.sum())
    text = " ".join(text_report(data).split())
    assert "what is known of the chain and of all releases before" in text
    assert "at most, where the table allows" in text
    assert "belief" not in text


def test_a_sweep_plans_a_table_at_each_setting(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        '[study]\nname = "s"\n[mechanism]\nname = "crr-batch"\nrule = "table"\nblock = 2\n'
        "transitions = [[0.75, 0.25], [0.3, 0.7]]\n[privacy]\nepsilon = 1\n[values]\ndomain = 2\n"
    )
    swept = sweep_crr(
        load_study(path), 200, 21, 1, epsilons=(Fraction(1), Fraction(2)),
        correlations=(Fraction(1, 2),),
    )  # fmt: skip
    assert swept.rule == "table"
    first, second = swept.own
    assert second.loss < first.loss < first.krr
