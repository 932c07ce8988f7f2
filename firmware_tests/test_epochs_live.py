"""MicroPython devices go through epochs over MQTT and serial lines, and a host decides.

Readings and words are given, so that every message can be foretold to the bit: by the simulator
on the same words and data. Which of its own epochs a device bound to which t depends on time;
the device's log says it, and nothing else of what is expected comes from the device.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.collecting import answer
from tests.epochs_tasks import epoch_task
from tinyldp.collect.collector import Collector, Snapshot
from tinyldp.collect.store import Store
from tinyldp.coordinate import EpochCoordinator
from tinyldp.demo.broker import broker
from tinyldp.demo.fleet import install
from tinyldp.estimate.phi import signs
from tinyldp.lanes import Cable, Lane
from tinyldp.lanes.unix import Unix
from tinyldp.replay import boot_nonce
from tinyldp.report import render_report, report_data, text_report, write_csv
from tinyldp.simulate.epoch_devices import HeavyDevices, ThreshDevices, table
from tinyldp.simulate.words import GivenWords
from tinyldp_device.identity import provision
from tinyldp_device.lifetime import provision as provision_lifetime
from tinyldp_device.state import State
from tinyldp_protocol.messages import ANSWER
from tinyldp_protocol.task import HEAVYTHRESH, THRESH, Task, write_file

Array = npt.NDArray[Any]

PROGRAMS = [Path(__file__).parent / "programs" / name for name in ("epochs.py", "playing.py")]
# Words of a pool: as many as a device takes in all.
POOL = 512
PATIENCE = 120
SERIAL = 2
# Own epochs that a device plays before what it measures changes, and in all.
CHANGE = 10
EPOCHS_PLAYED = 100


class Slot:
    """A file of a device, on the host's side."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> bytes:
        return self._path.read_bytes() if self._path.exists() else b""

    def write(self, data: bytes | bytearray, /) -> None:
        self._path.write_bytes(data)


class Device:
    """One device: what it plays, with which words, and what it must have sent."""

    def __init__(self, number: int, task: Task, symbols: Array, folder: Path) -> None:
        self.number = number
        self.task = task
        # (own epochs, rounds)
        self.symbols = symbols
        self.folder = folder
        self.pseudonym = b"wearer%2d" % number
        self.words = np.random.default_rng([6, number]).bytes(8 + 2 * 3 * POOL)

    @property
    def nonce(self) -> bytes:
        return boot_nonce(self.words)

    def log(self) -> list[tuple[int, int, int]]:
        """(t, phase, own epoch) of each answer that it made."""
        lines = (self.folder / "log").read_text().splitlines()
        return [tuple(map(int, line.split())) for line in lines]  # type: ignore[misc]

    def simulated(self, entries: dict[tuple[int, int], int]) -> dict[tuple[int, int], bytes]:
        """The simulator's reports by (t, phase). entries: with which each was asked for."""
        # Behind the nonce, and the pool that the start-up test throws away.
        given = np.frombuffer(self.words[8 + 3 * POOL :], np.uint8).reshape(1, POOL, 3)
        words = GivenWords(given @ np.array([1, 1 << 8, 1 << 16], dtype=np.int64))
        items = np.unique(self.symbols)
        fleet: One | OneHeavy
        if self.task.mechanism == THRESH:
            fleet = One(self.task, 1, words)
        else:
            fleet = OneHeavy(self.task, signs(self.task, items), 1, words)
        reports = {}
        bound = 0
        values = np.empty(0)
        for t, phase, own in self.log():
            if t != bound:
                bound = t
                steps = self.symbols[own]
                if self.task.mechanism == THRESH:
                    values = np.array([steps.sum()])
                else:
                    values = table(items, steps, self.task.items)[None]
            if phase:
                if (t, 0) not in reports:
                    fleet.bind(values)
                report = fleet.estimate(entries[t, 1] == 1)
            else:
                report = fleet.vote(t, values)
            reports[t, phase] = bytes(report[0])
        return reports


class One(ThreshDevices):
    """A device that may miss a question."""

    def bind(self, sums: Array) -> None:
        self._sums = sums


class OneHeavy(HeavyDevices):
    def bind(self, counts: Array) -> None:
        self._counts = counts


