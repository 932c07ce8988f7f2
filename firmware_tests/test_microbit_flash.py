"""Flashing an emulated micro:bit, and what boards with one generator look like to the host."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from firmware_tests.microbit import (
    EACH,
    LEAST_FREE,
    STA,
    Changes,
    Terminal,
    crr,
    crr_by_table,
    jittersort,
    make_task,
)
from tinyldp.collect.collector import Collector, Snapshot
from tinyldp.collect.store import Store
from tinyldp.errors import UserError
from tinyldp.flash.build import CRR_BOTH, LARGEST_BOTH, build_microbit, task_data
from tinyldp.flash.microbit import flash_microbit
from tinyldp.lanes import Lane, open_lane
from tinyldp_protocol.messages import HARDWARE, RUNNING
from tinyldp_protocol.task import Task

pytestmark = pytest.mark.waits
MICROBIT = pytest.mark.parametrize("lane", ["microbit"], indirect=True)


@MICROBIT
@pytest.mark.parametrize("name", ["StaSwitch k=8", "RanSwitch k=24", "JitterSort 2L+1=93"])
def test_a_flashed_board_reports(lane: Lane, tmp_path: Path, name: str) -> None:
    # Slow enough that a busy computer answers before the outbox is full.
    task = make_task(**{**EACH[name], "tick": 60})
    sample = b"count = 0\n\n\ndef sample():\n    global count\n    count += 1\n    return count\n"
    store = Store.create(tmp_path / "board.db", task)
    try:
        _, pseudonym, board = flash_microbit(task, lane, sample)
        with board, Terminal(board) as terminal:
            collector = Collector(task, store, [terminal.path])
            deadline = time.monotonic() + 60
            collector.run(
                lambda: (
                    sum(stream.received for stream in store.streams()) >= 20
                    or time.monotonic() > deadline
                )
            )
        (stream,) = store.streams()
        assert (stream.pseudonym, stream.quality) == (pseudonym.hex(), HARDWARE)
        assert (stream.health, stream.lost) == (RUNNING, 0)
        assert stream.received >= 20
        values, _ = store.values(stream.boot)
        seen = values[values != 0].tolist()
        assert len(seen) == len(set(seen))
        assert max(seen) < 200
    finally:
        store.close()


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"mechanism": 1, "window": 1024, "k": 24, "thresholds": [1000]}, "the data of its Task"),
        ({"outbox": 80}, "the data of its Task"),
        ({"mechanism": 1, "window": 300, "thresholds": [1000]}, "the largest buffer of its Task"),
        (jittersort(151), "the data of its Task"),
        ({**EACH["OUE d=16"], "symbols": 256}, "the data of its Task"),
        (crr_by_table(4, 2), "its longest line of code"),
        ({**crr_by_table(4, 2), "table": [0, 1 << 15, *[0] * 14] * 16}, "buffer of its Task"),
        ({"symbols": 181, "bins": list(range(0, 180_000, 1000))}, "its longest line of code"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_sizes(changed: dict, what: str) -> None:
    with pytest.raises(UserError, match=rf"^[^.]*{what} has \d+ bytes, at most \d+ fit[^.]*\.$"):
        build_microbit(make_task(**changed))


def test_a_long_sample_is_refused() -> None:
    with pytest.raises(UserError, match=r"its sample\.py has 2000 bytes"):
        build_microbit(STA, b"#" * 2000)


def fits(task: Task) -> bool:
    try:
        build_microbit(task)
    except UserError:
        return False
    return True


def with_bins(n: int) -> Changes:
    return {"symbols": n + 1, "bins": list(range(0, 1000 * n, 1000))}


# For each limit, a mechanism, what has the largest size that is not refused, and one step more.
# All of them run in make soak.
LARGEST: list[tuple[str, Callable[[int], Changes], int, int]] = [
    ("StaSwitch k=8", lambda n: {"outbox": n}, 18, 1),
    ("RanSwitch k=24", lambda n: {"outbox": n}, 18, 1),
    ("JitterSort 2L+1=93", lambda n: {"outbox": n}, 8, 1),
    ("GRR d=16", lambda n: {"outbox": n}, 20, 1),
    ("OUE d=16", lambda n: {"outbox": n}, 18, 1),
    ("OLH d=16", lambda n: {"outbox": n}, 14, 1),
    ("CRR_BATCH 3^2", lambda n: {"outbox": n}, 16, 1),
    ("StaSwitch k=8", with_bins, 136, 1),
    ("StaSwitch k=8", lambda n: {"outbox": 10, **with_bins(n)}, 112, 1),
    ("RanSwitch k=24", lambda n: {"window": n, "thresholds": [1000]}, 280, 1),
    ("JitterSort 2L+1=93", jittersort, 127, 2),
    ("JitterSort 2L+1=93", with_bins, 76, 1),
    ("GRR d=16", lambda n: {"thresholds": [1000], **with_bins(n)}, 136, 1),
]


MEASURING = b"""import gc
def sample():
    gc.collect()
    print("free", gc.mem_free())
    return 5
