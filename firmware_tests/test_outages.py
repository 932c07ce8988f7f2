"""Outages in mid-run, on both links: a killed host, a killed broker.

Whatever fails, nothing is counted twice, what the outbox could hold arrives,
and the rest is counted as lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyldp.collect.store import Store, Stream
from tinyldp.demo.broker import Broker, broker, find_mosquitto
from tinyldp.demo.fleet import Device, install, start_device
from tinyldp.lanes import Cable, Lane
from tinyldp.lanes.interpreter import PipedProcess
from tinyldp.lanes.unix import Unix
from tinyldp.replay import bytes_needed, replay
from tinyldp.study import load_study
from tinyldp_protocol.task import write_file

STEPS = 2500
STUDY = """\
[study]
name = "outage"
[mechanism]
name = "staswitch"
threshold = 1342177
[privacy]
k = 8
[values]
domain = 256
[timing]
tick = 2
batch = 2
resend = 100
beacon = 100
outbox = {outbox}
[links]
serial = ["{serial}"]
mqtt = "{mqtt}"
"""
MAIN = b"""\
import sys
from player import main

main(*sys.argv[1:], patient=%r)
"""


class Line:
    """A serial and an MQTT device on the unix lane, and a host that can be killed."""

    def __init__(self, folder: Path, lane: Unix, cable: Cable, server: Broker) -> None:
        self.folder = folder
        self.lane = lane
        self.cable = cable
        self.broker = server
        self.devices: list[Device] = []
        self.host: subprocess.Popen[bytes] | None = None

    def start(self, outbox: int, patient: bool) -> None:
        """First the host, until it listens; then the devices; some frames have come."""
        path = self.folder / "outage.toml"
        path.write_text(
            STUDY.format(outbox=outbox, serial=self.cable.host_end, mqtt=self.broker.address)
        )
        study = load_study(path)
        task = study.task()
        path.with_suffix(".task").write_bytes(write_file(task))
        self.start_host()
        readings = (np.arange(STEPS) * 7 % 256).astype("<i4")
        install(self.lane)
        self.lane.put({"main.py": MAIN % patient})
        for number, where in enumerate((self.cable.device_end, self.broker.address)):
            device = Device(
                number,
                "ramp",
                study,
                task,
                ("serial", "mqtt")[number],
                os.urandom(8),
                readings,
                os.urandom(bytes_needed(task, STEPS)),
            )
            start_device(self.lane, device, where)
            self.devices.append(device)
        self.wait_until(lambda: self.received() >= 300)

    def start_host(self) -> None:
        self.host = subprocess.Popen(
            [
                *(sys.executable, "-m", "tinyldp", "collect", str(self.folder / "outage.toml")),
                *("--until-ended", "2", "--uncertified", "--json"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.host.stderr is not None
        assert self.host.stderr.readline().startswith(b"Listening on")

    def kill_host(self) -> None:
        if self.host is not None:
            self.host.send_signal(signal.SIGKILL)
            self.host.communicate()
            self.host = None

    def received(self) -> int:
        """Frames in the store, of both devices."""
        with contextlib.suppress(Exception):
            store = Store(self.folder / "outage.db")
            try:
                return sum(stream.received for stream in store.streams())
            finally:
                store.close()
        return 0

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, "nothing happens"
            time.sleep(0.1)

    def finish(self) -> dict[str, Any]:
        """Wait for the host to see both segments complete; its JSON."""
        assert self.host is not None
        out, err = self.host.communicate(timeout=120)
        assert self.host.returncode == 0, err.decode()
        self.host = None
        return json.loads(out)

    def streams(self) -> list[tuple[Device, Stream, np.ndarray, np.ndarray]]:
        """For each device its one stream, the values in the store, and which are there."""
        store = Store(self.folder / "outage.db")
        try:
            found = {stream.pseudonym: stream for stream in store.streams()}
            assert len(found) == len(store.streams()) == 2
            return [
                (device, stream, *store.values(stream.boot))
                for device in self.devices
                for stream in [found[device.pseudonym.hex()]]
            ]
        finally:
            store.close()


@pytest.fixture
def line(lane: Lane, tmp_path: Path) -> Iterator[Line]:
    assert isinstance(lane, Unix)
    with Cable() as cable, broker(tmp_path) as server:
        made = Line(tmp_path, lane, cable, server)
        try:
            yield made
        finally:
            made.kill_host()


def check_values(line: Line) -> None:
    """What is in the store is what the words dictate, at the places where it is."""
    for device, stream, values, present in line.streams():
        dictated = replay(device.task, device.words, (int(n) for n in device.readings))
        assert len(values) == len(dictated) == STEPS
        assert np.array_equal(values[present], dictated[present])
        assert stream.received + stream.lost == STEPS // 2
        assert stream.missing == 0
        assert int(present.sum()) == 2 * stream.received


@pytest.mark.waits
@pytest.mark.parametrize("lane", ["unix"], indirect=True)
def test_killed_host_loses_nothing_that_is_held(line: Line) -> None:
    line.start(outbox=64, patient=True)
    line.kill_host()
    time.sleep(1)
    line.start_host()
    line.finish()
    check_values(line)
    for _, stream, _, _ in line.streams():
        assert (stream.lost, stream.drops) == (0, 0)


@pytest.mark.waits
@pytest.mark.parametrize("lane", ["unix"], indirect=True)
def test_killed_host_counts_what_the_outbox_dropped(line: Line) -> None:
    line.start(outbox=16, patient=False)
    line.kill_host()
    time.sleep(1)
    line.start_host()
    line.finish()
    check_values(line)
    serial, mqtt = (stream for _, stream, _, _ in line.streams())
    assert serial.drops is not None
    assert 0 < serial.lost <= serial.drops
    # The broker kept the frames for the host's session.
    assert mqtt.lost == 0


@pytest.mark.waits
@pytest.mark.parametrize("lane", ["unix"], indirect=True)
@pytest.mark.parametrize("patient", [True, False])
def test_killed_broker(line: Line, patient: bool, need: Callable[[str, str | None], None]) -> None:
    need("mosquitto", None if find_mosquitto() else "it is not installed")
    line.start(outbox=16, patient=patient)
    line.broker.kill()
    time.sleep(1)
    line.broker.start()
    line.finish()
    check_values(line)
    serial, mqtt = (stream for _, stream, _, _ in line.streams())
    assert serial.drops is not None
    assert mqtt.drops is not None
    if patient:
        assert serial.lost == mqtt.lost == 0
    else:
        assert serial.lost <= serial.drops
        assert 0 < mqtt.lost <= mqtt.drops


@pytest.mark.parametrize("lane", ["unix"], indirect=True)
def test_packet_identifiers_wrap(lane: Lane, tmp_path: Path) -> None:
    """70,000 QoS 1 messages, each acknowledged; identifiers wrap at 65,535."""
    lane.install(compiled=True)
    lane.put({"main.py": (Path(__file__).parent / "programs" / "many.py").read_bytes()})
    with broker(tmp_path) as server:
        process = lane.start("main.py", str(server.port), "70000", heap="64K")
        result = process.wait(120)
    assert isinstance(process, PipedProcess)
    assert result.exit_code == 0, result.stderr + result.stdout
    assert result.stdout.split() == [b"70000", str(70000 - 65535).encode(), b"70000"]


@pytest.mark.parametrize("lane", ["unix"], indirect=True)
def test_a_host_that_does_not_read_or_is_unplugged_holds_no_device(lane: Lane) -> None:
    lane.install(compiled=True)
    program = Path(__file__).parent / "programs" / "unread.py"
    lane.put({"main.py": program.read_bytes()})
    host, device = os.openpty()
    with lane.start("main.py", os.ttyname(device)) as process:
        taken = b""
        while not taken.endswith(b"\n"):
            chunk = process.read(1, 30)
            assert chunk, "the device is held"
            taken += chunk
        assert 10 < int(taken) < 10_000
        os.close(device)
        os.close(host)
        process.write(b"\n")
        result = process.wait(30)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.split() == [b"False", b"0"]
