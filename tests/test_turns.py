"""Of the processes that run tests, no more compute at a time than there are turns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests import turns
from tests.turns import SideBySide, Turns, mixed


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Callable[[], Turns]]:
    """One more that shares two turns with others."""
    made = []

    def one() -> Turns:
        made.append(Turns(tmp_path, 2))
        return made[-1]

    yield one
    for each in made:
        each.close()


def test_no_more_at_a_time_than_turns(process: Callable[[], Turns]) -> None:
    a, b, c = process(), process(), process()
    assert a.take()
    assert b.take()
    assert not c.take(0.05)
    assert a.take()
    a.give()
    assert c.take()
    assert not a.take(0.05)


def test_a_turn_ends_with_its_process(process: Callable[[], Turns]) -> None:
    a, b, c = process(), process(), process()
    assert a.take()
    assert b.take()
    a.close()
    assert c.take(0)


def test_who_has_had_a_turn_stands_behind(
    process: Callable[[], Turns], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "_TURN", 0)
    a, b, c = process(), process(), process()
    assert a.take()
    assert b.take()
    waiting = threading.Thread(target=c.take)
    waiting.start()
    # It gives its own away only here, to who stands in the door.
    while waiting.is_alive():
        a.take(0.2)
    waiting.join()
    assert not a.take(0.05)


class Item:
    """A test as far as it is looked at."""

    def __init__(self, name: str, folder: str, waits: bool) -> None:
        self.name = name
        self.path = Path("/root") / folder / "test_x.py"
        self.waits = waits

    def get_closest_marker(self, name: str) -> object:
        return True if self.waits and name == "waits" else None


def items(*kinds: tuple[str, str, int, bool]) -> list[pytest.Item]:
    made = [
        Item(f"{name}{n}", folder, waits)
        for name, folder, count, waits in kinds
        for n in range(count)
    ]
    return cast("list[pytest.Item]", made)


def test_those_that_wait_are_spread_among_those_that_compute_long() -> None:
    order = mixed(
        items(
            ("short", "tests", 3, False),
            ("long", "firmware_tests", 6, False),
            ("wait", "tests", 3, True),
        )
    )
    names = " ".join(item.name for item in order)
    assert names == "wait0 long0 long1 wait1 long2 long3 wait2 long4 long5 short0 short1 short2"


@pytest.mark.parametrize("waits", [0, 5])
def test_none_is_left_out(waits: int) -> None:
    given = items(("long", "firmware_tests", 2, False), ("wait", "tests", waits, True))
    assert sorted(item.name for item in mixed(given)) == sorted(item.name for item in given)


def test_who_waits_takes_no_turn(process: Callable[[], Turns]) -> None:
    """Around each test; after the last one there is no turn left that nobody uses."""
    a, other = process(), process()
    blocked = process()
    assert other.take()

    def around(item: pytest.Item, following: pytest.Item | None) -> bool:
        run: Any = SideBySide(a).pytest_runtest_protocol(item, following)
        next(run)
        free = blocked.take(0)
        blocked.give()
        with pytest.raises(StopIteration):
            run.send(None)
        return free

    computes, waits = items(("long", "tests", 1, False), ("wait", "tests", 1, True))
    assert not around(computes, waits)
    assert around(waits, computes)
    assert not around(computes, None)
    assert blocked.take(0)
