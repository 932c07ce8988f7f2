"""The README's own files and commands, on a port that is free and a lane for the sensor."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tinyldp.demo.broker import broker
from tinyldp.flash.provision import flash
from tinyldp.lanes import Lane
from tinyldp.lanes.microbit import Microbit
from tinyldp.lanes.relay import RelayedBoard
from tinyldp.lanes.serial import Serial
from tinyldp.planning import choose
from tinyldp.study import load_study

README = (Path(__file__).parents[1] / "README.md").read_text()


def block(language: str, word: str) -> str:
    """The one block of code in a language that holds a word."""
    blocks = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    (found,) = [text for text in blocks if word in text]
    return found


def command(text: str) -> list[str]:
    """A line of the README, to be run by this Python."""
    assert text in README
    words = text.removeprefix(".venv/bin/").split()
    return [sys.executable, *(words[1:] if words[0] == "python" else ["-m", *words])]


@pytest.mark.waits
@pytest.mark.parametrize("lane", ["unix"], indirect=True)
def test_sensor_to_report(lane: Lane, tmp_path: Path) -> None:
    with broker(tmp_path) as server:
        study = block("toml", "18830").replace("127.0.0.1:18830", server.address)
        (tmp_path / "load.toml").write_text(study)
        for line in ("tinyldp plan load.toml", "tinyldp certify load.task"):
            subprocess.run(command(f".venv/bin/{line}"), cwd=tmp_path, check=True)
        collect = command(".venv/bin/tinyldp collect load.toml --until-ended 1")
        with subprocess.Popen(
            [*collect, "--json"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as host:
            assert host.stderr is not None
            assert host.stderr.readline().startswith(b"Listening on")
            lane.install()
            lane.put(
                {
                    "sensor.py": block("python", "MQTTClient").encode(),
                    "load.task": (tmp_path / "load.task").read_bytes(),
                }
            )
            result = lane.run("sensor.py", str(server.port), timeout=120)
            assert result.exit_code == 0, result.stdout + result.stderr
            out, _ = host.communicate(timeout=60)
    assert host.returncode == 0
    (stream,) = json.loads(out)["streams"]
    # On a busy computer some steps are slept through, and count as missing readings.
    assert stream["values"] >= 500
    assert stream["received"] == stream["sent"] == -(-stream["values"] // 4)
    assert (stream["lost"], stream["health"]) == (0, "ended")
    assert stream["entropy"] == "OS"
    report = command(".venv/bin/tinyldp report load.db --html load.html --csv load-values")
    subprocess.run(report, cwd=tmp_path, check=True)
    assert "<svg" in (tmp_path / "load.html").read_text()
    (values,) = (tmp_path / "load-values").glob("*.csv")
    assert len(values.read_text().splitlines()) == stream["values"] + 1


@pytest.mark.waits
def test_your_sensor_in_ten_minutes(
    tmp_path: Path, need: Callable[[str, str | None], None]
) -> None:
    """The tutorial word for word; the port alone is the relayed board's."""
    need("serial", Serial.missing() or RelayedBoard.missing())
    relay = command(".venv/bin/python -m tinyldp.lanes.relay my-board")
    with subprocess.Popen(relay, cwd=tmp_path, stdout=subprocess.PIPE) as board:
        assert board.stdout is not None
        port = board.stdout.readline().decode().strip()
        try:
            (tmp_path / "sample.py").write_text(block("python", "% 40"))
            study = block("toml", '"sensor"').replace("/dev/ttyACM0", port)
            (tmp_path / "sensor.toml").write_text(study)
            lines = block("sh", "flash sensor.task --port").strip().split("\n")
            steps = ["plan", "certify", "flash", "collect", "report"]
            assert [line.split()[1] for line in lines] == steps
            for line in lines:
                words = [port if word == "/dev/ttyACM0" else word for word in command(line)]
                subprocess.run(words, cwd=tmp_path, check=True, timeout=120)
        finally:
            board.send_signal(signal.SIGINT)
    assert board.returncode == 0
    report = command(".venv/bin/tinyldp report sensor.db --html sensor.html")
    done = subprocess.run([*report, "--json"], cwd=tmp_path, check=True, stdout=subprocess.PIPE)
    (stream,) = json.loads(done.stdout)["streams"]
    # On a busy computer some steps are slept through, and count as missing readings.
    assert stream["values"] >= 500
    assert (stream["lost"], stream["health"]) == (0, "ended")
    assert stream["entropy"] == "OS"
    assert "<svg" in (tmp_path / "sensor.html").read_text()


