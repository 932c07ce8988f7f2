"""MQTT 3.1.1 (OASIS standard): a small QoS 1 client, and the link over any client.

MQTTClient has umqtt's methods, so that either can stand for the other. What it
adds: packet identifiers that wrap at 65,535, waits that end, keep-alive, and
messages that are larger than its buffer are skipped and counted.

MqttLink publishes each message as it is to tinyldp/1/<task>/<pseudonym>/up and
listens on .../down, for a Task that is asked in rounds also on tinyldp/1/<task>/all. A
broker's PUBACK acknowledges nothing in the outbox: only the host's ack does.
"""

import socket
from binascii import hexlify
from errno import EAGAIN, ETIMEDOUT

try:
    from time import ticks_add, ticks_diff, ticks_ms  # type: ignore
except ImportError:
    from time import monotonic  # type: ignore

    def ticks_ms():
        return int(monotonic() * 1000) & 0x3FFFFFFF

    def ticks_add(a, b):
        return a + b & 0x3FFFFFFF

    def ticks_diff(a, b):
        return (a - b + 0x20000000 & 0x3FFFFFFF) - 0x20000000


from tinyldp_protocol.framing import HEAD, TAIL
from tinyldp_protocol.messages import set_word

_IPPROTO_TCP = 6
_TCP_NODELAY = 1
_CONNACK = 0x20
_PUBLISH = 0x30
_PUBACK = 0x40
_SUBACK = 0x90
_PINGRESP = 0xD0
_CHUNK = 128
_INBOX = 48
_INBOXES = 4


class MQTTException(OSError):
    """The broker refused, fell silent or left; its argument says which."""