class Fleet:
    """The devices on the lane, and a host in a thread."""

    def __init__(
        self,
        folder: Path,
        lane: Unix,
        task: Task,
        played: list[Array],
        stack: contextlib.ExitStack,
    ) -> None:
        self.task = task
        self.folder = folder
        self.broker = stack.enter_context(broker(folder))
        install(lane)
        lane.put({path.name: path.read_bytes() for path in PROGRAMS})
        lane.put({"task": write_file(task)})
        assert task.epsilon is not None
        self.devices: list[Device] = []
        self.ports: list[str] = []
        starts = []
        for number, symbols in enumerate(played):
            name = f"device{number}"
            device = Device(number, task, symbols, lane.folder / name)
            readings = symbols.astype("<i4").tobytes()
            files = {f"{name}.readings": readings, f"{name}.words": device.words}
            lane.put({**files, f"{name}/x": b""})
            provision(self.state(device, "state"), device.pseudonym, lifetime=task.epsilon)
            provision_lifetime(self.state(device, "lifetime"), task.epsilon)
            kind, where = "mqtt", self.broker.address
            if number < SERIAL:
                cable = stack.enter_context(Cable())
                self.ports.append(cable.host_end)
                kind, where = "serial", cable.device_end
            arguments = ("task", f"{name}.words", f"{name}.readings", name, str(POOL), "2")
            starts.append((*arguments, kind, where))
            self.devices.append(device)
        self.processes = [lane.start("epochs.py", *start, heap="256K") for start in starts]
        self.store = Store.create(folder / "live.db", task)
        stack.callback(self.store.close)
        self.heard: dict[bytes, set[bytes]] = defaultdict(set)
        self.news: list[str] = []
        stack.callback(self.stop)

    def state(self, device: Device, name: str) -> State:
        return State(*(Slot(device.folder / f"{name}{i}") for i in range(2)))

    def collect(self, until: Callable[[], bool] = lambda: False) -> None:
        """In this thread, until the epochs are over, or `until`."""
        collector = Collector(self.task, self.store, self.ports, self.broker.address)
        intake = collector._intake
        feed = intake.feed

        def listen(link: Any, messages: list[bytes], now: int, clock: float) -> None:
            for message in messages:
                if message[1] == ANSWER:
                    self.heard[message[3:7]].add(message)
            feed(link, messages, now, clock)

        intake.feed = listen  # type: ignore[method-assign]
        deadline = time.monotonic() + PATIENCE
        collector.run(lambda: until() or time.monotonic() > deadline, self.show)
        assert time.monotonic() <= deadline, self.news

    def show(self, snapshot: Snapshot) -> None:
        self.news += snapshot.news
        for process in self.processes:
            assert process.running, process.wait()

    def stop(self) -> None:
        for process in self.processes:
            process.stop()

    def check_messages(self) -> dict[tuple[int, int], dict[int, bytes]]:
        """Every message is the simulator's; gives its reports by (t, phase) and device."""
        questions = self.store.questions(self.task.id.hex())
        entries = {(q.t, q.phase): q.entry for q in questions}
        expected: dict[tuple[int, int], dict[int, bytes]] = defaultdict(dict)
        for device in self.devices:
            reports = device.simulated(entries)
            messages = {
                answer(device.nonce, t, phase, entries[t, phase], report)
                for (t, phase), report in reports.items()
            }
            assert self.heard[device.nonce[:4]] <= messages
            # One may be on its way when a host stops.
            assert len(messages - self.heard[device.nonce[:4]]) <= 2
            for key, report in reports.items():
                expected[key][device.number] = report
        return expected

    def check_that_faults_are_seen(self) -> None:
        """With other words the simulator gives other messages."""
        for device in self.devices:
            start = 8 + 3 * POOL
            device.words = device.words[:start] + device.words[start:][::-1]
        with pytest.raises(AssertionError):
            self.check_messages()

    def check_decisions(self, expected: dict[tuple[int, int], dict[int, bytes]]) -> None:
        """The host decided on the simulator's reports as the coordinator does in simulation."""
        name = self.task.id.hex()
        numbers = {device.pseudonym.hex(): device.number for device in self.devices}
        rows = self.store.epochs(name)
        counted = counted_answers(self.store)
        coordinator = EpochCoordinator(self.task, len(self.devices))
        for row in rows:
            ask: Any = coordinator.begin()
            while ask:
                assert ask.t == row.t
                mine = counted[ask.t, ask.phase]
                reports = [expected[ask.t, ask.phase][numbers[name]] for name in mine]
                matrix = np.frombuffer(b"".join(reports), np.uint8).reshape(-1, self.task.width)
                ask = coordinator.heard(coordinator.tally(ask, matrix), len(reports))
            made = coordinator.decision
            assert made is not None
            told = (made.outcome, made.update, made.ones, made.votes_n, made.n, made.low, made.high)
            assert told == (
                row.outcome, row.update, row.ones, row.votes_n, row.n, row.low, row.high
            )  # fmt: skip
            assert list(row.release) == (made.release.tolist() if made.published else [])
            assert (row.poll is None) == (made.poll is None)


