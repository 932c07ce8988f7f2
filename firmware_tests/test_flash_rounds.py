"""tinyldp flash with a ledger: made once, kept, never refilled."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import serial

from tinyldp.collect.deframing import Deframer
from tinyldp.errors import UserError
from tinyldp.flash import provision
from tinyldp.flash.provision import ROOT, flash
from tinyldp.lanes.board import Board
from tinyldp.lanes.relay import RelayedBoard
from tinyldp.lanes.serial import Serial
from tinyldp_protocol.hashing import GROUPS
from tinyldp_protocol.messages import ANSWER, HELLO, REASON_AT, REFUSAL, WAITING, put_query
from tinyldp_protocol.task import GRR, LBA, SCALE, STASWITCH, Task, write_file


def make(**changed: int | list[int]) -> Task:
    numbers: dict[str, int | list[int] | None] = {
        "mechanism": GRR,
        "method": LBA,
        "symbols": 4,
        "w": 50,
        "epsilon": 1 << 16,
        "spends": [1 << 15, 1 << 16],
        "thresholds": [SCALE // 5, SCALE // 6],
        "tick": 20,
        "beacon": 4,
    }
    made = Task({**numbers, **changed})
    write_file(made)
    return made


TASK = make()
STREAM = Task(
    {
        "mechanism": STASWITCH,
        "window": 4,
        "k": 4,
        "symbols": 256,
        "thresholds": [1 << 20],
        "tick": 5,
        "batch": 1,
        "resend": 50,
        "beacon": 4,
        "outbox": 4,
    }
)
write_file(STREAM)
SLOTS = ("state0", "state1", "ledger0", "ledger1")


@pytest.fixture
def board(need: Callable[[str, str | None], None]) -> Iterator[RelayedBoard]:
    need("serial", Serial.missing() or RelayedBoard.missing())
    with RelayedBoard() as relayed:
        (relayed.folder / "sample.py").write_text("def sample():\n    return 2\n")
        yield relayed


def stored(board: RelayedBoard) -> dict[str, bytes]:
    files = {name: board.folder / ROOT / name for name in SLOTS}
    return {name: path.read_bytes() for name, path in files.items() if path.exists()}


@pytest.fixture
def slots(board: RelayedBoard, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, bytes]]:
    """The slots as each flashing finds and leaves them, while the device is at rest."""
    seen = []

    class Watched(Board):
        def __init__(self, *arguments: Any) -> None:
            Board.__init__(self, *arguments)
            seen.append(stored(board))

        def restart(self, seconds: float = 0) -> str:
            seen.append(stored(board))
            return Board.restart(self, seconds)

    monkeypatch.setattr(provision, "Board", Watched)
    return seen


def asked(board: RelayedBoard, task: Task, t: int, entry: int) -> bytes:
    """The first answer or refusal, once the board has said hello; or what it printed."""
    query = bytearray(put_query(None, 0, task.id, t, 0, entry, 0, GROUPS))
    put_query(query, 0, task.id, t, 0, entry, 0, GROUPS)
    deframer = Deframer()
    said = b""
    again = time.monotonic() + 2
    deadline = time.monotonic() + 60
    with serial.Serial(board.port, timeout=0.02) as line:
        while time.monotonic() < deadline:
            chunk = line.read(4096)
            said += chunk
            if not said and time.monotonic() > again:
                again = time.monotonic() + 2
                line.write(b"\x04")
            for message in deframer.feed(chunk):
                if message[1] == HELLO:
                    line.write(frame(bytes(query)))
                if message[1] in (ANSWER, REFUSAL):
                    return message
            if b"tinyldp: " in said and said.endswith(b">>> "):
                return said
    raise AssertionError(f"the board said {said!r}")


def frame(message: bytes) -> bytes:
    from tinyldp_protocol.framing import HEAD, TAIL, Encoder

    buffer = bytearray(HEAD) + message + bytearray(TAIL)
    encoder = Encoder(buffer, HEAD)
    slot = encoder.slot()
    encoder.frame(slot)
    return bytes(slot)


def test_a_ledger_is_made_once_and_kept(board: RelayedBoard, slots: list[dict[str, bytes]]) -> None:
    done = flash(board.port, TASK)
    assert (done.identity, done.cap, done.horizon) == ("new", 1 << 16, 50)
    assert asked(board, TASK, 3, 1)[1] == ANSWER
    # Another Task: the same identity, cap, horizon and spends.
    other = make(w=40, epsilon=1 << 15, spends=[1 << 15], thresholds=[SCALE // 5])
    again = flash(board.port, other)
    assert (again.identity, again.pseudonym) == ("kept", done.pseudonym)
    assert (again.cap, again.horizon) == (1 << 16, 50)
    before, after = slots[-2:]
    assert len(before) == 4
    assert after["ledger0"] == after["ledger1"] == before["ledger0"]
    assert after["state0"][4:12] == before["state0"][4:12]
    assert after["state0"][16:24] == before["state0"][16:24]


def test_a_task_above_the_cap_is_refused_by_flash_and_by_the_device(board: RelayedBoard) -> None:
    flash(board.port, TASK, cap=3 << 15, horizon=60)
    assert asked(board, TASK, 3, 0)[1] == ANSWER
    before = stored(board)
    for task in (make(epsilon=(3 << 15) + 1), make(w=61)):
        with pytest.raises(UserError, match=r"^The Task spends .* provisioned for 1\.5 in any 60"):
            flash(board.port, task)
    for cap, horizon in ((1 << 17, None), (None, 61), (1 << 16, None)):
        with pytest.raises(UserError, match=r"fixed when it was provisioned.*--new-identity"):
            flash(board.port, TASK, cap=cap, horizon=horizon)
    assert {name: data[4:12] for name, data in stored(board).items()} == {
        name: data[4:12] for name, data in before.items()
    }
    # A Task that came to the board in another way.
    (folder,) = (path.parent for path in board.folder.glob(f"{ROOT}/*/task"))
    (folder / "task").write_bytes(write_file(make(w=61)))
    board.power_cut()
    said = asked(board, TASK, 4, 0)
    assert b"tinyldp: not started: The Task spends up to 65536 in 61 steps" in said


def test_a_stream_device_gets_its_ledger_when_it_needs_one(
    board: RelayedBoard, slots: list[dict[str, bytes]]
) -> None:
    first = flash(board.port, STREAM)
    assert (first.cap, first.horizon) == (None, None)
    assert set(slots[-1]) == {"state0", "state1"}
    done = flash(board.port, TASK)
    assert (done.identity, done.pseudonym, done.cap) == ("kept", first.pseudonym, 1 << 16)
    assert asked(board, TASK, 0, 0)[1] == ANSWER
    # And back: kept for the next time.
    assert flash(board.port, STREAM).cap == 1 << 16
    assert flash(board.port, TASK).pseudonym == first.pseudonym
    assert [each["ledger0"] for each in slots[-4:]] == [slots[-1]["ledger0"]] * 4
    with pytest.raises(UserError, match="Only a device with a ledger"):
        flash(board.port, STREAM, cap=5)


def test_a_new_identity_waits_out_a_horizon(board: RelayedBoard) -> None:
    first = flash(board.port, TASK)
    assert asked(board, TASK, 0, 1)[1] == ANSWER
    again = flash(board.port, TASK, new_identity=True)
    assert again.pseudonym != first.pseudonym
    refusal = asked(board, TASK, 0, 1)
    assert (refusal[1], refusal[REASON_AT]) == (REFUSAL, WAITING)


def test_not_even_by_way_of_a_stream(board: RelayedBoard) -> None:
    flash(board.port, TASK)
    assert asked(board, TASK, 0, 1)[1] == ANSWER
    flash(board.port, STREAM, new_identity=True)
    done = flash(board.port, TASK)
    assert (done.identity, done.cap) == ("kept", 1 << 16)
    refusal = asked(board, TASK, 0, 1)
    assert (refusal[1], refusal[REASON_AT]) == (REFUSAL, WAITING)


@pytest.mark.parametrize("content", [b"", b"torn", None])
def test_no_flashing_refills_a_ledger_that_is_gone(
    board: RelayedBoard, content: bytes | None
) -> None:
    flash(board.port, TASK)
    assert asked(board, TASK, 0, 1)[1] == ANSWER
    for name in ("ledger0", "ledger1"):
        if content is None:
            os.remove(board.folder / ROOT / name)
        else:
            (board.folder / ROOT / name).write_bytes(content)
    assert flash(board.port, TASK).identity == "kept"
    refusal = asked(board, TASK, 1, 0)
    assert (refusal[1], refusal[REASON_AT]) == (REFUSAL, WAITING)
