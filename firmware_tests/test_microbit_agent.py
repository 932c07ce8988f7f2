"""A full agent on the emulated micro:bit: what it costs, and that no report is lost."""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from firmware_tests.microbit import (
    EACH,
    LEAST_FREE,
    Terminal,
    jittersort,
    make_task,
    program,
    set_credits,
    start,
    state_files,
)
from tinyldp.collect.collector import Collector
from tinyldp.collect.deframing import Deframer, framed
from tinyldp.collect.intake import Intake, Link
from tinyldp.collect.store import Store
from tinyldp.estimate.chances import support_chances
from tinyldp.estimate.supports import supports
from tinyldp.lanes import Lane
from tinyldp.lanes.lane import Process
from tinyldp_device.coupling import MODEL, Coupling
from tinyldp_protocol.messages import COUNTER_END, COUNTER_MAX, ENDED, ENTROPY_FAILED
from tinyldp_protocol.task import CRR, CRR_BATCH, Task

MICROBIT = pytest.mark.parametrize("lane", ["microbit"], indirect=True)
# Steps follow each other as fast as they can here: so many pass before an answer is given up.
PATIENT: dict[str, int] = {"resend": 400, "beacon": 40}
STA = make_task(**PATIENT)
TASKS = {name.split()[0]: make_task(**changed, **PATIENT) for name, changed in EACH.items()}
RAN, JITTER = TASKS["RanSwitch"], TASKS["JitterSort"]


def each(*soaked: str) -> pytest.MarkDecorator:
    """A test for each of TASKS, those named only in make soak."""
    marks = {name: [pytest.mark.soak] * (name in soaked) for name in TASKS}
    tasks = [pytest.param(task, id=name, marks=marks[name]) for name, task in TASKS.items()]
    return pytest.mark.parametrize("task", tasks)


PSEUDONYM = b"somebody"
# What the code of READING gives for reading number i: all below 65536.
COUNTING = "def reading(i):\n    return 1 + i * 7 % 60000\n"
COUNTING_TO_16 = "def reading(i):\n    return i * 7 % 16\n"
# Values 0x0303, 0x030a, 0x0a03, 0x0a0a: Ctrl-C and newlines only.
CONTROL = "def reading(i):\n    return 0x0303 + (i & 1) * 7 + (i >> 1 & 1) * 0x0700\n"
ACK_FRAME = 20
# A frame that the board rejects; it has room for this beside three answers.
NOT_OURS = b"\0?\0"


def agent(
    readings: int, reading: str = COUNTING, locked: int = 0, count: int = 0, outbox: int = 4, busy=0
) -> str:
    constants = program(
        "microbit_agent.py",
        READINGS=readings,
        LOCKED=locked,
        COUNT=count,
        OUTBOX=outbox,
        BUSY=busy,
    )
    return reading + constants


def until_heard(terminal: Terminal, pattern: bytes, seconds: float) -> re.Match[bytes]:
    deadline = time.monotonic() + seconds
    while (found := re.search(pattern, terminal.heard)) is None:
        assert time.monotonic() < deadline, bytes(terminal.heard[-300:])
        time.sleep(0.05)
    return found


class Outcome(NamedTuple):
    """What the board found: least free heap, messages and bytes from the host, frames dropped."""

    free: int
    rejected: int
    taken: int
    drops: int


def collect(board: Process, task: Task, store: Store, seconds: float) -> Outcome:
    """Collect from a board until its segment is complete, and check that the host kept to credit.

    Every byte that the host sent was taken by the board, and the host sent no more
    frames than it received.
    """
    with Terminal(board, waiting=True) as terminal:
        collector = Collector(task, store, [terminal.path])
        deadline = time.monotonic() + seconds

        def over() -> bool:
            terminal.begin()
            end = bytes(terminal.heard[-1000:])
            return (
                (collector.ended() >= 1 and b"over\r\n" in end)
                or b"Traceback" in end
                or time.monotonic() > deadline
            )

        collector.run(over)
        assert collector.ended() == 1, bytes(terminal.heard[-300:])
        until_heard(terminal, rb"over\r\n", 20)
        told = terminal.told
        board.write(NOT_OURS)
        found = until_heard(terminal, rb"end (\d+) (\d+) (\d+) (\d+)\r\n", 20)
        outcome = Outcome(*map(int, found.groups()))
        deframer = Deframer()
        received = len(deframer.feed(bytes(terminal.heard)))
    assert outcome.taken == told + len(NOT_OURS)
    assert told % ACK_FRAME == 0
    assert 0 < told // ACK_FRAME <= received
    assert (outcome.rejected, outcome.drops) == (0, 0)
    return outcome


