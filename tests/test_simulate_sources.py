"""Streams to simulate on: the literature's generators, recordings, CSV files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.rounds_studies import rounds_task
from tests.simulating import make_task
from tinyldp.errors import UserError
from tinyldp.recordings import load_recording, load_table, sample_recordings
from tinyldp.simulate.sources import DAY, make_stream, shared
from tinyldp_device.quantize import Quantizer
from tinyldp_protocol.task import GRR, Task

TASK = rounds_task("lbu", 5)
MANY = 10**15


def shares(source: str, steps: int = 800, seed: int = 0, task: Task = TASK) -> np.ndarray:
    """(steps, d) with so many devices that their frequencies are the shares, to 1e-7."""
    return make_stream(source, task, MANY, steps, seed).counts / MANY


def test_sine_and_logistic_are_the_literatures() -> None:
    t = np.arange(800)
    for source, active in (
        ("sin", 0.05 * np.sin(0.01 * t) + 0.075),
        ("log", 0.25 / (1 + np.exp(-0.01 * t))),
    ):
        found = shares(source)
        assert found[:, 0] == pytest.approx(1 - active, abs=1e-6)
        for value in range(1, 5):
            assert found[:, value] == pytest.approx(active * (5 - value) / 10, abs=1e-6)
        two = shares(source, task=rounds_task("lbu", 2))
        assert two[:, 1] == pytest.approx(active, abs=1e-6)


def test_lns_walks_by_normal_steps_and_stays_within_bounds() -> None:
    active = np.array([1 - shares("lns", seed=seed)[:, 0] for seed in range(60)])
    assert active[:, 0] == pytest.approx(0.05, abs=1e-6)
    assert 0 <= active.min() < 1e-6
    assert active.max() < 0.5
    inside = active[:, :-1] > 0.02
    steps = np.diff(active)[inside]
    # Some 35,000 steps: their deviation is within 2 % but for a chance of 1e-7.
    assert len(steps) > 20_000
    assert steps.std() == pytest.approx(0.0025, rel=0.02)
    assert abs(steps.mean()) < 6 * 0.0025 / np.sqrt(len(steps))
    # At the bound it turns at once: it is not hidden below.
    assert (active < 1e-6).mean() < 0.1


def test_devices_hold_what_is_counted_dealt_anew_at_each_step() -> None:
    stream = make_stream("sin", TASK, 1000, 50, 3)
    again = make_stream("sin", TASK, 1000, 50, 3)
    other = make_stream("sin", TASK, 1000, 50, 4)
    assert (stream.counts == again.counts).all()
    assert (stream.counts != other.counts).any()
    for step in range(50):
        values = stream.values(step)
        assert np.bincount(values, minlength=5).tolist() == stream.counts[step].tolist()
        assert (values == stream.values(step)).all()
        assert (values == again.values(step)).all()
    assert (stream.values(7) != stream.values(8)).any()
    # No device is active more often than by chance: 50 steps of about 9 %; 20 of them are
    # active for one in 1,000 devices by a chance of 1e-5.
    active = np.array([stream.values(step) > 0 for step in range(50)]).sum(axis=0)
    assert active.max() < 20


# Files ------------------------------------------------------------------------------------------


def write(folder: Path, text: str) -> Path:
    path = folder / "fleet.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_has_a_row_for_each_step_and_a_column_for_each_series(tmp_path: Path) -> None:
    path = write(tmp_path, "anna;bert;carl\n0;1;4\n2;;3\n 1 ;0;0\n")
    assert load_table(path).rows == [[0, 1, 4], [2, None, 3], [1, 0, 0]]
    stream = make_stream(str(path), TASK, 8, 100, 0)
    assert [stream.values(step).tolist() for step in range(3)] == [
        [0, 1, 4, 0, 1, 4, 0, 1],
        [2, 0, 3, 2, 0, 3, 2, 0],
        [1, 0, 0, 1, 0, 0, 1, 0],
    ]
    for step in range(3):
        values = stream.values(step)
        assert np.bincount(values, minlength=5).tolist() == stream.counts[step].tolist()
    # More series than devices: the first ones are played.
    assert make_stream(str(path), TASK, 2, 1, 0).counts.tolist() == [[1, 1, 0, 0, 0]]
    assert len(make_stream(str(path), TASK, 8, 2, 0).counts) == 2


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        # One column: an empty line is a missing reading, wherever it is but at the end.
        ("1\n\n3\n", [[1], [None], [3]]),
        ("anna\n1\n\n\n3\n\n\n", [[1], [None], [None], [3]]),
        ("\n1\n2\n", [[None], [1], [2]]),
        ("\n\nanna\n1\n2\n", [[1], [2]]),
        ('1\n""\n2\n', [[1], [None], [2]]),
        ("1\n \n2\n", [[1], [None], [2]]),
        # Several: a step at which all are missing.
        ("anna,bert\n1,2\n\n3,4\n\n", [[1, 2], [None, None], [3, 4]]),
        ("1,2\n,\n3,4\n", [[1, 2], [None, None], [3, 4]]),
        # What is empty at the end is no step.
        ('1\n""\n', [[1]]),
        ("1,2\n,\n", [[1, 2]]),
        ("\nanna;bert\n1;2\n", [[1, 2]]),
        # The column `value`, or all but those that say when.
        ("time,value\n08:00,1\n\n08:02,\n08:03,4\n", [[1], [None], [None], [4]]),
        ("time,anna,Date,bert\n08:00,1,x,2\n", [[1, 2]]),
        ("timestamp\tanna\n0\t1\n1\t2\n", [[1], [2]]),
        ("1st,2nd\n1,2\n", [[1, 2]]),
    ],
)
def test_gaps_and_columns(tmp_path: Path, text: str, rows: list[list[int | None]]) -> None:
    assert load_table(write(tmp_path, text)).rows == rows


def test_a_run_is_as_long_as_the_shortest_series_that_is_played(tmp_path: Path) -> None:
    path = str(write(tmp_path, "anna,bert,carl\n0,1,4\n2,,3\n1,0,\n3,,\n"))
    stream = make_stream(path, TASK, 5, 100, 0)
    assert [stream.values(step).tolist() for step in range(2)] == [[0, 1, 4, 0, 1], [2, 0, 3, 2, 0]]
    assert len(stream.counts) == 2
    said = "The run ends with its shortest series, after 2 steps; the longest has 4."
    assert said in shared(stream, 5)
    # carl is not played.
    two = make_stream(path, TASK, 2, 100, 0)
    assert len(two.counts) == 3
    assert "after 3 steps" in " ".join(shared(two, 2))
    # Here no series ends before the run.
    for stream in (make_stream(path, TASK, 1, 100, 0), make_stream(path, TASK, 5, 2, 0)):
        assert "shortest" not in " ".join(shared(stream, 5))


def test_a_stream_has_a_step_for_each_gap(tmp_path: Path) -> None:
    task = make_task(GRR, symbols=5, missing=4, thresholds=[1 << 20])
    lines = ["" if step % 40 == 7 else str(step % 4) for step in range(4000)]
    stream = make_stream(str(write(tmp_path, "\n".join(lines))), task, 2, 4000, 0)
    assert len(stream.counts) == 4000
    assert stream.counts[:, 4].tolist() == [2 * (step % 40 == 7) for step in range(4000)]


def test_all_readers_take_the_same_readings(tmp_path: Path) -> None:
    for text in ("1\n\n3\n", "value\n\n3\n\n", "time,value\n1,\n\n2,3\n", "\n2\n\n"):
        path = write(tmp_path, text)
        assert [load_recording(path).readings] == load_table(path).series
    path = sample_recordings()[0]
    table = load_table(path)
    assert table.series == [load_recording(path).readings]
    line = path.read_text().splitlines()[table.lines[5] - 1]
    assert line.split()[0].strip(",") == str(table.rows[5][0])


def test_readings_are_binned_as_on_the_device(tmp_path: Path) -> None:
    numbers = {"symbols": 5, "bins": [0, 10, 200], "missing": 4, "thresholds": [1 << 20]}
    task = make_task(GRR, **numbers)
    readings = [-5, -1, 0, 9, 10, 11, 199, 200, 10**6, None]
    shown = ",".join("" if r is None else str(r) for r in readings)
    path = write(tmp_path, f"{shown}\n{','.join('0' * len(readings))}\n")
    device = Quantizer(task)
    assert make_stream(str(path), task, 10, 1, 0).values(0).tolist() == [
        device.symbol(reading) for reading in readings
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("a,b\n", "holds no readings"),
        ("a,b\n,\n", "holds no readings"),
        ("0,1\n0\n", "line 2: the number of columns is 1, but 2"),
        ("0,1\n0,1,2\n", "line 2: the number of columns is 3, but 2"),
        ("0,1\n0,x\n", "line 2: 'x' is not a whole number"),
        ("0,x\n", "line 1: 'x' is not a whole number"),
        ("0,1.5\n", "line 1: '1.5' is not a whole number"),
        ("0,99999999999\n", "is not between"),
        ("0,1\n0,5\n", "line 2, column 2: 5 is no symbol of the study, which has 0..4"),
        ("0,-1\n", "line 1, column 2: -1 is no symbol"),
        ("time,anna,bert\n08:00,0,5\n", "line 2, column bert: 5 is no symbol"),
        ("time,value\n08:00,5\n", "line 2: 5 is no symbol"),
        ("time,Date\n1,2\n", "holds no readings: its columns say only when they were"),
        ("value,value\n1,2\n", "has 2 columns: name the one to read `value`"),
        ("2.5\n1\n", "line 1: '2.5' is not a whole number"),
        ("1.5,2.5\n1,2\n", "line 1: '1.5' is not a whole number"),
        ("nan,nan\n1,2\n", "line 1: 'nan' is not a whole number; a missing reading is an empty"),
        ("None\n1\n", "line 1: 'None' is not a whole number; a missing reading is an empty"),
        ('0,"1\n', "line 1: "),
        ("0,1\0\n", "is not a text file"),
    ],
)
def test_bad_files_get_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UserError) as caught:
        make_stream(str(path), TASK, 10, 10, 0)
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no file"):
        make_stream(str(tmp_path / "none.csv"), TASK, 10, 10, 0)


# Recordings -------------------------------------------------------------------------------------


def test_recordings_are_played_day_by_day() -> None:
    bins = [1, 100, 400, 1000]
    task = make_task(GRR, symbols=5, bins=bins, thresholds=[1 << 20])
    stream = make_stream("recordings", task, 1000, 5000, 0)
    assert stream.counts.shape == (DAY, 5)
    assert (stream.counts.sum(axis=1) == 1000).all()
    # The first wearer's second day is the second series; epochs are of a minute there.
    first = load_recording(sample_recordings()[0])
    assert first.epoch_seconds == 60
    device = Quantizer(task)
    for step in (0, 700, 1439):
        assert stream.values(step)[1] == device.symbol(first.readings[DAY + step])


def test_short_epochs_are_added_up_to_minutes() -> None:
    """15 seconds: four epochs make a minute, so that a day has 1,440 steps for everyone."""
    bins = list(range(1, 2000))
    task = make_task(GRR, symbols=2000, bins=bins, thresholds=[1000])
    stream = make_stream("recordings", task, 500, 5, 0)
    at = 0
    for path in sample_recordings():
        recording = load_recording(path)
        if recording.epoch_seconds == 15:
            readings = [reading or 0 for reading in recording.readings[:4]]
            assert stream.values(0)[at] == min(1999, sum(readings))
            break
        at += len(recording.readings) * (recording.epoch_seconds or 60) // 60 // DAY
    else:
        pytest.fail("no recording has epochs of 15 seconds")


@pytest.mark.parametrize("domain", [2, 5])
def test_classes_without_bins_part_the_counts_above_zero(domain: int) -> None:
    task = rounds_task("lbu", domain)
    stream = make_stream("recordings", task, 10_000, DAY, 0)
    total = stream.counts.sum(axis=0) / stream.counts.sum()
    assert 0.3 < total[0] < 0.6
    assert total[1:] == pytest.approx((1 - total[0]) / (domain - 1), rel=0.1)
    with pytest.raises(UserError, match="can't be parted into 1500 classes"):
        make_stream("recordings", make_task(GRR, symbols=1500, thresholds=[1000]), 10, 10, 0)
