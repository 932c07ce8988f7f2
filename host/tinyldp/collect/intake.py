"""What to make of each message: a state machine without input or output.

Fed messages by link, it gathers what the store shall write (a Batch) and, once
that is committed, says which acknowledgements leave on which link: never more
than one for each message that came. What it holds in memory is bounded whatever
is sent: frames at or above the first wanted one lie within the outbox of the
Task, boots within the links that they came by.

Names of what is not taken, besides those of tinyldp_protocol.messages.check:

    no hello       this run has no hello of that boot (nor, on MQTT, had an
                   earlier one): asked for, and not counted
    other boot     a hello of a boot that is known under another Task
    unknown task   its hello named another Task, or was of another Task's boot
    topic          its hello named another Task or pseudonym than its topic
    not for a host a message that only hosts send
    other kind     a release under a Task of rounds, or what belongs to rounds under another
    (of answers and refusals, those that conversation names)

Alarms:

    one boot under two Tasks
                   a pseudonym with the boot nonce that it had under another Task: each boot
                   draws one, and keeps its Task, so that these are two devices, or a copied
                   store. Nothing of the second one is taken ("other boot").
    equal nonces   one boot nonce under two pseudonyms: a bad source of randomness
    two devices with one pseudonym
                   an older boot goes on after a newer one, or one pseudonym is
                   alive on two links
    conflict       (named by the store) one frame with two different contents, or
                   two different answers to one question
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakValueDictionary

from tinyldp.collect.conversation import CONFLICT, COUNTED, DUPLICATE, Conversation
from tinyldp.collect.decoding import Answer, Decoding, Hello, Refusal, Rejected, Release, Status
from tinyldp.collect.records import Batch, BootState, Known, Link, Outcome, frames_made
from tinyldp_protocol.messages import COUNTER_MAX, RUNNING, put_ack
from tinyldp_protocol.task import Task

# Boots that one link can speak for at a time, and links with a boot.
MOST_BOOTS = 8
MOST_LINKS = 1 << 16
# Devices under other Tasks that are told apart.
MOST_STRANGERS = 1 << 10


@dataclass(eq=False)
class Device:
    """All boots of one pseudonym. first, newest: the store's ids of two of its boots."""

    pseudonym: bytes
    first: int
    newest: int = 0
    heard: dict[Link, int] = field(default_factory=dict)


@dataclass(eq=False)
class Boot:
    """One boot of a device, as far as this run knows it.

    wanted: the first sequence number that is neither held nor lost;
    above: those beyond it that are held. answers: those that were counted. before: frames and
    answers that earlier runs have received; since: ms since 1970 of its first hello.
    """

    id: int
    device: Device
    nonce: bytes
    link: Link
    wanted: int
    above: set[int]
    received: int
    answers: int
    duplicates: int
    health: int | None
    drops: int | None
    lowest: int | None
    count: int | None
    before: int = 0
    since: int | None = None

    @property
    def lost(self) -> int:
        return self.wanted - self.received + len(self.above)

    def missing(self, batch: int | None) -> int:
        """Frames that were made, are not here, and are not known to be lost."""
        made = max(self.above, default=self.wanted - 1) + 1
        if self.count is not None:
            made = max(made, frames_made(self.count, batch, self.health or RUNNING))
        return max(0, made - self.wanted - len(self.above))

    def state(self) -> BootState:
        return BootState(
            self.id, self.link.name, self.wanted, self.health, self.drops, self.lowest, self.count
        )

    def take(self, sequence: int, outbox: int) -> None:
        """Hold a frame at or above wanted that was not held."""
        self.received += 1
        if sequence == self.wanted and not self.above:
            self.wanted = sequence + 1
            return
        self.above.add(sequence)
        # The device that made this frame holds no more than its outbox before it.
        self.give_up(sequence + 1 - outbox)

    def give_up(self, lowest: int) -> None:
        """The device holds nothing below `lowest` any more: what is missing is lost."""
        above = self.above
        if lowest > self.wanted:
            self.wanted = lowest
            above.difference_update([n for n in above if n < lowest])
        while self.wanted in above:
            above.remove(self.wanted)
            self.wanted += 1


