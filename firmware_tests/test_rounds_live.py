"""Eight MicroPython devices answer in rounds, half of them on MQTT and half on serial lines.

They play recordings. What each has spent is read from its own storage while it runs, never
from the wire; whatever the host made of it, no window may exceed the Task's epsilon.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from tinyldp.certify import certify
from tinyldp.collect.collector import Collector, Snapshot
from tinyldp.collect.store import Store
from tinyldp.coordinate import entry_task
from tinyldp.demo.broker import broker
from tinyldp.demo.fleet import MISSING, install
from tinyldp.estimate import frequencies, supports
from tinyldp.lanes import Cable, Lane
from tinyldp.lanes.interpreter import PipedProcess
from tinyldp.lanes.unix import Unix
from tinyldp.planning import plan
from tinyldp.recordings import load_recording, sample_recordings
from tinyldp.report import render_report, report_data, text_report, write_csv
from tinyldp_device.identity import provision
from tinyldp_device.ledger import BLOCK_AT, RING_AT, STEP_AT
from tinyldp_device.ledger import provision as provision_ledger
from tinyldp_device.state import State
from tinyldp_protocol.framing import Crc32
from tinyldp_protocol.hashing import GROUPS
from tinyldp_protocol.messages import FOREIGN, LATE, UNKNOWN, get_word, put_query
from tinyldp_protocol.task import Task, write_file

PROGRAMS = [Path(__file__).parent / "programs" / name for name in ("rounds.py", "playing.py")]
DEVICES = 8
STEPS = 200
HORIZON = 64
PATIENCE = 400
STUDY = """\
[study]
name = "live"
[mechanism]
name = "{method}"
oracle = "grr"
[privacy]
epsilon = 8.0
w = {w}
[values]
bins = [1, 100, 500, 1500]    # activity counts: still, and four classes of moving
[timing]
tick = 150
beacon = {looks}              # of a step
"""


@dataclass
class Device:
    """One device, and what it has spent by its own storage, by its own step."""

    number: int
    pseudonym: bytes
    folder: Path
    spent: dict[int, int] = field(default_factory=dict)
    process: PipedProcess | None = None

    def look(self) -> None:
        """Read the ledger from the files, which the device may be writing at this moment."""
        for _ in range(100):
            for name in ("ledger0", "ledger1"):
                data = (self.folder / name).read_bytes()
                if valid(data):
                    for step, spend in ring(data[4:-4]).items():
                        # A spend is never taken back.
                        assert spend >= self.spent.get(step, 0)
                        self.spent[step] = spend
                    return
        raise AssertionError("neither slot of the ledger is whole")

    def windows(self, w: int) -> list[int]:
        return window_sums(self.spent, w)


def valid(data: bytes) -> bool:
    crc = Crc32()
    end = len(data) - 4
    if end < RING_AT:
        return False
    crc.feed(data, 0, end)
    return crc.matches(data, end)


def ring(payload: bytes) -> dict[int, int]:
    """What was spent at each of the device's last steps."""
    step = get_word(payload, STEP_AT)
    size = get_word(payload, 0) + get_word(payload, BLOCK_AT) - 1
    steps = range(max(0, step - get_word(payload, 0) + 1), step + 1)
    return {x: get_word(payload, RING_AT + 4 * (x % size)) for x in steps}


def window_sums(spent: dict[int, int], w: int) -> list[int]:
    """Of any w steps in a row; every step must be known."""
    steps = sorted(spent)
    assert steps == list(range(len(steps)))
    return [sum(spent[x] for x in steps[i : i + w]) for i in range(len(steps))]


