"""The same words give the same frames on the micro:bit: protocol/vectors/streams.json."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from firmware_tests.microbit import program, set_credits
from firmware_tests.test_stream_vectors import MECHANISMS, VECTORS
from tinyldp.flash.build import build_microbit
from tinyldp.lanes import Lane
from tinyldp_protocol.task import Task

STREAMS = json.loads(VECTORS.read_text())["streams"]


def task_of(stream: dict[str, Any]) -> Task:
    task = Task(
        {
            **{name: stream[name] for name in ("mechanism", "window", "k", "symbols", "batch")},
            "thresholds": [stream["threshold"]],
            "tick": 1000,
            "resend": 7,
            "beacon": 50,
            "outbox": 3,
        }
    )
    task.id = b"task-id!"
    return task


@pytest.mark.parametrize("lane", ["microbit"], indirect=True)
@pytest.mark.parametrize(
    "stream", STREAMS, ids=lambda s: f"{MECHANISMS[s['mechanism']]}-{s['window']}-{s['symbols']}"
)
def test_frames_are_byte_identical(
    lane: Lane, stream: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody answers here, and the vectors' device sends everything all the same.
    set_credits(monkeypatch, 1 << 29)
    source = program(
        "microbit_streams.py", SEED=stream["window"], STEPS=stream["steps"], WINDOW=stream["window"]
    )
    lane.put(build_microbit(task_of(stream), b"", source).files)
    with lane.start("main.py") as board:
        # The serial line's first byte is a zero that the board's start leaves there.
        data = board.read(1 + stream["bytes"], 60)[1:]
        rest = board.wait(20)
    assert rest.stdout.lstrip().startswith(b"MicroPython")
    assert data[: len(stream["start"]) // 2].hex() == stream["start"]
    assert hashlib.sha256(data).hexdigest() == stream["sha256"]
