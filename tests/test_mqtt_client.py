"""The device's MQTT client and link against a scripted broker, with a clock of the test's own."""

from __future__ import annotations

import itertools

import pytest

from tests.collecting import make_task
from tinyldp_device.links import mqtt
from tinyldp_device.links.mqtt import MQTTClient, MQTTException, MqttLink

CONNACK = b"\x20\x02\x00\x00"
SUBACK = b"\x90\x03\x00\x01\x01"
PINGRESP = b"\xd0\x00"


class Wire:
    """Stands for the socket module: one broker that answers by a script.

    answers: what it sends after each packet of a type; silent: nothing ever comes.
    """

    def __init__(self) -> None:
        self.now = 0
        self.sent: list[bytes] = []
        self.coming = b""
        self.answers = {0x10: CONNACK, 0x82: SUBACK, 0xC0: PINGRESP}
        self.connects = 0
        self.closed = False

    def socket(self) -> Wire:
        self.connects += 1
        return self

    def getaddrinfo(self, host: str, port: int) -> list[tuple[object, ...]]:
        return [(0, 0, 0, "", (host, port))]

    def settimeout(self, seconds: float) -> None:
        self.timeout = seconds

    def setsockopt(self, *_: int) -> None:
        pass

    def connect(self, address: object) -> None:
        self.coming = b""

    def close(self) -> None:
        pass

    def send(self, data: bytes) -> int:
        self.sent.append(bytes(data))
        self.coming += self.answers.get(data[0], b"")
        if data[0] & 0xF6 == 0x32:
            topic = data[2] << 8 | data[3]
            self.coming += b"\x40\x02" + data[4 + topic : 6 + topic]
        return len(data)

    def recv(self, n: int) -> bytes:
        data, self.coming = self.coming[:n], self.coming[n:]
        if data or self.closed:
            return data
        self.now += int(self.timeout * 1000)
        raise TimeoutError

    def types(self) -> list[int]:
        """Types of the packets that were sent since the last call."""
        types = [packet[0] & 0xF0 for packet in self.sent]
        self.sent = []
        return types


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    wire = Wire()
    monkeypatch.setattr(mqtt, "socket", wire)
    monkeypatch.setattr(mqtt, "ticks_ms", lambda: wire.now & 0x3FFFFFFF)
    return wire


def client(keepalive: int = 60, size: int = 256) -> MQTTClient:
    return MQTTClient(b"device", "broker", keepalive=keepalive, timeout=2, size=size)


def publication(payload: bytes, topic: bytes = b"t", qos: int = 0, number: int = 7) -> bytes:
    body = len(topic).to_bytes(2, "big") + topic
    body += number.to_bytes(2, "big") if qos else b""
    body += payload
    head = bytes([0x30 | qos << 1])
    n = len(body)
    while n > 127:
        head += bytes([n & 127 | 128])
        n >>= 7
    return head + bytes([n]) + body


def test_connects_without_a_clean_session(wire: Wire) -> None:
    assert client(keepalive=300).connect() is False
    assert wire.sent == [b"\x10\x12\x00\x04MQTT\x04\x00\x01\x2c\x00\x06device"]
    wire.answers[0x10] = b"\x20\x02\x01\x00"
    assert client().connect() is True


@pytest.mark.parametrize(
    ("connack", "reason"),
    [(b"\x20\x02\x00\x05", "refused by the broker"), (b"", "no answer")],
)
def test_a_broker_that_refuses_or_is_a_black_hole(wire: Wire, connack: bytes, reason: str) -> None:
    wire.answers[0x10] = connack
    with pytest.raises(MQTTException, match=reason):
        client().connect()
    assert wire.now <= 2000


def test_no_puback_ends_the_wait(wire: Wire) -> None:
    device = client()
    device.connect()
    wire.send = lambda data: len(data)  # type: ignore[method-assign]
    with pytest.raises(MQTTException, match="no answer"):
        device.publish(b"t", b"x", False, 1)
    assert wire.now <= 2000
    with pytest.raises(MQTTException, match="not connected"):
        device.publish(b"t", b"x", False, 1)


