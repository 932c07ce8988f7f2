"""The verdict of an audit: what it says, whom it acquits, and what it refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.collecting import make_task
from tinyldp import cli
from tinyldp.audit import attack, audit, promises, text_audit
from tinyldp.audit.pairs import stream_pairs
from tinyldp.audit.streams import simulate
from tinyldp.audit.transcripts import Transcripts
from tinyldp.simulate import oracles as simulated_oracles
from tinyldp_protocol.task import (
    GRR,
    JITTERSORT,
    OLH,
    OUE,
    RANSWITCH,
    SCALE,
    STASWITCH,
    Task,
    write_file,
)

FAST = {"beacon": 1 << 20, "resend": 1 << 20, "outbox": 4}
SOUND = [
    make_task(window=3, symbols=2, batch=7, **FAST),
    make_task(window=6, symbols=300, thresholds=[SCALE // 6], batch=20, **FAST),
    make_task(
        mechanism=STASWITCH, window=4, k=4, symbols=64, thresholds=[SCALE // 12], batch=30, **FAST
    ),
    make_task(mechanism=STASWITCH, window=3, k=3, symbols=3, bins=[4], missing=2, **FAST),
    make_task(mechanism=JITTERSORT, symbols=64, epsilon=1 << 16, batch=30, **FAST),
    make_task(mechanism=JITTERSORT, symbols=2, epsilon=1 << 16, batch=30, **FAST),
    make_task(mechanism=GRR, symbols=2, **FAST),
    make_task(mechanism=GRR, symbols=5000, thresholds=[1000], batch=30, **FAST),
    make_task(mechanism=OUE, symbols=2, thresholds=[1], batch=30, **FAST),
    make_task(mechanism=OUE, symbols=20, bins=list(range(18)), missing=19, batch=30, **FAST),
    make_task(mechanism=OLH, symbols=1000, buckets=300, thresholds=[20_000], batch=30, **FAST),
    make_task(mechanism=OLH, symbols=2, buckets=2, batch=30, **FAST),
]


@pytest.mark.parametrize("task", SOUND, ids=lambda task: f"{task.mechanism}-{task.symbols}")
def test_a_sound_device_passes(task: Task) -> None:
    """Fails at most three times in 10^6 runs of each: epsilon, delta, promises."""
    result = audit(task, "cpython", segments=100 if task.mechanism <= JITTERSORT else 2000)
    assert result.held, text_audit(result)
    assert 0 <= result.epsilon_lower <= result.epsilon
    assert 0 <= result.delta_lower <= result.delta
    said = text_audit(result)
    assert "The certificate stands." in said
    assert "BROKEN" not in said


def least(found: list[promises.Promise]) -> float:
    """The least p-value of statistical promises."""
    return min(float(one.detail[4:].split(",")[0]) for one in found if one.detail[:4] == "p = ")


def of_oracle(task: Task, law: Task, rng: np.random.Generator) -> list[promises.Promise]:
    """What is said of 30 segments of 40 reports that follow the law of another Task."""

    def reports(values: np.ndarray) -> Any:
        words = rng.integers(0, SCALE, (values.size, 8 + task.symbols))
        made = simulated_oracles.reports(law, values.reshape(-1), words)
        return made.reshape(*values.shape, *made.shape[1:])

    values = tuple(range(task.symbols))
    constant = [(value, reports(np.full((30, 40), value))) for value in (0, task.symbols - 1)]
    every = reports(np.tile(values, (30, 10)))
    return promises.of_oracle(task, constant, (values, every))


def with_thresholds(task: Task, factor: float) -> Task:
    """The Task with its first threshold changed, JitterSort's last."""
    thresholds = [round(factor * task.thresholds[0])]
    if task.mechanism == JITTERSORT:
        others = [round(factor * t) for t in task.thresholds[1:]]
        thresholds = [SCALE - 2 * sum(others), *others]
    return Task({**vars(task), "thresholds": thresholds})


