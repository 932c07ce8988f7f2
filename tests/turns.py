"""More processes run the tests than there are cores: who waits runs beside who computes.

A test marked `waits` spends most of its time on boards and their clocks. Every other one takes
a turn first, and there are as many turns as cores: what needs a core finds one.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

# Seconds for which a process goes on with its turn while others wait for one.
_TURN = 2.0


class Turns:
    """One process's part in turns that it shares, through a folder, with others.

    They are locks on files, which end with the process however that ends.
    """

    def __init__(self, folder: Path, at_once: int) -> None:
        self._door = (folder / "door").open("wb")
        self._turns = [(folder / f"turn{n}").open("wb") for n in range(at_once)]
        self._mine: int | None = None
        self._since = 0.0

    def take(self, patience: float = float("inf")) -> bool:
        """Wait for a turn, or go on with the one at hand; False when none came in so many seconds.

        Who waits stands in the door, so that no one overtakes it.
        """
        deadline = time.monotonic() + patience
        if self._mine is not None:
            if time.monotonic() - self._since < _TURN:
                return True
            self.give()
        while not _locked(self._door.fileno()):
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)
        try:
            while self._mine is None:
                for n, turn in enumerate(self._turns):
                    if _locked(turn.fileno()):
                        self._mine, self._since = n, time.monotonic()
                        return True
                if time.monotonic() >= deadline:
                    return False
                time.sleep(0.01)
        finally:
            fcntl.flock(self._door, fcntl.LOCK_UN)
        return True

    def give(self) -> None:
        if self._mine is not None:
            fcntl.flock(self._turns[self._mine], fcntl.LOCK_UN)
            self._mine = None

    def close(self) -> None:
        for file in (self._door, *self._turns):
            file.close()


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def waits(item: pytest.Item) -> bool:
    return item.get_closest_marker("waits") is not None


def mixed(items: list[pytest.Item]) -> list[pytest.Item]:
    """Those that wait, spread evenly among those that compute long, on emulated boards.

    So there is always one of them to run beside others; many short tests come at the end.
    """
    waiting = [item for item in items if waits(item)]
    others = [item for item in items if not waits(item)]
    long = [item for item in others if item.path.parent.name == "firmware_tests"]
    short = [item for item in others if item.path.parent.name != "firmware_tests"]
    # Stable: of two at one place the one that waits goes first.
    places = [(n * len(long) // len(waiting), item) for n, item in enumerate(waiting)]
    front = sorted([*places, *enumerate(long)], key=lambda place: place[0])
    return [*(item for _, item in front), *short]


class SideBySide:
    """The plugin of a process that runs tests beside others."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = mixed(items)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        """Around everything, so that no test's own time limit runs while it waits for its turn."""
        if waits(item):
            self._turns.give()
        else:
            self._turns.take()
        try:
            return (yield)
        finally:
            if nextitem is None:
                self._turns.give()


def pytest_configure(config: pytest.Config) -> None:
    # By its input, not its environment: tests that run tests hand that on, and hold the turn.
    given = getattr(config, "workerinput", None)
    cache: pytest.Cache | None = getattr(config, "cache", None)
    if given is not None and cache is not None:
        folder = cache.mkdir("turns")
        turns = Turns(folder, min(os.cpu_count() or 2, given["workercount"]))
        config.pluginmanager.register(SideBySide(turns), "side-by-side")
