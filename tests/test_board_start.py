"""What a flashed board says when it does not start: one line, and nothing runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.collecting import rounds_task
from tinyldp_device import ledger, rounds
from tinyldp_device.boards.start import start
from tinyldp_device.entropy import Urandom
from tinyldp_device.identity import provision
from tinyldp_device.state import State
from tinyldp_protocol.task import LBA, write_file

TASK = rounds_task(LBA)
assert TASK.epsilon is not None
assert TASK.w is not None


class Slot:
    """A slot in memory; from `writes` on, writing fails."""

    def __init__(self) -> None:
        self.data = b""
        self.writes = 1 << 20

    def read(self) -> bytes:
        return self.data

    def write(self, data: bytes | bytearray, /) -> None:
        if self.writes == 0:
            raise OSError(28)
        self.writes -= 1
        self.data = bytes(data)


class Board:
    """A provisioned one; ran: whether it came as far as its line."""

    def __init__(self) -> None:
        self.state = (Slot(), Slot())
        self.spent = (Slot(), Slot())
        self.ran = False
        assert TASK.epsilon is not None
        assert TASK.w is not None
        ledger.provision(State(*self.spent), TASK.w)
        provision(State(*self.state), b"somebody", TASK.epsilon, TASK.w)

    def source(self) -> Urandom:
        return Urandom()

    def slots(self) -> tuple[Slot, Slot]:
        return self.state

    def ledger_slots(self) -> tuple[Slot, Slot]:
        return self.spent

    def open_line(self) -> Any:
        self.ran = True
        raise KeyboardInterrupt


@pytest.fixture
def task_path(tmp_path: Path) -> str:
    path = tmp_path / "task"
    path.write_bytes(write_file(TASK))
    return str(path)


def not_started(board: Any, path: str, capsys: pytest.CaptureFixture[str]) -> str:
    start(board, path, lambda: 0)
    said = capsys.readouterr().out
    assert not board.ran
    assert said.startswith("tinyldp: not started: ")
    assert said.count("\n") == 1
    return said


def test_a_whole_board_starts(task_path: str) -> None:
    board: Any = Board()
    with pytest.raises(KeyboardInterrupt):
        start(board, task_path, lambda: 0)
    assert board.ran


@pytest.mark.parametrize("at", [8, 12, 16])
def test_a_stored_word_that_is_too_large(
    at: int, task_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Boots, cap and horizon."""
    board = Board()
    payload = bytearray(State(*board.state).load())
    payload[at : at + 4] = (1 << 30).to_bytes(4, "little")
    State(*board.state).create(bytes(payload))
    assert "damaged (too large)" in not_started(board, task_path, capsys)


@pytest.mark.parametrize("slots", ["state", "spent"])
@pytest.mark.parametrize("repairing", [True, False])
def test_a_write_that_fails(
    slots: str, repairing: bool, task_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    board = Board()
    one, other = getattr(board, slots)
    if repairing:
        one.data = b""
    else:
        # The boot is counted; a ledger that is lost begins anew.
        one.data = other.data if slots == "state" else b""
        other.data = one.data
    one.writes = 0
    assert "can't be read or written" in not_started(board, task_path, capsys)


def test_a_task_file_that_is_gone(task_path: str, capsys: pytest.CaptureFixture[str]) -> None:
    os.remove(task_path)
    assert "can't be read or written" in not_started(Board(), task_path, capsys)


def test_a_board_file_without_slots_for_the_ledger(
    task_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    class Without(Board):
        def __getattribute__(self, name: str) -> Any:
            if name == "ledger_slots":
                raise AttributeError
            return super().__getattribute__(name)

    assert "no ledger_slots()" in not_started(Without(), task_path, capsys)


@pytest.mark.parametrize("late", [False, True])
def test_a_memory_that_is_too_small(
    late: bool,
    task_path: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before the line is opened, and after: then it is closed before anything is said."""
    board = Board()
    closed = []

    class Line:
        def close(self) -> None:
            closed.append(capsys.readouterr().out)

    def fails(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(board, "open_line", Line)
    monkeypatch.setattr(rounds if late else ledger, "RoundAgent" if late else "Ledger", fails)
    assert "memory is too small" in not_started(board, task_path, capsys)
    assert closed == [""] * late