ORACLES = [
    make_task(mechanism=GRR, symbols=4, thresholds=[SCALE // 7]),
    make_task(mechanism=OUE, symbols=6, thresholds=[SCALE // 4]),
    make_task(mechanism=OLH, symbols=6, buckets=3, thresholds=[SCALE // 6]),
]


@pytest.mark.parametrize("task", ORACLES, ids=["grr", "oue", "olh"])
def test_p_values_of_oracles(task: Task) -> None:
    """Of true laws none is small more often than it says; 0.7 and 1.3 times the lies are found."""
    rng = np.random.default_rng(4)
    found = [least(of_oracle(task, task, rng)) for _ in range(100)]
    # The least of 8 p-values or so, each below .001 once in a thousand times; false alarm 10^-6.
    assert np.count_nonzero(np.array(found) < 0.001) < 10
    assert min(found) > promises.FALSE_ALARM
    for factor in (0.7, 1.3):
        kept = of_oracle(task, with_thresholds(task, factor), rng)
        assert not all(promise.held for promise in kept)


STREAMS = [
    make_task(mechanism=RANSWITCH, window=3, k=3, symbols=64, thresholds=[SCALE // 5]),
    make_task(mechanism=STASWITCH, window=4, k=4, symbols=64, thresholds=[SCALE // 6]),
    make_task(
        mechanism=JITTERSORT,
        window=5,
        k=3,
        symbols=64,
        thresholds=[SCALE - 2 * (2_500_000 + 2_000_000), 2_500_000, 2_000_000],
    ),
]


def of_stream(task: Task, law: Task, segments: int) -> list[promises.Promise]:
    pair = stream_pairs(task)[1]
    released = simulate(law, pair.symbols, segments).astype(np.int64)
    again = simulate(task, pair.symbols, 4 * segments)
    return promises.of_stream(task, pair, released, released, again)


@pytest.mark.parametrize("task", STREAMS, ids=["ranswitch", "staswitch", "jittersort"])
def test_p_values_of_streams(task: Task) -> None:
    found = [least(of_stream(task, task, 200)) for _ in range(25)]
    # Below .01 once in a hundred times; false alarm 10^-6.
    assert np.count_nonzero(np.array(found) < 0.01) < 6
    assert min(found) > promises.FALSE_ALARM
    for factor in (0.7, 1.3):
        kept = of_stream(task, with_thresholds(task, factor), 3000)
        assert [promise.name for promise in kept if not promise.held] == ["law, inside"]


def test_a_device_that_releases_nothing_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict is one, and no crash."""

    def play(task: Task, lane: str, series: Any, rounds: int, progress: Any) -> Transcripts:
        shape = (task.width,) if task.mechanism in (OUE, OLH) else ()
        return Transcripts(
            [np.zeros((0, one.steps, *shape), np.uint8) for one in series],
            short=rounds,
            sizes={"status": {23}},
        )

    monkeypatch.setattr(attack, "play", play)
    for task in SOUND:
        result = audit(task, segments=100)
        assert not result.held
        assert result.epsilon_lower == result.delta_lower == 0
        assert "whole segments" in [one.name for one in result.promises if not one.held]
        assert "THE DEVICE BREAKS ITS CERTIFICATE." in text_audit(result)


def test_frames_of_two_lengths_break_a_promise() -> None:
    sizes = {"release": {14, 15}, "status": {23}}
    assert not promises.one_length(Transcripts([], sizes=sizes)).held
    assert promises.one_length(Transcripts([], sizes={"status": {23}})).held
    assert not promises.padding(Transcripts([], padded=1)).held


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.task"
    path.write_bytes(write_file(SOUND[6]))
    return path


def test_json(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["audit", str(path), "--lane", "cpython", "--segments", "1000", "--json"]
    assert cli.main(arguments) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert set(verdict) == {
        "task_id",
        "mechanism",
        "lane",
        "segments",
        "confidence",
        "epsilon",
        "delta",
        "epsilon_lower",
        "delta_lower",
        "findings",
        "promises",
        "seconds",
        "held",
    }
    assert verdict["task_id"] == SOUND[6].id.hex()
    assert (verdict["mechanism"], verdict["lane"], verdict["segments"]) == ("grr", "cpython", 1000)
    assert verdict["held"] is True
    assert set(verdict["findings"][0]) == {"where", "epsilon_lower", "delta_lower"}
    assert all(type(promise["held"]) is bool for promise in verdict["promises"])


def test_the_point_of_the_curve_can_be_chosen(path: Path, capsys: pytest.CaptureFixture) -> None:
    arguments = ["audit", str(path), "--lane", "cpython", "--segments", "2000", "--json"]
    assert cli.main([*arguments, "--epsilon", "0.5", "--confidence", "0.999"]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["epsilon"] == 0.5
    assert verdict["confidence"] == 0.999
    assert 0.5 * verdict["delta"] < verdict["delta_lower"] <= verdict["delta"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--lane", "wasm"], "lanes unix, cpython, not on wasm"),
        (["--lane", "serial:/dev/null"], "not on serial:/dev/null"),
        (["--segments", "10"], "100 to 10,000,000 segments, not 10"),
        (["--confidence", "1"], "between 0 and 1"),
        (["--confidence", "0"], "between 0 and 1"),
        (["--confidence", "999"], "between 0 and 1"),
    ],
)
def test_bad_options(
    path: Path, options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["audit", str(path), *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("tinyldp audit: ")
    assert captured.err.count("\n") == 1
    assert words in captured.err


@pytest.mark.parametrize(
    "options", [["--epsilon", "-1"], ["--epsilon", "nan"], ["--segments", "0"]]
)
def test_options_that_are_no_such_numbers(
    path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["audit", str(path), *options])
    assert ended.value.code == 2
    assert "must be a" in capsys.readouterr().err


def test_a_task_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.task"
    path.write_bytes(write_file(SOUND[0])[:-1] + b"\0")
    assert cli.main(["audit", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_interrupted(path: Path) -> None:
    """Ctrl-C ends it at once, and leaves no device running."""
    command = [sys.executable, "-m", "tinyldp", "audit", str(path), "--lane", "cpython"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        process.kill()
        pytest.skip("no /proc here")
    deadline = time.monotonic() + 60
    started: list[str] = []
    while not started:
        assert time.monotonic() < deadline
        started = children.read_text().split()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert error.endswith("tinyldp audit: stopped.\n")
    assert not any(os.path.exists(f"/proc/{pid}") for pid in started)
