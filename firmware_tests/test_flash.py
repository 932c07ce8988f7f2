"""tinyldp flash on the relayed board: interrupted anywhere, shadowed, full, busy, damaged."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
import tty
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import serial

from firmware_tests.microbit import PROGRAMS
from tinyldp import cli
from tinyldp.collect.deframing import Deframer
from tinyldp.errors import UserError
from tinyldp.flash import provision
from tinyldp.flash.provision import ROOT, Flashed, flash
from tinyldp.flash.stored import stored_state
from tinyldp.lanes import Lane
from tinyldp.lanes import board as board_module
from tinyldp.lanes.board import Board, Facts
from tinyldp.lanes.microbit import Microbit
from tinyldp.lanes.relay import RelayedBoard
from tinyldp.lanes.serial import Serial
from tinyldp_protocol.messages import HELLO, RELEASE
from tinyldp_protocol.task import STASWITCH, Task, write_file

SAMPLE = "n = 0\n\n\ndef sample():\n    global n\n    n = (n + 1) % 256\n    return n\n"
# A file system of its own kind and size, as a board's: littlefs in a file that survives resets.
LITTLEFS = """
import os
class Disk:
    def __init__(self):
        try:
            os.stat("disk")
        except OSError:
            with open("disk", "wb") as f:
                for _ in range({blocks}): f.write(bytes(512))
        self.f = open("disk", "r+b")
    def readblocks(self, n, buf, off=0):
        self.f.seek(n * 512 + off); self.f.readinto(buf)
    def writeblocks(self, n, buf, off=0):
        self.f.seek(n * 512 + off); self.f.write(buf); self.f.flush()
    def ioctl(self, op, arg):
        if op == 4: return {blocks}
        if op == 5: return 512
        if op == 6: return 0
disk = Disk()
try:
    vfs = os.VfsLfs2(disk)
except OSError:
    os.VfsLfs2.mkfs(disk)
    vfs = os.VfsLfs2(disk)
