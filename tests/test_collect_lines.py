"""Whole devices against the whole collector, on pseudo-terminals and a real broker.

Broken on purpose: host and broker are killed, ports vanish, two devices are one.
"""

import contextlib
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
import tty

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from tests.collecting import (
    Device,
    Port,
    ack,
    answer,
    hello,
    make_task,
    readings,
    release,
    released,
    rounds_task,
    status,
    wait_until,
)
from tests.modelled import read
from tinyldp.collect import collector
from tinyldp.collect.collector import Collector
from tinyldp.collect.deframing import framed
from tinyldp.collect.intake import Link
from tinyldp.collect.links import SerialLine
from tinyldp.collect.stopping import interruptible
from tinyldp.collect.store import Store
from tinyldp.demo.broker import broker as started_broker
from tinyldp.demo.broker import find_mosquitto
from tinyldp.errors import UserError
from tinyldp_device.links.mqtt import MQTTClient, MqttLink
from tinyldp_device.links.serial import SerialLink
from tinyldp_protocol.messages import QUERY
from tinyldp_protocol.task import GRR, JITTERSORT, LBU, OLH, OUE, write_file

ANNA = b"wearer 1"
BEN = b"wearer 2"
COLLECT = """
import sys
from tinyldp.collect.collector import Collector
from tinyldp.collect.store import Store
from tinyldp.study import load_task
task = load_task(sys.argv[1])
store = Store.create(sys.argv[2], task)
serial = [sys.argv[3]] if sys.argv[3] else []
collector = Collector(task, store, serial, sys.argv[4] or None)
collector.run(lambda: collector.ended() >= int(sys.argv[5]))
"""


class Line:
    """A raw pseudo-terminal: the device's end is a file descriptor, the host's a path."""

    def __init__(self):
        self.device, self._held = os.openpty()
        tty.setraw(self._held)
        self.path = os.ttyname(self._held)

    def close(self):
        for fd in (self.device, self._held):
            with contextlib.suppress(OSError):
                os.close(fd)


@pytest.fixture
def line():
    line = Line()
    yield line
    line.close()


class Running:
    """A collector in a thread, until the block ends."""

    def __init__(self, task, path, serial=(), mqtt=None):
        self.store = Store.create(path, task)
        self.collector = Collector(task, self.store, serial, mqtt)
        self.snapshots = []
        self.error = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        try:
            self.collector.run(self._stop.is_set, self.snapshots.append)
        except BaseException as error:
            self.error = error

    def news(self):
        return [sentence for snapshot in list(self.snapshots) for sentence in snapshot.news]

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(20)
        self.store.close()
        assert self.error is None


@pytest.fixture
def broker(tmp_path, need):
    need("mosquitto", None if find_mosquitto() else "it is not installed")
    with started_broker(tmp_path) as server:
        yield server


def mqtt_link(broker, task, pseudonym, seed):
    client = MQTTClient(b"device-%d" % seed, "127.0.0.1", broker.port, timeout=1)
    return MqttLink(client, task, pseudonym, bytes(8), most=1)


HOSTS = []


@pytest.fixture(autouse=True)
def no_host_is_left():
    """One that goes on would open the ports of later tests, whose names come again."""
    yield
    while HOSTS:
        HOSTS.pop().kill()


def collecting(task, folder, serial="", mqtt="", ended=1):
    """A collector in a process of its own, that ends when `ended` boots have."""
    (folder / "task").write_bytes(write_file(task))
    args = [str(folder / "task"), str(folder / "a.db"), serial, mqtt, str(ended)]
    HOSTS.append(subprocess.Popen([sys.executable, "-c", COLLECT, *args]))
    return HOSTS[-1]


def received(path):
    with contextlib.suppress(UserError):
        store = Store(path)
        total = sum(stream.received for stream in store.streams())
        store.close()
        return total
    return 0


def check_stream(store, stream, expected):
    """What arrived is what was released, in its place; gives how many values are masked."""
    symbols, present = store.values(stream.boot)
    symbols = symbols.tolist()
    assert len(symbols) == len(expected)
    assert [s for s, p in zip(symbols, present, strict=True) if p] == [
        s for s, p in zip(expected, present, strict=True) if p
    ]
    assert stream.missing == 0
    return int((~present).sum())