class MQTTClient:
    """A QoS 1 client with a persistent session, one message in flight.

    keepalive: seconds, 0 for none. timeout: seconds that any wait may last.
    size: bytes of the largest incoming message with its topic. skipped: how
    many larger ones were dropped. Every method raises OSError when the
    connection is gone or the broker is silent; connect() then starts anew.
    """

    def __init__(self, client_id, server, port=1883, keepalive=60, timeout=2, size=256):
        self._client_id = client_id
        self._server = server
        self._port = port
        self.keepalive = keepalive
        self._timeout = timeout * 1000
        self._body = bytearray(size)
        self._sock = None
        self._callback = None
        self._packet_id = 0
        self._chunk = b""
        self._at = 0
        self._pinged = None
        self.skipped = 0
        self._restart()

    def set_callback(self, callback):
        """callback(topic, message) is called by check_msg() and while publish() waits."""
        self._callback = callback

    def connect(self, clean_session=False):
        """Connect; True when the broker still had this client's session."""
        self.close()
        self._restart()
        self._chunk = b""
        self._at = 0
        self._pinged = None
        sock = socket.socket()
        self._sock = sock
        try:
            sock.settimeout(self._timeout / 1000)
            # Small packets that wait for each other's ACKs would cost 40 ms each (Nagle).
            sock.setsockopt(_IPPROTO_TCP, _TCP_NODELAY, 1)
            sock.connect(socket.getaddrinfo(self._server, self._port)[0][-1])
        except OSError:
            self.close()
            raise
        flags = 2 if clean_session else 0
        self._send(
            0x10,
            b"\x00\x04MQTT\x04"
            + bytes((flags, self.keepalive >> 8, self.keepalive & 255))
            + _string(self._client_id),
        )
        self._wait(_CONNACK, None)
        if self._body[1]:
            self._lose("refused by the broker")
        return self._body[0] & 1 == 1

    def close(self):
        """Close the socket without a word, so that the broker keeps the session."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def disconnect(self):
        self._send(0xE0, b"")
        self.close()

    def ping(self):
        """Ask for a sign of life; check_msg() raises when none comes in time."""
        self._send(0xC0, b"")
        if self._pinged is None:
            self._pinged = ticks_ms()

    def publish(self, topic, message, retain=False, qos=0):
        """Publish; with qos=1 wait for the broker's PUBACK."""
        head = _PUBLISH | qos << 1 | (1 if retain else 0)
        if not qos:
            self._send(head, _string(topic) + message)
            return
        number = self._next_id()
        self._send(head, _string(topic) + _pair(number) + message)
        self._wait(_PUBACK, number)

    def subscribe(self, topic, qos=0):
        number = self._next_id()
        self._send(0x82, _pair(number) + _string(topic) + bytes((qos,)))
        self._wait(_SUBACK, number)
        if self._body[2] > 2:
            self._lose("subscription refused")

    def check_msg(self):
        """Take in at most one packet, without waiting."""
        self._packet(0)
        if self._pinged is not None and ticks_diff(ticks_ms(), self._pinged) > self._timeout:
            self._lose("no answer to ping")

    def _next_id(self):
        self._packet_id = self._packet_id % 65535 + 1
        return self._packet_id

    def _lose(self, reason):
        self.close()
        raise MQTTException(reason)

    def _send(self, head, body):
        if self._sock is None:
            raise MQTTException("not connected")
        n = len(body)
        packet = bytearray((head,))
        while n > 127:
            packet.append(n & 127 | 128)
            n >>= 7
        packet.append(n)
        packet += body
        packet = bytes(packet)
        try:
            self._sock.settimeout(self._timeout / 1000)
            while packet:
                packet = packet[self._sock.send(packet) :]
        except OSError:
            self.close()
            raise

    def _wait(self, kind, number):
        """Take in packets until the one awaited is in the body."""
        start = ticks_ms()
        while True:
            left = self._timeout - ticks_diff(ticks_ms(), start)
            if left <= 0:
                self._lose("no answer")
            if self._packet(left) == kind and (
                number is None or self._body[0] << 8 | self._body[1] == number
            ):
                return

    def _restart(self):
        """Ready for the next packet's first byte."""
        self._head = 0
        self._shift = 0
        self._size = 0
        self._got = -1

    def _packet(self, wait):
        """Wait at most `wait` ms for bytes; take in one packet and give its type, or 0."""
        if self._at == len(self._chunk):
            self._fill(wait)
        chunk = self._chunk
        while self._at < len(chunk):
            byte = chunk[self._at]
            self._at += 1
            if not self._head:
                self._head = byte
                continue
            if self._got < 0:
                self._size |= (byte & 127) << self._shift
                self._shift += 7
                if byte & 128:
                    if self._shift == 28:
                        self._lose("malformed length")
                    continue
                self._got = 0
            else:
                if self._got < len(self._body):
                    self._body[self._got] = byte
                elif self._got == len(self._body):
                    # At once, or a broker would bring it again after each lost connection.
                    self._acknowledge(self._head)
                self._got += 1
            if self._got == self._size:
                return self._complete()
        return 0

    def _fill(self, wait):
        if self._sock is None:
            raise MQTTException("not connected")
        self._chunk = b""
        self._at = 0
        try:
            self._sock.settimeout(wait / 1000)
            self._chunk = self._sock.recv(_CHUNK)
        except OSError as error:
            # None is CPython's own timeout: nothing there yet.
            if error.errno not in (EAGAIN, ETIMEDOUT, None):
                self.close()
                raise
            return
        if not self._chunk:
            self._lose("closed by the broker")

    def _complete(self):
        head = self._head
        size = self._size
        self._restart()
        kind = head & 0xF0
        if kind == _PINGRESP:
            self._pinged = None
        if kind == _PUBLISH:
            self._incoming(head, size)
        elif size > len(self._body):
            self._lose("oversized packet")
        return kind

    def _incoming(self, head, size):
        body = self._body
        topic_end = 2 + (body[0] << 8 | body[1])
        start = topic_end + (2 if head & 6 else 0)
        if start > size:
            self._lose("malformed message")
        if size > len(body):
            self.skipped += 1
            return
        self._acknowledge(head)
        if self._callback is not None:
            self._callback(bytes(body[2:topic_end]), bytes(body[start:size]))

    def _acknowledge(self, head):
        """Send the PUBACK of a QoS 1 message whose packet identifier is in the body."""
        body = self._body
        at = 2 + (body[0] << 8 | body[1])
        if head & 0xF6 == _PUBLISH | 2 and at + 2 <= len(body):
            self._send(_PUBACK, bytes(body[at : at + 2]))