def reported(lane: Lane, tmp_path: Path, task: Task, source: str, seconds: float) -> np.ndarray:
    """All reports of one whole segment, after checking that nothing was lost or refused."""
    store = Store.create(tmp_path / "board.db", task)
    try:
        with start(lane, task, state_files(PSEUDONYM), source) as board:
            outcome = collect(board, task, store, seconds)
        (stream,) = store.streams()
        assert (stream.lost, stream.missing, stream.drops) == (0, 0, 0)
        assert stream.health == ENDED
        assert stream.pseudonym == PSEUDONYM.hex()
        # Text of the board's start and end is no frame; nothing else may be refused.
        refused = {name for (_, name), n in store.rejections().items() if n}
        assert refused <= {"too_long", "bad_cobs", "too_short", "bad_crc", "no hello"}
        assert outcome.free >= LEAST_FREE
        values, present = store.values(stream.boot)
        assert present.all()
        return values
    finally:
        store.close()


def check_reports(lane: Lane, tmp_path: Path, task: Task, locked: int) -> None:
    """A stream releases every reading once, in another order; an oracle reports on each.

    Of an oracle's reports as many support their reading as its Task says, within 5
    standard deviations: false alarm 10^-6. With 0.7 or 1.3 times as many it would fail.
    """
    readings = 300
    if task.mechanism == CRR:
        check_by_belief(lane, tmp_path, task, readings, locked)
        return
    if task.mechanism == CRR_BATCH:
        check_by_table(lane, tmp_path, task, readings, locked)
        return
    oracle = task.window is None
    source = agent(readings, COUNTING_TO_16 if oracle else COUNTING, locked)
    reports = reported(lane, tmp_path, task, source, 90)
    assert len(reports) == readings
    if not oracle:
        expected = [1 + i * 7 % 60000 for i in range(readings)]
        assert sorted(reports.tolist()) == expected
        assert reports.tolist() != expected
        return
    expected = np.arange(readings) * 7 % 16
    own = sum(int(supports(task, reports[expected == v])[v]) for v in range(16))
    p = float(support_chances(task)[0])
    deviation = (readings * p * (1 - p)) ** 0.5
    assert abs(own - readings * p) < 5 * deviation < 0.3 * readings * p


def check_by_table(lane: Lane, tmp_path: Path, task: Task, readings: int, locked: int) -> None:
    """As many blocks are released as they are as the table says.

    Within 5 standard deviations: false alarm 10^-6. With 0.7 or 1.3 times as many it would fail.
    """
    source = agent(readings, "def reading(i):\n    return i * 7 // 3 % 3\n", locked)
    reports = reported(lane, tmp_path, task, source, 90).ravel()
    assert len(reports) == readings
    assert readings % 2 == 0
    values = np.arange(readings) * 7 // 3 % 3
    blocks, released = (x[::2] * 3 + x[1::2] for x in (values, reports))
    assert len(set(blocks.tolist())) > 3
    table = np.reshape(task.table, (9, 9)) / (1 << 15)
    chances = table[blocks, blocks]
    own, expected = (blocks == released).sum(), chances.sum()
    deviation = (chances * (1 - chances)).sum() ** 0.5
    assert abs(own - expected) < 5 * deviation < 0.3 * expected


def check_by_belief(lane: Lane, tmp_path: Path, task: Task, readings: int, locked: int) -> None:
    """As many values are released as they are as the beliefs say that follow what was released.

    Within 5 standard deviations: false alarm 10^-6. With 0.7 or 1.3 times as many it would fail.
    """
    # Each eight times, as the chain expects.
    source = agent(readings, "def reading(i):\n    return i // 8 % 8\n", locked)
    reports = reported(lane, tmp_path, task, source, 150).ravel().tolist()
    coupling = Coupling(task)
    n = task.symbols
    expected = variance = 0.0
    own = 0
    for i, y in enumerate(reports):
        coupling.make()
        x = i // 8 % 8
        fresh = coupling.fresh / MODEL
        told = coupling.joint[x * n + x] / coupling.served[x]
        chance = fresh * coupling.marginal[x] / coupling.total + (1 - fresh) * told
        expected += chance
        variance += chance * (1 - chance)
        own += x == y
        coupling.update(y)
    assert len(reports) == readings
    assert abs(own - expected) < 5 * variance**0.5 < 0.3 * expected


@MICROBIT
@each("RanSwitch", "OUE", "OLH")
def test_reports_arrive_whole(lane: Lane, tmp_path: Path, task: Task) -> None:
    check_reports(lane, tmp_path, task, 0)


@MICROBIT
@each()
def test_a_step_allocates_nothing(lane: Lane, tmp_path: Path, task: Task) -> None:
    check_reports(lane, tmp_path, task, 1)


@MICROBIT
def test_a_planted_allocation_is_found(lane: Lane, tmp_path: Path) -> None:
    source = agent(50, locked=1).replace("agent.tick(value)", "agent.tick([value])")
    with start(lane, STA, state_files(PSEUDONYM), source) as board:
        heard = b""
        deadline = time.monotonic() + 30
        while b"MemoryError" not in heard and time.monotonic() < deadline:
            heard += board.read(4096, 0.2)
    assert b"MemoryError" in heard