@pytest.mark.parametrize("mechanism", [JITTERSORT, GRR, OUE, OLH])
@pytest.mark.parametrize("symbols", [8, 300])
def test_every_mechanism_arrives(tmp_path, line, mechanism, symbols):
    thresholds = {"thresholds": [20_000]} if mechanism == GRR else {}
    task = make_task(mechanism=mechanism, symbols=symbols, batch=3, **thresholds)
    values = [value * 37 % symbols for value in readings(40)]
    device = Device(task, SerialLink(Port(line.device)), 1, ANNA, values)
    with Running(task, tmp_path / "a.db", [line.path]) as host:
        device.start()
        device.join(30)
        assert not device.is_alive()
        (stream,) = host.store.streams()
        assert check_stream(host.store, stream, released(task, 1, values)) == 0
        assert stream.count == 40


@pytest.mark.parametrize("outbox", [255, 8])
def test_host_killed_on_serial(tmp_path, line, outbox):
    task = make_task(outbox=outbox)
    values = readings(400)
    device = Device(task, SerialLink(Port(line.device)), 1, ANNA, values)
    host = collecting(task, tmp_path, serial=line.path)
    device.start()
    wait_until(lambda: received(tmp_path / "a.db") >= 30)
    host.send_signal(signal.SIGKILL)
    host.wait()
    time.sleep(0.3)
    host = collecting(task, tmp_path, serial=line.path)
    assert host.wait(60) == 0
    device.halted.set()
    store = Store(tmp_path / "a.db")
    (stream,) = store.streams()
    masked = check_stream(store, stream, released(task, 1, values))
    assert stream.received + stream.lost == 200
    assert stream.count == 400
    if outbox == 255:
        assert (stream.lost, masked) == (0, 0)
    else:
        # The device also drops what came but was not yet acknowledged when the host died.
        assert stream.drops is not None
        assert 0 < stream.lost <= stream.drops
        assert masked == 2 * stream.lost
    assert store.alarms() == []
    store.close()


def test_host_killed_on_mqtt(tmp_path, broker):
    task = make_task()
    values = readings(400)
    device = Device(task, mqtt_link(broker, task, ANNA, 2), 2, ANNA, values)
    host = collecting(task, tmp_path, mqtt=broker.address)
    device.start()
    wait_until(lambda: received(tmp_path / "a.db") >= 30)
    host.send_signal(signal.SIGKILL)
    host.wait()
    host = collecting(task, tmp_path, mqtt=broker.address)
    assert host.wait(60) == 0
    device.halted.set()
    store = Store(tmp_path / "a.db")
    (stream,) = store.streams()
    assert check_stream(store, stream, released(task, 2, values)) == 0
    assert (stream.received, stream.lost, store.alarms()) == (200, 0, [])
    store.close()


def test_broker_killed_with_its_queue(tmp_path, broker):
    task = make_task()
    values = readings(400)
    devices = [
        Device(task, mqtt_link(broker, task, pseudonym, seed), seed, pseudonym, values)
        for seed, pseudonym in ((3, ANNA), (4, BEN))
    ]
    with Running(task, tmp_path / "a.db", mqtt=broker.address) as host:
        for device in devices:
            device.start()
        wait_until(lambda: received(tmp_path / "a.db") >= 60)
        broker.kill()
        time.sleep(0.5)
        broker.start()
        wait_until(lambda: host.collector.ended() == 2, 60)
        for device in devices:
            device.halted.set()
        streams = host.store.streams()
        for stream, seed in ((streams[0], 3), (streams[1], 4)):
            if stream.pseudonym != (ANNA if seed == 3 else BEN).hex():
                seed = 7 - seed
            assert check_stream(host.store, stream, released(task, seed, values)) == 0
            assert (stream.received, stream.lost) == (200, 0)
        assert host.store.alarms() == []
        notes = host.news()
        assert any("is gone" in note for note in notes)
        assert any("is back" in note for note in notes)


