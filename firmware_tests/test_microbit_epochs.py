"""A device with epochs on the emulated micro:bit: Thresh, its counters for life on the flash."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from firmware_tests.asking import MEASURING, PATIENCE, Host, crowded, query
from firmware_tests.microbit import LEAST_FREE, program, replace_source, start, thresh
from tinyldp.errors import UserError
from tinyldp.flash.build import (
    EPOCHS,
    EPOCHS_BOTH,
    EPOCHS_DATA,
    asked_buffers,
    build_microbit,
    heap_of,
)
from tinyldp.flash.microbit import flash_microbit, new_state
from tinyldp.lanes import Lane
from tinyldp.lanes.packages import sources
from tinyldp_protocol.messages import BUDGET, EARLY, FOREIGN, LATE, UNKNOWN
from tinyldp_protocol.task import SCALE, Task

MICROBIT = pytest.mark.parametrize("lane", ["microbit"], indirect=True)
TASK = thresh(tick=20, polls=64, thresholds=[1, 1, 1])
PSEUDONYM = b"somebody"
NO, YES = b"\0", b"\1"
CONSTANT = b"def sample():\n    return 3\n"
# The highest reading from step 100 on, the lowest before.
CHANGING = b"""seen = [0]
def sample():
    seen[0] += 1
    return 9999 * (seen[0] > 100)
