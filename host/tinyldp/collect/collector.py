"""The collecting loop: lines -> intake -> store, and acknowledgements back.

One thread takes what all lines have brought from a bounded queue, commits it in
batches and lets the acks leave only then.
"""

import math
import queue
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tinyldp.collect.conversation import Conversation, resting
from tinyldp.collect.intake import Intake
from tinyldp.collect.links import Inbound, Line, MqttLine, SerialLine, client_id
from tinyldp.collect.records import Batch
from tinyldp.collect.resuming import resume
from tinyldp.collect.stopping import interruptible
from tinyldp.collect.store import Store
from tinyldp.errors import UserError
from tinyldp.figures import counted
from tinyldp_protocol.messages import COUNTER_MAX
from tinyldp_protocol.task import Task

# Rows of one transaction, about; seconds from the first message of a batch to its commit.
BATCH = 500
_GATHER = 0.01
_IDLE = 0.05
_PROGRESS = 0.2
_QUEUE = 512
_NEWS = 100
# Silence that is worth a word: beacons, and at least so many seconds; then twice as long...
_QUIET_BEACONS = 4
_QUIET = 10.0
_UNKNOWN = (
    "Devices have answered epochs that this database does not know, and may have no estimates"
    " left: no update is made. Collect with the database of those epochs, or plan another Task."
)
_AHEAD = (
    "Devices are ahead: they have answered later steps than this database knows of, and refuse"
    " these as late. Steps are left out, twice as many each time, until devices answer again."
)