def _pair(n):
    return bytes((n >> 8, n & 255))


def _string(data):
    return _pair(len(data)) + data


class _Plain:
    """MQTT carries messages whole: the frame is the bare message."""

    def __init__(self, message, same):
        self._message = message
        self._same = same

    def slot(self):
        return bytearray(len(self._message) - HEAD - TAIL)

    def frame(self, out, number=-1):
        message = self._message
        if number >= 0:
            set_word(message, self._same, number)
        for i in range(len(out)):
            out[i] = message[HEAD + i]


class MqttLink:
    """client: an MQTTClient, or any with umqtt's methods, set to this device's name.

    pseudonym: 8 bytes. nonce: the boot nonce, whose bytes spread the reconnects
    of a fleet (they are no secret and never noise). most: the longest pause
    between two attempts to connect, in seconds. The client's keepalive, in
    seconds, must span three of the Task's ticks, or be 0: ValueError.
    reconnects, dropped: how often the link was lost; messages too large or too many.
    """

    def __init__(self, client, task, pseudonym, nonce, most=60):
        if client.keepalive and client.keepalive * 1000 < 3 * task.tick:
            raise ValueError("keepalive is shorter than three ticks")
        self.inbox = None
        self.connected = False
        self.reconnects = 0
        self.dropped = 0
        self._client = client
        topic = b"tinyldp/1/" + hexlify(task.id) + b"/"
        self._up = topic + hexlify(pseudonym) + b"/up"
        self._topics = [topic + hexlify(pseudonym) + b"/down"]
        if task.batch is None:
            self._topics.append(topic + b"all")
        self._nonce = nonce
        self._most = most
        self._inboxes = [bytearray(_INBOX) for _ in range(_INBOXES)]
        self._sizes = [0] * _INBOXES
        self._first = 0
        self._waiting = 0
        self._failures = 0
        # When to connect, or while connected to ping; in ticks_ms.
        self._due = ticks_ms()
        client.set_callback(self._message)

    def encoder(self, message, same, counted):
        return _Plain(message, same)

    def write(self, frame):
        """True when the broker took the frame."""
        if not self.connected:
            return False
        try:
            self._client.publish(self._up, frame, False, 1)
        except OSError:
            self._lost()
            return False
        self._delay_ping()
        return True

    def receive(self):
        """Keep the connection; bytes of the next message, now in inbox, or 0."""
        if not self._waiting:
            try:
                self._poll()
            except OSError:
                self._lost()
        if not self._waiting:
            return 0
        self._waiting -= 1
        first = self._first
        self._first = (first + 1) % _INBOXES
        self.inbox = self._inboxes[first]
        return self._sizes[first]

    def _poll(self):
        due = ticks_diff(ticks_ms(), self._due) >= 0
        if not self.connected:
            if not due:
                return
            self._client.connect(False)
            for topic in self._topics:
                self._client.subscribe(topic, 1)
            self.connected = True
            self._failures = 0
            self._delay_ping()
        self._client.check_msg()
        if due and self._client.keepalive:
            self._client.ping()
            self._delay_ping()

    def _delay_ping(self):
        """Keep-alive counts from the last packet sent; a third of it leaves room for a tick."""
        self._due = ticks_add(ticks_ms(), self._client.keepalive * 1000 // 3)

    def _lost(self):
        """Try again after 1, 2, 4, ... seconds, at most `most`, less up to a half."""
        if self.connected:
            self.reconnects += 1
        self.connected = False
        delay = min(self._most, 1 << min(self._failures, 12)) * 1000
        jitter = self._nonce[self._failures % len(self._nonce)]
        self._due = ticks_add(ticks_ms(), delay - (delay * jitter >> 9))
        self._failures += 1

    def _message(self, topic, message):
        n = len(message)
        if n > _INBOX or self._waiting == _INBOXES:
            self.dropped += 1
            return
        last = (self._first + self._waiting) % _INBOXES
        inbox = self._inboxes[last]
        for i in range(n):
            inbox[i] = message[i]
        self._sizes[last] = n
        self._waiting += 1
