"""The same words give the same frames on every lane: protocol/vectors/streams.json.

Written anew by `python -m firmware_tests.test_stream_vectors`, which is only
right after a deliberate change of the protocol or of a mechanism.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tinyldp.lanes import Lane, open_lane
from tinyldp_device.mechanism import make_mechanism
from tinyldp_protocol.framing import Decoder
from tinyldp_protocol.messages import RELEASE, SEQUENCE_AT, check
from tinyldp_protocol.task import CRR, CRR_BATCH, GRR, JITTERSORT, OLH, OUE, SCALE, TABLE, Task

HERE = Path(__file__).parent
VECTORS = HERE.parent / "protocol" / "vectors" / "streams.json"
FIELDS = ("mechanism", "window", "k", "symbols", "batch", "threshold", "steps")
MECHANISMS = {1: "RanSwitch", 2: "StaSwitch"}
TIMING = {"tick": 1000, "outbox": 3, "beacon": 50, "resend": 7}

Stream = dict[str, Any]


def as_given(stream: Stream) -> Stream:
    """A stream of the file as programs/streams.py reads it."""
    if "task" in stream:
        given = {"words": "mixed", "readings": "third", "steps": stream["steps"]}
        return {**given, "task": {**stream["task"], **TIMING}, "seed": stream["seed"]}
    task = {name: stream[name] for name in ("mechanism", "window", "k", "symbols", "batch")}
    task.update(TIMING, thresholds=[stream["threshold"]])
    given = {"words": "plain", "readings": "square", "steps": stream["steps"]}
    return {**given, "task": task, "seed": stream["window"]}


def frames(lane: Lane, streams: list[Stream]) -> list[bytes]:
    """The bytes that each stream sends, on one lane."""
    lane.install()
    for path in (HERE / "programs" / "streams.py", HERE / "portable" / "helpers.py"):
        lane.put({path.name: path.read_bytes()})
    lines = "".join(json.dumps(as_given(stream)) + "\n" for stream in streams)
    result = lane.run("streams.py", stdin=lines.encode(), timeout=300)
    assert result.exit_code == 0, result.stderr.decode()
    return [bytes.fromhex(line) for line in result.stdout.decode().split()]


def loaded() -> list[Stream]:
    vectors = json.loads(VECTORS.read_text())
    return vectors["streams"] + vectors["mechanisms"]


@pytest.mark.parametrize("lane", ["cpython", "guarded", "unix", "wasm"], indirect=True)
def test_frames_are_byte_identical(lane: Lane) -> None:
    streams = loaded()
    found = frames(lane, streams)
    assert len(found) == len(streams)
    for stream, data in zip(streams, found, strict=True):
        assert data[: len(stream["start"]) // 2].hex() == stream["start"]
        assert (len(data), hashlib.sha256(data).hexdigest()) == (stream["bytes"], stream["sha256"])


def released(data: bytes, task: Task) -> bytes:
    """The values of all frames in a stream, in order, padding included."""
    size = task.batch * task.width
    decoder = Decoder(249)
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(data):
        at = decoder.feed(data, at, len(data))
        message = bytes(decoder.message[: decoder.length])
        if message and check(message, len(message), size) == RELEASE:
            sequence = message[SEQUENCE_AT : SEQUENCE_AT + 4]
            assert found.setdefault(sequence, message[-size:]) == message[-size:]
    assert decoder.bad_cobs + decoder.bad_crc + decoder.too_long + decoder.too_short == 0
    return b"".join(found.values())


class Mixed:
    """The words that streams.json describes for `mechanisms`."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def word(self) -> int:
        self._state = (self._state * 61 + 7919) % SCALE
        return self._state ^ self._state >> 12


def given(stream: Stream, task: Task) -> Iterator[int]:
    """The symbols that the mechanism of one of `mechanisms` takes in."""
    for i in range(stream["steps"]):
        yield (task.missing or 0) if i % 50 == 49 else i * i // 3 % task.symbols


def reports(stream: Stream, task: Task) -> bytes:
    """What the mechanism of one of `mechanisms` gives, one report after the other."""
    mechanism = make_mechanism(task, Mixed(stream["seed"]))
    joined = b""
    for symbol in given(stream, task):
        joined += coded(mechanism.step(symbol), task.width)
    while (report := mechanism.flush()) is not None:
        joined += coded(report, task.width)
    return joined