os.mount(vfs, "/flash")
os.chdir("/flash")
"""


def task(resend: int = 50, batch: int = 1, outbox: int = 4) -> Task:
    made = Task(
        {
            "mechanism": STASWITCH,
            "window": 4,
            "k": 4,
            "symbols": 256,
            "thresholds": [1 << 20],
            "tick": 5,
            "batch": batch,
            "resend": resend,
            "beacon": 4,
            "outbox": outbox,
        }
    )
    write_file(made)
    return made


OLD, NEW = task(50), task(60)


@pytest.fixture
def board(need: Callable[[str, str | None], None]) -> Iterator[RelayedBoard]:
    need("serial", Serial.missing() or RelayedBoard.missing())
    with RelayedBoard() as relayed:
        yield relayed


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "sample.py"
    path.write_text(SAMPLE)
    return path


def heard(board: RelayedBoard | SimpleNamespace) -> dict[str, bytes]:
    """What the board announces in a hello, once it also releases values; {} when it only talks."""
    deframer = Deframer()
    hello: dict[str, bytes] = {}
    said = b""
    again = time.monotonic() + 2
    deadline = time.monotonic() + 60
    with serial.Serial(board.port, timeout=0.02) as line:
        while time.monotonic() < deadline:
            chunk = line.read(4096)
            said += chunk
            if not said and time.monotonic() > again:
                # It spoke before this port was open: a soft reset, if it is at its prompt.
                again = time.monotonic() + 2
                line.write(b"\x04")
            for message in deframer.feed(chunk):
                if message[1] == HELLO:
                    hello = {"task": message[8:16], "pseudonym": message[17:25]}
                if message[1] == RELEASE and hello:
                    return hello
            if b"tinyldp: " in said and said.endswith(b">>> "):
                return {"said": said}
            if said.endswith(b"\r\n>>> "):
                return {}
    raise AssertionError(f"the board said {said!r}")


def test_flashed_board_runs_the_task(board: RelayedBoard, sample: Path) -> None:
    steps: list[tuple[int, int, str]] = []
    done = flash(board.port, OLD, sample=sample, progress=lambda *step: steps.append(step))
    assert heard(board) == {"task": OLD.id, "pseudonym": bytes.fromhex(done.pseudonym)}
    assert (done.board, done.identity, done.copied) == ("unix", "new", done.files)
    assert [step[0] for step in steps] == list(range(done.files + 1))
    # Only what the board needs.
    names = {path.name for path in board.folder.rglob("*.py")}
    assert {"agent.py", "serial.py", "unix.py"} < names
    assert not names & {"mqtt.py", "esp32.py", "nrf51.py", "small.py"}


def test_reflashing_keeps_identity_and_counts_boots(board: RelayedBoard, sample: Path) -> None:
    first = flash(board.port, OLD, sample=sample)
    heard(board)
    # Without --sample the board's own goes on.
    again = flash(board.port, NEW, compiled=True)
    assert (again.pseudonym, again.identity) == (first.pseudonym, "kept")
    assert again.copied == again.files
    assert heard(board) == {"task": NEW.id, "pseudonym": bytes.fromhex(first.pseudonym)}
    assert not list(board.folder.glob(f"{ROOT}/{first.version}"))
    assert list(board.folder.glob(f"{ROOT}/{again.version}/tinyldp_device/agent.mpy"))
    same = flash(board.port, NEW, compiled=True)
    assert (same.copied, same.version) == (0, again.version)
    heard(board)
    boots = [(board.folder / ROOT / slot).read_bytes()[12:16] for slot in ("state0", "state1")]
    assert boots == [b"\x03\x00\x00\x00"] * 2
    other = flash(board.port, NEW, compiled=True, new_identity=True)
    assert (other.identity, other.pseudonym == first.pseudonym) == ("new", False)
    assert heard(board)["pseudonym"] == bytes.fromhex(other.pseudonym)


BLOCKS = 1024
JOURNAL = """
import struct
journal = open("/disk/journal", "ab")
class Journaled(Disk):
    def writeblocks(self, n, buf, off=0):
        journal.write(struct.pack("<HHH", n, off, len(buf))); journal.write(buf); journal.flush()
        Disk.writeblocks(self, n, buf, off)
    def ioctl(self, op, arg):
        if op == 6:
            journal.write(struct.pack("<HHH", arg, 0, 65535)); journal.flush()
            Disk.writeblocks(self, arg, bytearray(b"\\xff" * 512))
        return Disk.ioctl(self, op, arg)