def test_serial_and_mqtt_at_once(tmp_path, line, broker):
    task = make_task()
    values = readings(60)
    devices = [
        Device(task, SerialLink(Port(line.device)), 1, ANNA, values),
        Device(task, mqtt_link(broker, task, BEN, 2), 2, BEN, values),
    ]
    with Running(task, tmp_path / "a.db", [line.path], broker.address) as host:
        for device in devices:
            device.start()
        for device in devices:
            device.join(30)
            assert not device.is_alive()
        assert host.collector.ended() == 2
        found = {stream.link: stream for stream in host.store.streams()}
        check_stream(host.store, found[line.path], released(task, 1, values))
        check_stream(host.store, found["mqtt"], released(task, 2, values))
    last = host.snapshots[-1]
    assert [device.ended for device in last.devices] == [True, True]
    assert {device.received for device in last.devices} == {30}


def test_two_devices_with_one_pseudonym_on_mqtt(tmp_path, broker):
    task = make_task()
    devices = [
        Device(task, mqtt_link(broker, task, ANNA, seed), seed, ANNA, readings(60))
        for seed in (1, 2)
    ]
    with Running(task, tmp_path / "a.db", mqtt=broker.address) as host:
        for device in devices:
            device.start()
        wait_until(lambda: host.collector.ended() == 2)
        assert [alarm["name"] for alarm in host.store.alarms()] == [
            "two devices with one pseudonym"
        ]
        assert [stream.received for stream in host.store.streams()] == [30, 30]
    for device in devices:
        device.halted.set()


