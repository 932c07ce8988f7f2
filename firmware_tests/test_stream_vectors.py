"""The same words give the same frames on every lane: protocol/vectors/streams.json.

Written anew by `python -m firmware_tests.test_stream_vectors`, which is only
right after a deliberate change of the protocol or of a mechanism.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tinyldp.lanes import Lane, open_lane
from tinyldp_protocol.framing import Decoder
from tinyldp_protocol.messages import RELEASE, SEQUENCE_AT, check

HERE = Path(__file__).parent
VECTORS = HERE.parent / "protocol" / "vectors" / "streams.json"
FIELDS = ("mechanism", "window", "k", "symbols", "batch", "threshold", "steps")
MECHANISMS = {1: "RanSwitch", 2: "StaSwitch"}


def frames(lane: Lane, streams: list[dict[str, Any]]) -> list[bytes]:
    """The bytes that each stream sends, on one lane."""
    lane.install()
    for path in (HERE / "programs" / "streams.py", HERE / "portable" / "helpers.py"):
        lane.put({path.name: path.read_bytes()})
    lines = "".join(" ".join(str(stream[name]) for name in FIELDS) + "\n" for stream in streams)
    result = lane.run("streams.py", stdin=lines.encode(), timeout=300)
    assert result.exit_code == 0, result.stderr.decode()
    return [bytes.fromhex(line) for line in result.stdout.decode().split()]


@pytest.mark.parametrize("lane", ["cpython", "guarded", "unix", "wasm"], indirect=True)
def test_frames_are_byte_identical(lane: Lane) -> None:
    streams = json.loads(VECTORS.read_text())["streams"]
    found = frames(lane, streams)
    assert len(found) == len(streams)
    for stream, data in zip(streams, found, strict=True):
        assert data[: len(stream["start"]) // 2].hex() == stream["start"]
        assert (len(data), hashlib.sha256(data).hexdigest()) == (stream["bytes"], stream["sha256"])


@pytest.mark.parametrize("lane", ["cpython"], indirect=True)
def test_the_vectors_hold_every_release(lane: Lane) -> None:
    """Each stream's frames decode, and hold exactly its values: none empty, none constant."""
    streams = json.loads(VECTORS.read_text())["streams"]
    for stream, data in zip(streams, frames(lane, streams), strict=True):
        width = 2 if stream["symbols"] > 256 else 1
        decoder = Decoder(249)
        released: dict[bytes, bytes] = {}
        at = 0
        while at < len(data):
            at = decoder.feed(data, at, len(data))
            message = bytes(decoder.message[: decoder.length])
            size = stream["batch"] * width
            if message and check(message, len(message), size) == RELEASE:
                sequence = message[SEQUENCE_AT : SEQUENCE_AT + 4]
                assert released.setdefault(sequence, message[-size:]) == message[-size:]
        joined = b"".join(released.values())[: stream["steps"] * width]
        values = [
            int.from_bytes(joined[i : i + width], "little") for i in range(0, len(joined), width)
        ]
        given = [min((i * i + 3) % 2000, stream["symbols"] - 1) for i in range(stream["steps"])]
        assert values != given
        assert sorted(values) == sorted(given)
        assert decoder.bad_cobs + decoder.bad_crc + decoder.too_long + decoder.too_short == 0


def write() -> None:
    """Write the vector file from what CPython does."""
    shapes = [(k, k, 256, 1) for k in (2, 3, 10, 64)] + [(k, k, 2001, 3) for k in (2, 3, 10, 64)]
    streams: list[dict[str, Any]] = [
        dict(zip(FIELDS, (m, window, k, symbols, batch, 2**24 // (window + 1), 300), strict=True))
        for m in MECHANISMS
        for window, k, symbols, batch in shapes + ([(20, 10, 256, 16)] if m == 1 else [])
    ]
    with open_lane("cpython") as lane:
        for stream, data in zip(streams, frames(lane, streams), strict=True):
            stream["bytes"] = len(data)
            stream["sha256"] = hashlib.sha256(data).hexdigest()
            stream["start"] = data[:96].hex()
    about = (
        "All frames that a device sends over a serial line, as one string of bytes. Words: "
        "x' = (61 x + 7919) mod 2^24, from x = window. Readings: (i*i + 3) % 2000. Task id "
        "'task-id!', pseudonym 'somebody', boot nonce 0102030405060708, quality 0, tick 1000, "
        "resend 7, beacon 50, outbox 3; nothing is acknowledged; stopped after `steps`, then "
        "window + 1 ticks more. Mechanism 1 is RanSwitch, 2 StaSwitch."
    )
    VECTORS.write_text(json.dumps({"about": about, "streams": streams}, indent=1) + "\n")


if __name__ == "__main__":
    write()