class Fleet:
    """The devices on the lane, and a host in a thread."""

    def __init__(
        self, folder: Path, lane: Unix, task: Task, looks: int, stack: contextlib.ExitStack
    ) -> None:
        self.task = task
        self.folder = folder
        self.broker = stack.enter_context(broker(folder))
        recordings = [load_recording(path) for path in sample_recordings()]
        install(lane)
        lane.put({path.name: path.read_bytes() for path in PROGRAMS})
        lane.put({"task": write_file(task)})
        assert task.epsilon is not None
        assert task.w is not None
        self.devices: list[Device] = []
        ports = []
        for number in range(DEVICES):
            played = recordings[number % len(recordings)].readings[600:2600]
            readings = np.array([MISSING if r is None else r for r in played], "<i4")
            name = f"device{number}"
            lane.put({f"{name}.readings": readings.tobytes(), f"{name}/x": b""})
            device = Device(number, os.urandom(8), lane.folder / name)
            cap = task.epsilon * (HORIZON // task.w + 2)
            provision(self.state(device, "state"), device.pseudonym, cap, HORIZON)
            provision_ledger(self.state(device, "ledger"), HORIZON, 1, number)
            kind, where = "mqtt", self.broker.address
            if number % 2:
                cable = stack.enter_context(Cable())
                ports.append(cable.host_end)
                kind, where = "serial", cable.device_end
            arguments = ("task", f"{name}.readings", name, str(looks), kind, where)
            device.process = lane.start("rounds.py", *arguments, heap="256K")
            self.devices.append(device)
        certificate = certify(task)
        assert certificate.within_target
        self.store = Store.create(folder / "live.db", task, certificate.to_json())
        stack.callback(self.store.close)
        self.snapshot: Snapshot | None = None
        self.failure: BaseException | None = None
        self.done = threading.Event()
        self.collector = Collector(task, self.store, ports, self.broker.address)
        self.thread = threading.Thread(target=self.collect)
        self.thread.start()
        stack.callback(self.stop)

    def state(self, device: Device, name: str) -> State:
        return State(*(Slot(device.folder / f"{name}{i}") for i in range(2)))

    def collect(self) -> None:
        try:
            self.collector.run(self.done.is_set, self.show)
        except BaseException as failure:
            self.failure = failure

    def show(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def step(self) -> int:
        """How far the rounds are, by the host's own progress."""
        assert self.failure is None, self.failure
        return -1 if self.snapshot is None or self.snapshot.step is None else self.snapshot.step

    def play(self, until: int) -> None:
        """Until this step is over; what the devices spend is looked at on the way."""
        deadline = time.monotonic() + PATIENCE
        while self.step() <= until:
            assert time.monotonic() < deadline, f"only {self.step()} steps"
            for device in self.devices:
                assert device.process is not None
                assert device.process.running, device.process.wait()
                device.look()
            time.sleep(0.5)

    def provoke(self) -> None:
        """Queries of a server that is none: of a step that is over, an entry and a Task.

        Each again and again, until each device on MQTT has said no to it.
        """
        client = Client(CallbackAPIVersion.VERSION2)
        client.connect("127.0.0.1", self.broker.port)
        client.loop_start()
        topic = f"tinyldp/1/{self.task.id.hex()}/all"
        bad = ((LATE, self.task.id, 0), (UNKNOWN, self.task.id, 900), (FOREIGN, b"another!", 0))
        deadline = time.monotonic() + PATIENCE
        for reason, task, entry in bad:
            query = bytearray(put_query(None, 0, task, 0, 0, entry, 0, GROUPS))
            put_query(query, 0, task, 0, 0, entry, 0, GROUPS)
            while True:
                client.publish(topic, bytes(query), qos=1).wait_for_publish(10)
                # A device has room for one refusal at a time: another may take it.
                time.sleep(1)
                for device in self.devices:
                    device.look()
                if refusing(self.store, reason) >= DEVICES // 2:
                    break
                assert time.monotonic() < deadline, reason
        client.loop_stop()
        client.disconnect()

    def stop(self) -> None:
        self.done.set()
        self.thread.join(30)
        for device in self.devices:
            if device.process is not None:
                device.process.stop()
                device.process = None


class Slot:
    """A file of a device, on the host's side."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> bytes:
        return self._path.read_bytes() if self._path.exists() else b""

    def write(self, data: bytes | bytearray, /) -> None:
        self._path.write_bytes(data)


@pytest.fixture
def fleet(lane: Lane, tmp_path: Path) -> Iterator[Callable[[str, int, int], Fleet]]:
    assert isinstance(lane, Unix)
    with contextlib.ExitStack() as stack:

        def start(method: str, w: int, looks: int) -> Fleet:
            study = tmp_path / "live.toml"
            study.write_text(STUDY.format(method=method, w=w, looks=looks))
            return Fleet(tmp_path, lane, plan(study).task, looks, stack)

        yield start


@pytest.mark.waits
@pytest.mark.parametrize("lane", ["unix"], indirect=True)
@pytest.mark.parametrize(("method", "w"), [("lbu", 8), ("lba", 8), ("lpu", 4)])
def test_two_hundred_steps(
    fleet: Callable[[str, int, int], Fleet], method: str, w: int, tmp_path: Path
) -> None:
    live = fleet(method, w, 8)
    live.play(STEPS // 2)
    live.provoke()
    live.play(STEPS)
    live.stop()
    assert live.failure is None
    for device in live.devices:
        device.look()

    check_spends(live, method, w)
    # As a person would see it.
    data = report_data(live.store)
    table = data["rounds"][0]
    check_estimates(live, table)
    check_decisions(live, table, method)
    check_devices(table, method)
    assert data["alarms"] == []
    assert not data["uncertified"]

    text = text_report(data, 160)
    render_report(live.store, tmp_path / "live.html", data=data)
    page = (tmp_path / "live.html").read_text()
    for form in (text, page):
        for said in (
            f"{method.upper()} over GRR",
            "unknown entry",
            "foreign",
            "late question",
            "ε 8",
        ):
            assert said in form
    assert page.count("<svg") == 2
    steps = next(path for path in write_csv(live.store, tmp_path)[0] if "steps" in path.name)
    assert len(steps.read_text().splitlines()) == len(table["steps"]) + 1


@pytest.mark.waits
@pytest.mark.parametrize("lane", ["unix"], indirect=True)
def test_devices_that_run_plays(fleet: Callable[[str, int, int], Fleet]) -> None:
    """As on a board, by agent.run(): it looks a few times a step, and all have their say."""
    live = fleet("lba", 8, 1)
    live.play(40)
    live.stop()
    assert live.failure is None
    for device in live.devices:
        device.look()
        assert max(device.windows(8)) <= 8 << 16
    asked = live.store.questions(live.task.id.hex())
    assert {q.phase for q in asked if q.t >= 10} == {0, 1}
    shares = [q.answered / q.meant if q.meant else 0.0 for q in asked]
    assert undisturbed(shares, 30) > 0.8


def undisturbed(shares: list[float], size: int) -> float:
    """The mean of the best so many in a row: a busy computer makes some too late, not all."""
    assert len(shares) >= size
    return max(sum(shares[i : i + size]) / size for i in range(len(shares) - size + 1))


def check_spends(live: Fleet, method: str, w: int) -> None:
    """The ledger's own books: no window above epsilon, and no answer that was not paid."""
    task = live.task
    assert task.epsilon is not None
    entries = {(q.t, q.phase): q.entry for q in live.store.questions(task.id.hex())}
    answered = {device.pseudonym.hex(): 0 for device in live.devices}
    for row in counted(live.store):
        answered[row["pseudonym"]] += task.spends[entries[row["t"], row["phase"]]]
    for device in live.devices:
        windows = device.windows(w)
        assert max(windows) <= task.epsilon, (method, device.number)
        assert sum(device.spent.values()) >= answered[device.pseudonym.hex()] > 0
        if method != "lba":
            # Not far below either: most windows are used up.
            assert max(windows) > 0.9 * task.epsilon


def counted(store: Store) -> list[dict[str, Any]]:
    """The answers that the host has counted, one for each device, step and phase."""

    with sqlite3.connect(store.name) as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute(
            "SELECT pseudonym, t, phase FROM answers JOIN boots ON boots.id = answers.device"
        ).fetchall()
    keys = [tuple(row) for row in rows]
    assert len(keys) == len(set(keys))
    return [dict(row) for row in rows]


def refusing(store: Store, reason: int) -> int:
    """How many devices have said this."""
    with sqlite3.connect(store.name) as connection:
        query = "SELECT COUNT(DISTINCT device) FROM refusals WHERE reason = ?"
        return int(connection.execute(query, (reason,)).fetchone()[0])


def check_estimates(live: Fleet, table: dict[str, Any]) -> None:
    """Each estimate is that of the answers in the store, by the integers of its entry."""
    task = live.task
    entries = {(q.t, q.phase): q.entry for q in live.store.questions(task.id.hex())}
    answers = {(t, phase): reports for t, phase, reports in live.store.answers(task.id.hex())}
    phases = {t: phase for t, phase in sorted(entries)}
    for step, row in zip(table["steps"], live.store.decisions(task.id.hex()), strict=True):
        if not step["published"]:
            continue
        key = (step["t"], phases[step["t"]])
        oracle = entry_task(task, entries[key])
        expected = frequencies(oracle, supports(oracle, answers[key][:, 0]), step["n"])
        assert np.allclose(step["frequencies"], expected.frequencies)
        assert np.allclose(step["variances"], expected.variances)
        assert np.allclose(row.release, expected.frequencies)


def check_decisions(live: Fleet, table: dict[str, Any], method: str) -> None:
    steps = table["steps"]
    assert [step["t"] for step in steps] == list(range(len(steps)))
    assert len(steps) >= STEPS
    assert table["publications"] == sum(step["published"] for step in steps)
    if method == "lba":
        assert 5 < table["publications"] < len(steps)
        for step in steps:
            if step["outcome"] in ("published", "similar"):
                assert (step["dis"] > step["err"]) == step["published"]
            assert step["units"] in (0, *live.task.spends)
    else:
        # A tick in which nobody could answer is the machine's business, but not many.
        for step in steps:
            assert step["published"] == (step["answered"] > 0)
        assert undisturbed([float(step["published"]) for step in steps], STEPS // 2) > 0.9
        assert table["publications"] > 0.7 * len(steps)
        assert {step["units"] for step in steps} == {live.task.spends[0]}
    if method == "lpu":
        # Four groups of two each, once all were there.
        assert {step["asked"] for step in steps[8:]} <= {1, 2, 3}
        assert np.mean([step["asked"] for step in steps]) == pytest.approx(2, abs=0.1)


def check_devices(table: dict[str, Any], method: str) -> None:
    assert len(table["devices"]) == DEVICES
    for device in table["devices"]:
        assert device["rate"] > 0.7
    # Four devices are on MQTT, and each says no to each of three.
    for name in ("late question", "unknown entry", "foreign"):
        assert table["refusals"].get(name, 0) >= DEVICES // 2, name
    assert "waiting" not in table["refusals"]
    assert table["cfpu"] <= table["cfpu_asked"]
    share = {"lbu": 1, "lpu": 1 / 4}.get(method)
    if share is not None:
        assert table["cfpu_asked"] == pytest.approx(share, rel=0.05)


def test_a_window_above_epsilon_is_seen() -> None:
    """The sums that are checked above, on a ledger with one spend too many."""
    payload = bytearray(RING_AT + 4 * 8)
    payload[0] = payload[BLOCK_AT + 0] = 0
    payload[0] = 8
    payload[BLOCK_AT] = 1
    payload[STEP_AT] = 5
    for step, spend in enumerate((3, 0, 3, 0, 4, 1)):
        payload[RING_AT + 4 * step] = spend
    spent = ring(bytes(payload))
    assert spent == {0: 3, 1: 0, 2: 3, 3: 0, 4: 4, 5: 1}
    assert max(window_sums(spent, 2)) == 5
    assert max(window_sums(spent, 3)) == 7
    del spent[2]
    with pytest.raises(AssertionError):
        window_sums(spent, 2)
