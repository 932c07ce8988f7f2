"""Devices of an audit that do not do what they should: one sentence each."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.collecting import encoded, hello, make_task, release, status
from tinyldp.audit import transcripts
from tinyldp.audit.transcripts import Series, Transcripts, play
from tinyldp.collect.deframing import framed
from tinyldp.errors import UserError
from tinyldp_protocol.messages import ENDED, ENTROPY_FAILED, put_ack

TASK = make_task(window=3, k=3, symbols=8, batch=4)
NONCE = b"12345678"
SERIES = [Series((1, 2, 3), 2), Series((7,), 5)]
# Six values, then five; the rest of the last frame is padding.
FIRST = [
    hello(TASK, b"auditing", NONCE),
    release(NONCE, 0, bytes((2, 1, 3, 1))),
    release(NONCE, 1, bytes((2, 3, 0, 0))),
    status(NONCE, 0, 6, ENDED),
]
SECOND = [
    release(NONCE, 0, b"\7\7\7\7"),
    status(NONCE, 0, 5, ENDED),
    release(NONCE, 1, b"\7\0\0\0"),
]


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """device(program, rounds): what is played by a device that runs this program."""
    monkeypatch.setattr(transcripts, "_SILENCE", 0.5)
    monkeypatch.setattr(transcripts, "_FAREWELL", 0.5)
    # One process, so that it is the whole audit.
    monkeypatch.setattr(transcripts, "_PROCESSES", 1)

    def run(program: str, rounds: int = 1) -> Transcripts:
        path = tmp_path / "device.py"
        path.write_text(program)
        monkeypatch.setattr(transcripts, "_PROGRAM", path)
        return play(TASK, "cpython", SERIES, rounds)

    return run


def sending(*messages: bytes, after: str = "") -> str:
    """A program that sends these in frames."""
    data = b"".join(map(framed, messages))
    return f"import sys\nsys.stdout.buffer.write({data!r})\nsys.stdout.flush()\n{after}\n"


def test_segments_are_rebuilt_from_frames(device) -> None:
    found = device(sending(*FIRST, *SECOND, *FIRST, *SECOND), 2)
    assert [values.tolist() for values in found.values] == [
        [[2, 1, 3, 1, 2, 3]] * 2,
        [[7] * 5] * 2,
    ]
    assert (found.short, found.padded) == (0, 0)
    assert {kind: len(sizes) for kind, sizes in found.sizes.items()} == {
        "hello": 1,
        "release": 1,
        "status": 1,
    }


def test_what_is_missing_or_pads_is_counted(device) -> None:
    few = [release(NONCE, 0, b"\1\2\3\0"), status(NONCE, 0, 3, ENDED)]
    padded = [release(NONCE, 0, b"\7\7\7\7"), release(NONCE, 1, b"\7\0\0\5"), SECOND[1]]
    found = device(sending(*few, *padded))
    assert (found.short, found.padded) == (1, 1)
    assert [values.shape for values in found.values] == [(0, 6), (1, 5)]


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (sending(*FIRST), "failed after 1 of 2 segments."),
        (sending(*FIRST, after="raise OSError('no power')"), "1 of 2 segments: OSError: no power."),
        (sending(*FIRST, after="import os; os._exit(3)"), "failed after 1 of 2"),
        (sending(*FIRST, after="import time; time.sleep(60)"), "hung after 1 of 2 segments."),
        (sending(*FIRST, *SECOND, after="import time; time.sleep(60)"), "hung after 2 of 2"),
        (sending(*FIRST[:1], *FIRST[2:]), "Frame 1 came where frame 0 should."),
        (sending(*FIRST[:2], *FIRST[1:]), "Frame 0 came where frame 1 should."),
        (sending(status(NONCE, 0, 0, ENTROPY_FAILED)), "stopped with health"),
        (sending(encoded(put_ack, NONCE[:4], 0, False)[:-1]), "a message that no host takes"),
        (sending(encoded(put_ack, NONCE[:4], 0, False)), "what only a host sends."),
        (sending(b"garbage"), "a message that no host takes"),
        ("print('Traceback', end='\\0')", "what is no frame: bad_cobs."),
        (
            sending(*FIRST).replace("sys.stdout.buffer.write(b'\\x00", "print(end='\\0x\\0')#"),
            "no frame",
        ),
    ],
)
def test_a_device_that_fails(device, program: str, words: str) -> None:
    began = time.monotonic()
    with pytest.raises(UserError) as error:
        device(program)
    assert words in str(error.value)
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)
    assert time.monotonic() - began < 30