def coded(report: int | bytearray | None, width: int) -> bytes:
    if report is None:
        return b""
    return report.to_bytes(width, "little") if isinstance(report, int) else bytes(report)


@pytest.mark.parametrize("lane", ["cpython"], indirect=True)
def test_the_vectors_hold_every_release(lane: Lane) -> None:
    """Each stream's frames decode, and hold exactly its values: none empty, none constant."""
    streams = json.loads(VECTORS.read_text())["streams"]
    for stream, data in zip(streams, frames(lane, streams), strict=True):
        task = Task(as_given(stream)["task"])
        width = task.width
        joined = released(data, task)[: stream["steps"] * width]
        values = [
            int.from_bytes(joined[i : i + width], "little") for i in range(0, len(joined), width)
        ]
        arrived = [min((i * i + 3) % 2000, stream["symbols"] - 1) for i in range(stream["steps"])]
        assert values != arrived
        assert sorted(values) == sorted(arrived)


@pytest.mark.parametrize("lane", ["cpython"], indirect=True)
def test_the_vectors_hold_every_report(lane: Lane) -> None:
    """Each frame's values are what the mechanism gives on the words that the file describes."""
    streams = json.loads(VECTORS.read_text())["mechanisms"]
    assert {stream["task"]["mechanism"] for stream in streams} == {JITTERSORT, GRR, OUE, OLH} | {
        CRR,
        CRR_BATCH,
    }
    for stream, data in zip(streams, frames(lane, streams), strict=True):
        task = Task(as_given(stream)["task"])
        joined = reports(stream, task)
        # By a table nothing of an incomplete block is released.
        lost = stream["steps"] % task.block if task.rule == TABLE else 0
        assert len(joined) == (stream["steps"] - lost) * task.width
        assert hashlib.sha256(joined).hexdigest() == stream["reports"]
        assert released(data, task)[: len(joined)] == joined


