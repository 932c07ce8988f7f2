"""tinyldp flash on a micro:bit's own port: its raw REPL, and a file system too small for two."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import serial

from firmware_tests.microbit import RAN, STA, Terminal, lba, make_task, thresh
from tinyldp.collect.deframing import Deframer
from tinyldp.errors import UserError
from tinyldp.flash import provision
from tinyldp.flash.flat import LEDGER_SLOTS, SLOTS, STUB
from tinyldp.flash.provision import Flashed, flash
from tinyldp.flash.stored import stored_state
from tinyldp.lanes.board import Board
from tinyldp.lanes.flatfiles import FlatFiles
from tinyldp.lanes.lane import Process
from tinyldp.lanes.microbit import Microbit
from tinyldp.lanes.serial import Serial
from tinyldp_protocol.messages import HELLO
from tinyldp_protocol.task import Task

pytestmark = pytest.mark.waits


class Desk:
    """A micro:bit on a port, somebody who presses its reset button, and sample files."""

    def __init__(self, process: Process, port: str, folder: Path) -> None:
        self.process = process
        self.port = port
        self.asked: list[str] = []
        self.samples = [folder / "one.py", folder / "two.py"]
        for n, path in enumerate(self.samples):
            path.write_text(f"def sample():\n    return {n}\n")

    def press_reset(self, sentence: str = "") -> None:
        self.asked.append(sentence)
        self.process.reset()

    def flash(
        self,
        task: Task,
        sample: int | None = 0,
        compiled: bool = False,
        new_identity: bool = False,
        horizon: int | None = None,
    ) -> Flashed:
        path = None if sample is None else self.samples[sample]
        return flash(
            self.port,
            task,
            sample=path,
            waiting=self.press_reset,
            compiled=compiled,
            new_identity=new_identity,
            horizon=horizon,
        )

    def heard(self) -> bytes:
        """The Task's id and the pseudonym that it announces, or what it prints instead."""
        deframer = Deframer()
        said = b""
        deadline = time.monotonic() + 120
        with serial.Serial(self.port, timeout=0.05) as line:
            self.process.reset()
            while time.monotonic() < deadline:
                chunk = line.read(4096)
                said += chunk
                for message in deframer.feed(chunk):
                    if message[1] == HELLO:
                        return message[8:16] + message[17:25]
                if said.endswith(b"\r\n>>> ") or b"Error" in said:
                    return said
        raise AssertionError(f"the board said {said!r}")

    def files(self) -> dict[str, int]:
        with Board(self.port, self.press_reset) as board:
            return FlatFiles(board).sizes()

    def contents(self, *names: str) -> list[bytes | None]:
        with Board(self.port, self.press_reset) as board:
            return [FlatFiles(board).read(name) for name in names]

    def put(self, name: str, content: bytes) -> None:
        with Board(self.port, self.press_reset) as board:
            FlatFiles(board).put(name, content)

    def remove(self, *names: str) -> None:
        with Board(self.port, self.press_reset) as board:
            for name in names:
                FlatFiles(board).remove(name)


@pytest.fixture
def desk(tmp_path: Path, need: Callable[[str, str | None], None]) -> Iterator[Desk]:
    need("microbit", Microbit.missing())
    need("serial", Serial.missing())
    with Microbit() as lane:
        lane.put({"main.py": b"# Nothing yet.\n"})
        with lane.start("main.py") as process, Terminal(process) as terminal:
            yield Desk(process, terminal.path, tmp_path)


def test_flashed_again_it_keeps_its_identity(desk: Desk) -> None:
    steps: list[tuple[int, int, str]] = []
    first = flash(desk.port, STA, sample=desk.samples[0], progress=lambda *s: steps.append(s))
    assert (first.board, first.identity, first.copied) == ("micro:bit", "new", first.files)
    assert [step[2] for step in steps] == ["steps", "sample.py", "main.py", ""]
    pseudonym = bytes.fromhex(first.pseudonym)
    assert desk.heard() == STA.id + pseudonym
    # Its line is binary now, so somebody has to press its reset button.
    again = desk.flash(RAN, None)
    assert "press its reset button" in desk.asked[0]
    assert (again.pseudonym, again.identity, again.copied) == (first.pseudonym, "kept", 2)
    # Until it has begun, Ctrl-C stops it.
    same = desk.flash(RAN, None)
    assert (same.copied, same.identity) == (0, "kept")
    assert desk.heard() == RAN.id + pseudonym
    desk.process.reset()
    slots = desk.contents(*SLOTS)
    assert slots[0] == slots[1]
    assert slots[0] is not None
    assert slots[0][4:12] == pseudonym
    assert int.from_bytes(slots[0][12:16], "little") >= 2
    other = desk.flash(RAN, None, new_identity=True)
    assert (other.identity, other.copied) == ("new", 0)
    assert other.pseudonym != first.pseudonym


