"""The host's de-framer against the device's decoder, on whole and on damaged streams."""

import random
import tracemalloc

import pytest

from tinyldp.collect.deframing import Deframer, framed
from tinyldp_protocol.framing import HEAD, MAX_MESSAGE, TAIL, Decoder, Encoder

NAMES = ("bad_cobs", "bad_crc", "too_long", "too_short")
MESSAGES = [
    bytes([i]) + random.Random(i).choice([bytes(12), b"\x03" * 12, b"\n" * 12, b"\xff" * 12])
    for i in range(1, 21)
]
STREAM = b"".join(framed(message) for message in MESSAGES)
NEXT = framed(b"next")
SIZE = len(STREAM) // len(MESSAGES)


def by_device(stream: bytes) -> tuple[list[bytes], dict[str, int]]:
    decoder = Decoder(MAX_MESSAGE)
    messages = []
    at = 0
    while at < len(stream):
        at = decoder.feed(stream, at, len(stream))
        if decoder.length:
            messages.append(bytes(decoder.message[: decoder.length]))
    return messages, {name: getattr(decoder, name) for name in NAMES}


def by_host(stream: bytes, chunk: int = 1 << 20) -> tuple[list[bytes], dict[str, int]]:
    deframer = Deframer()
    messages = []
    for at in range(0, len(stream), chunk):
        messages += deframer.feed(stream[at : at + chunk])
    return messages, deframer.rejected


def damages() -> list[tuple[str, int, int, bytes]]:
    """(what, first byte touched, bytes touched, stream) of every single damage."""
    cases = []
    for at in range(len(STREAM)):
        for run in range(1, 13):
            cases.append(("lost", at, run, STREAM[:at] + STREAM[at + run :]))
        flipped = bytes([STREAM[at] ^ 1 << at % 8])
        cases.append(("flipped", at, 1, STREAM[:at] + flipped + STREAM[at + 1 :]))
        cases.append(("inserted", at, 0, STREAM[:at] + bytes([at % 256]) + STREAM[at:]))
    return cases


def test_only_touched_frames_are_lost():
    for what, at, run, damaged in damages():
        stream = damaged + NEXT
        messages, rejected = by_host(stream)
        assert messages.pop() == b"next", (what, at, run)
        # A delimiter that becomes another byte, or goes, may join its neighbour.
        first = max(0, (at - 1) // SIZE)
        last = min(len(MESSAGES) - 1, (at + run) // SIZE)
        untouched = MESSAGES[:first] + MESSAGES[last + 1 :]
        missing = len(MESSAGES) - len(messages)
        assert [m for m in messages if m in untouched] == untouched, (what, at, run)
        assert all(m in MESSAGES for m in messages), (what, at, run)
        assert missing <= last - first + 1
        assert sum(rejected.values()) <= missing + 1
        if run < SIZE - 2 and missing:
            assert sum(rejected.values()) >= 1, (what, at, run)
        assert ([*messages, b"next"], rejected) == by_device(stream), (what, at, run)


def test_any_chunks():
    for chunk in (1, 2, 3, 7, SIZE, SIZE + 1):
        assert by_host(STREAM, chunk) == (MESSAGES, dict.fromkeys(NAMES, 0))


def test_the_longest_and_a_longer_message():
    longest = bytes(range(1, 250))
    assert by_host(framed(longest))[0] == [longest]
    with pytest.raises(ValueError, match="too long"):
        framed(longest + b"\1")
    for size in range(248, 262):
        stream = b"\0" + b"\1" * size + b"\0"
        assert by_host(stream) == by_device(stream)
    assert by_host(b"\0" + b"\1" * 300 + b"\0")[1]["too_long"] == 1


def test_random_bytes():
    rng = random.Random(8)
    for _ in range(3_000):
        stream = bytes(rng.choice((0, 1, 2, 5, 254, 255)) for _ in range(rng.randrange(600)))
        stream += b"\0" + framed(b"after") + b"\0"
        expected = by_device(stream)
        assert by_host(stream, rng.randrange(1, 300)) == expected
        assert expected[0][-1] == b"after"


def test_a_stream_without_an_end_takes_no_memory():
    deframer = Deframer()
    chunk = b"\x05" * 4096
    deframer.feed(chunk)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(500):
            assert deframer.feed(chunk) == []
        assert tracemalloc.get_traced_memory()[1] - before < 20_000
    finally:
        tracemalloc.stop()
    assert deframer.feed(b"\0" + framed(b"next")) == [b"next"]
    assert deframer.rejected["too_long"] == 1


def test_both_sides_make_the_same_frames():
    rng = random.Random(4)
    for size in range(MAX_MESSAGE + 1):
        message = bytes(rng.choice((0, 0, 1, 3, 10, 255)) for _ in range(size))
        encoder = Encoder(bytearray(bytes(HEAD) + message + bytes(TAIL)), HEAD)
        frame = encoder.slot()
        encoder.frame(frame)
        assert framed(message) == frame