disk = Journaled()
"""


@pytest.mark.parametrize("lane", ["unix"], indirect=True)
def test_power_cut_at_every_block_write_of_flashing(
    lane: Lane,
    sample: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    need: Callable[[str, str | None], None],
) -> None:
    """On littlefs, first flashing and flashing again: nothing, the old version, the new one."""
    need("serial", Serial.missing() or RelayedBoard.missing())
    folder = tmp_path / "board"
    folder.mkdir()
    boot = LITTLEFS.format(blocks=BLOCKS)
    journal = JOURNAL.replace("/disk/journal", str(folder / "journal"))
    (folder / "boot.py").write_text(boot.replace("disk = Disk()\n", journal))
    versions: dict[str, dict[str, bytes]] = {}
    real = provision._copy

    def copy(found: Board, place: str, files: dict[str, bytes], progress: None) -> int:
        versions[place.removeprefix(ROOT + "/")] = files
        return real(found, place, files, progress)

    monkeypatch.setattr(provision, "_copy", copy)
    with RelayedBoard(folder) as board:
        first = flash(board.port, OLD, sample=sample)
        heard(board)
        again = flash(board.port, NEW, compiled=True)
        heard(board)
    lane.install()
    name = "littlefs_flash.py"
    lines = [
        f"{version} {path} {hashlib.sha256(content).hexdigest()}\n"
        for version, files in versions.items()
        for path, content in files.items()
    ]
    lane.put(
        {
            name: (PROGRAMS / name).read_bytes(),
            "journal": (folder / "journal").read_bytes(),
            "main": provision.MAIN.encode(),
            "versions": "".join(lines).encode(),
        }
    )
    stretches = replayed(lane, name)
    assert [(stretch[0], stretch[2]) for stretch in stretches] == [
        ("nothing", ""),
        (first.version, first.pseudonym),
        (again.version, first.pseudonym),
    ]
    assert min(int(stretch[1]) for stretch in stretches) > 50
    # Had a few writes gone nowhere, a version in pieces would be found.
    lost = [replayed(lane, name, writes) for writes in ("350-370", "450-470", "700-720")]
    assert "broken:" in [stretch[0] for stretches in lost for stretch in stretches]


def replayed(lane: Lane, name: str, *left_out: str) -> list[list[str]]:
    """What the board runs, how often in a row, and its pseudonym."""
    result = lane.run(name, "512", str(BLOCKS), *left_out, heap="64M", timeout=300)
    assert result.exit_code == 0, (result.stdout + result.stderr).decode()
    return [line.split(" ") for line in result.stdout.decode().splitlines()]


class Cut(BaseException):
    """The cable is pulled, and the power with it."""


class Cutter:
    """Cuts the power in the middle of the n-th change on the board."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, relayed: RelayedBoard) -> None:
        self.left: int | None = None
        self.done: list[str] = []
        for name in ("write", "rename", "remove"):
            monkeypatch.setattr(Board, name, self._cut(relayed, name, getattr(Board, name)))

    def _cut(self, relayed: RelayedBoard, name: str, real: Callable) -> Callable:
        def change(board: Board, path: str, *rest: bytes) -> None:
            self.done.append(f"{name} {path}")
            if self.left is not None:
                self.left -= 1
                if self.left < 0:
                    if name == "write":
                        # Half of it has arrived.
                        real(board, path, rest[0][: len(rest[0]) // 2])
                    board.unplug()
                    relayed.power_cut()
                    raise Cut
            real(board, path, *rest)

        return change


def interrupted(board: RelayedBoard, cutter: Cutter, at: int, again: Callable) -> Flashed | None:
    """Flash with the power cut at a change; None when it was cut there."""
    cutter.left = at
    cutter.done.clear()
    try:
        return again()
    except Cut:
        return None
    finally:
        cutter.left = None


@pytest.mark.waits
@pytest.mark.parametrize(
    ("littlefs", "step"),
    [(False, 7), (True, 9), *(pytest.param(fs, 1, marks=pytest.mark.soak) for fs in (False, True))],
)
def test_interrupted_at_every_file(
    board: RelayedBoard, sample: Path, monkeypatch: pytest.MonkeyPatch, littlefs: bool, step: int
) -> None:
    """Between two versions: the old one or the new one runs, under one identity."""
    if littlefs:
        (board.folder / "boot.py").write_text(LITTLEFS.format(blocks=1024))
    first = flash(board.port, OLD, sample=sample)
    cutter = Cutter(monkeypatch, board)
    seen = []
    versions = itertools.cycle([NEW, OLD])
    wanted, current = next(versions), OLD
    at, runs = 0, {}
    for at in itertools.count(step // 2, step):
        done = interrupted(
            board, cutter, at, functools.partial(flash, board.port, wanted, sample=sample)
        )
        runs = heard(board)
        assert runs["pseudonym"] == bytes.fromhex(first.pseudonym)
        assert runs["task"] in (OLD.id, NEW.id), (at, cutter.done)
        seen.append(runs["task"] == wanted.id)
        if done is not None:
            assert seen[-1]
            break
        if seen[-1]:
            # The switch was made: go on from the other version.
            wanted, current = current, wanted
            flash(board.port, current, sample=sample)
        with Board(board.port) as found:
            # What is there already would not be copied again.
            use = provision._in_use(found)
            assert use is not None
            provision._remove_versions(found, {use[1]})
    assert at > 20
    # The old one as well as the new one was left running by an interruption.
    assert {False, True} == set(seen[:-1]) or step > 1
    assert flash(board.port, wanted, sample=sample).pseudonym == first.pseudonym


@pytest.mark.waits
@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.soak)])
def test_first_flashing_interrupted_at_every_file(
    board: RelayedBoard, sample: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Nothing runs, or the Task does; flashing again always goes through."""
    cutter = Cutter(monkeypatch, board)
    at, runs = 0, {}
    for at in itertools.count(0, step):
        done = interrupted(board, cutter, at, lambda: flash(board.port, OLD, sample=sample))
        runs = heard(board)
        if done is not None:
            break
        assert runs.get("task", OLD.id) == OLD.id
        if "task" not in runs and at % 2:
            flash(board.port, OLD, sample=sample)
            assert heard(board)["task"] == OLD.id
        with Board(board.port) as found:
            for path in (ROOT, "main.py"):
                found.remove(path)
    assert at > 20
    assert runs["task"] == OLD.id


def test_what_would_shadow_is_refused_by_name(board: RelayedBoard, sample: Path) -> None:
    first = flash(board.port, OLD, sample=sample)
    for path in (
        "tinyldp_device/switch.py",
        "tinyldp_protocol.py",
        "lib/tinyldp_device/agent.mpy",
        "tinyldp_start.mpy",
    ):
        stale = board.folder / path
        stale.parent.mkdir(parents=True, exist_ok=True)
        stale.write_text("stale = True\n")
        with pytest.raises(UserError, match=rf"^{re.escape(path)} on the board would be imported"):
            flash(board.port, NEW, sample=sample)
        stale.unlink()
        if stale.parent.name == "tinyldp_device":
            # An empty folder shadows, too.
            with pytest.raises(UserError, match="tinyldp_device on the board would be imported"):
                flash(board.port, NEW, sample=sample)
            stale.parent.rmdir()
    (board.folder / "sample.mpy").write_text("")
    with pytest.raises(UserError, match=r"^sample\.mpy on the board and --sample are two"):
        flash(board.port, NEW, sample=sample)
    (board.folder / "sample.mpy").unlink()
    board.power_cut()
    assert heard(board)["task"] == OLD.id
    assert flash(board.port, NEW, sample=sample).pseudonym == first.pseudonym


def test_erased_or_damaged_state_is_not_made_anew_silently(
    board: RelayedBoard, sample: Path
) -> None:
    first = flash(board.port, OLD, sample=sample)
    heard(board)
    slots = [board.folder / ROOT / slot for slot in ("state0", "state1")]
    for content, reason in ((b"", "missing"), (b"x" * 20, "damaged")):
        for slot in slots:
            slot.write_bytes(content)
        board.power_cut()
        assert b"not started: the stored state is " + reason.encode() in heard(board)["said"]
        with pytest.raises(UserError, match=rf"is {reason}.*--new-identity"):
            flash(board.port, OLD)
        assert [slot.read_bytes() for slot in slots] == [content] * 2
    other = flash(board.port, OLD, new_identity=True)
    assert other.pseudonym != first.pseudonym
    assert heard(board)["pseudonym"] == bytes.fromhex(other.pseudonym)
    slots[0].write_bytes(b"torn")
    board.power_cut()
    assert heard(board)["pseudonym"] == bytes.fromhex(other.pseudonym)


def test_counter_of_boots_ends_by_name(board: RelayedBoard, sample: Path) -> None:
    from tinyldp_protocol.messages import COUNTER_END, STATUS

    done = flash(board.port, OLD, sample=sample)
    with Board(board.port) as found:
        state = stored_state(found, provision.SLOTS)
        state.load()
        state.save(bytes.fromhex(done.pseudonym) + b"\xff\xff\xff\x3f")
    board.power_cut()
    deframer = Deframer()
    kinds, health = [], set()
    deadline = time.monotonic() + 60
    with serial.Serial(board.port, timeout=0.5) as line:
        while kinds.count(STATUS) < 2 and time.monotonic() < deadline:
            for message in deframer.feed(line.read(100)):
                kinds.append(message[1])
                if message[1] == STATUS:
                    health.add(message[7])
    assert health == {COUNTER_END}
    assert RELEASE not in kinds


def test_a_file_that_arrives_otherwise(
    board: RelayedBoard, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flash(board.port, OLD, sample=sample)
    real = Board.write

    def write(found: Board, path: str, content: bytes) -> None:
        real(found, path, content[:-1] + b"#" if path.endswith("switch.py") else content)

    monkeypatch.setattr(Board, "write", write)
    with pytest.raises(UserError, match=r"switch\.py on the board is not what was sent"):
        flash(board.port, NEW, sample=sample)
    board.power_cut()
    assert heard(board)["task"] == OLD.id


def test_no_room(board: RelayedBoard, sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (board.folder / "boot.py").write_text(LITTLEFS.format(blocks=64))
    with pytest.raises(UserError, match=r"has no room: \d+ bytes are needed, \d+ are free"):
        flash(board.port, OLD, sample=sample)
    monkeypatch.setattr(Board, "free", lambda self: 1 << 30)
    with pytest.raises(UserError, match=r"^The board has no room left: it was full when"):
        flash(board.port, OLD, sample=sample)


def test_a_program_that_does_not_stop(
    board: RelayedBoard, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_module, "_ENTER", 5)
    (board.folder / "main.py").write_text(
        "import sys, termios\ntermios.setraw(0)\n"
        "while True:\n    sys.stdout.buffer.write(b'data')\n"
    )
    board.power_cut()
    with serial.Serial(board.port, timeout=0.1) as line:
        while not line.read(4):
            pass
    with pytest.raises(UserError, match="keeps sending and does not stop on Ctrl-C"):
        flash(board.port, OLD, sample=sample)


def test_something_prints_while_files_are_copied(
    board: RelayedBoard, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_module, "_LONGEST", 3)
    (board.folder / "boot.py").write_text(
        "import _thread, time\ndef chat():\n    while True:\n        time.sleep_ms(3)\n"
        "        print('data')\n_thread.start_new_thread(chat, ())\n"
    )
    with pytest.raises(UserError, match=r"fell silent or sent something else|keeps sending"):
        flash(board.port, OLD, sample=sample)


def test_a_main_that_is_not_ours(board: RelayedBoard, sample: Path) -> None:
    main = board.folder / "main.py"
    main.write_text("print('precious')\n")
    with pytest.raises(UserError, match=r"main\.py on the board is not tinyldp's"):
        flash(board.port, OLD, sample=sample)
    assert main.read_text() == "print('precious')\n"
    assert not (board.folder / ROOT).exists()
    main.write_text("# main.py -- put your code here!\n")
    flash(board.port, OLD, sample=sample)
    main.write_text("print('precious')\n")
    flash(board.port, NEW, replace_main=True)
    assert heard(board)["task"] == NEW.id


def test_a_board_file_of_ones_own(board: RelayedBoard, sample: Path, tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.write_text(
        "from tinyldp_device.boards.unix import open_line, slots\n"
        "from tinyldp_device.entropy import Urandom\n\n\ndef source():\n    return Urandom()\n"
    )
    done = flash(board.port, OLD, sample=sample, board_file=own)
    assert done.board == "mine"
    assert heard(board)["task"] == OLD.id


@pytest.fixture
def task_file(tmp_path: Path) -> Path:
    path = tmp_path / "x.task"
    path.write_bytes(write_file(OLD))
    return path


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one sentence with which a command line is refused."""
    assert cli.main(["flash", *map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.strip().split("\n")
    assert line.startswith("tinyldp flash: ")
    assert line.endswith((".", ")."))
    return line


def test_command_line(
    board: RelayedBoard, sample: Path, task_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [task_file, "--port", board.port, "--sample", sample, "--uncertified"]
    assert cli.main(["flash", *map(str, arguments), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["task_id"], result["certified"]) == (OLD.id.hex(), False)
    assert result["sample"] == str(sample)
    assert heard(board)["pseudonym"].hex() == result["pseudonym"]
    assert cli.main(["flash", *map(str, arguments), "--mpy"]) == 0
    text = capsys.readouterr().out
    assert "uncertified" in text
    assert f"Pseudonym {result['pseudonym']}, kept." in text
    assert f"Readings come from {sample}." in text
    assert cli.main(["flash", *map(str, arguments[:3]), "--uncertified"]) == 0
    assert "Readings come from the board's own sample.py." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import bme280\n", "ImportError: no module named 'bme280'"),
        ("line = 1 / 0\n", "ZeroDivisionError: divide by zero"),
    ],
)
def test_a_sample_that_cannot_start(
    source: str,
    why: str,
    board: RelayedBoard,
    sample: Path,
    task_file: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What the board says when it is started anew is told."""
    sample.write_text(source + SAMPLE)
    arguments = [task_file, "--port", board.port, "--sample", sample, "--uncertified"]
    assert cli.main(["flash", *map(str, arguments)]) == 2
    said = capsys.readouterr().err
    assert f"on the board, but does not start there: {why}." in said
    sample.write_text(SAMPLE)
    assert cli.main(["flash", *map(str, arguments), "--json"]) == 0
    assert heard(board)["task"] == OLD.id


def test_a_board_with_too_little_memory(
    sample: Path,
    task_file: Path,
    need: Callable[[str, str | None], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It says so itself, in one line, and flash says it, too."""
    need("serial", Serial.missing() or RelayedBoard.missing())
    with RelayedBoard(heap="48K") as small:
        arguments = [task_file, "--port", small.port, "--sample", sample, "--uncertified"]
        assert cli.main(["flash", *map(str, arguments)]) == 2
    assert "not started: the board's memory is too small" in capsys.readouterr().err


def test_emulated_microbit(
    task_file: Path, sample: Path, need: Callable[[str, str | None], None]
) -> None:
    need("microbit", Microbit.missing())
    command = [sys.executable, "-m", "tinyldp", "flash", str(task_file), "--lane", "microbit"]
    command += ["--uncertified", "--json", "--sample", str(sample)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        text = b""
        while not text.endswith(b"\n}\n"):
            line = running.stdout.readline()
            assert line
            text += line
        result = json.loads(text)
        expected = {"task": OLD.id, "pseudonym": bytes.fromhex(result["pseudonym"])}
        try:
            assert heard(SimpleNamespace(port=result["port"])) == expected
        finally:
            running.send_signal(signal.SIGINT)
        assert running.stderr.read() == b"5 files copied\n"
    assert running.returncode == 0


def test_an_emulated_microbit_that_does_not_start(
    task_file: Path,
    sample: Path,
    need: Callable[[str, str | None], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    need("microbit", Microbit.missing())
    sample.write_text("line = 1 / 0\n" + SAMPLE)
    arguments = [task_file, "--lane", "microbit", "--uncertified", "--sample", sample]
    assert cli.main(["flash", *map(str, arguments)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "does not start on the emulated micro:bit: ZeroDivisionError" in said.err


def test_bad_input(
    board: RelayedBoard,
    sample: Path,
    task_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    port = ["--port", board.port]
    assert "say --uncertified" in refused(capsys, task_file, *port)
    rest = [*port, "--uncertified"]
    assert "can't be read" in refused(capsys, tmp_path / "none.task", *rest)
    damaged = tmp_path / "damaged.task"
    damaged.write_bytes(task_file.read_bytes()[:-1] + b"\x00")
    assert "damaged: its CRC is wrong" in refused(capsys, damaged, *rest)
    assert "no such port" in refused(capsys, task_file, "--port", "/dev/ttyX", "--uncertified")
    assert "has no sample.py" in refused(capsys, task_file, *rest)
    nothing = tmp_path / "nothing.py"
    assert "can't be read" in refused(capsys, task_file, *rest, "--sample", nothing)
    nothing.write_text("samples = 1\n")
    assert "no function sample()" in refused(capsys, task_file, *rest, "--sample", nothing)
    for source, why in (
        ("def sample(n):\n    return n\n", "must take none"),
        ("def sample(*, n):\n    return n\n", "must take none"),
        ("def sample():\n    yield 1\n", "and not yield it"),
        ("async def sample():\n    return 1\n", "no function sample()"),
    ):
        nothing.write_text(source)
        assert why in refused(capsys, task_file, *rest, "--sample", nothing)
    nothing.write_text("def sample(:\n")
    assert "no Python module" in refused(capsys, task_file, *rest, "--sample", nothing)
    good = [*rest, "--sample", sample]
    assert "no Python module" in refused(capsys, task_file, *good, "--board", nothing)
    time.sleep(0.5)  # The board that was refused last starts anew.
    with serial.Serial(board.port, exclusive=True):
        assert "another program has it open" in refused(capsys, task_file, *good)
    monkeypatch.setattr(provision, "OLDEST", (9, 1))
    assert "is too old: 9.1 or newer" in refused(capsys, task_file, *good)
    monkeypatch.undo()
    monkeypatch.setattr(provision, "BOARDS", {})
    assert "no board file for linux" in refused(capsys, task_file, *good)
    monkeypatch.undo()
    monkeypatch.setattr(
        provision, "compile_module", lambda path, source, bits: b"M\x09" + bytes(20)
    )
    assert "version 9, but the board loads version 6" in refused(capsys, task_file, *good, "--mpy")
    large = tmp_path / "large.task"
    large.write_bytes(write_file(task(batch=235, outbox=255)))
    (board.folder / "boot.py").write_text("fill = bytearray(200_000)\n")
    assert "board cannot hold this Task: its buffers take 7" in refused(capsys, large, *good)
    (board.folder / "boot.py").unlink()
    facts = Facts("circuitpython", (9, 1, 0), "RP2040", 31, "/", (), 6)
    monkeypatch.setattr(Board, "_ask", lambda self: facts)
    assert "runs circuitpython 9.1.0, and not MicroPython" in refused(capsys, task_file, *good)
    monkeypatch.undo()
    assert list(board.folder.iterdir()) == []
    master, slave = os.openpty()
    tty.setraw(slave)
    monkeypatch.setattr(board_module, "_ENTER", 2)
    silent = ["--port", os.ttyname(slave), "--uncertified"]
    assert "does not answer: no MicroPython REPL there" in refused(capsys, task_file, *silent)
    os.close(master)
    os.close(slave)


def test_stopped_by_ctrl_c(board: RelayedBoard, sample: Path, task_file: Path) -> None:
    """One sentence; what ran before goes on, and flashing again goes through."""
    first = flash(board.port, NEW, sample=sample)
    command = [sys.executable, "-m", "tinyldp", "flash", str(task_file), "--port", board.port]
    command += ["--uncertified", "--sample", str(sample)]
    copied = f"{ROOT}/*/tinyldp_device/*.py"
    before = len(list(board.folder.glob(copied)))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        while len(list(board.folder.glob(copied))) < before + 3:
            assert running.poll() is None
            time.sleep(0.001)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (130, b"", b"tinyldp flash: stopped.\n")
    pseudonym = bytes.fromhex(first.pseudonym)
    assert heard(board) == {"task": NEW.id, "pseudonym": pseudonym}
    assert cli.main(["flash", *command[4:], "--json"]) == 0
    assert heard(board) == {"task": OLD.id, "pseudonym": pseudonym}
