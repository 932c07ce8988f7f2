"""The coordinator's parts: entries, groups on the circle, and what can't be coordinated.

Its decisions are compared with a re-statement elsewhere (test_decisions).
"""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from tests.rounds_studies import ADAPTIVE, GROUPS, NAMES, rounds_task
from tests.simulating import make_task
from tinyldp.coordinate import (
    NULLIFIED,
    PUBLISHED,
    SIMILAR,
    SKIPPED,
    SPENT,
    UNANSWERED,
    Circle,
    Coordinator,
    entry_task,
    meant,
)
from tinyldp.errors import UserError
from tinyldp.estimate import expected_variance, frequencies
from tinyldp_protocol.hashing import GROUPS as PLACES
from tinyldp_protocol.hashing import group
from tinyldp_protocol.task import FIELDS, GRR, SCALE, Task


def everything(coordinator: Coordinator, supports: list[int] | None = None, n: int = 100) -> int:
    """One step in which every query has this answer (default: nobody's); queries asked."""
    asked = 0
    ask = coordinator.begin()
    while ask:
        asked += 1
        nothing = [0] * len(coordinator_release(coordinator))
        ask = coordinator.heard(nothing if supports is None else supports, n if supports else 0)
    return asked


def coordinator_release(coordinator: Coordinator) -> list[int]:
    return [0] * coordinator._task.symbols


# Entries ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("oracle", ["grr", "oue", "olh"])
def test_an_entry_is_its_oracle_with_its_threshold(oracle: str) -> None:
    task = rounds_task("lba", 6, oracle=oracle)
    for entry in (0, 7, 19):
        plain = entry_task(task, entry)
        assert plain.method is None
        assert list(plain.thresholds) == [task.thresholds[entry]]
        for name in ("mechanism", "symbols", "buckets", "width", "bins", "missing"):
            assert getattr(plain, name) == getattr(task, name)
    # More is spent, so less is lost.
    variances = [expected_variance(entry_task(task, entry), 1) for entry in range(20)]
    assert variances == sorted(variances, reverse=True)
    for entry in (-1, 20):
        with pytest.raises(IndexError):
            entry_task(task, entry)


# Groups -----------------------------------------------------------------------------------------


def laps(positions: np.ndarray, wanted: list[int]) -> list[np.ndarray]:
    """The devices of each take."""
    circle = Circle(positions)
    taken = []
    for number in wanted:
        parts = circle.take(number)
        assert len(parts) <= 1
        taken.append(np.flatnonzero(meant(positions, *parts[0])) if parts else np.zeros(0, int))
        assert sum(circle.count(*part) for part in parts) == len(taken[-1])
    return taken


def test_ranges_hold_exactly_as_many_as_wanted_in_circular_order() -> None:
    rng = np.random.default_rng(1)
    positions = rng.choice(PLACES, 997, replace=False)
    wanted = rng.integers(0, 300, 400).tolist()
    taken = laps(positions, wanted)
    assert [len(part) for part in taken] == wanted
    order = np.argsort(positions)
    at = 0
    for part in taken:
        assert set(part) == set(order[np.arange(at, at + len(part)) % 997])
        at += len(part)


def test_ranges_of_a_lap_cover_every_place_once() -> None:
    """Whoever stands where the host knows nobody is asked once in a lap, too."""
    circle = Circle(np.random.default_rng(2).choice(PLACES, 60, replace=False))
    at = 0
    for _ in range(3):
        sizes = []
        for wanted in (7, 13, 0, 39, 1):
            for start, size in circle.take(wanted):
                assert start == at
                at = (start + size) % PLACES
                sizes.append(size)
        if _:
            assert sum(sizes) == PLACES