def made() -> list[Stream]:
    """The Tasks of `mechanisms`, without what they give."""
    tasks: list[Stream] = []
    for half in (1, 4, 46):
        # In the ratio of 1 to half + 1 from the ends to the middle.
        part = SCALE // (half + 1) ** 2
        sides = [part * (half + 1 - j) for j in range(1, half + 1)]
        jitter: Stream = {"mechanism": JITTERSORT, "window": 2 * half + 1, "k": half + 2}
        jitter["thresholds"] = [SCALE - 2 * sum(sides), *sides]
        tasks += [{**jitter, "symbols": 256, "batch": 1}, {**jitter, "symbols": 2001, "batch": 3}]
    for d, batch in ((2, 1), (5, 16), (16, 1), (2001, 3)):
        grr = {"mechanism": GRR, "symbols": d, "thresholds": [SCALE // (2 * d)]}
        tasks.append({**grr, "batch": batch})
    for d, batch in ((2, 1), (16, 1), (16, 16), (100, 3)):
        tasks.append({"mechanism": OUE, "symbols": d, "thresholds": [SCALE // 4], "batch": batch})
    for d, g, batch in ((2, 2, 1), (16, 4, 1), (100, 4, 3), (32749, 300, 16)):
        olh = {"mechanism": OLH, "symbols": d, "buckets": g, "thresholds": [SCALE // (2 * g)]}
        tasks.append({**olh, "batch": batch})
    for task in tasks[::2]:
        task["missing"] = task["symbols"] - 1
    tasks += by_belief()
    streams = [{"task": task, "seed": 5 + i, "steps": 300} for i, task in enumerate(tasks)]
    # With an incomplete block at the end.
    return streams + [
        {"task": task, "seed": 5 + len(streams) + i, "steps": 301}
        for i, task in enumerate(by_table())
    ]


def by_belief() -> list[Stream]:
    """Tasks of CRR and of blocks, some symbols of them rare."""
    tasks: list[Stream] = []
    for d, rule, loss, block, memory in (
        (2, 1, 1, None, 1),
        (4, 1, 3, None, 1),
        (8, 1, 1, None, 1),
        (4, 2, 2, None, 1),
        (5, 2, 4, None, 1),
        (2, 2, 1, 5, 2),
        (4, 2, 2, 2, 1),
    ):
        states = d**memory
        changes = 1000 // (d - 1)
        stays = (1 << 14) - changes * (d - 1)
        prior = [(1 << 15) // (2 * states)] * states
        task: Stream = {"mechanism": CRR if block is None else CRR_BATCH, "symbols": d}
        task |= {"thresholds": [SCALE // 8], "batch": 3, "rule": rule, "loss": loss}
        task["prior"] = [(1 << 15) - sum(prior[1:]), *prior[1:]]
        rows = [[stays if y == s % d else changes for y in range(d)] for s in range(states)]
        task["transitions"] = [chance for row in rows for chance in row]
        if loss == 4:
            task["costs"] = [abs(x - y) * 1023 // (d - 1) for x in range(d) for y in range(d)]
        if block is not None:
            task |= {"block": block, "memory": memory}
        tasks.append(task)
    return tasks


def by_table() -> list[Stream]:
    """Tasks of blocks by a table: two in three are likely to stay, and one block is never told."""
    tasks: list[Stream] = []
    for d, block, batch in ((2, 2, 1), (2, 3, 3), (3, 2, 16)):
        blocks = d**block
        least = (1 << 15) // (3 * blocks)
        table: list[int] = []
        for x in range(blocks):
            row = [least + y % 3 for y in range(blocks)]
            row[blocks // 2] = 0
            row[x if x != blocks // 2 else 0] += (1 << 15) - sum(row)
            table += row
        task: Stream = {"mechanism": CRR_BATCH, "symbols": d, "thresholds": [SCALE // 16]}
        task |= {"batch": batch, "rule": TABLE, "loss": 1, "block": block}
        prior = [(1 << 15) // d] * d
        task["prior"] = [(1 << 15) - sum(prior[1:]), *prior[1:]]
        row = [(1 << 14) // d] * d
        task["transitions"] = [(1 << 14) - sum(row[1:]), *row[1:]] * d
        tasks.append({**task, "table": table})
    return tasks


def write() -> None:
    """Write the vector file from what CPython does."""
    shapes = [(k, k, 256, 1) for k in (2, 3, 10, 64)] + [(k, k, 2001, 3) for k in (2, 3, 10, 64)]
    streams: list[Stream] = [
        dict(zip(FIELDS, (m, window, k, symbols, batch, 2**24 // (window + 1), 300), strict=True))
        for m in MECHANISMS
        for window, k, symbols, batch in shapes + ([(20, 10, 256, 16)] if m == 1 else [])
    ]
    mechanisms = made()
    with open_lane("cpython") as lane:
        for stream, data in zip(
            streams + mechanisms, frames(lane, streams + mechanisms), strict=True
        ):
            stream["bytes"] = len(data)
            stream["sha256"] = hashlib.sha256(data).hexdigest()
            stream["start"] = data[:96].hex()
    for stream in mechanisms:
        joined = reports(stream, Task(as_given(stream)["task"]))
        stream["reports"] = hashlib.sha256(joined).hexdigest()
    about = [
        "All frames that a device sends over a serial line, as one string of bytes. Task id "
        "'task-id!', pseudonym 'somebody', boot nonce 0102030405060708, quality 0, tick 1000, "
        "resend 7, beacon 50, outbox 3; nothing is acknowledged; stopped after `steps`, then "
        "window + 1 ticks more (2 block + 1 with a block, 1 where there is neither).",
        "streams: words x' = (61 x + 7919) mod 2^24, from x = window. Readings: (i*i + 3) % 2000. "
        "Mechanism 1 is RanSwitch, 2 StaSwitch.",
        "mechanisms: words x xor (x >> 12) of the same x, from x = seed. Readings: missing where i "
        "% 50 = 49, else (i*i // 3) % symbols, i from 0. reports: SHA-256 of all released values, "
        "width bytes each; with a table there is none of an incomplete last block.",
    ]
    content = {"about": about, "streams": streams, "mechanisms": mechanisms}
    VECTORS.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    write()
