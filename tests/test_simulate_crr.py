"""simulate() of CRR: what it counts is what happened, on every source; and its sweep."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.crr_tasks import random_crr, sticky
from tests.simulating import two_samples
from tinyldp.crr_study import LOSS_NAMES
from tinyldp.errors import UserError
from tinyldp.estimate.crr import decode
from tinyldp.planning import plan
from tinyldp.progress import WorkProgress
from tinyldp.report.pictures import drawing
from tinyldp.simulate import (
    CrrSimulation,
    CrrSweep,
    crr_pictures,
    simulate,
    sweep,
    text_simulation,
    text_sweep,
    write_picture,
    write_sweep_picture,
)
from tinyldp.simulate.chains import Chain
from tinyldp.simulate.crr_sweeps import draw_crr_sweep, sweep_crr, two_states
from tinyldp.simulate.words import DrawnWords
from tinyldp.study import load_study

STUDY = """
[study]
name = "Steps"
[mechanism]
name = "crr"
rule = "min_error"
loss = "absolute"
transitions = [[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.05, 0.05, 0.9]]
[privacy]
epsilon = 1
[values]
domain = 3
[fleet]
devices = 40
"""


def simulated(task, *arguments: int, **more: object) -> CrrSimulation:
    found = simulate(task, *arguments, **more)  # type: ignore[arg-type]
    assert isinstance(found, CrrSimulation)
    return found


def test_what_is_counted_is_what_happened() -> None:
    task = sticky(4, 1, 0.9, loss=2)
    found = simulated(task, 60, 80)
    assert found.original.shape == found.released.shape == (60, 80)
    for step in (0, 41, 79):
        pairs = np.zeros((4, 4))
        np.add.at(pairs, (found.original[:, step], found.released[:, step]), 1 / 60)
        assert np.allclose(found.pairs[step], pairs)
    distance = np.abs(found.original.astype(int) - found.released)
    assert found.mean_loss == pytest.approx(distance.mean())
    assert found.losses == pytest.approx(distance.mean(axis=0))
    told = decode(task, found.released).leakage
    assert found.leakage == pytest.approx(told.mean(axis=0), abs=1e-6)
    assert found.largest == pytest.approx(told.max(axis=0), abs=1e-6)
    assert found.most == pytest.approx(np.cumsum(told, axis=1).max(axis=0), abs=1e-4)
    assert found.largest.max() <= found.epsilon + 1e-6
    assert found.guessed is not None
    assert found.smoothed_loss == np.abs(found.original.astype(int) - found.guessed).mean()
    # k-RR by its definition.
    e = math.exp(found.epsilon)
    shares = np.bincount(found.original.ravel(), minlength=4) / found.original.size
    costs = np.abs(np.subtract.outer(range(4), range(4))).sum(axis=1)
    assert found.response_loss(found.epsilon) == pytest.approx(shares @ costs / (e + 3))


def test_json_and_text_agree() -> None:
    for task in (sticky(3, 1, 0.9), sticky(3, 2, 0.8, rule=2, loss=3)):
        found = simulated(task, 30, 50)
        data = json.loads(json.dumps(found.to_json()))
        text = text_simulation(found)
        for key in ("mean_loss", "krr_loss", "krr_double_loss", "smoothed_loss"):
            assert f"{data[key]:.4f}" in text
        assert data["loss"] == LOSS_NAMES[task.loss]
        assert data["total_bound"] == pytest.approx(50 * data["epsilon"])
        assert data["max_total_leakage"] <= data["total_bound"] + 1e-3
        assert f"{data['total_bound']:.2f}" in text


def test_what_is_of_all_devices_is_said_once() -> None:
    task = sticky(3, 1, 0.9)
    found = simulated(task, 1, 1)
    text = " ".join(text_simulation(found).split())
    assert "loss of the first" not in text
    assert f"mean loss after smoothing {found.smoothed_loss:.4f}" in text
    assert "learned of its values on average" in text
    assert "loss of the first" in text_simulation(replace(found, devices=3))


def test_the_same_seed_gives_the_same_and_blocks_do_not_matter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = sticky(3, 1, 0.9)
    first, again, other = (simulated(task, 50, 30, seed) for seed in (1, 1, 2))
    assert first.released.tolist() == again.released.tolist()
    assert first.released.tolist() != other.released.tolist()
    monkeypatch.setattr("tinyldp.simulate.crr_runs.DEVICES", 20)
    parted = simulated(task, 50, 30, 1)
    assert parted.released[:20].tolist() != parted.released[20:40].tolist()
    assert parted.pairs.sum(axis=(1, 2)) == pytest.approx(np.ones(30))
    pairs = np.zeros((3, 3))
    np.add.at(pairs, (parted.original[:, 7], parted.released[:, 7]), 1 / 50)
    assert np.allclose(parted.pairs[7], pairs)


def test_a_chain_follows_its_task() -> None:
    """Of memory 1 and 2: a chi-square test of all transitions, wrong once in 10^6."""
    rng = np.random.default_rng(1)
    for memory in (1, 2):
        task = random_crr(rng, n=3, block=2, memory=memory)
        size = 3**memory
        chain = Chain(task, 4000, DrawnWords(4000, np.random.SeedSequence(3)))
        values = np.array([chain.next() for _ in range(memory + 4)])
        rows = np.array(task.transitions).reshape(size, 3) / 2**14
        expected = [rng.choice(size, 4000, p=np.array(task.prior) / 2**15)]
        state = expected[0]
        for _ in range(4):
            symbol = (rng.random(4000)[:, None] >= np.cumsum(rows[state], axis=1)).sum(axis=1)
            state = (state * 3 + symbol) % size
            expected.append(state)
        at = 0
        for step, states in enumerate(expected):
            at = values[step]
            for later in range(1, memory):
                at = at * 3 + values[step + later]
            assert two_samples(at.tolist(), states.tolist()) > 1e-6


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        (1, "Of the stream's 3 series the first alone is played."),
        (2, "Of the stream's 3 series the first 2 alone are played."),
        (3, None),
        (4, "The stream's 3 series are played by up to 2 devices each, for there are 4 devices."),
        (7, "The stream's 3 series are played by up to 3 devices each, for there are 7 devices."),
    ],
)
@pytest.mark.parametrize("mechanism", ["crr", "lba"])
def test_series_that_several_devices_play(
    devices: int, said: str | None, mechanism: str, tmp_path: Path
) -> None:
    (tmp_path / "walk.csv").write_text("time,a,b,c\n" + "x,0,1,2\n" * 8)
    text = STUDY + '[stream]\nsource = "walk.csv"\n'
    if mechanism == "lba":
        head, rest = text.split('name = "crr"')[0], text[text.index("[privacy]") :]
        text = f'{head}name = "lba"\n{rest}'.replace("epsilon = 1", "epsilon = 1\nw = 4")
    (tmp_path / "s.toml").write_text(text)
    found = simulate(tmp_path / "s.toml", devices, 8)
    assert found.notes == (() if said is None else (said,))
    assert found.to_json()["notes"] == list(found.notes)
    assert said is None or said in text_simulation(found).splitlines()


def test_one_series_for_all(tmp_path: Path) -> None:
    (tmp_path / "walk.csv").write_text("0\n1\n\n2\n")
    (tmp_path / "s.toml").write_text(STUDY + '[stream]\nsource = "walk.csv"\n')
    found = simulated(tmp_path / "s.toml", 7)
    assert found.steps == 4
    assert found.notes == ("The stream's one series is played by all 7 devices.",)


def test_a_run_ends_with_the_shortest_series(tmp_path: Path) -> None:
    """No reading is made up for who has none."""
    (tmp_path / "walk.csv").write_text("0,1\n1,1\n2,1\n2,\n2,\n")
    (tmp_path / "s.toml").write_text(STUDY + '[stream]\nsource = "walk.csv"\n')
    found = simulated(tmp_path / "s.toml", 2, 30)
    assert found.steps == 3
    assert found.original.tolist() == [[0, 1, 2], [1, 1, 1]]
    assert found.notes == (
        "The run ends with its shortest series, after 3 steps; the longest has 5.",
    )


def test_a_task_beside_the_study_that_is_another(tmp_path: Path) -> None:
    """Trained on other series, or planned before the study was changed; not a broken file."""
    path = tmp_path / "s.toml"
    rows = STUDY[STUDY.index("transitions") :].splitlines()[0]
    path.write_text(STUDY.replace(rows, 'train = "t.csv"'))
    (tmp_path / "t.csv").write_text("0\n1\n2\n" * 20)
    assert simulated(path, 3, 5).notes == ()
    old = plan(path).task
    assert simulated(path, 3, 5).notes == ()
    (tmp_path / "t.csv").write_text("0\n0\n1\n2\n" * 20)
    found = simulated(path, 3, 5)
    assert found.task.id != old.id
    assert found.notes == (
        f"Simulated is Task {found.task.id.hex()}, which the study amounts to now;"
        f" {tmp_path / 's.task'} is another, {old.id.hex()} with another model: tinyldp plan makes"
        " it anew.",
    )
    plan(path)
    path.write_text(path.read_text().replace("epsilon = 1", "epsilon = 2"))
    (note,) = simulated(path, 3, 5).notes
    assert note.endswith(f"is another, {found.task.id.hex()}: tinyldp plan makes it anew.")
    (tmp_path / "s.task").write_bytes(b"x")
    assert simulated(path, 3, 5).notes == ()


@pytest.mark.parametrize("source", ["recordings", "lns", "walk.csv"])
def test_other_streams_are_played(source: str, tmp_path: Path) -> None:
    rows = [f"{i % 3},{(i // 5) % 3}" for i in range(25)]
    (tmp_path / "walk.csv").write_text("\n".join(rows))
    (tmp_path / "s.toml").write_text(STUDY + f'[stream]\nsource = "{source}"\n')
    found = simulated(tmp_path / "s.toml", 7, 30)
    assert found.source.endswith(source)
    if source == "walk.csv":
        assert found.steps == 25
        assert found.original[0].tolist() == [i % 3 for i in range(25)]
        assert found.original[5].tolist() == [(i // 5) % 3 for i in range(25)]
        # Four of seven play the first series.
        assert found.truth[7] == pytest.approx([0, 1, 0])
        assert found.truth[12] == pytest.approx([4 / 7, 0, 3 / 7])
    assert found.pairs.sum(axis=(1, 2)) == pytest.approx(np.ones(found.steps))


def test_pictures_are_drawn(tmp_path: Path) -> None:
    for task in (sticky(2, 1, 0.9), sticky(6, 1, 0.9, bins=[1, 2, 3, 4, 5])):
        write_picture(simulated(task, 20, 30), tmp_path / "s.svg")
        text = (tmp_path / "s.svg").read_text()
        for said in ("k-RR with epsilon", "allowed at most", "intervals, smoothed", "original"):
            assert said in text


def test_what_a_picture_leaves_out_is_said() -> None:
    """Values are named, axes have units, legends lie above the lines, titles have room."""
    for task, shares in (
        (sticky(5, 1, 0.9, missing=4), "Shares of values among 20 devices"),
        (sticky(9, 1, 0.9, missing=4), "Shares of values (6 of 9, the most frequent ones) among"),
        (sticky(2, 1, 0.9), "Share of the second value among"),
    ):
        found = simulated(task, 20, 150)
        with drawing((9.6, crr_pictures.HEIGHT)) as figure:
            crr_pictures.draw_crr(figure, found)
            loss, _, second, series = figure.axes
            assert loss.get_title(loc="left") == (
                "Loss of CRR, 20 devices with values drawn by the Task's chain"
            )
            assert [axis.get_ylabel() for axis in figure.axes] == [
                "loss a step", "nats", "share", "symbol",
            ]  # fmt: skip
            assert second.get_title(loc="left").startswith(shares)
            assert len(second.get_lines()) == {5: 5, 9: 6, 2: 1}[task.symbols]
            assert "its first 120 steps" in series.get_title(loc="left")
            names = [label.get_text() for label in series.get_yticklabels()]
            assert ("4 or missing" in names) == (task.symbols > 4)
            figure.draw_without_rendering()
            for axis in figure.axes:
                legend = axis.get_legend()
                assert legend is not None
                assert legend.get_window_extent().y0 >= axis.get_window_extent().y1


def test_blocks_are_simulated(tmp_path: Path) -> None:
    task = random_crr(np.random.default_rng(2), n=3, block=3, memory=2, loss=1, costs=None)
    found = simulated(task, 30, 20)
    wrong = found.original != found.released
    assert found.mean_loss == pytest.approx(wrong.mean())
    told = decode(task, found.released, ended=True).leakage
    assert found.leakage == pytest.approx(told.mean(axis=0), abs=1e-6)
    assert found.total_bound == pytest.approx(7 * found.epsilon)
    assert found.most[-1] <= found.total_bound + 1e-3
    data = json.loads(json.dumps(found.to_json()))
    assert data["mechanism"] == "crr-batch"
    assert data["krr_loss"] == found.response_loss(found.epsilon / 3)
    assert "leakage of a block of 3" in text_simulation(found)
    write_picture(found, tmp_path / "s.svg")


def test_progress_is_told() -> None:
    done: list[tuple[int, int]] = []
    simulate(sticky(2, 1, 0.9), 10, 5, progress=lambda *told: done.append(told))
    assert done == [(10 * (i + 1), 50) for i in range(5)]
    with WorkProgress("device steps") as progress:
        simulate(sticky(2, 1, 0.9), 10, 5, progress=progress.update)


@pytest.fixture
def swept(tmp_path: Path) -> CrrSweep:
    (tmp_path / "s.toml").write_text(STUDY)
    return sweep_crr(
        load_study(tmp_path / "s.toml"),
        400,
        60,
        2,
        epsilons=[Fraction(1), Fraction(3)],
        correlations=[Fraction(1, 2), Fraction(9, 10)],
    )


def test_a_sweep_is_never_worse_than_krr(swept: CrrSweep, tmp_path: Path) -> None:
    """Errors are at most 5 standard errors of a mean of 48,000 coins."""
    assert [point.correlation for point in swept.two_states] == [0.5, 0.9] * 2
    for point in swept.two_states:
        assert point.krr_sequence is not None
        error = 5 * math.sqrt(0.25 / 48_000)
        assert point.loss < point.krr_sequence + error < point.krr + 2 * error
        if point.correlation == 0.5:
            # The optimum of independent fair coins, in closed form.
            assert point.loss == pytest.approx(math.exp(-point.epsilon) / 2, abs=error)
            assert point.krr_sequence == pytest.approx(math.exp(-point.epsilon) / 2, abs=0.002)
        else:
            assert point.loss < 0.75 * point.krr_sequence
    assert [point.correlation for point in swept.own] == [None, None]
    data = json.loads(json.dumps(swept.to_json()))
    text = text_sweep(swept)
    for point in data["two_states"] + data["own"]:
        assert f"{point['loss']:.4f}" in text
        assert f"({point['sequence_epsilon']:.3f})" in text
    write_sweep_picture(swept, tmp_path / "s.svg")
    assert "correlation 0.9" in (tmp_path / "s.svg").read_text()
    long = replace(swept, study="a study with a name that is long", source="walk-of-people.csv")
    with drawing((9.6, 5.2)) as figure:
        draw_crr_sweep(figure, long)
        figure.draw_without_rendering()
        for axis in figure.axes:
            box = axis._left_title.get_window_extent()  # type: ignore[attr-defined]
            assert box.x1 <= axis.get_window_extent().x1


def test_a_study_of_another_mechanism_has_no_sweep(tmp_path: Path) -> None:
    text = STUDY.replace('"crr"', '"grr"').split("rule")[0] + "[privacy]\nepsilon = 1\n"
    (tmp_path / "s.toml").write_text(text + "[values]\ndomain = 3\n")
    with pytest.raises(UserError, match="or of CRR can be swept"):
        sweep(tmp_path / "s.toml")


def test_two_states_stay_as_often_as_they_should(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(STUDY)
    study = two_states(load_study(tmp_path / "s.toml"), Fraction(3, 4), Fraction(2))
    task = study.task([1 << 20])
    assert (task.symbols, task.bins, task.loss) == (2, None, 2)
    assert list(task.transitions) == [12288, 4096, 4096, 12288]
    assert list(task.prior) == [1 << 14, 1 << 14]
