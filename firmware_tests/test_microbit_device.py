"""A bare StaSwitch device, made from the same modules, reports from the emulated micro:bit."""

from __future__ import annotations

import binascii
from pathlib import Path

import pytest

from tinyldp.lanes import Lane, Process
from tinyldp.lanes.flatten import flatten
from tinyldp_device.switch import StaSwitch
from tinyldp_protocol.framing import Decoder
from tinyldp_protocol.messages import RELEASE, SEQUENCE_AT, check, get_word
from tinyldp_protocol.task import STASWITCH, Task

PROGRAM = Path(__file__).parent / "programs" / "microbit_device.py"
VALUES = 60
FRAME = 14 + 7
# What a micro:bit compiles at a time.
LARGEST_FILE = 2048


TASK = Task(
    {
        "mechanism": STASWITCH,
        "window": 8,
        "k": 8,
        "symbols": 256,
        "thresholds": [1 << 20],
        "tick": 1000,
        "batch": 1,
        "resend": 5,
        "beacon": 5,
        "outbox": 4,
    }
)


class Replayed:
    """Words of the portable tests' generator, from 5 on."""

    def __init__(self) -> None:
        self.words = [5]
        for _ in range(2 * VALUES):
            self.words.append((self.words[-1] * 61 + 7919) & 0xFFFFFF)
        self._rest = iter(self.words)

    def word(self) -> int:
        return next(self._rest)


def start(lane: Lane, words: str | None) -> Process:
    files = flatten(f"WORDS = {words!r}\nVALUES = {VALUES}\n" + PROGRAM.read_text())
    assert max(map(len, files.values())) <= LARGEST_FILE, {n: len(f) for n, f in files.items()}
    lane.put(files)
    return lane.start("main.py")


def reports(process: Process) -> tuple[bytes, list[int]]:
    """Nonce and released values of one boot, after decoding every frame strictly."""
    # The serial line's first byte is a zero that the board's start leaves there.
    stream = process.read(1 + VALUES * FRAME)
    assert len(stream) == 1 + VALUES * FRAME, stream
    decoder = Decoder(14)
    values: list[int] = []
    nonces = set()
    at = 0
    while at < len(stream):
        at = decoder.feed(stream, at, len(stream))
        message = bytes(decoder.message[: decoder.length])
        if message:
            crc = bytes(decoder.message[decoder.length : decoder.length + 4])
            assert binascii.crc32(message).to_bytes(4, "little") == crc
            assert check(message, len(message), 1) == RELEASE
            assert get_word(message, SEQUENCE_AT) == len(values)
            nonces.add(message[3:7])
            values.append(message[-1])
    assert decoder.bad_cobs + decoder.bad_crc + decoder.too_long + decoder.too_short == 0
    assert len(values) == VALUES
    assert len(nonces) == 1
    rest = process.wait(10)
    assert rest.exit_code == 0, rest.stdout
    assert rest.stdout.startswith(b"free ")
    return nonces.pop(), values


READINGS = [i * 7 & 255 for i in range(VALUES)]


@pytest.mark.parametrize("lane", ["microbit"], indirect=True)
def test_replayed_words_give_what_they_give_here(lane: Lane) -> None:
    source = Replayed()
    # The nonce is drawn before anything else.
    source.word()
    switch = StaSwitch(TASK, source)
    steps = [switch.step(reading) for reading in READINGS]
    steps += [switch.flush() for _ in range(7)]
    expected = [released for released in steps if released is not None]
    assert sorted(expected) == sorted(READINGS)
    assert expected != READINGS
    lane.put({"words": b"".join(word.to_bytes(3, "little") for word in source.words)})
    with start(lane, "words") as process:
        nonce, values = reports(process)
    assert nonce == source.words[0].to_bytes(4, "little")
    assert values == expected


@pytest.mark.parametrize("lane", ["microbit"], indirect=True)
def test_its_own_randomness(lane: Lane) -> None:
    """Two boots: the same readings each in an order of its own, under nonces of their own."""
    with start(lane, None) as process:
        first = reports(process)
        process.reset()
        second = reports(process)
    for _, values in (first, second):
        assert sorted(values) == sorted(READINGS)
        places = [values.index(reading) - i for i, reading in enumerate(READINGS)]
        assert max(places) <= 7
    # False alarm: 2^-32 for the nonces, and less for the orders.
    assert first[0] != second[0]
    assert first[1] != second[1]
