"""Everything that crosses the demo's links, kept beside its report."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from tinyldp.lanes.cable import Cable
from tinyldp.stoppable import Stoppable
from tinyldp.study import broker_address
from tinyldp_protocol.framing import MAX_MESSAGE, Decoder
from tinyldp_protocol.messages import ACK, HELLO, RELEASE, STATUS

_KINDS = {HELLO: "hello", RELEASE: "release", ACK: "ack", STATUS: "status"}


class Wiretap(Stoppable):
    """Listens on an MQTT broker and reads what cables' taps have caught.

    mqtt: (topic, payload) of every message under tinyldp/, in order.
    """

    def __init__(self, address: str) -> None:
        self.mqtt: list[tuple[str, bytes]] = []
        host, port = broker_address(address)
        ready = threading.Event()
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2)
        self._client.on_message = lambda _client, _data, message: self.mqtt.append(
            (message.topic, bytes(message.payload))
        )
        self._client.on_subscribe = lambda *_: ready.set()
        self._client.connect(host, port)
        self._client.loop_start()
        self._client.subscribe("tinyldp/#", qos=1)
        ready.wait(5)

    def stop(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def save(self, cables: dict[str, Cable], folder: Path) -> None:
        """Write NAME.up and NAME.down for each cable, and mqtt.jsonl."""
        folder.mkdir(exist_ok=True)
        for name, cable in cables.items():
            (folder / f"{name}.up").write_bytes(bytes(cable.from_device))
            (folder / f"{name}.down").write_bytes(bytes(cable.from_host))
        with (folder / "mqtt.jsonl").open("w") as file:
            for topic, payload in self.mqtt:
                file.write(json.dumps({"topic": topic, "payload": payload.hex()}) + "\n")


def read_capture(folder: Path) -> Iterator[bytes]:
    """Every message in a folder written by Wiretap.save, from both links and directions."""
    for path in sorted([*folder.glob("*.up"), *folder.glob("*.down")]):
        yield from deframe(path.read_bytes())
    for line in (folder / "mqtt.jsonl").read_text().splitlines():
        yield bytes.fromhex(json.loads(line)["payload"])


def deframe(data: bytes) -> Iterator[bytes]:
    """The messages in a serial line's bytes, by the device's own decoder."""
    decoder = Decoder(MAX_MESSAGE)
    at = 0
    while at < len(data):
        at = decoder.feed(data, at, len(data))
        if decoder.length:
            yield bytes(decoder.message[: decoder.length])


def lengths(messages: Iterator[bytes]) -> dict[str, dict[int, int]]:
    """How many messages of each kind have each length, in bytes."""
    found: dict[str, Counter[int]] = {name: Counter() for name in _KINDS.values()}
    for message in messages:
        found[_KINDS[message[1]]][len(message)] += 1
    return {name: dict(counts) for name, counts in found.items()}