def test_what_is_refused_on_mqtt(tmp_path, broker):
    task = make_task()
    base = f"tinyldp/1/{task.id.hex()}/"
    client = Client(CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    client.publish(base + BEN.hex() + "/up", hello(task, BEN, b"nonce  9"), 1, True)
    with Running(task, tmp_path / "a.db", mqtt=broker.address) as host:
        wait_until(lambda: host.store.rejections().get(("mqtt", "retained")) == 1)
        client.publish(base + ANNA.hex() + "/up", bytes(100_000), 1)
        client.publish(base + ANNA.hex() + "/up", b"", 1)
        client.publish(base + ANNA.hex().upper() + "x/up", b"", 1)
        client.publish(base + BEN.hex() + "/up", hello(task, ANNA, b"nonce  9"), 1)
        expected = {
            ("mqtt", name): 1 for name in ("retained", "too_long", "truncated", "topic")
        } | {("mqtt", "topic"): 2}
        wait_until(lambda: host.store.rejections() == expected)
        assert host.store.streams() == []
    client.disconnect()
    client.loop_stop()


def test_credit_on_serial(tmp_path, line):
    """At most one frame of 48 bytes for each that came, and damage is counted."""
    task = make_task()
    nonce = b"nonce  1"
    sent = [hello(task, ANNA, nonce)] + [release(nonce, n, b"\1\2") for n in range(20)]
    stream = b"".join(framed(message) for message in [*sent, status(nonce, 0, 40)])
    damaged = b"\0\1\0" + framed(b"\x80") + framed(b"next")[:9] + b"\1" + framed(sent[-1])
    with Running(task, tmp_path / "a.db", [line.path]) as host:
        wait_until(lambda: host.snapshots)
        os.write(line.device, stream + damaged)
        wait_until(lambda: host.store.streams() and host.store.streams()[0].duplicates)
        time.sleep(0.2)
        answer = os.read(line.device, 4096)
        assert len(answer) <= 20 * 23
        assert 0 < answer.count(b"\0") <= 2 * 23
        reasons = ("too_short", "truncated", "bad_crc")
        assert host.store.rejections() == {(line.path, name): 1 for name in reasons}
        assert host.store.streams()[0].received == 20


def test_what_waits_to_be_sent_fits_in_a_boards_ring(line):
    """Of acks that cannot leave, the newest are kept."""
    port = SerialLine(line.path, queue.Queue(), print)
    acks = [ack(b"nonce  1", n) for n in range(10)]
    for message in acks:
        port.send(Link(line.path), message)
    port.open()
    try:
        expected = b"".join(map(framed, acks[-3:]))
        answer = b""
        while len(answer) < len(expected):
            answer += os.read(line.device, 4096)
    finally:
        port.close()
    assert answer == expected
    assert len(answer) <= 63


def test_a_query_leaves_a_port_within_its_credit(line):
    """One frame, whatever kind, for those that came since the last one left."""
    port = SerialLine(line.path, queue.Queue(), print)
    link = Link(line.path)
    query = b"q" * 30
    assert not port.ask(link, query)
    port.take(framed(status(b"nonc")) + framed(status(b"nonc")))
    assert port.ask(link, query)
    assert not port.ask(link, query)
    port.take(framed(status(b"nonc")))
    port.send(link, ack(b"nonce  1", 0))
    assert not port.ask(link, query)
    # Noise is no frame.
    port.take(b"\0noise\0")
    assert not port.ask(link, query)
    port.open()
    try:
        expected = framed(query) + framed(ack(b"nonce  1", 0))
        sent = b""
        while len(sent) < len(expected):
            sent += os.read(line.device, 4096)
    finally:
        port.close()
    assert sent == expected


def test_queries_on_mqtt(tmp_path, broker):
    """One message for the whole fleet; then who is silent is asked alone, and nothing is kept."""
    task = rounds_task(LBU, tick=200)
    base = f"tinyldp/1/{task.id.hex()}/"
    heard = []
    clients = [Client(CallbackAPIVersion.VERSION2) for _ in range(2)]
    for client in clients:
        client.connect("127.0.0.1", broker.port)

    def answers(client, _userdata, message):
        """Anna answers each query once, and Ben none."""
        heard.append((message.topic, message.payload, message.qos, message.retain))
        if message.payload[1] == QUERY:
            t = read(message.payload).t
            client.publish(base + ANNA.hex() + "/up", answer(b"nonce  1", t, 0, 0, b"\2"), 1)

    clients[0].on_message = answers
    clients[1].on_message = lambda _client, _userdata, message: heard.append(
        (message.topic, message.payload, message.qos, message.retain)
    )
    for client, name in zip(clients, (ANNA, BEN), strict=True):
        client.subscribe([(base + "all", 1), (base + name.hex() + "/down", 1)])
        client.loop_start()
    with Running(task, tmp_path / "a.db", mqtt=broker.address) as host:
        wait_until(lambda: host.snapshots)
        for client, name, nonce in zip(
            clients, (ANNA, BEN), (b"nonce  1", b"nonce  2"), strict=True
        ):
            client.publish(base + name.hex() + "/up", hello(task, name, nonce), 1)
        wait_until(lambda: len(host.store.decisions(task.id.hex())) >= 3)
        assert host.snapshots[-1].step is not None
    decisions = host.store.decisions(task.id.hex())
    for client in clients:
        client.disconnect()
        client.loop_stop()
    assert any(row.n == 1 and row.users == 2 for row in decisions)
    queries = [(topic, qos, retain) for topic, message, qos, retain in heard if message[1] == QUERY]
    assert {(qos, retain) for _, qos, retain in queries} == {(0, False)}
    assert (base + "all", 0, False) in queries
    assert (base + BEN.hex() + "/down", 0, False) in queries
    peers = {peer.pseudonym: peer for peer in host.store.peers(task.id.hex())}
    assert peers[ANNA.hex()].answers >= 2
    assert peers[BEN.hex()].answers == 0


def test_a_port_that_vanishes_is_reported_and_tried_again(tmp_path):
    task = make_task()
    first = Line()
    name = tmp_path / "port"
    name.symlink_to(first.path)
    with Running(task, tmp_path / "a.db", [str(name)]) as host:
        # Opening a port throws away what came before.
        wait_until(lambda: host.snapshots)
        os.write(first.device, framed(hello(task, ANNA, b"nonce  1")))
        wait_until(host.store.streams)
        second = Line()
        name.unlink()
        name.symlink_to(second.path)
        first.close()
        wait_until(lambda: f"Serial port {name} is back." in host.news())
        assert host.news()[0] == f"Serial port {name} is gone; it is tried again."
        os.write(second.device, framed(release(b"nonce  1", 0, b"\1\2")))
        wait_until(lambda: host.store.streams()[0].received == 1)
    second.close()


def test_what_can_not_be_opened(tmp_path, line):
    task = make_task()
    store = Store.create(tmp_path / "a.db", task)
    with Running(task, tmp_path / "b.db", [line.path]) as host:
        wait_until(lambda: host.snapshots)
        with pytest.raises(UserError, match=f"{line.path} .*another program has it open"):
            Collector(task, store, [line.path]).run(lambda: True)
    Collector(task, store, [line.path]).run(lambda: True)
    absent = str(tmp_path / "tty")
    with pytest.raises(UserError, match=f"{absent} .*No such file"):
        Collector(task, store, [line.path, absent]).run(lambda: True)
    (tmp_path / "tty").touch()
    with pytest.raises(UserError, match=absent):
        Collector(task, store, [absent]).run(lambda: True)
    with pytest.raises(UserError, match="named twice"):
        Collector(task, store, [line.path, line.path])
    with socket.socket() as unanswered:
        unanswered.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unanswered.getsockname()[1]}"
        with pytest.raises(UserError, match=f"{address} can't be reached: Connection refused"):
            Collector(task, store, [line.path], address).run(lambda: True)
    # What was opened before the failure is free again.
    Collector(task, store, [line.path]).run(lambda: True)
    store.close()


