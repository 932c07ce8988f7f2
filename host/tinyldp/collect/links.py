"""The lines that devices come by: serial ports, and one MQTT broker.

Each line has threads of its own, which only carry bytes: what comes goes into
one bounded queue, whose other end the collector takes apart; what is to leave
is handed to send(). A full queue makes the lines wait, which their peers feel.
"""

import contextlib
import errno
import hashlib
import os
import queue
import re
import socket
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import paho.mqtt.client as mqtt
import serial
from paho.mqtt.enums import CallbackAPIVersion

from tinyldp.collect.deframing import Deframer, framed
from tinyldp.collect.records import Link
from tinyldp.errors import UserError
from tinyldp.study import broker_address
from tinyldp_protocol.framing import MAX_MESSAGE

BAUD = 115200
_CHUNK = 4096
# Seconds: how long a thread waits before it looks whether it shall stop, and
# between two attempts to open a port that has vanished.
_WAIT = 0.1
_RETRY = 0.5
_CONNECT = 10
_KEEPALIVE = 30
# Frames that wait to be sent: as many acks of 20 bytes as fit in a small board's ring of 64.
_OUTGOING = 3


class Arrived(NamedTuple):
    """Messages of one link, and what was refused on the way, by name."""

    link: Link
    messages: list[bytes]
    rejected: dict[str, int]


class Line(Protocol):
    """What the collector needs of a line. report(sentence) tells what befell it."""

    name: str

    def open(self) -> None:
        """Open and start, or raise UserError."""
        ...

    def take(self, item: Any) -> Arrived:
        """Take apart an item of this line that was in the queue."""
        ...

    def send(self, link: Link, message: bytes) -> None:
        """Let a message leave; it is lost rather than waited for."""
        ...

    def ask(self, link: Link, message: bytes) -> bool:
        """Let a query leave; False when it may not leave now."""
        ...

    def committed(self) -> None:
        """All that was taken is stored."""
        ...

    def close(self) -> None: ...


Inbound = queue.Queue[tuple[Line, Any]]
Report = Callable[[str], None]