@pytest.fixture
def ledgers(monkeypatch: pytest.MonkeyPatch) -> list[list[bytes | None]]:
    """The ledger's slots as each flashing finds and leaves them, while the board is at rest."""
    seen = []

    class Watched(Board):
        def __init__(self, *arguments: Any) -> None:
            Board.__init__(self, *arguments)
            self.look()

        def look(self) -> None:
            files = FlatFiles(self)
            seen.append([files.read(name) for name in LEDGER_SLOTS])

        def restart(self, seconds: float = 0) -> str:
            try:
                self.look()
            except UserError as error:
                # Flash itself would pass over it.
                pytest.fail(f"no look at the ledger: {error}")
            # Whether it starts is for others to hear: that takes long, six times.
            return Board.restart(self)

    monkeypatch.setattr(provision, "Board", Watched)
    return seen


def test_a_ledger_is_made_once_and_kept(desk: Desk, ledgers: list[list[bytes | None]]) -> None:
    task = lba()
    first = desk.flash(STA)
    assert (first.cap, desk.files().keys() & set(LEDGER_SLOTS)) == (None, set())
    done = desk.flash(task, horizon=24)
    assert (done.identity, done.pseudonym) == ("kept", first.pseudonym)
    assert (done.cap, done.horizon) == (1 << 16, 24)
    assert desk.heard() == task.id + bytes.fromhex(first.pseudonym)
    ledger = ledgers[-1]
    assert ledger[0] == ledger[1]
    assert ledger[0] is not None
    assert len(ledger[0]) > 24 * 4
    # A stream, and another Task.
    other = lba(10)
    for next_ in (STA, other):
        again = desk.flash(next_, None)
        assert (again.identity, again.pseudonym) == ("kept", first.pseudonym)
        assert (again.cap, again.horizon) == (1 << 16, 24)
    ledger = ledgers[-4]
    assert ledger[0] is not None
    assert ledgers[-4:] == [ledger] * 4
    assert desk.heard() == other.id + bytes.fromhex(first.pseudonym)
    before = desk.contents("steps", "main.py")
    with pytest.raises(UserError, match=r"provisioned for 1 in any 24 steps"):
        desk.flash(lba(25), None)
    with pytest.raises(UserError, match=r"does not fit on a micro:bit: the data of its Task"):
        desk.flash(lba(40), None, new_identity=True)
    assert desk.contents("steps", "main.py") == before
    # Who spent what is forgotten: the device finds no ledger that is whole.
    assert desk.flash(task, None, new_identity=True).pseudonym != first.pseudonym
    assert ledgers[-1] == [b"void", b"void"]


@pytest.mark.soak
def test_an_allowance_for_life_is_made_once(desk: Desk) -> None:
    task = thresh()
    first = desk.flash(task)
    assert (first.identity, first.allowance, first.cap) == ("new", task.epsilon, None)
    assert desk.heard() == task.id + bytes.fromhex(first.pseudonym)
    # The board has paid for it, and has nothing left for another.
    with pytest.raises(UserError, match=r"costs 1 for life, but 0 is left"):
        desk.flash(thresh(votes=3))
    again = desk.flash(task)
    assert (again.pseudonym, again.identity, again.copied) == (first.pseudonym, "kept", 0)


class Cut(BaseException):
    """The power is gone."""


