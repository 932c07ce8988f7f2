"""simulate(): reproducible, bounded in memory, and what it says is what happened."""

from __future__ import annotations

import dataclasses
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.simulating import make_task
from tinyldp.errors import UserError
from tinyldp.progress import WorkProgress
from tinyldp.simulate import (
    OracleSimulation,
    Simulation,
    StreamSimulation,
    fleet,
    simulate,
    text_simulation,
    write_picture,
)
from tinyldp.simulate.streams import DEVICES
from tinyldp_protocol.task import GRR, JITTERSORT, OLH, OUE, RANSWITCH, SCALE, STASWITCH, Task

STREAM_TASKS = [
    make_task(RANSWITCH, window=10, k=5, symbols=16, thresholds=[SCALE // 20]),
    make_task(STASWITCH, window=6, k=6, symbols=300, thresholds=[SCALE // 12]),
    make_task(
        JITTERSORT, window=7, k=3, symbols=16, thresholds=[SCALE - 6_000_000, *[1_000_000] * 3]
    ),
]
ORACLE_TASKS = [
    make_task(GRR, symbols=10, thresholds=[SCALE // 20]),
    make_task(OUE, symbols=10, thresholds=[SCALE // 5]),
    make_task(OLH, symbols=10, buckets=4, thresholds=[SCALE // 8]),
]
STUDY = """
[study]
name = "Lights"
[mechanism]
name = "ranswitch"
threshold = 500000
[privacy]
k = 4
[values]
domain = 8
[fleet]
devices = 50
"""


def found(simulation: Simulation) -> dict[str, Any]:
    """Everything but the time it took."""
    fields = {
        field.name: getattr(simulation, field.name) for field in dataclasses.fields(simulation)
    }
    del fields["seconds"], fields["task"]
    return {name: np.asarray(value).tolist() for name, value in fields.items()}


@pytest.mark.parametrize("task", STREAM_TASKS, ids=["ranswitch", "staswitch", "jittersort"])
def test_streams_are_reproducible_whatever_the_chunks(task: Task) -> None:
    devices = DEVICES + 333
    one = simulate(task, devices, 150, 5)
    assert isinstance(one, StreamSimulation)
    for steps_at_once in (1000, 150, 7):
        assert found(simulate(task, devices, 150, 5, steps_at_once=steps_at_once)) == found(one)
    assert found(simulate(task, devices, 150, 6)) != found(one)
    assert one.counts.sum() == devices * 150
    assert 0 < one.inner.sum() < one.counts.sum()
    # Nothing is lost: the sums agree, though not step by step.
    assert one.arrived.sum() == pytest.approx(one.released.sum())
    assert not np.allclose(one.arrived, one.released)
    assert one.expected == pytest.approx(one.mean_displacement, rel=0.15)
    inner = np.abs(one.offsets) @ one.inner / one.inner.sum()
    assert one.expected == pytest.approx(inner, rel=0.01)
    assert one.max_delay == one.offsets[-1] > 0
    if task.mechanism == STASWITCH:
        assert one.max_delay == task.k - 1


@pytest.mark.parametrize("task", ORACLE_TASKS, ids=["grr", "oue", "olh"])
@pytest.mark.parametrize("aggregated", [True, False])
def test_oracles_are_reproducible(
    task: Task, aggregated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "_REPORTS", 700)
    one = simulate(task, 2000, 150, 5, aggregated=aggregated)
    assert isinstance(one, OracleSimulation)
    assert found(simulate(task, 2000, 150, 5, aggregated=aggregated)) == found(one)
    assert found(simulate(task, 2000, 150, 6, aggregated=aggregated)) != found(one)
    assert one.method == ("aggregate" if aggregated else "device by device")
    # 150 rounds of ten squares: a deviation of about 4 %.
    assert one.mse == pytest.approx(one.expected_mse, rel=0.25)
    assert one.truth.sum() == pytest.approx(1)
    assert one.truth[0] > 2 * one.truth[4]


def test_large_fleets_of_oracles_are_drawn_as_counts() -> None:
    simulation = simulate(ORACLE_TASKS[0], 10**9, 3)
    assert isinstance(simulation, OracleSimulation)
    assert simulation.method == "aggregate"
    small = simulate(ORACLE_TASKS[0], 100, 3)
    assert isinstance(small, OracleSimulation)
    assert small.method == "device by device"


def test_json_has_what_was_promised() -> None:
    common = {"task_id", "devices", "steps", "seed", "seconds", "device_steps_per_second", "notes"}
    stream = simulate(STREAM_TASKS[0], 100, 100).to_json()
    assert set(stream) == common | {"mean_displacement", "expected_displacement", "max_delay"}
    assert (stream["devices"], stream["steps"], stream["seed"]) == (100, 100, 0)
    assert stream["task_id"] == STREAM_TASKS[0].id.hex()
    oracle = simulate(ORACLE_TASKS[0], 100, 2).to_json()
    assert set(oracle) == common | {"method", "mse", "expected_mse"}
    for values in (stream, oracle):
        assert json.loads(json.dumps(values)) == values
        rate = values["devices"] * values["steps"] / values["seconds"]
        assert values["device_steps_per_second"] == pytest.approx(rate)


@pytest.mark.parametrize("task", STREAM_TASKS, ids=["ranswitch", "staswitch", "jittersort"])
def test_memory_depends_neither_on_devices_nor_on_steps(task: Task) -> None:
    def peak(devices: int, steps: int) -> int:
        tracemalloc.start()
        try:
            simulate(task, devices, steps)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(100, 100)
    one = peak(DEVICES, 130)
    assert peak(3 * DEVICES, 130) < 1.05 * one
    assert peak(DEVICES, 500) < 1.05 * one
    assert one < 50_000_000


def test_progress_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for task, devices in ((STREAM_TASKS[0], DEVICES + 1), (ORACLE_TASKS[0], 50)):
        told: list[tuple[int, int]] = []
        simulate(task, devices, 90, progress=lambda *now, told=told: told.append(now))
        done = [now for now, _ in told]
        assert done == sorted(set(done))
        assert {total for _, total in told} == {devices * 90}
        assert done[-1] == devices * 90
    with WorkProgress("device steps") as bar:
        bar._next = 0
        bar.update(5000, 20000)
        bar.update(6000, 20000)
    assert capsys.readouterr().err == "5,000 of 20,000 device steps\n"


def test_a_study_file(tmp_path: Path) -> None:
    path = tmp_path / "lights.toml"
    path.write_text(STUDY)
    simulation = simulate(path, steps=40)
    assert simulation.devices == 50
    assert simulation.task.thresholds == [500000]
    assert simulate(path, 70, 40).devices == 70
    path.write_text(STUDY.replace("devices = 50", ""))
    with pytest.raises(UserError, match="How many devices"):
        simulate(path)


@pytest.mark.parametrize(
    ("devices", "steps", "seed", "sentence"),
    [
        (0, 10, 0, "devices must lie in 1..1,152,921,504,606,846,976, but is 0."),
        (10**19, 10, 0, "devices must lie in 1..1,152,921,504,606,846,976, but is "),
        (10, 0, 0, "steps must lie in 1..16,777,216, but is 0."),
        (10, 1 << 25, 0, "steps must lie in 1..16,777,216, but is 33,554,432."),
        (10, 10, -1, "seed must lie in 0..1,152,921,504,606,846,976, but is -1."),
    ],
)
def test_wrong_numbers(devices: int, steps: int, seed: int, sentence: str) -> None:
    with pytest.raises(UserError) as raised:
        simulate(STREAM_TASKS[0], devices, steps, seed)
    assert str(raised.value).startswith(sentence)


@pytest.mark.parametrize("steps", [1, 3, 200])
@pytest.mark.parametrize("task", [*STREAM_TASKS, *ORACLE_TASKS])
def test_text_and_picture(task: Task, steps: int, tmp_path: Path) -> None:
    simulation = simulate(task, 60, steps)
    text = text_simulation(simulation)
    assert task.id.hex() in text
    assert "never use such words" in text
    for ending in (".svg", ".png"):
        path = tmp_path / f"picture{ending}"
        write_picture(simulation, path)
        assert path.stat().st_size > 5000
    drawn = (tmp_path / "picture.svg").read_text()
    expected = "exact law" if isinstance(simulation, StreamSimulation) else "95 % intervals"
    assert expected in drawn


def test_pictures_that_cannot_be_written(tmp_path: Path) -> None:
    simulation = simulate(ORACLE_TASKS[0], 60, 1)
    with pytest.raises(UserError, match="no ending of a picture"):
        write_picture(simulation, tmp_path / "picture.mp3")
    with pytest.raises(UserError, match="ending of a picture"):
        write_picture(simulation, tmp_path)
    with pytest.raises(UserError, match="can't be written"):
        write_picture(simulation, tmp_path / "nowhere" / "picture.svg")


def test_an_ideal_hash_is_said() -> None:
    ideal = "as if its hash were ideal"
    assert ideal in text_simulation(simulate(ORACLE_TASKS[2], 10**9, 1))
    assert ideal not in text_simulation(simulate(ORACLE_TASKS[2], 100, 1))
    assert ideal not in text_simulation(simulate(ORACLE_TASKS[1], 10**9, 1))