def test_a_broker_that_drips_cannot_hold_the_device(wire: Wire) -> None:
    """A byte now and then is no answer: the wait ends all the same."""
    device = client()
    device.connect()

    def drip(n: int) -> bytes:
        wire.now += 100
        return b"\xd0\x00"

    wire.recv = drip  # type: ignore[method-assign]
    with pytest.raises(MQTTException, match="no answer"):
        device.publish(b"t", b"x", False, 1)
    assert wire.now <= 2200


def test_larger_messages_are_skipped_and_acknowledged(wire: Wire) -> None:
    device = client(size=64)
    got: list[bytes] = []
    device.set_callback(lambda _topic, message: got.append(message))
    device.connect()
    wire.types()
    large = publication(bytes(15_000), qos=1, number=258)
    wire.coming = large + publication(b"next", qos=1) + publication(bytes(61))
    for _ in range(200):
        device.check_msg()
    assert got == [b"next", bytes(61)]
    assert device.skipped == 1
    assert wire.sent == [b"\x40\x02\x01\x02", b"\x40\x02\x00\x07"]


@pytest.mark.parametrize(
    "packet", [b"\x30\xff\xff\xff\xff\x01", b"\x32\x03\x00\x01t", b"\x30\x02\x00\x09"]
)
def test_malformed_packets_end_the_connection(wire: Wire, packet: bytes) -> None:
    device = client()
    device.connect()
    wire.coming = packet
    with pytest.raises(MQTTException, match="malformed"):
        device.check_msg()


def link(wire: Wire, keepalive: int = 60, tick: int = 1000) -> MqttLink:
    return MqttLink(client(keepalive), make_task(tick=tick), bytes(8), bytes(range(100, 108)))


@pytest.mark.parametrize("tick", [1, 100, 1000, 20_000])
def test_keep_alive_whatever_the_tick(wire: Wire, tick: int) -> None:
    device = link(wire, tick=tick)
    device.receive()
    assert device.connected
    wire.types()
    last = wire.now
    for _ in range(200_000 // tick):
        wire.now += tick
        device.receive()
        if wire.types():
            assert wire.now - last <= 60_000 / 1.5
            last = wire.now
    assert wire.now - last <= 60_000 / 1.5
    assert device.reconnects == 0


def test_keep_alive_too_short_for_the_tick() -> None:
    with pytest.raises(ValueError, match="three ticks"):
        MqttLink(client(60), make_task(tick=30_000), bytes(8), bytes(8))
    MqttLink(client(0), make_task(tick=30_000), bytes(8), bytes(8))


def test_silence_after_a_ping_ends_the_connection(wire: Wire) -> None:
    device = link(wire)
    device.receive()
    del wire.answers[0xC0]
    while device.connected:
        wire.now += 1000
        device.receive()
        assert wire.now < 30_000
    assert device.reconnects == 1


def test_pauses_between_attempts_grow_and_are_spread(wire: Wire) -> None:
    wire.answers[0x10] = b"\x20\x02\x00\x03"
    device = link(wire, tick=100)
    moments: list[int] = []
    while len(moments) < 12:
        before = wire.connects
        device.receive()
        if wire.connects > before:
            moments.append(wire.now)
        wire.now += 100
    pauses = [after - moment for moment, after in itertools.pairwise(moments)]
    for n, pause in enumerate(pauses):
        full = min(60, 1 << n) * 1000
        assert full / 2 <= pause <= full + 200
    assert len({round(pause / min(60, 1 << n)) for n, pause in enumerate(pauses)}) > 4


def test_messages_beyond_the_inboxes_are_dropped_and_counted(wire: Wire) -> None:
    device = link(wire)
    device.receive()
    wire.coming = b"".join(publication(bytes([n])) for n in range(6)) + publication(bytes(49))
    device.write(bytearray(b"frame"))
    assert device.dropped == 3
    got = []
    while n := device.receive():
        assert device.inbox is not None
        got.append(bytes(device.inbox[:n]))
    assert got == [bytes([n]) for n in range(4)]
