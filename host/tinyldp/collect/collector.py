"""The collecting loop: lines -> intake -> store, and acknowledgements back.

One thread takes what all lines have brought from a bounded queue, commits it in
batches and lets the acks leave only then.
"""

import queue
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tinyldp.collect.intake import Boot, Intake
from tinyldp.collect.links import Inbound, Line, MqttLine, SerialLine, client_id
from tinyldp.collect.records import Stream
from tinyldp.collect.store import Store
from tinyldp.errors import UserError
from tinyldp_protocol.task import Task

# Rows of one transaction, about; seconds from the first message of a batch to its commit.
BATCH = 500
_GATHER = 0.01
_IDLE = 0.05
_PROGRESS = 0.2
_QUEUE = 512
_NOTES = 100


@dataclass(frozen=True, slots=True)
class DeviceProgress:
    """One boot that this run has heard of; pseudonym and nonce in hexadecimal."""

    pseudonym: str
    nonce: str
    link: str
    received: int
    lost: int
    duplicates: int
    missing: int
    health: int | None
    count: int | None
    ended: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How the collecting stands. rejections: in this run, by (link, name);
    alarms: of this run, in words; notes: what befell the links, newest last."""

    devices: list[DeviceProgress]
    rejections: dict[tuple[str, str], int]
    alarms: list[str]
    notes: list[str]


class Collector:
    """Collects for one Task into one store from serial ports and an MQTT broker.

    serial: paths; mqtt: "host:port"; mqtt_client_id: must differ between all
    clients of a broker, and stay the same for its session to be found again.
    """

    def __init__(
        self,
        task: Task,
        store: Store,
        serial: list[str] | tuple[str, ...] = (),
        mqtt: str | None = None,
        mqtt_client_id: str | None = None,
    ) -> None:
        self._task = task
        self._store = store
        self._intake = Intake(task, store)
        self._inbound: Inbound = queue.Queue(_QUEUE)
        self._notes: deque[str] = deque(maxlen=_NOTES)
        self._lines: dict[str, Line] = {}
        for path in serial:
            if path in self._lines:
                raise UserError(f"The serial port {path} is named twice.")
            self._lines[path] = SerialLine(path, self._inbound, self._note)
        if mqtt is not None:
            name = mqtt_client_id or client_id(task.id, str(Path(store.name).absolute()))
            self._lines["mqtt"] = MqttLine(mqtt, task.id, name, self._inbound, self._note)
        self._ended = {stream.boot for stream in store.streams() if _over(stream, task)}
        self._rejections: Counter[tuple[str, str]] = Counter()
        self._alarms: dict[tuple[str, str], str] = {}

    def run(
        self, stop: Callable[[], bool], progress: Callable[[Snapshot], None] | None = None
    ) -> None:
        """Collect until stop() is true, or Ctrl-C; what has come by then is stored.

        progress: called with a Snapshot a few times a second, and at the end.
        Raises UserError when a port or the broker can't be opened at the start,
        or the store can't be written.
        """
        opened: list[Line] = []
        try:
            for line in self._lines.values():
                line.open()
                opened.append(line)
            self._loop(stop, progress)
        except KeyboardInterrupt:
            pass
        finally:
            for line in opened:
                line.close()
        if progress is not None:
            progress(self.snapshot())

    def snapshot(self) -> Snapshot:
        devices = [self._progress(boot) for boot in self._intake.boots()]
        alarms = [f"{name}: {detail}" for (name, _), detail in self._alarms.items()]
        return Snapshot(devices, dict(self._rejections), alarms, list(self._notes))

    def ended(self) -> int:
        """Boots whose segment is over and whose frames are all received or lost."""
        return len(self._ended)

    def _loop(self, stop: Callable[[], bool], progress: Callable[[Snapshot], None] | None) -> None:
        shown = 0.0
        stopped = False
        while not stopped:
            # Once more after stop(), for what is already here.
            stopped = stop()
            self._gather(0 if stopped else _IDLE)
            self._commit()
            if progress is not None and time.monotonic() - shown >= _PROGRESS:
                progress(self.snapshot())
                shown = time.monotonic()

    def _gather(self, idle: float) -> None:
        """Take what the lines bring, until a batch is full or has waited long enough."""
        deadline = time.monotonic() + idle
        begun = False
        while self._intake.waiting() < BATCH:
            try:
                wait = max(0.0, deadline - time.monotonic())
                line, item = self._inbound.get(wait > 0, wait or None)
            except queue.Empty:
                return
            if not begun:
                begun = True
                deadline = min(deadline, time.monotonic() + _GATHER)
            arrived = line.take(item)
            for name, n in arrived.rejected.items():
                if n:
                    self._intake.reject(line.name, name, n)
            self._intake.feed(arrived.link, arrived.messages, _now())

    def _commit(self) -> None:
        if self._intake.waiting():
            batch = self._intake.batch(_now())
            outcome = self._store.commit(batch)
            acks = self._intake.committed(outcome)
            self._rejections += batch.rejections + outcome.rejections
            self._alarms |= batch.alarms | outcome.alarms()
            for state in batch.boots:
                if state.over(self._task.batch):
                    self._ended.add(state.boot)
            for link, ack in acks:
                self._lines[link.name].send(link, ack)
        for line in self._lines.values():
            line.committed()

    def _progress(self, boot: Boot) -> DeviceProgress:
        return DeviceProgress(
            boot.device.pseudonym.hex(),
            boot.nonce.hex(),
            boot.link.name,
            boot.received,
            boot.lost,
            boot.duplicates,
            boot.missing(self._task.batch),
            boot.health,
            boot.count,
            boot.state().over(self._task.batch),
        )

    def _note(self, sentence: str) -> None:
        self._notes.append(sentence)


def _over(stream: Stream, task: Task) -> bool:
    return stream.task_id == task.id.hex() and bool(stream.health) and stream.missing == 0


def _now() -> int:
    return time.time_ns() // 1_000_000