@dataclass(frozen=True, slots=True)
class DeviceProgress:
    """One boot that this run has heard of; pseudonym and nonce in hexadecimal.

    received: frames, or in rounds answers that were counted; before: of these, in earlier runs.
    """

    pseudonym: str
    link: str
    received: int
    lost: int
    ended: bool
    nonce: str = ""
    before: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How the collecting stands.

    rejected: messages refused in this run; news: what befell the links, and
    alarms, since the last snapshot, in sentences. step: t of the rounds, None before the
    first and for a Task without. epochs: how many the Task has; None: it has none.
    """

    devices: list[DeviceProgress]
    rejected: int
    news: list[str]
    step: int | None = None
    epochs: int | None = None


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
        self._rounds: Conversation | None = None
        # Links' threads put sentences in, snapshots take them out.
        self._news: deque[str] = deque(maxlen=_NEWS)
        if task.method is not None:
            self._rounds = self._resumed(store.next_step(task.id.hex()))
        elif task.epochs is not None:
            self._rounds = self._resumed_epochs()
        self._intake = Intake(task, store, self._rounds)
        self._inbound: Inbound = queue.Queue(_QUEUE)
        self._lines: dict[str, Line] = {}
        for path in serial:
            if path in self._lines:
                raise UserError(f"The serial port {path} is named twice.")
            self._lines[path] = SerialLine(path, self._inbound, self._news.append)
        if mqtt is not None:
            name = mqtt_client_id or client_id(task.id, str(Path(store.name).absolute()))
            self._lines["mqtt"] = MqttLine(mqtt, task.id, name, self._inbound, self._news.append)
        self._ended: set[int] = set()
        self._rejected = 0
        self._over = self._behind = self._awaited = False
        # Seconds: how long nothing may be heard without a word, and since when.
        self._quiet = self._loud = max(_QUIET, _QUIET_BEACONS * task.beacon * task.tick / 1000)
        self._last = math.inf
        self._alarms: set[tuple[str, str]] = set()

    def _resumed(self, start: int) -> Conversation:
        """Rounds from step `start` on, when what an earlier run has asked for is forgotten."""
        task = self._task
        last = self._store.last_heard(task.id.hex())
        rest = resting(task, None if last is None else _now() - last)
        if rest:
            self._news.append(
                f"Rounds go on with step {start:,} in {self._lasts(rest)}: the method begins anew,"
                f" once what was spent before has left each window of {self._window()}."
            )
        return Conversation(task, start, _clock() + rest)

    def _lasts(self, rest: float) -> str:
        """ms, for people."""
        steps = counted(math.ceil(rest / self._task.tick), "step")
        return f"{math.ceil(rest / 1000):,} s ({steps})"

    def _window(self) -> str:
        return counted(self._task.w or 0, "step")

    def waits(self) -> list[str]:
        """A sentence when rounds of an earlier run are still in the way of the first question."""
        if self._rounds is None or self._task.method is None:
            return []
        rest = self._rounds.rests(_clock())
        if not rest:
            return []
        return [
            f"Nothing was asked yet: rounds rest for another {self._lasts(rest)}, until what was"
            f" asked before has left each window of {self._window()}."
        ]

    def _resumed_epochs(self) -> Conversation:
        """Epochs after those that an earlier run has asked for; what that left open is decided."""
        task = self._task
        past = resume(self._store, task)
        if past.decided is not None:
            row, ended = past.decided
            batch = Batch(_now(), task=task.id.hex(), closed=[ended])
            batch.epochs = [row._replace(at=batch.at)]
            self._store.commit(batch)
        if past.gaps:
            self._news.append(_UNKNOWN)
        return Conversation(
            task, past.start, updates=past.updates, standing=past.standing, cast=past.cast
        )

    def run(
        self, stop: Callable[[], bool], progress: Callable[[Snapshot], None] | None = None
    ) -> None:
        """Collect until stop() is true, or Ctrl-C; what was acknowledged is stored.

        What is open in rounds is recorded then, so that its step is not asked again. A
        second Ctrl-C ends it at once. It also ends when the Task's epochs are over.
        progress: called with a Snapshot a few times a second, and at the end.
        Raises UserError when a port or the broker can't be opened at the start,
        or the store can't be written.
        """
        opened: list[Line] = []
        try:
            for line in self._lines.values():
                line.open()
                opened.append(line)
            with interruptible(stop) as stopped, suppress(KeyboardInterrupt):
                self._loop(stopped, progress)
        finally:
            for line in opened:
                line.close()
        if progress is not None:
            progress(self._snapshot())

    def ended(self) -> int:
        """Boots heard in this run, whose segment is over and whose frames are all here or lost."""
        return len(self._ended)

    def strangers(self, task_path: Path) -> list[str]:
        """A sentence for each other Task that boards ran; task_path: that of this one's file."""
        found: dict[bytes, set[str]] = {}
        counts: Counter[bytes] = Counter()
        for task, link in self._intake.strangers.values():
            counts[task] += 1
            found.setdefault(task, set()).add(link)
        return [
            f"{counted(n, 'board')} at {', '.join(sorted(found[task]))} ran another Task,"
            f" {task.hex()}, and nothing of it was taken: put this one on it with `tinyldp flash"
            f" {task_path} --port PORT`, or collect with the study of the other."
            for task, n in counts.items()
        ]

    def _loop(self, stop: Callable[[], bool], progress: Callable[[Snapshot], None] | None) -> None:
        shown = 0.0
        stopped = False
        self._last = time.monotonic()
        while not stopped:
            # Once more after stop(), for what is already here.
            stopped = stop() or self._finished()
            self._gather(0 if stopped else self._idle())
            if self._rounds is not None:
                self._rounds.stop() if stopped else self._rounds.turn(_clock())
                self._tell(self._rounds)
                if self._rounds.news.questions:
                    # Of epochs what is asked is stored before.
                    self._commit()
                self._ask(self._rounds)
            self._commit()
            self._look_for_silence()
            if progress is not None and time.monotonic() - shown >= _PROGRESS:
                progress(self._snapshot())
                shown = time.monotonic()

    def _idle(self) -> float:
        """Seconds that may be waited for messages: queries have their time."""
        return _IDLE if self._rounds is None else min(_IDLE, self._rounds.wait(_clock()) / 1000)

    def _ask(self, rounds: Conversation) -> None:
        for link, message in rounds.queries(_clock()):
            if self._lines[link.name].ask(link, message):
                rounds.asked(link, _clock())

    def _finished(self) -> bool:
        return self._task.epochs is not None and self._rounds is not None and self._rounds.over

    def _tell(self, rounds: Conversation) -> None:
        """What befell the rounds, once."""
        epochs = self._task.epochs is not None
        if rounds.behind and not self._behind:
            self._behind = True
            self._news.append(_UNKNOWN if epochs else _AHEAD)
        if epochs and rounds.begins is not None and not self._awaited:
            self._awaited = True
            wait = math.ceil(max(0.0, rounds.begins - _clock()) / 1000)
            self._news.append(
                f"The first question leaves in {wait:,} s: an epoch after this database first heard"
                " of a device, which has then completed one of its own."
                if rounds.first
                else f"The next question leaves in {wait:,} s, when devices have completed another"
                " epoch of their own."
            )
        if rounds.over and not self._over:
            self._over = True
            self._news.append(
                f"All {self._task.epochs:,} epochs are over in this database: devices that took"
                " part in them need another Task, and those that are new to this one another"
                " database (--db)."
                if epochs
                else f"Step {COUNTER_MAX:,} was the last one that has a number: nothing is asked"
                " any more, and devices need another Task."
            )

    def _look_for_silence(self) -> None:
        silent = time.monotonic() - self._last
        if silent >= self._quiet:
            self._quiet = 2 * silent
            self._news.append(
                f"Nothing has been heard for {math.ceil(silent):,} s; a device whose segment was"
                " over and collected before is silent until it starts again."
            )

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
            if arrived.messages:
                self._last = time.monotonic()
                self._quiet = self._loud
            for name, n in arrived.rejected.items():
                if n:
                    self._intake.reject(line.name, name, n)
            self._intake.feed(arrived.link, arrived.messages, _now(), _clock())

    def _commit(self) -> None:
        if self._intake.waiting():
            batch = self._intake.batch(_now(), int(_clock()))
            outcome = self._store.commit(batch)
            acks = self._intake.committed(outcome)
            self._rejected += (batch.rejections + outcome.rejections).total()
            for key, detail in (batch.alarms | outcome.alarms()).items():
                if key not in self._alarms:
                    self._alarms.add(key)
                    self._news.append(f"ALARM {key[0]}: {detail}.")
            for state in batch.boots:
                if state.over(self._task.batch):
                    self._ended.add(state.boot)
            for link, ack in acks:
                self._lines[link.name].send(link, ack)
        for line in self._lines.values():
            line.committed()

    def _snapshot(self) -> Snapshot:
        news = [self._news.popleft() for _ in range(len(self._news))]
        devices = [
            DeviceProgress(
                boot.device.pseudonym.hex(),
                boot.link.name,
                boot.received + boot.answers,
                boot.lost,
                boot.state().over(self._task.batch),
                boot.nonce.hex(),
                boot.before,
            )
            for boot in self._intake.boots()
        ]
        step = None if self._rounds is None else self._rounds.t
        return Snapshot(devices, self._rejected, news, step, self._task.epochs)


def _now() -> int:
    return time.time_ns() // 1_000_000


def _clock() -> float:
    """ms that never go back."""
    return time.monotonic() * 1000