class SerialLine:
    """One serial port, opened for this process alone; a vanished one is tried again.

    A query leaves only if a frame has come since the last frame left: a board's receive
    ring, which may hold no more than one query and one ack, has been read then.
    """

    def __init__(self, path: str, inbound: Inbound, report: Report) -> None:
        self.name = path
        self._link = Link(path)
        self._inbound = inbound
        self._report = report
        self._deframer = Deframer()
        self._refused = dict(self._deframer.rejected)
        self._outgoing: queue.Queue[bytes] = queue.Queue(_OUTGOING)
        self._credit = False
        self._port: serial.Serial | None = None
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=loop, name=path, daemon=True)
            for loop in (self._read, self._write)
        ]

    def open(self) -> None:
        try:
            self._port = self._opened()
        except (serial.SerialException, OSError, ValueError) as error:
            raise UserError(
                f"The serial port {self.name} can't be opened: {_why(error)}."
            ) from None
        for thread in self._threads:
            thread.start()

    def take(self, item: bytes) -> Arrived:
        messages = self._deframer.feed(item)
        self._credit = self._credit or bool(messages)
        counts = self._deframer.rejected
        refused = {name: n - self._refused[name] for name, n in counts.items()}
        self._refused = dict(counts)
        return Arrived(self._link, messages, refused)

    def send(self, link: Link, message: bytes) -> None:
        self._credit = False
        # When the queue is full, the device does not read: the newest ack says all.
        while True:
            try:
                self._outgoing.put_nowait(framed(message))
                return
            except queue.Full:
                with contextlib.suppress(queue.Empty):
                    self._outgoing.get_nowait()

    def ask(self, link: Link, message: bytes) -> bool:
        if not self._credit:
            return False
        self.send(link, message)
        return True

    def committed(self) -> None:
        pass

    def close(self) -> None:
        """Stop, after what is still to be sent: a device may wait for its last ack."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(5)
        if self._port is not None:
            self._port.close()

    def _opened(self) -> serial.Serial:
        return serial.Serial(self.name, BAUD, timeout=_WAIT, write_timeout=1, exclusive=True)

    def _read(self) -> None:
        while not self._stopping.is_set():
            port = self._port
            if port is None:
                self._reopen()
                continue
            try:
                chunk = port.read(max(1, min(_CHUNK, port.in_waiting)))
            except (serial.SerialException, OSError, TypeError):
                self._report(f"Serial port {self.name} is gone; it is tried again.")
                self._port = None
                port.close()
                continue
            if chunk:
                _put(self._inbound, (self, chunk), self._stopping)

    def _reopen(self) -> None:
        self._stopping.wait(_RETRY)
        try:
            self._port = self._opened()
        except (serial.SerialException, OSError, ValueError):
            return
        self._report(f"Serial port {self.name} is back.")

    def _write(self) -> None:
        while True:
            try:
                frame = self._outgoing.get(timeout=_WAIT)
            except queue.Empty:
                if self._stopping.is_set():
                    return
                continue
            port = self._port
            try:
                if port is not None:
                    port.write(frame)
            except (serial.SerialException, OSError, TypeError):
                pass  # The reader sees what is wrong with the port.


class Publication(NamedTuple):
    """What the broker delivered, cut off after one byte too many."""

    topic: str
    payload: bytes
    retained: bool
    session: int
    packet: int
    qos: int


class MqttLine:
    """One broker. A message is acknowledged to it when it is stored, or refused."""

    name = "mqtt"

    def __init__(
        self, broker: str, task: bytes, client_id: str, inbound: Inbound, report: Report
    ) -> None:
        self._broker = broker
        self._host, self._port = broker_address(broker)
        self._task = task
        self._up = re.compile(rf"tinyldp/1/{task.hex()}/([0-9a-f]{{16}})/up")
        self._inbound = inbound
        self._report = report
        self._stopping = threading.Event()
        self._answered = threading.Event()
        self._refusal = ""
        self._session = 0
        self._taken: list[Publication] = []
        client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            clean_session=False,
            manual_ack=True,
        )
        client.max_queued_messages_set(1000)
        client.reconnect_delay_set(1, 10)
        client.on_connect = self._connected
        client.on_subscribe = self._subscribed
        client.on_disconnect = self._disconnected
        client.on_message = self._message
        self._client = client

    def open(self) -> None:
        try:
            self._client.connect(self._host, self._port, keepalive=_KEEPALIVE)
        except (OSError, ValueError) as error:
            raise self._unreachable(_why(error)) from None
        self._client.loop_start()
        if not self._answered.wait(_CONNECT):
            self._refusal = "it does not answer"
        if self._refusal:
            self.close()
            raise self._unreachable(self._refusal)

    def take(self, item: Publication) -> Arrived:
        self._taken.append(item)
        match = self._up.fullmatch(item.topic)
        if match is None:
            return Arrived(Link(self.name), [], {"topic": 1})
        if item.retained:
            return Arrived(Link(self.name), [], {"retained": 1})
        if len(item.payload) > MAX_MESSAGE:
            return Arrived(Link(self.name), [], {"too_long": 1})
        link = Link(self.name, self._task, bytes.fromhex(match[1]))
        return Arrived(link, [item.payload], {})

    def send(self, link: Link, message: bytes) -> None:
        if link.pseudonym is not None:
            self._client.publish(self._down(link.pseudonym), message, qos=1)

    def ask(self, link: Link, message: bytes) -> bool:
        # QoS 0: a broker must not keep a query for a device that is away, and would spend
        # on it when nobody waits for the answer any more. Unanswered ones are repeated.
        topic = f"tinyldp/1/{self._task.hex()}/all"
        if link.pseudonym is not None:
            topic = self._down(link.pseudonym)
        return self._client.publish(topic, message, qos=0).rc == mqtt.MQTT_ERR_SUCCESS

    def committed(self) -> None:
        taken, self._taken = self._taken, []
        for item in taken:
            # Another session may use the same packet identifiers for other messages.
            if item.session == self._session:
                self._client.ack(item.packet, item.qos)

    def close(self) -> None:
        self._stopping.set()
        self._client.disconnect()
        self._client.loop_stop()

    def _down(self, pseudonym: bytes) -> str:
        return f"tinyldp/1/{self._task.hex()}/{pseudonym.hex()}/down"

    def _unreachable(self, why: str) -> UserError:
        return UserError(f"The MQTT broker {self._broker} can't be reached: {why}.")

    def _connected(
        self, client: mqtt.Client, _userdata: Any, flags: Any, reason: Any, _properties: Any
    ) -> None:
        if reason.is_failure:
            self._refusal = str(reason)
            self._answered.set()
        else:
            if self._answered.is_set():
                self._report(f"The MQTT broker {self._broker} is back.")
            if not flags.session_present:
                self._session += 1
            client.subscribe(f"tinyldp/1/{self._task.hex()}/+/up", qos=1)

    def _subscribed(
        self, _client: mqtt.Client, _userdata: Any, _mid: int, reasons: Any, _properties: Any
    ) -> None:
        if any(reason.is_failure for reason in reasons):
            self._refusal = "it refuses the subscription"
        self._answered.set()

    def _disconnected(
        self, _client: mqtt.Client, _userdata: Any, _flags: Any, _reason: Any, _properties: Any
    ) -> None:
        if self._answered.is_set() and not self._stopping.is_set():
            self._report(f"The MQTT broker {self._broker} is gone; it is tried again.")

    def _message(self, _client: mqtt.Client, _userdata: Any, message: mqtt.MQTTMessage) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = ""
        payload = bytes(message.payload[: MAX_MESSAGE + 1])
        item = Publication(topic, payload, message.retain, self._session, message.mid, message.qos)
        _put(self._inbound, (self, item), self._stopping)


def client_id(task: bytes, store: str) -> str:
    """The same name for the same store on this computer: the broker keeps its session."""
    place = f"{task.hex()} {socket.gethostname()} {store}"
    return "tinyldp-" + hashlib.sha256(place.encode()).hexdigest()[:12]


def _put(inbound: Inbound, item: tuple[Line, Any], stopping: threading.Event) -> None:
    while not stopping.is_set():
        try:
            inbound.put(item, timeout=_WAIT)
            return
        except queue.Full:
            continue


def _why(error: Exception) -> str:
    """The operating system's own words, without the wrapping."""
    number = getattr(error, "errno", None)
    if number in (errno.EAGAIN, errno.EBUSY):
        return "another program has it open"
    return os.strerror(number) if number and number > 0 else str(error)
