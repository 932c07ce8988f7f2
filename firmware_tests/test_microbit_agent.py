"""A full agent on the emulated micro:bit: what it costs, and that no report is lost."""

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np
import pytest

from firmware_tests.microbit import (
    LEAST_FREE,
    RAN,
    STA,
    Terminal,
    make_task,
    program,
    start,
    state_files,
)
from tinyldp.collect.collector import Collector
from tinyldp.collect.store import Store
from tinyldp.lanes import Lane
from tinyldp.lanes.lane import Process
from tinyldp_protocol.messages import COUNTER_END, COUNTER_MAX, ENDED
from tinyldp_protocol.task import Task

MICROBIT = pytest.mark.parametrize("lane", ["microbit"], indirect=True)
PSEUDONYM = b"somebody"
# What the code of READING gives for reading number i: all below 65536.
COUNTING = "def reading(i):\n    return 1 + i * 7 % 60000\n"
CONTROL = "def reading(i):\n    return 0x0303 + (i & 1) * 0x0707\n"


def agent(readings: int, reading: str = COUNTING, locked: int = 0, count: int = 0) -> str:
    constants = program("microbit_agent.py", READINGS=readings, LOCKED=locked, COUNT=count)
    return reading + constants


def collect(board: Process, task: Task, store: Store, seconds: float) -> Terminal:
    """Collect from a board until its segment is complete."""
    with Terminal(board) as terminal:
        collector = Collector(task, store, [terminal.path])
        deadline = time.monotonic() + seconds
        collector.run(
            lambda: (
                collector.ended() >= 1
                or b">>> " in terminal.heard[-100:]
                or time.monotonic() > deadline
            )
        )
        assert collector.ended() == 1, bytes(terminal.heard[-300:])
        # The farewells, after which the board prints what it found.
        end = time.monotonic() + 20
        while b">>> " not in terminal.heard and time.monotonic() < end:
            time.sleep(0.05)
    return terminal


def outcome(terminal: Terminal) -> tuple[int, int]:
    """What the program printed: least free heap, rejected messages."""
    found = re.search(rb"end (\d+) (\d+)\r\n", terminal.heard)
    assert found is not None, bytes(terminal.heard[-300:])
    return int(found[1]), int(found[2])


def reported(lane: Lane, tmp_path: Path, task: Task, source: str, seconds: float) -> np.ndarray:
    """All values of one whole segment, after checking that nothing was lost or refused."""
    store = Store.create(tmp_path / "board.db", task)
    try:
        with start(lane, task, state_files(PSEUDONYM), source) as board:
            terminal = collect(board, task, store, seconds)
        free, rejected = outcome(terminal)
        (stream,) = store.streams()
        assert (stream.lost, stream.missing, rejected) == (0, 0, 0)
        assert stream.health == ENDED
        assert stream.pseudonym == PSEUDONYM.hex()
        # Text of the board's start and end is no frame; nothing else may be refused.
        refused = {name for (_, name), n in store.rejections().items() if n}
        assert refused <= {"too_long", "bad_cobs", "too_short", "bad_crc"}
        assert free >= LEAST_FREE
        values, present = store.values(stream.boot)
        assert present.all()
        return values
    finally:
        store.close()


def check_values(values: np.ndarray, expected: list[int], window: int) -> None:
    """Every reading was released once, in another order; a 0 is a missing reading."""
    seen = values[values != 0]
    assert sorted(seen.tolist()) == sorted(expected)
    assert len(values) - len(seen) <= len(values) // 10 + 20
    assert seen.tolist() != expected


@MICROBIT
@pytest.mark.parametrize("task", [STA, RAN], ids=["StaSwitch", "RanSwitch"])
def test_reports_arrive_whole(lane: Lane, tmp_path: Path, task: Task) -> None:
    readings = 300
    values = reported(lane, tmp_path, task, agent(readings), 90)
    check_values(values, [1 + i * 7 % 60000 for i in range(readings)], task.window)


@MICROBIT
@pytest.mark.parametrize("task", [STA, RAN], ids=["StaSwitch", "RanSwitch"])
def test_a_step_allocates_nothing(lane: Lane, tmp_path: Path, task: Task) -> None:
    readings = 200
    values = reported(lane, tmp_path, task, agent(readings, locked=1), 90)
    check_values(values, [1 + i * 7 % 60000 for i in range(readings)], task.window)


@MICROBIT
def test_a_planted_allocation_is_found(lane: Lane, tmp_path: Path) -> None:
    source = agent(50, locked=1).replace("agent.tick(value)", "agent.tick([value])")
    with start(lane, STA, state_files(PSEUDONYM), source) as board:
        assert b"MemoryError" in board.read(64, 15)


@MICROBIT
def test_five_thousand_reports(lane: Lane, tmp_path: Path) -> None:
    """Full of Ctrl-C and newlines, eight values a frame."""
    task = make_task(batch=8, tick=15)
    readings = 5000
    values = reported(lane, tmp_path, task, agent(readings, CONTROL), 300)
    seen = values[values != 0]
    assert len(seen) == readings
    assert sorted(seen.tolist()) == sorted([0x0303, 0x0A0A] * (readings // 2))


@MICROBIT
@pytest.mark.soak
def test_a_hundred_thousand_reports(lane: Lane, tmp_path: Path) -> None:
    readings = 100_000
    values = reported(lane, tmp_path, STA, agent(readings), 6000)
    check_values(values, [1 + i * 7 % 60000 for i in range(readings)], 8)


@MICROBIT
def test_the_last_counter_is_a_named_end(lane: Lane, tmp_path: Path) -> None:
    """Counters start at 2^30 - 2: one more value leaves, and nothing wraps."""
    store = Store.create(tmp_path / "board.db", STA)
    try:
        source = agent(50, count=COUNTER_MAX - 1)
        with (
            start(lane, STA, state_files(PSEUDONYM), source) as board,
            Terminal(board) as terminal,
        ):
            collector = Collector(STA, store, [terminal.path])
            deadline = time.monotonic() + 30
            collector.run(lambda: b">>> " in terminal.heard or time.monotonic() > deadline)
        (stream,) = store.streams()
        assert stream.health == COUNTER_END
        assert stream.count == COUNTER_MAX
        assert stream.lowest == COUNTER_MAX
        assert stream.received == 1
    finally:
        store.close()


@MICROBIT
@pytest.mark.parametrize("boots", [COUNTER_MAX - 1, COUNTER_MAX])
def test_the_last_boot_is_a_named_end(lane: Lane, tmp_path: Path, boots: int) -> None:
    store = Store.create(tmp_path / "board.db", STA)
    try:
        files = state_files(PSEUDONYM, boots)
        with start(lane, STA, files, agent(20)) as board, Terminal(board) as terminal:
            collector = Collector(STA, store, [terminal.path])
            deadline = time.monotonic() + 30
            collector.run(lambda: collector.ended() >= 1 or time.monotonic() > deadline)
        (stream,) = store.streams()
        if boots == COUNTER_MAX:
            assert (stream.health, stream.count) == (COUNTER_END, 0)
        else:
            assert stream.health == ENDED
            assert stream.count is not None
            assert stream.count >= 20
    finally:
        store.close()


@MICROBIT
def test_a_board_without_state_does_not_start(lane: Lane) -> None:
    with start(lane, STA, {}, agent(20)) as board:
        result = board.wait(20)
    assert b"missing" in result.stdout
    assert result.exit_code == 1
