"""The same words give the same frames on the micro:bit: protocol/vectors/streams.json."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from firmware_tests.microbit import program, set_credits
from firmware_tests.test_stream_vectors import as_given, loaded
from tinyldp.flash.build import build_microbit
from tinyldp.lanes import Lane
from tinyldp_protocol.task import Task

NAMES = dict(enumerate(("RanSwitch", "StaSwitch", "JitterSort", "GRR", "OUE", "OLH"), 1)) | {
    9: "CRR"
}


def name(stream: dict[str, Any]) -> str:
    task = as_given(stream)["task"]
    parts = [NAMES[task["mechanism"]], task.get("window"), task["symbols"], task["batch"]]
    parts.append(f"rule{task['rule']}" if "rule" in task else None)
    return "-".join(str(part) for part in parts if part is not None)


def that_fit() -> list[dict[str, Any]]:
    """All but those of blocks."""
    return [stream for stream in loaded() if "block" not in as_given(stream)["task"]]


@pytest.mark.parametrize("lane", ["microbit"], indirect=True)
@pytest.mark.parametrize("stream", that_fit(), ids=name)
def test_frames_are_byte_identical(
    lane: Lane, stream: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody answers here, and the vectors' device sends everything all the same.
    set_credits(monkeypatch, 1 << 29)
    given = as_given(stream)
    task = Task(given["task"])
    task.id = b"task-id!"
    source = program(
        "microbit_streams.py",
        SEED=given["seed"],
        STEPS=given["steps"],
        WINDOW=task.window or 0,
        MIXED=int(given["words"] == "mixed"),
    )
    lane.put(build_microbit(task, b"", source).files)
    with lane.start("main.py") as board:
        # The serial line's first byte is a zero that the board's start leaves there.
        data = board.read(1 + stream["bytes"], 60)[1:]
        rest = board.wait(20)
    assert rest.stdout.lstrip().startswith(b"MicroPython")
    assert data[: len(stream["start"]) // 2].hex() == stream["start"]
    assert hashlib.sha256(data).hexdigest() == stream["sha256"]