"""


@contextmanager
def flashed(lane: Lane, task: Task, sample: bytes = CHANGING) -> Iterator[Host]:
    with flash_microbit(task, lane, sample, PSEUDONYM)[2] as board:
        yield Host(board)


@functools.cache
def built() -> dict[str, bytes]:
    return build_microbit(TASK, CHANGING).files


def lived(host: Host, task: Task, epochs: int) -> list[tuple[bytes, bytes]]:
    """Votes and estimates of so many epochs; the first is an update, and nothing else."""
    said = []
    for t in range(1, epochs + 1):
        vote = host.asks(query(task, t))
        assert vote[:3] == (t, 0, 0)
        entry = 1 if t == 1 else 0
        estimate = host.asks(query(task, t, 1, entry))
        assert estimate[:3] == (t, 1, entry)
        said.append((vote[3], estimate[3]))
    return said


@MICROBIT
def test_a_board_votes_when_its_data_change(lane: Lane) -> None:
    """As often as it may, and says so when it is polled. Wrong by chance: once in 2^18."""
    lane.put({**built(), **new_state(PSEUDONYM, TASK)})
    with lane.start("main.py") as board:
        host = Host(board)
        said = lived(host, TASK, 12)
        assert host.pseudonym == PSEUDONYM
    votes = [vote[0] & 1 for vote, _ in said]
    left = [vote[0] >> 1 for vote, _ in said]
    assert votes[:2] == [0, 0]
    first = votes.index(1)
    assert votes[first : first + 2] == [1, 1]
    assert sum(votes) == 2
    # Whether votes are left after this one.
    assert left == [1] * (first + 1) + [0] * (11 - first)
    # Of nothing, nothing can be said but 0.
    assert {estimate for _, estimate in said} == {NO}


@MICROBIT
def test_what_a_board_answers_and_refuses(lane: Lane) -> None:
    """Every reason has its name; a repeated query gets the same bytes, whatever it asks."""
    task = thresh(tick=60, rounds=8, thresholds=[SCALE // 3, SCALE // 3])

    def asks(t: int, phase: int = 0, entry: int = 0, name: bytes | None = None) -> tuple:
        return host.asks(query(task, t, phase, entry, name))

    with flashed(lane, task) as host:
        assert host.asks(query(task, 3), early=True) == (3, 0, EARLY)
        first = asks(3)
        assert first[:3] == (3, 0, 0)
        assert asks(3) == first
        assert asks(3, name=b"another!") == (3, 0, FOREIGN)
        assert asks(3, 0, 1) == (3, 0, UNKNOWN)
        assert asks(0) == (0, 0, UNKNOWN)
        assert asks(65) == (65, 0, UNKNOWN)
        assert asks(2) == (2, 0, LATE)
        estimate = asks(3, 1, 1)
        assert estimate[:3] == (3, 1, 1)
        for entry in (0, 1, 0, 1):
            assert asks(3, 1, entry) == estimate
            assert asks(3) == first
        # The phase before one that was answered is over.
        assert asks(4, 1, 0)[:3] == (4, 1, 0)
        assert asks(4) == (4, 0, LATE)
        assert asks(64)[:3] == (64, 0, 0)


@pytest.mark.soak
@MICROBIT
def test_lost_counters_close_a_board(lane: Lane) -> None:
    state = new_state(PSEUDONYM, TASK)
    state["lifetime0"] = b""
    state["lifetime1"] = state["lifetime1"][:-1]
    lane.put({**built(), **state})
    with lane.start("main.py") as board:
        for _ in range(2):
            host = Host(board)
            assert host.asks(query(TASK, 1)) == (1, 0, BUDGET)
            assert host.asks(query(TASK, 5, 1, 1)) == (5, 1, BUDGET)
            board.reset()


@pytest.mark.soak
@MICROBIT
@pytest.mark.parametrize(
    ("lifetime", "why"), [(None, b"without an allowance"), ((1 << 16) - 1, b"costs 65536")]
)
def test_a_board_that_may_not_run_it_says_why(lane: Lane, lifetime: int | None, why: bytes) -> None:
    state = new_state(PSEUDONYM, TASK if lifetime else None, lifetime=lifetime)
    lane.put({**built(), **state})
    with lane.start("main.py") as board:
        assert why in board.wait(PATIENCE).stdout


# ---- what fits ----


# All that a Task may have.
FULL: dict = {"epochs": 1 << 14, "levels": [9] * 15, "polls": 16, "thresholds": [1 << 20] * 3}


def binned(bins: int) -> Task:
    return thresh(**{**FULL, "symbols": bins + 1, "bins": [100 * i for i in range(bins)]})


def largest() -> int:
    """The most bins whose data are not refused."""
    bins = 1
    while heap_of(asked_buffers(binned(bins + 1))) <= EPOCHS_DATA:
        bins += 1
    return bins


@pytest.mark.soak
@MICROBIT
def test_the_largest_that_is_not_refused_answers(lane: Lane) -> None:
    assert largest() > 50
    with flashed(lane, binned(largest()), CONSTANT) as host:
        lived(host, binned(largest()), 3)
    with pytest.raises(UserError, match="the data of its Task"):
        build_microbit(binned(largest() + 1), CONSTANT)


def test_what_does_not_fit_is_refused_with_the_sizes() -> None:
    match = r"the data of its Task has \d+ bytes, at most \d+ fit"
    with pytest.raises(UserError, match=match):
        build_microbit(thresh(symbols=101, bins=list(range(100))), CONSTANT)


def part(n: int) -> str:
    return (
        f"\n\ndef part{n}(x):\n    state[{n % 3}] = (state[{n % 3}] * 7 + x) // 8\n"
        f"    return state[0] if x > {n} else -x\n"
    )


@pytest.mark.soak
@MICROBIT
def test_the_longest_sample_that_is_not_refused_answers(lane: Lane) -> None:
    """And it leaves enough heap."""
    task = thresh(**FULL)
    source = MEASURING.decode().replace("return 3", "return part0(9)") + "\n\nstate = [0, 0, 0]\n"
    n = 0
    while len(source) + len(part(n)) <= EPOCHS_BOTH - heap_of(asked_buffers(task)):
        source += part(n)
        n += 1
    assert n > 1
    with flashed(lane, task, source.encode()) as host:
        lived(host, task, 3)
        free = [int(n) for n in re.findall(rb"free (\d+)\r\n", bytes(host.text))]
    assert min(free) >= LEAST_FREE
    with pytest.raises(UserError, match=r"its sample\.py has \d+ bytes, at most \d+ fit"):
        build_microbit(task, (source + part(n)).encode())


# ---- the heap, and the stack ----


def playing(**constants: object) -> str:
    """programs/microbit_rounds.py, with epochs."""
    imports, _, made = EPOCHS.read_text().partition("\ntask = None\n")
    imports = re.sub(r'^""".*"""\n', "", imports).replace("from sample import sample\n", "")
    made = made.replace("agent = ", "port = Counted(open_serial())\nagent = ")
    made = made.replace("entropy, open_serial(),", "entropy, port,")
    made = made.replace("run(agent, task.tick, sample, time)", "play()")
    assert made.count("entropy, port,") == 1
    reading = "def reading(i):\n    return i % 2\n"
    source = program("microbit_rounds.py", **constants).partition("\ntask = None\n")[0]
    return f"{reading}{imports}\n{source}\ntask = None\n{made}"


def played(lane: Lane, task: Task, source: str) -> tuple[int, int, int, int]:
    """A host that spends each credit at once: bytes sent, and what the board prints at its end."""
    queries = (query(task, t // 2, t % 2, t % 2) for t in itertools.count(1))
    with start(lane, task, new_state(PSEUDONYM, task), source) as board:
        return crowded(board, queries)


@MICROBIT
def test_a_step_allocates_nothing(lane: Lane) -> None:
    """With sums up to 2^24, and queries that never overrun the ring of a busy board."""
    task = thresh(rounds=4, symbols=65536)
    sent, taken, rejected, free = played(lane, task, playing(STEPS=40, LOCKED=1, BUSY=30))
    assert sent > 12 * 37
    assert (taken, rejected) == (sent, 0)
    assert free >= LEAST_FREE


@pytest.mark.soak
@MICROBIT
def test_a_planted_allocation_is_found(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(
        monkeypatch,
        "thresh",
        "        self._sum += symbol\n",
        "        self._sum += len([symbol])\n",
    )
    with pytest.raises(AssertionError, match="MemoryError"):
        played(lane, TASK, playing(STEPS=60, LOCKED=1, BUSY=0))


def fault(monkeypatch: pytest.MonkeyPatch, module: str, before: str, after: str) -> None:
    path = f"tinyldp_device/{module}.py"
    source = sources()[path].decode()
    assert source.count(before) == 1
    replace_source(monkeypatch, path, source.replace(before, after).encode())


# Of 129 * 65535 numbers: half of the words are drawn again, three times in a row in an eighth.
REDRAWN: dict = {"rounds": 129, "symbols": 65536, "tick": 15}


def redrawn(lane: Lane) -> None:
    task = thresh(**REDRAWN, polls=64, thresholds=[1, 1, 1])
    with flashed(lane, task) as host:
        lived(host, task, 10)


@pytest.mark.soak
@MICROBIT
def test_words_that_are_drawn_again_do_not_fill_the_stack(lane: Lane) -> None:
    redrawn(lane)


@pytest.mark.soak
@MICROBIT
def test_a_pool_that_is_filled_deep_down_would(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not found about once in 1000: when in 10 estimates no word is drawn again."""
    fault(monkeypatch, "thresh", "            self._entropy.refill(2)\n", "")
    with pytest.raises(AssertionError, match="recursion depth"):
        redrawn(lane)