@pytest.mark.parametrize("places", [1, 2, 5, 40])
def test_devices_at_one_place_are_never_asked_twice_within_a_window(places: int) -> None:
    rng = np.random.default_rng(places)
    positions = rng.integers(0, places, 60) * (PLACES // places)
    w = 6
    wanted: list[int] = []
    for _ in range(300):
        free = 60 - sum(wanted[-(w - 1) :])
        wanted.append(int(rng.integers(0, free + 1)))
    taken = laps(positions, wanted)
    last = np.full(60, -w)
    for step, part in enumerate(taken):
        assert (step - last[part] >= w).all()
        last[part] = step
    # What could not be parted is made up for: never more behind than one place holds.
    behind = np.cumsum(wanted) - np.cumsum([len(part) for part in taken])
    assert 0 <= behind.min() <= behind.max() < 60 // places * 3 + 1


def test_who_joins_is_taken_along_and_nobody_is_left_out() -> None:
    rng = np.random.default_rng(3)
    positions = rng.choice(PLACES, 200, replace=False)
    circle = Circle(positions[:50])
    seen = np.zeros(200, dtype=int)
    for step in range(80):
        circle.update(positions[: 50 + 5 * min(step, 30)])
        for part in circle.take(len(circle) // 10):
            seen += meant(positions, *part)
    assert seen.min() >= 3
    assert seen.max() - seen.min() <= 6


def test_who_joins_among_those_that_rest_brings_nobody_a_second_query() -> None:
    for w in (None, 2):
        circle = Circle([10, 20, 30, 40], w)
        circle.step()
        assert circle.take(2) == [(0, 21)]
        circle.update([10, 20, 30, 40, 12, 14, 16, 18])
        circle.step()
        ((start, size),) = circle.take(4)
        # Without rest 10 would be asked again at once.
        assert meant([10, 20, 30, 40], start, size).tolist() == [w is None, False, True, True]
    circle.step()
    ((start, size),) = circle.take(4)
    assert meant([10, 12, 14, 16, 18, 20, 30, 40], start, size).tolist() == [True] * 4 + [False] * 4


def test_joining_fleets_rest() -> None:
    rng = np.random.default_rng(7)
    positions = rng.choice(PLACES, 4000, replace=False)
    known, w = 400, 5
    circle = Circle(positions[:known], w)
    last = np.full(4000, -w)
    for t in range(300):
        known = min(4000, known + int(rng.integers(0, 30)))
        circle.update(positions[:known])
        circle.step()
        for part in circle.take(known // w):
            taken = meant(positions, *part)
            assert (t - last[taken]).min() >= w
            last[taken] = t
    assert (last[:known] >= 0).mean() > 0.99


def test_places_are_those_of_the_protocol() -> None:
    names = [bytes([i] * 8) for i in range(30)]
    positions = [group(bytes(range(8)), name) for name in names]
    circle = Circle(positions)
    ((start, size),) = circle.take(11)
    assert sum((place - start) % PLACES < size for place in positions) == 11


def test_nobody_and_impossible_circles() -> None:
    assert Circle().take(5) == []
    assert len(Circle()) == 0
    circle = Circle([4, 9])
    assert circle.take(0) == []
    ((start, size),) = circle.take(100)
    assert meant([4, 9], start, size).all()
    for bad in ([-1], [PLACES], [[1]]):
        with pytest.raises(ValueError, match=r"0\.\.GROUPS-1"):
            Circle(bad)
    with pytest.raises(ValueError, match="never negative"):
        circle.take(-1)


# Steps ------------------------------------------------------------------------------------------


def test_outcomes_of_lba_by_hand() -> None:
    """w = 20: a first publication with one unit, then units saved up, then paid back."""
    task = rounds_task("lba", 2)
    coordinator = Coordinator(task, 10**6)
    outcomes, entries = [], []
    for step in range(12):
        # All devices have value 0, from the sixth step on value 1.
        value = int(step >= 5)
        ask = coordinator.begin()
        while ask:
            p = 1 - task.thresholds[ask.entry] / SCALE
            counts = [round(10**6 * p), 10**6 - round(10**6 * p)]
            if ask.phase:
                entries.append(ask.entry)
            ask = coordinator.heard(counts[::-1] if value else counts, 10**6)
        made = coordinator.decision
        assert made is not None
        assert made.t == step
        outcomes.append(made.outcome)
        assert made.release[value] == pytest.approx(1, abs=1e-3)
        assert (made.err is None) == (made.outcome == NULLIFIED)
    # Four skipped steps and its own make five units, of which four are paid back.
    assert entries == [0, 4]
    paid = [NULLIFIED] * 4
    assert outcomes == [PUBLISHED, *[SIMILAR] * 4, PUBLISHED, *paid, SIMILAR, SIMILAR]


@pytest.mark.parametrize("method", NAMES)
def test_silence_keeps_the_last_release(method: str) -> None:
    task = rounds_task(method, 3, w=4)
    coordinator = Coordinator(task, 1000)
    counts = [700, 200, 100]
    everything(coordinator, counts, 1000)
    first = coordinator.decision
    assert first is not None
    assert first.published
    raw = frequencies(entry_task(task, task.spends.index(first.units)), counts, 1000)
    assert first.release == pytest.approx(raw.frequencies)
    for _ in range(10):
        everything(coordinator)
        made = coordinator.decision
        assert made is not None
        assert not made.published
        assert made.outcome in (UNANSWERED, NULLIFIED, SKIPPED, SPENT)
        assert (made.release == first.release).all()
        assert made.dis is None


@pytest.mark.parametrize("method", ADAPTIVE)
def test_what_nobody_answered_is_spent_all_the_same(method: str) -> None:
    """The devices may have spent it: no later step may count on it."""
    task = rounds_task(method, 2, w=4)
    heard, silent = (Coordinator(task, 80) for _ in range(2))
    wanted: list[list[object]] = [[], []]
    for step in range(12):
        for which, coordinator in enumerate((heard, silent)):
            ask = coordinator.begin()
            while ask:
                wanted[which].append(ask)
                n = 80 if ask.users is None else ask.users
                # Far from any release: one value, then the other.
                counts = [0, n] if step % 2 else [n, 0]
                if which and ask.phase:
                    counts, n = [0, 0], 0
                ask = coordinator.heard(counts, n)
    assert wanted[0] == wanted[1]
    assert any(ask.phase for ask in wanted[0])  # type: ignore[attr-defined]


def test_four_devices_and_a_long_window() -> None:
    """LPU: each of them is asked once in 20 steps, and no step asks two."""
    coordinator = Coordinator(rounds_task("lpu"), 4)
    asked = []
    for _ in range(100):
        ask = coordinator.begin()
        asked.append(ask.users if ask else 0)
        while ask:
            ask = coordinator.heard([1, 0, 0, 0, 0], 1)
    assert set(asked) == {0, 1}
    assert all(sum(asked[at : at + 20]) == 4 for at in range(80))


@pytest.mark.parametrize("method", GROUPS)
def test_groups_never_hold_more_than_everyone_whoever_comes_and_goes(method: str) -> None:
    rng = np.random.default_rng(4)
    task = rounds_task(method, 2, w=5)
    bites = 0
    for _ in range(60):
        coordinator = Coordinator(task, 100)
        window: deque[int] = deque(maxlen=5)
        for _ in range(40):
            coordinator.users = int(rng.integers(0, 200))
            window.append(0)
            ask = coordinator.begin()
            while ask:
                assert ask.users is not None
                window[-1] += ask.users
                assert ask.users > 0
                n = ask.users
                ask = coordinator.heard([0, n] if rng.random() < 0.5 else [n, 0], n)
            before = sum(window) - window[-1]
            assert window[-1] <= max(0, coordinator.users - before)
            bites += window[-1] == coordinator.users - before
    assert bites > 10


def test_steps_have_an_order() -> None:
    coordinator = Coordinator(rounds_task("lbu"), 10, start=7)
    with pytest.raises(RuntimeError, match="nothing was asked"):
        coordinator.heard([0] * 5, 0)
    ask = coordinator.begin()
    assert ask is not None
    assert ask.t == 7
    with pytest.raises(RuntimeError, match="has not been heard"):
        coordinator.begin()
    for counts, n in (([0] * 4, 1), ([0.5] * 5, 1), ([2] * 5, 1), ([-1] * 5, 1), ([0] * 5, -1)):
        with pytest.raises(ValueError, match="supports must"):
            coordinator.heard(counts, n)
    assert coordinator.decision is None
    assert coordinator.heard([1] * 5, 1) is None
    assert coordinator.decision is not None


def test_tasks_that_are_not_the_methods_are_refused() -> None:
    with pytest.raises(UserError, match="LBU, LSP"):
        Coordinator(make_task(GRR, symbols=4, thresholds=[1000]), 10)
    for method in NAMES:
        task = rounds_task(method)
        numbers = {name: getattr(task, name) for name in (*FIELDS, "method")}
        numbers["spends"] = [spend - (spend == task.spends[-1]) for spend in task.spends]
        with pytest.raises(UserError, match="not those of its method"):
            Coordinator(Task(numbers), 10)