@pytest.mark.waits
def test_the_same_on_a_micro_bit(tmp_path: Path, need: Callable[[str, str | None], None]) -> None:
    need("microbit", Microbit.missing())
    (tmp_path / "sample.py").write_text(block("python", "% 40"))
    study = block("toml", '"sensor"')
    assert "outbox = 128" in study
    (tmp_path / "sensor.toml").write_text(study.replace("outbox = 128", "outbox = 4"))
    plan, certify, _, collect, _ = block("sh", "flash sensor.task --port").strip().split("\n")
    subprocess.run(command(plan), cwd=tmp_path, check=True)
    subprocess.run(command(certify), cwd=tmp_path, check=True)
    flash = command(block("sh", "--lane microbit").strip())
    with subprocess.Popen([*flash, "--json"], cwd=tmp_path, stdout=subprocess.PIPE) as board:
        assert board.stdout is not None
        text = b""
        while not text.endswith(b"\n}\n") and (line := board.stdout.readline()):
            text += line
        port = json.loads(text)["port"]
        try:
            named = study.replace("outbox = 128", "outbox = 4").replace("/dev/ttyACM0", port)
            (tmp_path / "sensor.toml").write_text(named)
            done = subprocess.run(
                [*command(collect), "--json"],
                cwd=tmp_path,
                check=True,
                timeout=300,
                stdout=subprocess.PIPE,
            )
        finally:
            board.send_signal(signal.SIGINT)
    (stream,) = json.loads(done.stdout)["streams"]
    assert stream["values"] >= 500
    # On a busy computer four frames may be too few to wait for the host; it says how many.
    assert stream["received"] + stream["lost"] == stream["sent"] == -(-stream["values"] // 4)
    assert (stream["health"], stream["entropy"]) == ("ended", "hardware")


@pytest.mark.waits
def test_questions_without_end(tmp_path: Path, need: Callable[[str, str | None], None]) -> None:
    """Rounds word for word; the port alone is the relayed board's."""
    need("serial", Serial.missing() or RelayedBoard.missing())
    (tmp_path / "endless.py").write_text(block("python", "count % 4"))
    with RelayedBoard() as board:
        study = block("toml", '"rooms"').replace("/dev/ttyACM0", board.port)
        (tmp_path / "rooms.toml").write_text(study)
        lines = block("sh", "--sweep") + block("sh", "flash rooms.task --port")
        for line in lines.strip().split("\n"):
            words = [board.port if word == "/dev/ttyACM0" else word for word in command(line)]
            subprocess.run(words, cwd=tmp_path, check=True, timeout=180)
    for picture in ("rooms.png", "sweep.png", "growth.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    report = command(".venv/bin/tinyldp report rooms.db --html rooms.html --csv rooms-values")
    done = subprocess.run([*report, "--json"], cwd=tmp_path, check=True, stdout=subprocess.PIPE)
    (rounds,) = json.loads(done.stdout)["rounds"]
    (device,) = rounds["devices"]
    assert device["answered"] > 50
    assert device["answered"] > 0.8 * device["asked"]
    (table,) = (tmp_path / "rooms-values").glob("*-steps.csv")
    assert len(table.read_text().splitlines()) == len(rounds["steps"]) + 1


@pytest.mark.waits
def test_a_mean_that_changes_seldom(
    tmp_path: Path, need: Callable[[str, str | None], None]
) -> None:
    """Thresh and HeavyThresh word for word; the port alone is the relayed board's."""
    need("serial", Serial.missing() or RelayedBoard.missing())
    (tmp_path / "endless.py").write_text(block("python", "count % 4"))
    (tmp_path / "words.toml").write_text(block("toml", '"words"'))
    (tmp_path / "steps.toml").write_text(block("toml", '"steps"'))
    with RelayedBoard() as board:
        study = block("toml", '"try"').replace("/dev/ttyACM0", board.port)
        (tmp_path / "try.toml").write_text(study)
        lines = block("sh", "plan steps.toml") + block("sh", "flash try.task --port")
        for line in (lines + block("sh", "plan words.toml")).strip().split("\n"):
            words = [board.port if word == "/dev/ttyACM0" else word for word in command(line)]
            subprocess.run(words, cwd=tmp_path, check=True, timeout=180)
    for picture in ("steps.png", "words.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    report = command(".venv/bin/tinyldp report try.db")
    done = subprocess.run([*report, "--json"], cwd=tmp_path, check=True, stdout=subprocess.PIPE)
    (table,) = json.loads(done.stdout)["epochs"]
    # The first epoch publishes in any case; of one board, one bit.
    first = table["steps"][0]
    assert first["outcome"] == "published"
    assert min(abs(first["mean"]), abs(first["mean"] - 1)) < 0.01


@pytest.mark.waits
def test_values_that_follow_a_known_model(
    tmp_path: Path, need: Callable[[str, str | None], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CRR word for word; the port alone is the relayed board's."""
    need("serial", Serial.missing() or RelayedBoard.missing())
    monkeypatch.chdir(tmp_path)
    exec(block("python", "public.csv"), {})
    (tmp_path / "sample.py").write_text(block("python", "% 40"))
    with RelayedBoard() as board:
        study = block("toml", '"classes"').replace("/dev/ttyACM0", board.port)
        (tmp_path / "classes.toml").write_text(study)
        lines = block("sh", "plan classes.toml") + block("sh", "flash classes.task --port")
        for line in lines.strip().split("\n"):
            words = [board.port if word == "/dev/ttyACM0" else word for word in command(line)]
            subprocess.run(words, cwd=tmp_path, check=True, timeout=180)
    assert (tmp_path / "classes.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "classes.html").read_text()
    report = command(".venv/bin/tinyldp report classes.db")
    done = subprocess.run([*report, "--json"], cwd=tmp_path, check=True, stdout=subprocess.PIPE)
    data = json.loads(done.stdout)
    (stream,) = data["streams"]
    assert (stream["lost"], stream["health"]) == (0, "ended")
    (table,) = data["crr"]
    assert (table["problem"], table["steps_in_all"]) == (None, stream["values"])
    assert table["excess"] is not None
    names = {path.name.rsplit("-", 1)[-1] for path in (tmp_path / "classes-values").glob("*.csv")}
    assert "shares.csv" in names
    assert "smoothed.csv" in names
    assert len(names) == 3


def test_another_board(tmp_path: Path, need: Callable[[str, str | None], None]) -> None:
    """The board file that the README shows; on the relayed board the line is the terminal's."""
    need("serial", Serial.missing() or RelayedBoard.missing())
    shown = block("python", "def slots").replace(
        "from micropython import kbd_intr", "from tinyldp_device.boards.unix import open_line"
    )
    own = shown.replace("return ReplLine(kbd_intr)", "return open_line()")
    assert own.count("open_line") == 3
    (tmp_path / "mine.py").write_text(own)
    (tmp_path / "sample.py").write_text(block("python", "% 40"))
    (tmp_path / "sensor.toml").write_text(block("toml", '"sensor"'))
    task = choose(load_study(tmp_path / "sensor.toml"))
    with RelayedBoard() as board:
        done = flash(
            board.port, task, sample=tmp_path / "sample.py", board_file=tmp_path / "mine.py"
        )
    assert done.board == "mine"


@pytest.mark.parametrize("lane", ["unix"], indirect=True)
def test_plan_simulate_and_attack(
    lane: Lane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lane.stop()
    (tmp_path / "room.toml").write_text(block("toml", '"room"'))
    lines = block("sh", "audit room.task").strip().split("\n")
    assert [line.split()[1] for line in lines] == ["plan", "certify", "simulate", "audit"]
    for line in lines:
        subprocess.run(command(line), cwd=tmp_path, check=True, timeout=120)
    assert (tmp_path / "room.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.chdir(tmp_path)
    exec(block("python", "import tinyldp\n"), {})
    epsilon, mse = map(float, capsys.readouterr().out.split())
    assert 0.99 < epsilon <= 1
    assert 0 < mse < 0.1


@pytest.mark.parametrize("lane", ["wasm"], indirect=True)
def test_lane_in_three_lines(lane: Lane, capsys: pytest.CaptureFixture[str]) -> None:
    lane.stop()
    exec(block("python", 'open_lane("wasm")'), {})
    assert "536870912" in capsys.readouterr().out
