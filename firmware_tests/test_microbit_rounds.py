"""A device that is asked, on the emulated micro:bit: LBA, GRR, d = 5, w = 20."""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from firmware_tests.asking import MEASURING, PATIENCE, Host, Siege, crowded
from firmware_tests.asking import query as query_of
from firmware_tests.microbit import (
    LEAST_FREE,
    PROGRAMS,
    Terminal,
    lba,
    program,
    replace_source,
    set_credits,
    start,
)
from tinyldp.collect.collector import Collector
from tinyldp.collect.store import Store
from tinyldp.errors import UserError
from tinyldp.flash.build import (
    ASKED_BOTH,
    ASKED_DATA,
    ROUNDS,
    asked_buffers,
    build_microbit,
    heap_of,
)
from tinyldp.flash.flat import LEDGER_SLOTS, SLOTS
from tinyldp.flash.microbit import flash_microbit, new_state
from tinyldp.lanes import Lane
from tinyldp_device import ledger
from tinyldp_device.ledger import BINDING_AT, BOUND_AT, RING_AT, STEP_AT, T_AT
from tinyldp_device.state import StateError
from tinyldp_protocol.messages import (
    BUDGET,
    EARLY,
    FOREIGN,
    LATE,
    LOST,
    UNKNOWN,
    WAITING,
    get_word,
)
from tinyldp_protocol.task import LBA, LBD, LBU, LPA, OLH, OUE, SCALE, Task

pytestmark = pytest.mark.waits
MICROBIT = pytest.mark.parametrize("lane", ["microbit"], indirect=True)
TASK = lba()
TASK_SPENDS = TASK.spends or []
PSEUDONYM = b"somebody"
CONSTANT = b"def sample():\n    return 3\n"


def query(t: int) -> bytes:
    return query_of(TASK, t)


@contextmanager
def flashed(lane: Lane, task: Task = TASK, sample: bytes = CONSTANT) -> Iterator[Host]:
    with flash_microbit(task, lane, sample, PSEUDONYM)[2] as board:
        yield Host(board)


@MICROBIT
def test_a_board_answers_the_collector(lane: Lane, tmp_path: Path) -> None:
    store = Store.create(tmp_path / "board.db", TASK)
    try:
        _, _, board = flash_microbit(TASK, lane, MEASURING, PSEUDONYM)
        with board, Terminal(board) as terminal:
            collector = Collector(TASK, store, [terminal.path])
            deadline = time.monotonic() + 120

            def over() -> bool:
                heard = sum(boot.received for boot in snapshots[-1].devices) if snapshots else 0
                return heard >= 30 or time.monotonic() > deadline

            snapshots: list = []
            collector.run(over, snapshots.append)
            heard = bytes(terminal.heard)
        assert b"Error" not in heard
        (device,) = snapshots[-1].devices
        assert device.pseudonym == PSEUDONYM.hex()
        assert device.received >= 30
        assert snapshots[-1].step >= 29
        free = [int(n) for n in re.findall(rb"free (\d+)\r\n", heard)]
        assert len(free) >= 30
        assert min(free) >= LEAST_FREE
    finally:
        store.close()


@MICROBIT
def test_what_a_board_answers_and_refuses(lane: Lane) -> None:
    """Every reason has its name, and costs nothing; a repeated query gets the same bytes."""
    # A window takes longer than the test.
    task = lba(tick=4000)

    def asks(t: int, phase: int = 0, entry: int = 0, name: bytes | None = None) -> tuple:
        return host.asks(query_of(task, t, phase, entry, name))

    with flashed(lane, task) as host:
        first = asks(7)
        assert first[:3] == (7, 0, 0)
        assert first[3][0] < 5
        assert asks(7, entry=5) == first
        assert asks(7, name=b"another!") == (7, 0, FOREIGN)
        assert asks(8, entry=20) == (8, 0, UNKNOWN)
        assert asks(6) == (6, 0, LATE)
        publication = asks(7, 1, 19)
        assert publication[:3] == (7, 1, 19)
        assert asks(7, 1, 3) == publication
        # 1, 20 and 18 of 40 units.
        assert asks(8, entry=17)[:3] == (8, 0, 17)
        assert asks(9, entry=1) == (9, 0, BUDGET)
        assert asks(9)[:3] == (9, 0, 0)
        assert asks(9, 1) == (9, 1, BUDGET)
        assert host.pseudonym == PSEUDONYM


@MICROBIT
def test_two_queries_for_one_step(lane: Lane) -> None:
    task = lba(tick=5000, beacon=1)
    with flashed(lane, task) as host:
        assert host.asks(query_of(task, 1))[:3] == (1, 0, 0)
        assert host.asks(query_of(task, 2), early=True) == (2, 0, EARLY)
        assert host.asks(query_of(task, 1))[:3] == (1, 0, 0)