def check_report(live: Fleet, epochs: int) -> dict[str, Any]:
    """As a person would see it; gives its table."""
    data = report_data(live.store)
    table = data["epochs"][0]
    assert table["problem"] is None
    assert len(table["steps"]) == epochs
    assert len(table["devices"]) == len(live.devices)
    assert set(table["refusals"]) <= {"early question", "late question"}
    assert data["alarms"] == []
    text = " ".join(text_report(data, 160).split())
    render_report(live.store, live.folder / "live.html", data=data)
    page = (live.folder / "live.html").read_text()
    for form in (text, page):
        assert f"{epochs} of {live.task.epochs} epochs are decided" in form
    assert page.count("<svg") >= 1
    rows = write_csv(live.store, live.folder / "csv")[0][0].read_text().splitlines()
    assert len(rows) == epochs + 1
    return table


def counted_answers(store: Store) -> dict[tuple[int, int], list[str]]:
    """The pseudonyms whose answers the host has counted, by (t, phase)."""
    import sqlite3

    found = defaultdict(list)
    with contextlib.closing(sqlite3.connect(store.name)) as connection:
        query = "SELECT t, phase, pseudonym FROM answers JOIN boots ON boots.id = answers.device"
        for t, phase, pseudonym in connection.execute(query):
            found[t, phase].append(pseudonym)
    return found


@pytest.fixture
def fleet(lane: Lane, tmp_path: Path) -> Iterator[Callable[[Task, list[Array]], Fleet]]:
    assert isinstance(lane, Unix)
    with contextlib.ExitStack() as stack:
        yield lambda task, played: Fleet(tmp_path, lane, task, played, stack)


@pytest.mark.waits
@pytest.mark.parametrize("lane", ["unix"], indirect=True)
def test_twelve_devices_through_sixteen_epochs(
    fleet: Callable[[Task, list[Array]], Fleet], tmp_path: Path
) -> None:
    task = epoch_task(
        epochs=16, rounds=16, votes=3, estimates=3, polls=4, tick=40, beacon=10,
        epsilon=60 << 16, thresholds=[300_000, 1_000_000, 2_000_000], levels=[1, 2, 3, 4, 5],
    )  # fmt: skip
    rng = np.random.default_rng(1)
    shape = (EPOCHS_PLAYED, task.rounds)
    mean = np.where(np.arange(EPOCHS_PLAYED) < CHANGE, 0.2, 0.9)[:, None]
    # Of each epoch as many ones as the mean says, or one more: nobody votes without a change.
    ranks = rng.random((12, *shape)).argsort(axis=2)
    more = rng.integers(0, 2, (12, EPOCHS_PLAYED, 1))
    played = list((ranks < np.floor(mean * 16) + more).astype(np.int64))
    live = fleet(task, played)
    live.collect()

    expected = live.check_messages()
    live.check_decisions(expected)
    rows = live.store.epochs(task.id.hex())
    assert [row.t for row in rows] == list(range(1, 17))
    # All but those that a busy computer kept from answering in time.
    assert sum(row.n + row.votes_n for row in rows) > 0.8 * 2 * 16 * 12
    updates = [row.t for row in rows if row.update]
    assert updates[0] == 1
    # With such thresholds chance makes it wrong less than once in 10^8 runs.
    assert len(updates) == 2
    assert 6 <= updates[1] <= 13
    assert [row.t for row in rows if row.poll is not None] == [4, 8, 12, 16]
    assert any("All 16 epochs are over" in said for said in live.news)
    table = check_report(live, 16)
    assert (table["updates"], table["publications"]) == (2, 2)
    live.check_that_faults_are_seen()


@pytest.mark.waits
@pytest.mark.parametrize("lane", ["unix"], indirect=True)
def test_items_of_four_devices_and_a_host_that_starts_again(
    fleet: Callable[[Task, list[Array]], Fleet], tmp_path: Path
) -> None:
    task = epoch_task(
        HEAVYTHRESH, symbols=100_000, coordinates=40, items=6, epochs=6, rounds=16, votes=2,
        estimates=2, tick=30, beacon=10, epsilon=60 << 16, thresholds=[100_000, 2_000_000],
        levels=[3, 4, 5],
    )  # fmt: skip
    rng = np.random.default_rng(2)
    # More kinds of items than a table holds, in some epochs.
    rare = rng.integers(0, 100_000, (4, 6))
    picks = rng.integers(0, 6, (4, EPOCHS_PLAYED, task.rounds))
    played = [
        np.where(rng.random(picks[i].shape) < 0.8, 77_777 if i % 2 else 5, rare[i][picks[i]])
        for i in range(4)
    ]
    live = fleet(task, played)

    live.collect(lambda: len(live.store.epochs(task.id.hex())) >= 3)
    live.collect()
    live.check_messages()
    name = task.id.hex()
    rows = live.store.epochs(name)
    asked = {q.t for q in live.store.questions(name)}
    assert asked == set(range(1, 7))
    # What was open when the first host stopped may have no decision.
    assert len(rows) >= 5
    assert rows[0].update
    assert sum(row.n + row.votes_n for row in rows) > 0.5 * 2 * len(rows) * 4
    assert check_report(live, len(rows))["found"]
    live.check_that_faults_are_seen()
