"""The README's own files and commands, on a port that is free and a lane for the sensor."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tinyldp.demo.broker import broker
from tinyldp.lanes import Lane

README = (Path(__file__).parents[1] / "README.md").read_text()


def block(language: str, word: str) -> str:
    """The one block of code in a language that holds a word."""
    blocks = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    (found,) = [text for text in blocks if word in text]
    return found


def command(text: str) -> list[str]:
    """A line of the README, to be run by this Python."""
    assert text in README
    return [sys.executable, "-m", *text.removeprefix(".venv/bin/").split()]


@pytest.mark.parametrize("lane", ["unix"], indirect=True)
def test_sensor_to_report(lane: Lane, tmp_path: Path) -> None:
    with broker(tmp_path) as server:
        study = block("toml", "[study]").replace("127.0.0.1:18830", server.address)
        (tmp_path / "load.toml").write_text(study)
        subprocess.run(command(".venv/bin/tinyldp plan load.toml"), cwd=tmp_path, check=True)
        collect = command(".venv/bin/tinyldp collect load.toml --until-ended 1")
        with subprocess.Popen(
            [*collect, "--json"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as host:
            assert host.stderr is not None
            assert host.stderr.readline().startswith(b"Listening on")
            lane.install()
            lane.put(
                {
                    "sensor.py": block("python", "def sample").encode(),
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


@pytest.mark.parametrize("lane", ["wasm"], indirect=True)
def test_lane_in_three_lines(lane: Lane, capsys: pytest.CaptureFixture[str]) -> None:
    lane.stop()
    exec(block("python", 'open_lane("wasm")'), {})
    assert "536870912" in capsys.readouterr().out