class Memory(Protocol):
    """What the intake asks the store for."""

    def recall(self, hello: Hello, link: str, at: int) -> Known:
        """The boot that says hello, recorded first if it is new."""
        ...

    def find(self, task: bytes, pseudonym: bytes, nonce: bytes) -> Hello | None:
        """The hello of an earlier run, by the first 4 bytes of its nonce."""
        ...


class Intake:
    """memory: the store, asked once for each boot that says hello.

    rounds: the conversation of a Task with a method or epochs, which takes answers and
    refusals.
    Only hello is acknowledged then: on a serial line whatever else comes is credit for a
    query.
    """

    def __init__(self, task: Task, memory: Memory, rounds: Conversation | None = None) -> None:
        if (task.batch is None) != (rounds is not None):
            raise ValueError("a Task without frames, and no other, is collected in rounds")
        self._task = task
        self._memory = memory
        self._rounds = rounds
        self._decoding = Decoding(task.payload)
        self._alive = 2 * task.beacon * task.tick
        # None: a boot that was refused, and is not asked again.
        self._links: dict[Link, dict[bytes, Boot | None]] = {}
        self._boots: WeakValueDictionary[tuple[bytes, bytes], Boot] = WeakValueDictionary()
        self._devices: WeakValueDictionary[bytes, Device] = WeakValueDictionary()
        self._batch = Batch(0)
        self._clock = 0.0
        # Since the last commit: whom to answer, and whose state has changed.
        self._heard: dict[tuple[Link, bytes], Boot | None] = {}
        self._hellos: set[tuple[Link, bytes]] = set()
        self._touched: dict[int, Boot] = {}
        # Whether a boot was forgotten that rounds may still know of.
        self._forgotten = False
        # By pseudonym, the Task of devices that run another one, and where they were heard.
        self.strangers: dict[bytes, tuple[bytes, str]] = {}

    def boots(self) -> list[Boot]:
        """The boots that this run knows."""
        return sorted(self._boots.values(), key=lambda boot: boot.id)

    def reject(self, link: str, name: str, count: int = 1) -> None:
        """Count messages that were refused before they came here."""
        self._batch.rejections[link, name] += count

    def waiting(self) -> int:
        """How much waits for the next batch, in rows to be written."""
        batch = self._batch
        rows = len(batch.frames) + len(batch.doubtful) + len(self._heard) + len(batch.rejections)
        return rows if self._rounds is None else rows + len(self._rounds.news)

    def feed(self, link: Link, messages: Iterable[bytes], now: int, clock: float = 0.0) -> None:
        """Take in the messages of one link. now: ms since 1970; clock: ms that never go back."""
        self._clock = clock
        release = self._decoding.release
        outbox = self._task.outbox
        if outbox is None:
            for message in messages:
                self._rare(link, message, now)
            return
        frames = self._batch.frames
        boots = self._links.get(link, {})
        current = None
        boot: Boot | None = None
        newest = 0
        for message in messages:
            fields = release(message)
            if fields is None:
                self._rare(link, message, now)
                boots = self._links.get(link, {})
                current = None
                continue
            nonce, sequence, values = fields
            if nonce != current:
                boot = self._known(link, boots, nonce, now)
                boots = self._links.get(link, boots)
                if boot is None:
                    current = None
                    continue
                current = nonce
                newest = boot.device.newest
            assert boot is not None
            if sequence < boot.wanted or sequence in boot.above:
                self._batch.doubtful.append((boot.id, sequence, now, values))
                continue
            boot.take(sequence, outbox)
            frames.append((boot.id, sequence, now, values))
            if boot.id < newest:
                self._alarm_clone(boot.device, "an older boot goes on after a newer one")

    def batch(self, now: int, clock: int) -> Batch:
        """All that waits to be written; the next one starts empty.

        now: ms since 1970; clock: ms that never go back.
        """
        for (link, _), boot in self._heard.items():
            if boot is not None:
                self._two_links(link, boot.device, clock)
        batch = self._batch
        batch.at = now
        batch.boots = [boot.state() for boot in self._touched.values()]
        if self._rounds is not None:
            news = self._rounds.drain()
            batch.task = self._task.id.hex()
            batch.questions = news.questions
            batch.closed = news.closed
            batch.decisions = [row._replace(at=now) for row in news.decisions]
            batch.epochs = [row._replace(at=now) for row in news.epochs]
            batch.answers = news.answers
            batch.refusals = news.refusals
            batch.asked = news.asked
        self._batch = Batch(now)
        return batch

    def committed(self, outcome: Outcome) -> list[tuple[Link, bytes]]:
        """After the batch is committed: the acks that leave now."""
        for boot_id, n in outcome.late.items():
            self._touched[boot_id].received += n
        for boot_id, n in outcome.duplicates.items():
            self._touched[boot_id].duplicates += n
        acks = []
        for (link, nonce), boot in self._heard.items():
            if self._rounds is not None and boot is not None and (link, nonce) not in self._hellos:
                continue
            wanted = 0 if boot is None else min(boot.wanted, COUNTER_MAX)
            acks.append((link, _ack(nonce, wanted, boot is None)))
        self._heard = {}
        self._hellos = set()
        self._touched = {}
        if self._forgotten:
            # What is heard of them in vain until their next hello is no reason to ask them.
            self._forgotten = False
            assert self._rounds is not None
            self._rounds.keep({device.first for device in self._devices.values()})
        return acks

    def _known(
        self, link: Link, boots: dict[bytes, Boot | None], nonce: bytes, now: int
    ) -> Boot | None:
        """The boot whose frames these are, or None: then its message is not taken."""
        asked = (link, nonce) in self._heard
        if nonce not in boots and link.task and link.pseudonym and not asked:
            # A broker has kept these for a host that was away, and will not bring them again.
            hello = self._memory.find(link.task, link.pseudonym, nonce)
            if hello is not None:
                self._hello(link, hello, now)
                boots = self._links[link]
        if nonce not in boots:
            self.reject(link.name, "no hello")
            self._heard[link, nonce] = None
            return None
        boot = boots[nonce]
        if boot is None:
            self.reject(link.name, "unknown task")
        else:
            self._hear(link, nonce, boot)
        return boot

    def _hear(self, link: Link, nonce: bytes, boot: Boot) -> None:
        self._heard[link, nonce] = boot
        self._touched[boot.id] = boot
        if self._rounds is not None:
            device = boot.device
            self._rounds.heard(device.first, device.pseudonym, link, self._clock)

    def _rare(self, link: Link, message: bytes, now: int) -> None:
        try:
            decoded = self._decoding.decode(message)
        except Rejected as rejected:
            self.reject(link.name, str(rejected))
            return
        if isinstance(decoded, Hello):
            self._hello(link, decoded, now)
        elif isinstance(decoded, Status):
            self._status(link, decoded, now)
        elif isinstance(decoded, Answer | Refusal) and self._rounds is not None:
            self._spoken(self._rounds, link, decoded, now)
        elif isinstance(decoded, Release | Answer | Refusal):
            self.reject(link.name, "other kind")
        else:
            self.reject(link.name, "not for a host")

    def _hello(self, link: Link, hello: Hello, now: int) -> None:
        nonce = hello.nonce[:4]
        if link.pseudonym is not None and link[1:] != (hello.task, hello.pseudonym):
            self.reject(link.name, "topic")
            return
        if hello.task != self._task.id:
            self.reject(link.name, "unknown task")
            self._remember(link, nonce, None)
            if len(self.strangers) < MOST_STRANGERS:
                self.strangers[hello.pseudonym] = (hello.task, link.name)
            return
        boot = self._boots.get((hello.pseudonym, hello.nonce))
        if boot is None:
            boot = self._recalled(hello, link, now)
        self._remember(link, nonce, boot)
        if boot is None:
            self.reject(link.name, "other boot")
            return
        if self._rounds is not None:
            ran = 0 if boot.since is None else max(0, now - boot.since)
            self._rounds.join(boot.device.first, hello.pseudonym, link, self._clock, ran)
        self._hear(link, nonce, boot)
        self._hellos.add((link, nonce))
        boot.link = link
        boot.lowest = max(boot.lowest or 0, hello.lowest)
        boot.give_up(hello.lowest)

    def _status(self, link: Link, status: Status, now: int) -> None:
        boot = self._known(link, self._links.get(link, {}), status.nonce, now)
        if boot is None:
            return
        # An old status may come again: nothing that is over begins anew.
        if not boot.health:
            boot.health = status.health
        boot.drops = max(boot.drops or 0, status.drops)
        boot.lowest = max(boot.lowest or 0, status.lowest)
        boot.count = max(boot.count or 0, status.count)
        boot.give_up(status.lowest)

    def _spoken(
        self, rounds: Conversation, link: Link, message: Answer | Refusal, now: int
    ) -> None:
        """An answer, or a refusal to give one."""
        boot = self._known(link, self._links.get(link, {}), message.nonce, now)
        if boot is None:
            return
        device = boot.device
        if boot.id < device.newest:
            self._alarm_clone(device, "an older boot goes on after a newer one")
        if isinstance(message, Refusal):
            name = rounds.refusal(device.first, message.t, message.phase, message.reason)
        else:
            _, t, phase, entry, report = message
            name = rounds.answer(device.first, boot.id, t, phase, entry, report, now)
            boot.answers += name == COUNTED
        if name == DUPLICATE:
            boot.duplicates += 1
            self._batch.repeated[boot.id] += 1
        elif name != COUNTED:
            self.reject(link.name, name)
        if name == CONFLICT:
            who = device.pseudonym.hex()
            detail = f"device {who}: step {message.t} was answered with two contents"
            self._alarm("conflict", f"device {who}", detail)

    def _recalled(self, hello: Hello, link: Link, now: int) -> Boot | None:
        """The boot as the store knows it; None: it knows it under another Task."""
        known = self._memory.recall(hello, link.name, now)
        task = hello.task.hex()
        if known.task != task:
            who, nonce = hello.pseudonym.hex(), hello.nonce.hex()
            detail = f"pseudonym {who}: boot nonce {nonce} under Tasks {known.task} and {task}"
            self._alarm("one boot under two Tasks", f"{who} {nonce}", detail)
            return None
        device = self._devices.get(hello.pseudonym)
        if device is None:
            device = Device(hello.pseudonym, known.first)
            self._devices[hello.pseudonym] = device
        device.newest = max(device.newest, known.newest)
        if known.same_nonce:
            nonce = hello.nonce.hex()
            others = ", ".join((*known.same_nonce, hello.pseudonym.hex()))
            self._alarm("equal nonces", nonce, f"boot nonce {nonce} under pseudonyms {others}")
        boot = Boot(
            known.id,
            device,
            hello.nonce,
            link,
            known.wanted,
            set(known.above),
            known.received,
            known.answers,
            known.duplicates,
            known.health,
            known.drops,
            known.lowest,
            known.count,
            known.received + known.answers,
            known.since,
        )
        self._boots[hello.pseudonym, hello.nonce] = boot
        return boot

    def _remember(self, link: Link, nonce: bytes, boot: Boot | None) -> None:
        """From now on `nonce` means this boot on this link; the oldest are forgotten."""
        boots = self._links.pop(link, {})
        before = boots.pop(nonce, None)
        boots[nonce] = boot
        if before is not None and before is not boot:
            self._forgotten = self._rounds is not None
        if len(boots) > MOST_BOOTS:
            del boots[next(iter(boots))]
            self._forgotten = self._rounds is not None
        self._links[link] = boots
        if len(self._links) > MOST_LINKS:
            del self._links[next(iter(self._links))]
            self._forgotten = self._rounds is not None

    def _two_links(self, link: Link, device: Device, now: int) -> None:
        """A device may move to another link, but not come back within two beacons."""
        heard = device.heard
        before = heard.pop(link, None)
        if before is not None and now - before <= self._alive:
            for other, at in heard.items():
                if at >= before:
                    self._alarm_clone(device, f"alive on {link.name} and on {other.name}")
        heard[link] = now
        if len(heard) > MOST_BOOTS:
            del heard[next(iter(heard))]

    def _alarm_clone(self, device: Device, how: str) -> None:
        pseudonym = device.pseudonym.hex()
        self._alarm("two devices with one pseudonym", pseudonym, f"pseudonym {pseudonym}: {how}")

    def _alarm(self, name: str, subject: str, detail: str) -> None:
        self._batch.alarms.setdefault((name, subject), detail)


def _ack(nonce: bytes, wanted: int, hello: bool) -> bytes:
    message = bytearray(put_ack(None, 0, nonce, wanted, hello))
    put_ack(message, 0, nonce, wanted, hello)
    return bytes(message)
