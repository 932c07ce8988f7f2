"""Emulated micro:bits with a built agent, and a terminal on which the collector finds them."""

from __future__ import annotations

import contextlib
import math
import os
import re
import threading
import tty
import zlib
from pathlib import Path

import pytest

from tinyldp.flash.build import build_microbit
from tinyldp.flash.microbit import new_state
from tinyldp.lanes import flatten
from tinyldp.lanes.lane import Lane, Process, Stoppable
from tinyldp.lanes.packages import sources
from tinyldp_protocol.task import (
    CRR,
    CRR_BATCH,
    GRR,
    JITTERSORT,
    LBA,
    OLH,
    OUE,
    PRESERVE,
    RANSWITCH,
    SCALE,
    STASWITCH,
    TABLE,
    THRESH,
    Task,
    write_file,
)

PROGRAMS = Path(__file__).parent / "programs"
# The smallest free heap that a full agent may leave while it reports.
LEAST_FREE = 1024


Changes = dict[str, int | list[int] | None]


def make_task(**changed: int | list[int] | None) -> Task:
    """StaSwitch, k = 8, 16-bit values, four a frame; with changes; None leaves one out."""
    numbers: Changes = {
        "mechanism": STASWITCH,
        "window": 8,
        "k": 8,
        "symbols": 65536,
        "thresholds": [1 << 20],
        "tick": 20,
        "batch": 4,
        "resend": 20,
        "beacon": 50,
        "outbox": 4,
    }
    numbers.update(changed)
    task = Task(numbers)
    write_file(task)
    return task


def jittersort(window: int) -> Changes:
    """What make_task changes for a JitterSort: ever less probable towards both sides."""
    half = window // 2
    part = SCALE // (half + 1) ** 2
    sides = [part * (half + 1 - j) for j in range(1, half + 1)]
    weights = [SCALE - 2 * sum(sides), *sides]
    return {"mechanism": JITTERSORT, "window": window, "k": 10, "thresholds": weights}


