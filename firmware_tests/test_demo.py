"""The demo as a person runs it, and what its capture of both links holds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pycddl
import pytest

from tinyldp import cli
from tinyldp.demo import broker, run
from tinyldp.demo.wiretap import deframe, lengths, read_capture
from tinyldp.lanes.unix import Unix
from tinyldp_protocol.messages import put_release

CDDL = Path(__file__).parents[1] / "protocol" / "tinyldp.cddl"
STEPS = "1200"
# The fixture is made once.
pytestmark = [pytest.mark.xdist_group("demo"), pytest.mark.waits]


@pytest.fixture(scope="module")
def demo(
    tmp_path_factory: pytest.TempPathFactory, need: Callable[[str, str | None], None]
) -> tuple[Path, dict]:
    """A demo's output folder and its JSON."""
    need("unix", Unix.missing())
    folder = tmp_path_factory.mktemp("demo") / "output"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tinyldp", "demo", "--json", "--steps", STEPS),
            "--output",
            folder,
        ],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return folder, json.loads(done.stdout)


def test_every_stream_arrives(demo: tuple[Path, dict]) -> None:
    folder, result = demo
    assert result["held"] is True
    assert [row["exact"] for row in result["devices"]] == [True] * 6
    assert [row["link"] == "mqtt" for row in result["devices"]].count(True) in (0, 2)
    assert {row["mechanism"] for row in result["devices"]} == {"RanSwitch", "StaSwitch"}
    for row in result["devices"]:
        assert row["sent"] == row["received"] == int(STEPS) // 8
        assert row["lost"] == row["missing"] == 0
        assert row["displacement_measured"] == pytest.approx(row["displacement_exact"], rel=0.3)
    assert Path(result["report"]) == folder.resolve() / "report.html"
    assert "<svg" in (folder / "report.html").read_text()


def test_capture_holds_nothing_beyond_the_cddl(demo: tuple[Path, dict]) -> None:
    folder, result = demo
    messages = list(read_capture(folder / "capture"))
    schema = pycddl.Schema(CDDL.read_text())
    for message in messages:
        schema.validate_cbor(message)
    found = lengths(iter(messages))
    assert all(len(sizes) == 1 for sizes in found.values()), found
    assert sum(found["release"].values()) >= 6 * int(STEPS) // 8
    assert result["wire"] == {
        kind: {str(size): n for size, n in sizes.items()} for kind, sizes in found.items()
    }
    # The decoder is not what makes it so: every byte on a line is a frame's.
    for path in (folder / "capture").glob("*.up"):
        data = path.read_bytes()
        assert len(data) == sum(len(message) + 7 for message in deframe(data))


def test_a_field_too_many_is_caught() -> None:
    schema = pycddl.Schema(CDDL.read_text())
    good = bytearray(put_release(None, 0, bytes(4), 0, bytes(8)))
    put_release(good, 0, bytes(4), 0, bytes(8))
    schema.validate_cbor(bytes(good))
    bad = bytes([good[0] + 1, *good[1:], 0])
    with pytest.raises(pycddl.ValidationError):
        schema.validate_cbor(bad)


def test_own_recording_and_the_embedded_broker(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    need: Callable[[str, str | None], None],
) -> None:
    """A CSV of a person's own, with a missing reading, where mosquitto is not installed."""
    need("unix", Unix.missing())
    monkeypatch.setattr(broker, "find_mosquitto", lambda: None)
    csv = tmp_path / "my.csv"
    csv.write_text("value\n" + "".join(f"{n * 37 % 4000}\n" for n in range(300)) + "\n5\n")
    arguments = ["demo", "--recording", str(csv), "--output", str(tmp_path / "out"), "--json"]
    assert cli.main(arguments) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["broker"] == "amqtt"
    assert [row["values"] for row in result["devices"]] == [302] * 6
    assert {row["recording"] for row in result["devices"]} == {"my"}


def test_a_wrong_stream_is_caught(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    need: Callable[[str, str | None], None],
) -> None:
    """Had one device released one other value, the demo would say which and fail."""
    need("unix", Unix.missing())
    true_replay = run.replay

    def wrong(task, words, symbols):
        values = true_replay(task, words, symbols)
        if task.k == 8 and values[-1] != 12:
            values[-1] = 12
        return values

    monkeypatch.setattr(run, "replay", wrong)
    csv = tmp_path / "my.csv"
    csv.write_text("3\n" * 100)
    arguments = ["demo", "--recording", str(csv), "--output", str(tmp_path / "out")]
    assert cli.main(arguments) == 1
    assert "NOT as the words dictate: device 2, 4, 6." in capsys.readouterr().out