def test_silence_is_not_left_without_a_word(tmp_path, line, monkeypatch):
    """As of a board whose segment was over before: what is waited for may never come."""
    monkeypatch.setattr(collector, "_QUIET", 0.1)
    task = make_task(beacon=25)
    with Running(task, tmp_path / "a.db", [line.path]) as host:
        wait_until(lambda: len(host.news()) == 2)
        # Heard, a line may be silent again as long as it was at first.
        os.write(line.device, framed(hello(task, ANNA, b"nonce  1")))
        wait_until(lambda: len(host.news()) == 3)
    seconds = [int(said.split(" for ")[1].split(" s")[0]) for said in host.news()]
    assert all("segment was over" in said for said in host.news())
    assert seconds[0] <= seconds[2] < seconds[1]


def test_ctrl_c_ends_cleanly(tmp_path, line):
    task = make_task()
    host = collecting(task, tmp_path, serial=line.path)
    beacon = framed(hello(task, ANNA, b"nonce  1"))

    def known():
        os.write(line.device, beacon)
        with contextlib.suppress(UserError):
            store = Store(tmp_path / "a.db")
            streams = store.streams()
            store.close()
            return streams
        return []

    wait_until(known)
    host.send_signal(signal.SIGINT)
    assert host.wait(20) == 0


def test_ctrl_c_records_what_is_open(tmp_path, line):
    """The phase that was being asked: its step is over, and no other run asks it again."""
    task = rounds_task(LBU, tick=1000)
    host = collecting(task, tmp_path, serial=line.path)
    os.set_blocking(line.device, False)
    heard = b""

    def asked():
        nonlocal heard
        os.write(line.device, framed(hello(task, ANNA, b"nonce  1")))
        with contextlib.suppress(BlockingIOError):
            heard += os.read(line.device, 4096)
        return task.id in heard

    wait_until(asked)
    host.send_signal(signal.SIGINT)
    assert host.wait(20) == 0
    store = Store(tmp_path / "a.db")
    (question,) = store.questions(task.id.hex())
    assert (question.meant, question.answered) == (1, 0)
    assert store.next_step(task.id.hex()) == question.t + 1
    assert store.decisions(task.id.hex()) == []
    store.close()


def test_one_interruption_asks_and_the_next_one_interrupts():
    with interruptible(lambda: False) as stopped:
        assert not stopped()
        signal.raise_signal(signal.SIGINT)
        assert stopped()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def interrupted():
        raise KeyboardInterrupt

    with interruptible(interrupted) as stopped:
        assert stopped()