"""


def check_runs(lane: Lane, task: Task, sample: bytes, size: int = 150) -> bytes:
    """So many bytes that a flashed board sends."""
    _, _, board = flash_microbit(task, lane, sample)
    with board:
        heard = board.read(size, 60)
    assert b"Error" not in heard
    assert len(heard) == size
    return heard


@MICROBIT
@pytest.mark.parametrize(
    ("name", "growing", "n", "step"),
    [
        pytest.param(*row, marks=[] if i in (8, 10) else pytest.mark.soak)
        for i, row in enumerate(LARGEST)
    ],
)
def test_the_largest_that_is_not_refused_runs(
    lane: Lane, name: str, growing: Callable[[int], Changes], n: int, step: int
) -> None:
    """And it leaves enough heap, while one that is larger by a step is refused."""
    task = make_task(**EACH[name] | growing(n))
    heard = check_runs(lane, task, MEASURING, 600)
    free = [int(n) for n in re.findall(rb"free (\d+)\r\n", heard)]
    assert free
    assert min(free) >= LEAST_FREE
    assert not fits(make_task(**EACH[name] | growing(n + step)))


@MICROBIT
@pytest.mark.parametrize(
    ("name", "outbox"),
    [
        pytest.param(name, outbox, marks=[] if name.startswith("Jitter") else pytest.mark.soak)
        for name, outbox in [*((name, 4) for name in EACH), ("StaSwitch k=8", 12)]
    ],
)
def test_the_longest_sample_that_is_not_refused_runs(lane: Lane, name: str, outbox: int) -> None:
    changes, most = EACH[name], LARGEST_BOTH
    if name == "CRR n=8":
        # With 8 symbols there is room for one short function alone.
        changes, most = crr(6), CRR_BOTH
    task = make_task(**changes | {"outbox": outbox})
    source = "def sample():\n    return part0(9)\n\n\nstate = [0, 0, 0]\n"
    n = 0
    while True:
        part = (
            f"\n\ndef part{n}(x):\n    state[{n % 3}] = (state[{n % 3}] * 7 + x) // 8\n"
            f"    return state[0] if x > {n} else -x\n"
        )
        if len(source) + len(part) > most - task_data(task):
            break
        source += part
        n += 1
    assert len(source) > 200
    check_runs(lane, task, source.encode())
    with pytest.raises(UserError, match=r"its sample\.py has \d+ bytes, at most \d+ fit"):
        build_microbit(task, source.encode() + b"#" * len(part))


def test_builds_are_reproducible() -> None:
    assert build_microbit(STA).files == build_microbit(STA).files


def alarms(tmp_path: Path, seeds: list[int | None]) -> list[str]:
    """The collector's alarms about one boot of each of some boards, with these seeds."""
    store = Store.create(tmp_path / "boards.db", STA)
    sample = b"def sample():\n    return 1\n"
    try:
        for at in range(0, len(seeds), 4):
            with contextlib.ExitStack() as stack:
                terminals = []
                for seed in seeds[at : at + 4]:
                    lane = stack.enter_context(open_lane("microbit"))
                    lane.seed = seed  # pyright: ignore[reportAttributeAccessIssue]
                    board = flash_microbit(STA, lane, sample)[2]
                    terminals.append(stack.enter_context(Terminal(stack.enter_context(board))))
                collector = Collector(STA, store, [terminal.path for terminal in terminals])
                snapshots: list[Snapshot] = []
                deadline = time.monotonic() + 40
                collector.run(
                    lambda: (
                        len(snapshots[-1].devices if snapshots else ()) >= len(terminals)  # noqa: B023
                        or time.monotonic() > deadline  # noqa: B023
                    ),
                    snapshots.append,
                )
                # What two hellos of one nonce cause shows at the latest with the second.
                assert len(snapshots[-1].devices) == len(terminals) or store.alarms()
        assert store.streams()
        return [alarm["name"] for alarm in store.alarms()]
    finally:
        store.close()


@MICROBIT
def test_one_seed_raises_the_alarm(lane: Lane, tmp_path: Path) -> None:
    assert "equal nonces" in alarms(tmp_path, [7, 7])


@MICROBIT
def test_other_seeds_do_not(lane: Lane, tmp_path: Path) -> None:
    assert alarms(tmp_path, [1, 2, None, None]) == []


@MICROBIT
@pytest.mark.soak
def test_sixty_boots_with_other_seeds_raise_no_alarm(lane: Lane, tmp_path: Path) -> None:
    assert alarms(tmp_path, list(range(60))) == []