def cut_at(monkeypatch: pytest.MonkeyPatch, desk: Desk, left: int) -> list[str]:
    """Cut the power in the middle of a change on the board; the changes begun until then."""
    begun: list[str] = []

    def wrap(name: str) -> None:
        real = getattr(FlatFiles, name)

        def change(files: FlatFiles, path: str, *rest: bytes) -> None:
            begun.append(f"{name} {path}")
            if len(begun) <= left:
                return real(files, path, *rest)
            if name == "put":
                real(files, path, rest[0][: len(rest[0]) // 2])
            files._board.unplug()
            desk.process.reset()
            raise Cut

        monkeypatch.setattr(FlatFiles, name, change)

    for name in ("put", "remove"):
        wrap(name)
    return begun


def check_cut(monkeypatch: pytest.MonkeyPatch, desk: Desk, left: int, old: Flashed | None) -> str:
    """Flash RAN, interrupted; then flash it again. What ran in between: old, new, nothing."""
    with monkeypatch.context() as patched:
        begun = cut_at(patched, desk, left)
        try:
            desk.flash(RAN, 1)
            return "done"
        except Cut:
            pass
    heard = desk.heard()
    known = bytes.fromhex(old.pseudonym) if old else b""
    runs = {STA.id + known: "old", RAN.id + known: "new"}.get(heard, "nothing")
    if runs == "nothing":
        # It says so, once it was touched; only where main.py itself is torn there is a piece of
        # it or none.
        quiet = begun[-1] == "put main.py" or "put main.py" not in begun
        assert b"tinyldp: flash again" in heard or quiet, (begun, heard)
    again = desk.flash(RAN, 1)
    assert set(desk.files()) == {"main.py", "steps", "sample.py", *SLOTS}
    if old is not None:
        assert (again.pseudonym, again.identity) == (old.pseudonym, "kept")
    return runs


def test_interrupted_while_it_is_replaced(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of its code: nothing runs, it says so, and flashing again repairs it."""
    old = desk.flash(STA)
    assert check_cut(monkeypatch, desk, 3, old) == "nothing"


@pytest.mark.soak
def test_interrupted_at_every_change(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for left in itertools.count():
        old = desk.flash(STA, 0)
        seen.append(check_cut(monkeypatch, desk, left, old))
        if seen[-1] == "done":
            break
    assert seen == [*["nothing"] * 6, "done"]


@pytest.mark.soak
def test_first_flashing_interrupted_at_every_change(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = 0
    for left in itertools.count():
        runs = check_cut(monkeypatch, desk, left, None)
        if runs == "done":
            break
        assert runs == "nothing"
        desk.remove(*desk.files())
    assert left >= 6


def test_what_is_refused_changes_nothing(desk: Desk) -> None:
    def refused(
        words: str, task: Task = STA, sample: int | None = 0, compiled: bool = False
    ) -> None:
        with pytest.raises(UserError, match=words):
            desk.flash(task, sample, compiled)

    before = desk.files()
    refused("has no sample.py", sample=None)
    refused("does not fit on a micro:bit", make_task(outbox=80))
    refused("flash without --mpy", compiled=True)
    for name in ("steps", "state1", "sample.py"):
        desk.put(name, b"somebody's")
        refused(rf"^{name} on the board would be taken for what is flashed")
        desk.remove(name)
    assert desk.files() == before
    precious = b"print('precious')\n"
    desk.put("main.py", precious)
    refused(r"^main\.py on the board is not tinyldp's")
    assert desk.files() == {"main.py": len(precious)}
    desk.put("main.py", STUB)
    desk.put("steps", b"1\n")
    refused("The stored state on the board is missing.*--new-identity")
    for name in SLOTS:
        desk.put(name, b"x" * 20)
    refused("The stored state on the board is damaged.*--new-identity")
    assert desk.files() == {"main.py": len(STUB), "steps": 2, "state0": 20, "state1": 20}


def test_a_full_board_says_so_and_keeps_its_identity(desk: Desk) -> None:
    with Board(desk.port) as board:
        files = FlatFiles(board)
        state = stored_state(files, SLOTS)
        state.create(b"somebody" + bytes(4))
        board.command(b"f=open('notes.txt','wb')")
        board.command(b"for i in range(72):f.write(bytes(100))")
        board.command(b"f.close()")
    with pytest.raises(UserError, match=r"^The board has no room left: it was full when"):
        desk.flash(STA)
    assert b"tinyldp: flash again" in desk.heard()
    desk.remove("notes.txt")
    done = desk.flash(STA)
    assert (done.pseudonym, done.identity) == (b"somebody".hex(), "kept")


def test_what_arrives_otherwise_is_noticed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Board.command

    def command(board: Board, line: bytes, what: str = "used") -> bytes:
        return real(board, line.replace(b"return 0", b"return 1"), what)

    monkeypatch.setattr(Board, "command", command)
    with pytest.raises(UserError, match=r"^sample\.py on the board is not what was sent"):
        desk.flash(STA)
    assert b"tinyldp: flash again" in desk.heard()
