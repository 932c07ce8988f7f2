"""Rounds by way of simulate(), as numbers, tables and pictures; sweeps."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import tinyldp
from tests.planning_studies import write_study
from tests.rounds_studies import NAMES, rounds_study, rounds_task
from tinyldp.errors import UserError
from tinyldp.simulate import (
    RoundSimulation,
    Sweep,
    simulate,
    sweep,
    text_simulation,
    text_sweep,
    write_picture,
    write_sweep_picture,
)
from tinyldp.simulate.rounds import simulate_rounds

STREAM = '[stream]\nsource = "sin"\nseed = 5\n[fleet]\ndevices = 300\n'


def study_file(folder: Path, method: str = "lba", rest: str = STREAM, oracle: str = "grr") -> Path:
    return write_study(folder, method, "epsilon = 1.5\nw = 10", f'oracle = "{oracle}"', 5, rest)


def run(*arguments: object, **named: object) -> RoundSimulation:
    found = simulate(*arguments, **named)  # type: ignore[arg-type]
    assert isinstance(found, RoundSimulation)
    return found


def test_a_study_is_simulated_on_its_stream(tmp_path: Path) -> None:
    path = study_file(tmp_path)
    told: list[tuple[int, int]] = []
    one = tinyldp.simulate(path, None, 60, 1, lambda done, total: told.append((done, total)))
    assert told == [(300 * step, 18_000) for step in range(1, 61)]
    assert isinstance(one, RoundSimulation)
    values = one.to_json()
    assert json.loads(json.dumps(values)) == values
    assert {"method", "mse", "mre", "publications", "cfpu", "max_window_spend"} <= set(values)
    assert {"task_id", "devices", "steps", "seed", "seconds"} <= set(values)
    assert (values["method"], values["oracle"], values["source"]) == ("lba", "grr", "sin")
    assert (values["devices"], values["steps"], values["seed"]) == (300, 60, 1)
    assert (values["epsilon"], values["w"]) == (1.5, 10)
    assert 0 < values["max_window_spend"] <= 1.5
    truth, released = one.truth, one.estimates
    assert values["mse"] == pytest.approx(((truth - released) ** 2).mean())
    relative = abs(truth - released) / np.where(truth > 0.001, truth, 0.001)
    assert values["mre"] == pytest.approx(relative.mean())
    assert values["publications"] == sum(step.published for step in one.decisions)


def test_seeds_of_stream_and_noise_are_apart(tmp_path: Path) -> None:
    path = study_file(tmp_path)
    for aggregated in (True, False):
        one, same, noise = (run(path, 300, 40, s, aggregated=aggregated) for s in (1, 1, 2))
        assert (one.truth == same.truth).all()
        assert (one.estimates == same.estimates).all()
        assert (one.truth == noise.truth).all()
        assert (one.estimates != noise.estimates).any()
    other = study_file(tmp_path, rest=STREAM.replace("5", "6"))
    assert run(other, 300, 40, 1).truth.tolist() != one.truth.tolist()


def test_large_fleets_are_drawn_as_counts(tmp_path: Path) -> None:
    assert run(study_file(tmp_path), 10**6, 100).drawn == "aggregate"
    assert run(study_file(tmp_path), 100, 100).drawn == "device by device"


def test_a_stream_that_ends_ends_the_run(tmp_path: Path) -> None:
    csv = tmp_path / "fleet.csv"
    csv.write_text("0,1,2\n" * 37)
    # Beside the study, wherever the command runs.
    rest = '[stream]\nsource = "fleet.csv"\n'
    found = run(study_file(tmp_path, rest=rest), 30)
    assert found.steps == len(found.decisions) == len(found.truth) == 37
    assert found.to_json()["steps"] == 37
    with pytest.raises(UserError, match="There is no file"):
        run(study_file(tmp_path, rest=rest.replace("fleet.csv", "other.csv")), 30)


def test_a_task_alone_is_simulated_on_lns() -> None:
    assert run(rounds_task("lpu"), 500, 40).source == "lns"
    with pytest.raises(UserError, match="How many devices"):
        simulate(rounds_task("lpu"))


@pytest.mark.parametrize("method", NAMES)
def test_tables_say_what_was_found(method: str, tmp_path: Path) -> None:
    found = run(study_file(tmp_path, method), 500, 40)
    text = text_simulation(found)
    for part in (f"{method.upper()} over GRR", "sin", "published", "CFPU", "of epsilon = 1.5"):
        assert part in text
    assert f"{found.mse:.3e}" in text
    assert ("not for adaptive" in text) == (found.expected_mse is None)
    assert "never use such words for people's data" in text
    assert "ideal" not in text


def test_olh_as_counts_says_what_it_assumes(tmp_path: Path) -> None:
    path = study_file(tmp_path, oracle="olh")
    assert "hash were ideal" in text_simulation(run(path, 500, 10, aggregated=True))
    assert "ideal" not in text_simulation(run(path, 500, 10, aggregated=False))


@pytest.mark.parametrize("domain", [2, 3, 40])
def test_pictures_of_releases(domain: int, tmp_path: Path) -> None:
    found = run(rounds_task("lpa", domain), 50_000, 60, aggregated=True)
    path = tmp_path / "run.svg"
    write_picture(found, path)
    text = path.read_text()
    for part in ("LPA over GRR, 50,000 devices", "released", "true", "step", "value 1"):
        assert part in text
    assert ("value 0" in text) == (domain > 2)
    assert ("the first 5 of 40 values" in text) == (domain == 40)
    assert "value 5" not in text


# Sweeps -----------------------------------------------------------------------------------------

EPSILONS = (Fraction(1), Fraction(3))
WINDOWS = (5, 10)


def test_sweeps_run_every_method_at_every_setting(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    study = rounds_study("lbd", 3, 2.0, 10, rest=STREAM)
    swept = sweep(
        study, 20_000, 40, 2, lambda *done: told.append(done), epsilons=EPSILONS, windows=WINDOWS
    )
    assert isinstance(swept, Sweep)
    assert told == [(n, 56) for n in range(1, 57)]
    assert [(p.method, p.epsilon, p.w) for p in swept.against_epsilon] == [
        (name, epsilon, 10) for epsilon in (1.0, 3.0) for name in NAMES
    ]
    assert [(p.method, p.epsilon, p.w) for p in swept.against_w] == [
        (name, 2.0, w) for w in WINDOWS for name in NAMES
    ]
    assert (swept.source, swept.oracle, swept.steps, swept.seeds) == ("sin", "GRR", 40, 2)
    # More budget, or less to divide it among, is less error.
    for points, better in ((swept.against_epsilon, 1), (swept.against_w, 0)):
        for name in ("lbu", "lpu"):
            errors = [point.mse for point in points if point.method == name]
            assert errors[better] < errors[1 - better]
    # Run i is the simulation of stream seed 5 + i and seed i.
    task = rounds_task("lbu", 3, 1.0, 10)
    runs = [
        simulate_rounds(task, 20_000, 40, i, source="sin", stream_seed=5 + i, aggregated=True)
        for i in range(2)
    ]
    assert swept.against_epsilon[0].mse == pytest.approx(np.mean([one.mse for one in runs]))
    assert json.loads(json.dumps(swept.to_json()))["devices"] == 20_000

    text = text_sweep(swept)
    assert f"{swept.against_w[0].mse:11.2e}" in text
    assert [line.split()[0] for line in text.splitlines()[3:5]] == ["1", "3"]
    assert "(w = 10)" in text
    assert "(epsilon = 2)" in text
    path = tmp_path / "sweep.svg"
    write_sweep_picture(swept, path)
    drawn = path.read_text()
    for part in (*map(str.upper, NAMES), "epsilon", "mean squared error"):
        assert part in drawn
    # One title for both, and above each what it holds fixed.
    for title in (
        "sin, d = 3, 20,000 devices, GRR, mean of 2 seeds",
        "at w = 10",
        "at epsilon = 2",
    ):
        assert f">{title}</text>" in drawn
    assert "mathdefault" not in drawn


def test_sweeps_of_some_methods_and_one_side(tmp_path: Path) -> None:
    study = study_file(tmp_path, oracle="auto")
    swept = sweep(study, None, 20, 1, epsilons=EPSILONS, windows=(), methods=("lbu", "lpa"))
    assert isinstance(swept, Sweep)
    assert len(swept.against_epsilon) == 4
    assert swept.against_w == ()
    assert swept.devices == 300
    assert len(text_sweep(swept).splitlines()) == 5
    write_sweep_picture(swept, tmp_path / "sweep.png")
    with pytest.raises(UserError, match="no ending of a picture"):
        write_sweep_picture(swept, tmp_path / "sweep")


def test_what_cannot_be_swept_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="How many devices"):
        sweep(study_file(tmp_path, rest=""))
    plain = write_study(tmp_path, "grr", "epsilon = 1.0")
    with pytest.raises(UserError, match="Only a study of rounds"):
        sweep(plain, 100)