def full_of_control_characters(lane: Lane, tmp_path: Path, readings: int, seconds: float) -> None:
    """One value a frame, so that as many frames as readings arrive."""
    task = make_task(batch=1, **PATIENT)
    values = reported(lane, tmp_path, task, agent(readings, CONTROL), seconds).tolist()
    assert Counter(values) == dict.fromkeys((0x0303, 0x030A, 0x0A03, 0x0A0A), readings // 4)


@MICROBIT
def test_five_thousand_reports(lane: Lane, tmp_path: Path) -> None:
    full_of_control_characters(lane, tmp_path, 5000, 400)


@MICROBIT
@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_hundred_thousand_reports(lane: Lane, tmp_path: Path) -> None:
    full_of_control_characters(lane, tmp_path, 100_000, 7000)


def answers_at_worst(
    lane: Lane, tmp_path: Path, readings: int, resend: int
) -> tuple[int, int, int]:
    """Bytes sent and taken, and messages rejected, with a host that spends every credit at once.

    It answers each frame by itself, while the board is busy with a sample and does not listen.
    """
    task = make_task(batch=1, outbox=12, resend=resend, beacon=PATIENT["beacon"])
    source = agent(readings, outbox=12, busy=120)
    store = Store.create(tmp_path / "board.db", task)
    intake = Intake(task, store)
    deframer = Deframer()
    link = Link("line")
    sent = 0
    heard = b""
    with start(lane, task, state_files(PSEUDONYM), source) as board:
        deadline = time.monotonic() + 120
        while b"over\r\n" not in heard:
            assert time.monotonic() < deadline, heard[-300:]
            data = b""
            while chunk := board.read(4096, 0.04):
                data += chunk
            heard += data
            for message in deframer.feed(data):
                intake.feed(link, [message], 1)
                for _, ack in intake.committed(store.commit(intake.batch(1, 1))):
                    board.write(framed(ack))
                    sent += ACK_FRAME
        again = 0.0
        while (found := re.search(rb"end \d+ (\d+) (\d+) ", heard)) is None:
            assert time.monotonic() < deadline, heard[-300:]
            if time.monotonic() > again:
                # Lost where too many answers have filled the ring. One that is heard is the last.
                board.write(NOT_OURS)
                again = time.monotonic() + 10
            heard += board.read(4096, 0.1)
    store.close()
    return sent + len(NOT_OURS), int(found[2]), int(found[1])


@MICROBIT
def test_answers_never_overrun_the_ring(lane: Lane, tmp_path: Path) -> None:
    """No answer is given up: once the segment is over, steps outrun any host's answer."""
    sent, taken, rejected = answers_at_worst(lane, tmp_path, 120, 1 << 20)
    assert (taken, rejected) == (sent, 0)


@MICROBIT
def test_more_credit_would_overrun_it(
    lane: Lane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_credits(monkeypatch, 4)
    sent, taken, _ = answers_at_worst(lane, tmp_path, 24, PATIENT["resend"])
    assert taken < sent


@MICROBIT
@pytest.mark.parametrize(("fail", "locked"), [(0, 0), (1, 0), (0, 1)], ids=["", "fail", "locked"])
@pytest.mark.parametrize(
    "name",
    [
        "StaSwitch",
        "JitterSort",
        pytest.param("RanSwitch", marks=pytest.mark.soak),
        pytest.param("OLH", marks=pytest.mark.soak),
    ],
)
def test_the_deepest_path_leaves_stack_for_one_call(
    lane: Lane, tmp_path: Path, name: str, fail: int, locked: int
) -> None:
    """Redraws that empty the pool within a step: see the programs."""
    task = TASKS[name]
    if name == "StaSwitch" or name == "RanSwitch":
        source = program("microbit_stack.py", FAIL=fail, LOCKED=locked)
        expected = (ENTROPY_FAILED, 4) if fail else (ENDED, 0)
    else:
        if name == "JitterSort":
            # As deep as with a longer buffer, which takes longer to fill.
            task = make_task(**jittersort(25))
        source = program("microbit_redraw.py", WINDOW=task.window or 0, FAIL=fail, LOCKED=locked)
        # OLH's next step needs another pool.
        expected = (ENTROPY_FAILED, 0) if fail else (ENDED, 1 if name == "JitterSort" else 2)
    store = Store.create(tmp_path / "board.db", task)
    try:
        with (
            start(lane, task, state_files(PSEUDONYM), source) as board,
            Terminal(board) as terminal,
        ):
            collector = Collector(task, store, [terminal.path])
            deadline = time.monotonic() + 60
            collector.run(
                lambda: (
                    re.search(rb"end \d|Error", terminal.heard) is not None
                    or time.monotonic() > deadline
                )
            )
            found = until_heard(terminal, rb"end (\d+) (\d+)\r\n", 1)
        (stream,) = store.streams()
    finally:
        store.close()
    assert tuple(map(int, found.groups())) == expected
    assert stream.health == expected[0]


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
            collector.run(lambda: b"over\r\n" in terminal.heard or time.monotonic() > deadline)
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