@MICROBIT
def test_a_lost_ledger_waits(lane: Lane) -> None:
    state = new_state(PSEUDONYM, TASK)
    state["ledger0"] = b""
    state["ledger1"] = state["ledger1"][:-1]
    lane.put({**build_microbit(TASK, CONSTANT).files, **state})
    with lane.start("main.py") as board:
        host = Host(board)
        assert host.asks(query(1)) == (1, 0, WAITING)
        deadline = time.monotonic() + PATIENCE
        t = 2
        while (said := host.asks(query(t)))[2:] == (WAITING,):
            t += 1
            assert time.monotonic() < deadline
        assert said[:3] == (t, 0, 0)


@MICROBIT
def test_another_allowance_than_it_was_built_for(lane: Lane) -> None:
    lane.put({**build_microbit(TASK, CONSTANT).files, **new_state(PSEUDONYM, lba(epsilon=70000))})
    with lane.start("main.py") as board:
        result = board.wait(PATIENCE)
    assert b"another allowance" in result.stdout


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"w": 200}, "the data of its Task"),
        (
            {"symbols": 150, "bins": list(range(149)), "thresholds": [9] * 20},
            "the data of its Task",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_sizes(changed: dict, what: str) -> None:
    with pytest.raises(UserError, match=rf"{what}[^.]* has \d+ bytes, at most \d+ fit"):
        build_microbit(lba(**changed))


@pytest.mark.parametrize(
    ("named", "method", "spends"),
    [("LBD", LBD, lambda w: 2 * w), ("LBA", LBA, lambda w: w), ("the others", LBU, lambda w: 1)],
)
def test_the_windows_that_the_readme_names_are_the_largest(
    named: str, method: int, spends: Callable[[int], int]
) -> None:
    """With OLH, whose buffers are the largest."""
    text = " ".join((PROGRAMS.parents[1] / "README.md").read_text().split())
    found = re.search(rf"(\d+) under {named}", text)
    assert found is not None

    def data(w: int) -> int:
        n = spends(w)
        changed = {"spends": list(range(1, n + 1)), "thresholds": [9] * n, "method": method}
        task = lba(w, mechanism=OLH, buckets=3, **changed)
        return heap_of(asked_buffers(task))

    assert data(int(found[1])) <= ASKED_DATA < data(int(found[1]) + 1)


def part(n: int) -> str:
    return (
        f"\n\ndef part{n}(x):\n    state[{n % 3}] = (state[{n % 3}] * 7 + x) // 8\n"
        f"    return state[0] if x > {n} else -x\n"
    )


@MICROBIT
def test_the_largest_that_is_not_refused_answers(lane: Lane) -> None:
    """And it leaves enough heap, while one that is larger by a step is refused."""
    task = lba(32, tick=400)
    with flashed(lane, task, MEASURING) as host:
        text = b""
        for t in range(5):
            assert host.asks(query_of(task, t))[:3] == (t, 0, 0)
            text += bytes(host.text)
    free = [int(n) for n in re.findall(rb"free (\d+)\r\n", text)]
    assert min(free) >= LEAST_FREE
    with pytest.raises(UserError, match="the data of its Task"):
        build_microbit(lba(33))


@MICROBIT
@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"method": LBU, "mechanism": OUE, "spends": [3276], "symbols": 64}, id="LBU"),
        pytest.param(
            {
                "method": LBD,
                "mechanism": OLH,
                "buckets": 3,
                "spends": [819 * n for n in range(1, 41)],
            },
            id="LBD",
        ),
        pytest.param({"method": LPA, "spends": [1 << 16], "symbols": 1000}, id="LPA"),
    ],
)
def test_other_methods_and_oracles_answer(lane: Lane, changed: dict) -> None:
    task = lba(**changed, thresholds=[SCALE // 8192] * len(changed["spends"]), tick=400)
    with flashed(lane, task, MEASURING) as host:
        said = host.asks(query_of(task, 0))
        text = bytes(host.text)
    assert said[:3] == (0, 0, 0)
    assert len(said[3]) == task.payload
    free = [int(n) for n in re.findall(rb"free (\d+)\r\n", text)]
    assert min(free) >= LEAST_FREE


@MICROBIT
def test_the_longest_sample_that_is_not_refused_answers(lane: Lane) -> None:
    buffers = asked_buffers(TASK)
    source = "def sample():\n    return part0(9)\n\n\nstate = [0, 0, 0]\n"
    n = 0
    while len(source) + len(part(n)) <= ASKED_BOTH - heap_of(buffers):
        source += part(n)
        n += 1
    assert len(source) > 200
    with flashed(lane, TASK, source.encode()) as host:
        for t in range(5):
            assert host.asks(query(t))[:3] == (t, 0, 0)
    with pytest.raises(UserError, match=r"its sample\.py has \d+ bytes, at most \d+ fit"):
        build_microbit(TASK, (source + part(n)).encode())


# ---- the line, and the heap ----


def played(
    lane: Lane, steps: int, locked: int = 0, busy: int = 0, source: str = ""
) -> tuple[int, int, int, int]:
    """A host that spends each credit at once: bytes sent, and what the board prints at its end."""
    reading = "def reading(i):\n    return i % 5\n"
    constants = program("microbit_rounds.py", STEPS=steps, LOCKED=locked, BUSY=busy)
    board_files = new_state(PSEUDONYM, TASK)
    queries = (query(t) for t in itertools.count(1))
    with start(lane, TASK, board_files, source or reading + constants) as board:
        return crowded(board, queries)


@MICROBIT
def test_a_step_allocates_nothing(lane: Lane) -> None:
    sent, taken, rejected, free = played(lane, 60, locked=1, busy=30)
    assert sent > 20 * 37
    assert (taken, rejected) == (sent, 0)
    assert free >= LEAST_FREE


@MICROBIT
def test_a_planted_allocation_is_found(lane: Lane) -> None:
    reading = "def reading(i):\n    return i % 5\n"
    source = reading + program("microbit_rounds.py", STEPS=60, LOCKED=1, BUSY=0)
    source = source.replace("agent.tick(value)", "agent.tick([value])")
    with pytest.raises(AssertionError, match="MemoryError"):
        played(lane, 60, source=source)


@MICROBIT
def test_queries_never_overrun_the_ring(lane: Lane) -> None:
    """Of a host that spends every credit at once, while the board is busy and does not listen."""
    sent, taken, rejected, _ = played(lane, 60, busy=100)
    assert sent > 20 * 37
    assert (taken, rejected) == (sent, 0)


@MICROBIT
def test_more_credit_would_overrun_it(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    set_credits(monkeypatch, 3, "smallrounds", 1)
    sent, taken, _, _ = played(lane, 60, busy=100)
    assert taken < sent


# ---- a reset at every write ----

# See programs/announced_files.py.
POINTS = {
    *((slot, at, "a") for slot in SLOTS for at in "ABCDE"),
    *((slot, at, kind) for slot in LEDGER_SLOTS for at in "ABCDE" for kind in "bc"),
}


class Resets(Siege):
    """Phase 0 of each step in turn, asked until it is settled."""

    def __init__(self, host: Host) -> None:
        super().__init__(host, TASK, PSEUDONYM, LEDGER_SLOTS, POINTS)
        # As the flash was read at the last boot.
        self.spent: dict[int, int] = {}
        self.bound, self.status, self.report = -1, 0, b""
        # The last t of which an answer was heard, and each that was lost.
        self.answered = -1
        self.lost: set[int] = set()
        self.outcomes = Counter[str]()

    def run(self) -> None:
        t = 0
        # So many answers without a cut: no point comes any more.
        while self.outcomes["fresh"] < 9:
            said = self.ask(t)
            if said is None:
                self.outcomes["fresh"] = 0
                self.boot()
                continue
            if self.bound != t:
                self.outcomes["fresh"] += 1
                assert said[:3] == (t, 0, 0)
            elif self.status == 1:
                self.outcomes["lost"] += 1
                self.lost.add(t)
                assert said == (t, 0, LOST)
            else:
                self.outcomes["stored"] += 1
                assert said == (t, 0, 0, self.report)
            if said[2] != LOST:
                self.answered = t
            t += 1

    def take_in(self, payload: bytes) -> None:
        """Of all that was ever known to be spent, or answered, nothing is missing."""
        step, horizon = get_word(payload, STEP_AT), get_word(payload, 0)
        spent = {
            n: get_word(payload, RING_AT + 4 * (n % horizon))
            for n in range(max(0, step - horizon + 1), step + 1)
        }
        for n, before in self.spent.items():
            assert n not in spent or spent[n] >= before, (self.spent, spent)
        self.spent = spent
        bound = get_word(payload, T_AT) if payload[BINDING_AT] == 2 else -1
        assert bound >= max(self.bound, self.answered)
        self.bound, self.status = bound, payload[ledger.PHASE_AT]
        self.report = payload[RING_AT + 4 * horizon :][:1]
        if bound >= 0:
            assert spent[get_word(payload, BOUND_AT)] >= TASK_SPENDS[0]
            assert self.status == (2 if bound == self.answered else self.status)
            assert self.status == (1 if bound in self.lost else self.status)


def cut_everywhere(lane: Lane, monkeypatch: pytest.MonkeyPatch, source: str) -> Resets:
    files = (PROGRAMS / "announced_files.py").read_bytes()
    replace_source(monkeypatch, "tinyldp_device/boards/files.py", files)
    with start(lane, TASK, new_state(PSEUDONYM, TASK), source) as board:
        resets = Resets(Host(board))
        resets.run()
    return resets


@MICROBIT
@pytest.mark.timeout(900)
def test_a_reset_at_every_write_never_lowers_what_was_spent(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    resets = cut_everywhere(lane, monkeypatch, ROUNDS.read_text())
    assert not resets.left
    # Several points for each: a step is cut until it is lost, or its answer is stored.
    assert resets.outcomes["lost"] >= 2
    assert resets.outcomes["stored"] >= 1


@MICROBIT
@pytest.mark.timeout(900)
def test_a_ledger_in_one_file_only_is_found_out(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ROUNDS.read_text().replace('"ledger1"', '"ledger0"')
    with pytest.raises((AssertionError, KeyError, StateError)):
        cut_everywhere(lane, monkeypatch, source)