def crr(symbols: int, **changed: int | list[int]) -> Changes:
    """What make_task changes for a CRR of which half the symbols are rare at first."""
    n = symbols
    rare = 400
    prior = [rare if x % 2 else ((1 << 15) - n // 2 * rare) // (n - n // 2) for x in range(n)]
    prior[0] += (1 << 15) - sum(prior)
    stays = (1 << 14) - 500 * (n - 1)
    return {
        "mechanism": CRR,
        "window": None,
        "k": None,
        "symbols": n,
        "thresholds": [SCALE // 8],
        "rule": PRESERVE,
        "loss": 1,
        "prior": prior,
        "transitions": [stays if x == y else 500 for x in range(n) for y in range(n)],
        **changed,
    }


def crr_by_table(symbols: int, block: int) -> Changes:
    """The same of blocks by a table, each other one a fiftieth as likely."""
    blocks = symbols**block
    least = (1 << 15) // (blocks + 49)
    own = (1 << 15) - least * (blocks - 1)
    table = [own if x == y else least for x in range(blocks) for y in range(blocks)]
    return crr(symbols, mechanism=CRR_BATCH, rule=TABLE, block=block, table=table)


_ORACLE: Changes = {"window": None, "k": None, "symbols": 16}
# What make_task changes for the Tasks that are measured and run as full agents.
EACH: dict[str, Changes] = {
    "StaSwitch k=8": {},
    "RanSwitch k=24": {
        "mechanism": RANSWITCH,
        "window": 24,
        "k": 24,
        "thresholds": [SCALE // 48],
    },
    "JitterSort 2L+1=93": jittersort(93),
    "GRR d=16": {**_ORACLE, "mechanism": GRR, "thresholds": [SCALE // 64]},
    "OUE d=16": {**_ORACLE, "mechanism": OUE, "thresholds": [SCALE // 8]},
    "OLH d=16": {**_ORACLE, "mechanism": OLH, "buckets": 8, "thresholds": [SCALE // 16]},
    "CRR n=8": crr(8),
    "CRR_BATCH 3^2": crr_by_table(3, 2),
}


def lba(w: int = 20, **changed: int | list[int] | None) -> Task:
    """LBA over GRR, d = 5, epsilon = 1; with changes."""
    unit = (1 << 16) // (2 * w)
    spends = [unit * j for j in range(1, w + 1)]
    # A lie's probability is 1 / (e^spend + d - 1), rounded up.
    thresholds = [int(SCALE / (math.exp(spend / (1 << 16)) + 4)) + 1 for spend in spends]
    numbers: Changes = {
        "mechanism": GRR,
        "method": LBA,
        "w": w,
        "epsilon": 1 << 16,
        "symbols": 5,
        "spends": spends,
        "thresholds": thresholds,
        "tick": 200,
        "beacon": 10,
    }
    numbers.update(changed)
    task = Task(numbers)
    write_file(task)
    return task


def thresh(**changed: int | list[int] | None) -> Task:
    """Thresh on bits, 64 epochs of 16 steps; what is said is true but for one time in 2^24."""
    numbers: Changes = {
        "mechanism": THRESH,
        "epsilon": 1 << 16,
        "symbols": 2,
        "thresholds": [1, 1],
        "epochs": 64,
        "rounds": 16,
        "votes": 2,
        "estimates": 2,
        "levels": [0] * 7,
        "failure": 1 << 26,
        "tick": 50,
        "beacon": 20,
    }
    numbers.update(changed)
    task = Task(numbers)
    write_file(task)
    return task


TASKS = {name: make_task(**changed) for name, changed in EACH.items()}
STA = TASKS["StaSwitch k=8"]
RAN = TASKS["RanSwitch k=24"]


def state_files(pseudonym: bytes, boots: int = 0) -> dict[str, bytes]:
    """The two files of a provisioned board, as if it had booted so often."""
    files = new_state(pseudonym)
    if boots:
        body = bytes(4) + pseudonym + boots.to_bytes(4, "little")
        data = body + zlib.crc32(body).to_bytes(4, "little")
        files = dict.fromkeys(files, data)
    return files


def program(name: str, **constants: object) -> str:
    """A test's program, its constants put before it, and after its imports other programs.

    Those are what it imports from them, and without their docstrings, which would take room.
    """
    lines = [f"{key} = {value!r}\n" for key, value in constants.items()]
    text = (PROGRAMS / name).read_text()
    for found in re.finditer(r"^from (\w+) import .*\n", text, flags=re.MULTILINE):
        path = PROGRAMS / f"{found[1]}.py"
        if path.exists():
            imports, gap, rest = text.replace("\n" + found[0], "").partition("\n\n\n")
            text = imports + path.read_text().partition('"""')[2].partition('"""')[2] + gap + rest
    return "".join(lines) + text


def replace_source(monkeypatch: pytest.MonkeyPatch, path: str, source: bytes) -> None:
    """From now on builds take this for a module of the packages."""
    assert source != sources()[path]
    monkeypatch.setattr(flatten, "sources", lambda: {**sources(), path: source})


def set_credits(
    monkeypatch: pytest.MonkeyPatch, credits: int, module: str = "smallpost", before: int = 3
) -> None:
    """From now on builds let the board leave so many frames unanswered."""
    path = f"tinyldp_device/{module}.py"
    old, new = b"_CREDITS = %d\n" % before, b"_CREDITS = %d\n" % credits
    replace_source(monkeypatch, path, sources()[path].replace(old, new))


def start(lane: Lane, task: Task, files: dict[str, bytes], source: str | None = None) -> Process:
    """Build the program for the Task, put it on a fresh board and start it."""
    sample = b"def sample():\n    return 0\n"
    lane.put({**build_microbit(task, sample, source).files, **files})
    return lane.start("main.py")


class Terminal(Stoppable):
    """A pseudo-terminal in front of a board: path is where a host opens it.

    heard: all bytes that the board sent; told: how many bytes the host did.
    waiting: the host hears nothing before begin(), for opening a port empties it.
    """

    def __init__(self, process: Process, waiting: bool = False) -> None:
        self.heard = bytearray()
        self.told = 0
        self._process = process
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        self.path = os.ttyname(self._slave)
        self._stopping = threading.Event()
        self._begun = threading.Event()
        if not waiting:
            self.begin()
        self._thread = threading.Thread(target=self._relay, daemon=True)
        self._thread.start()

    def begin(self) -> None:
        self._begun.set()

    def stop(self) -> None:
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._begun.set()
        self._thread.join()
        os.close(self._master)
        os.close(self._slave)

    def _relay(self) -> None:
        self._begun.wait()
        while not self._stopping.is_set():
            data = self._process.read(4096, 0.002)
            self.heard += data
            while data:
                with contextlib.suppress(BlockingIOError):
                    data = data[os.write(self._master, data) :]
            with contextlib.suppress(BlockingIOError):
                data = os.read(self._master, 4096)
                self.told += len(data)
                self._process.write(data)
