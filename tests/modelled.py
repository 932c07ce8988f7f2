"""Modelled devices and a host for them, without lines, on a clock of their own.

A modelled device keeps the contract of the real one: one t for each own step, a stored
answer for a repeated query, a refusal where a window would exceed its epsilon.
"""

import random
from collections import defaultdict

from tests.collecting import answer, hello, refusal, status
from tinyldp.collect.conversation import Conversation, resting
from tinyldp.collect.decoding import Query, decode
from tinyldp.collect.intake import Intake
from tinyldp.collect.records import Link
from tinyldp.collect.store import Store
from tinyldp_protocol.hashing import GROUPS, group
from tinyldp_protocol.messages import BUDGET, EARLY, LATE
from tinyldp_protocol.task import OLH, OUE, SCALE

STEP = 5  # ms of the modelled clock


def read(message: bytes) -> Query:
    """A query as sent."""
    query = decode(message, 1)
    assert isinstance(query, Query)
    return query


class Modelled:
    """One device. offset: ms of its first step; delay: ms that each way takes."""

    def __init__(self, task, number, link="mqtt", offset=0, delay=5):
        self.task = task
        self.pseudonym = b"wearer%2d" % number
        self.link = Link("mqtt", task.id, self.pseudonym) if link == "mqtt" else Link(link)
        self.offset = offset
        self.delay = delay
        self.random = random.Random(number)
        self.boots = 0
        self.step = -1
        self.t = -1
        self.bound = None
        self.spent = defaultdict(int)
        self.stored = {}
        self.values = {}
        self.deaf = False
        self.mute = False
        # Whether it looks for queries but once a tick, before its next step.
        self.slow = False
        self.inbox = []
        self.heard = []
        self.boot()

    def boot(self):
        self.boots += 1
        self.nonce = bytes([self.boots]) + self.pseudonym[1:]
        self.known = False

    @property
    def position(self):
        return group(self.task.id, self.pseudonym)

    def tick(self, now):
        """What leaves at this ms: a new step each tick, with hello until it is known."""
        if now < self.offset or (now - self.offset) % self.task.tick:
            return []
        replies = [self.settle(message) for message in self.inbox]
        self.inbox = []
        self.step += 1
        self.values[self.step] = self.random.randrange(self.task.symbols)
        said = ([] if self.known else [self.hello()]) + [status(self.nonce)]
        return said + [reply for reply in replies if reply is not None]

    def hello(self):
        return hello(self.task, self.pseudonym, self.nonce)

    def take(self, message):
        """The reply to a message, or None."""
        if self.deaf:
            return None
        if message[1] == 2:
            self.known = message[-1] == 0xF4
            return None
        if self.slow:
            self.inbox.append(message)
            return None
        return self.settle(message)

    def settle(self, message):
        query = read(message)
        self.heard.append(query)
        assert query.task == self.task.id
        if (self.position - query.start) % GROUPS >= query.size:
            return None
        reason = self.reason(query)
        if reason:
            return refusal(self.nonce, query.t, query.phase, reason)
        report = self.stored[query.phase]
        return answer(self.nonce, query.t, query.phase, *report)

    def reason(self, query):
        if query.t < self.t:
            return LATE
        fresh = query.t > self.t
        if fresh and self.bound == self.step:
            return EARLY
        step = self.step if fresh else self.bound
        spend = self.task.spends[query.entry]
        if fresh or query.phase not in self.stored:
            first = max(0, self.step - self.task.w + 1)
            window = sum(self.spent[i] for i in range(first, self.step + 1))
            if window + spend > self.task.epsilon:
                return BUDGET
            if fresh:
                self.t, self.bound, self.stored = query.t, self.step, {}
            self.spent[step] += spend
            self.stored[query.phase] = (query.entry, self.report(query.entry, step))
        return 0

    def report(self, entry, step):
        """GRR; of other oracles, zeros will do."""
        width = self.task.width
        if self.task.mechanism in (OUE, OLH):
            return bytes(width)
        u = self.random.randrange(SCALE)
        value = self.values[step]
        lie = u // self.task.thresholds[entry]
        if lie < self.task.symbols - 1:
            value = (value + 1 + lie) % self.task.symbols
        return value.to_bytes(width, "little")

    def most(self):
        """The most that any window has cost."""
        w = self.task.w
        steps = range(self.step + 1)
        return max(sum(self.spent[i] for i in steps[n : n + w]) for n in steps)


class Fleet:
    """A host and its devices. lose(device, message): whether a query to it gets lost."""

    def __init__(self, path, task, devices):
        self.path = path
        self.task = task
        self.devices = devices
        self.now = 0
        self.sent = []
        self.lose = lambda device, message: False
        self.flying = []
        self.start()

    def start(self):
        self.store = Store.create(self.path, self.task)
        name = self.task.id.hex()
        last = self.store.last_heard(name)
        rest = resting(self.task, None if last is None else self.now - last)
        self.rounds = Conversation(self.task, self.store.next_step(name), self.now + rest)
        self.intake = Intake(self.task, self.store, self.rounds)

    def restart(self):
        self.store.close()
        self.start()

    def run(self, until):
        """Play until a decision about step `until` - 1 is stored, or for long enough."""
        end = self.now + (until + 8) * 4 * self.task.tick
        while self.now < end and (self.rounds.t is None or self.rounds.t < until):
            self.play()
        return self.store.decisions(self.task.id.hex())

    def play(self, ms=STEP):
        for _ in range(ms // STEP):
            self.now += STEP
            self.live()
            for link, message in self.rounds.poll(self.now):
                self.sent.append((link, message))
                self.down(link, message)
                self.rounds.asked(link, self.now)
            self.commit()

    def live(self):
        """What the devices do at this moment: their steps, and what has arrived."""
        for device in self.devices:
            if not device.mute:
                self.up(device, device.tick(self.now))
        due = [item for item in self.flying if item[0] <= self.now]
        self.flying = [item for item in self.flying if item[0] > self.now]
        for _, device, message in due:
            reply = device.take(message)
            if reply is not None and not device.mute:
                self.up(device, [reply])

    def up(self, device, sent):
        self.intake.feed(device.link, sent, self.now, self.now)

    def down(self, link, message):
        for device in self.devices:
            fleet = link.task is not None and link.pseudonym is None
            mine = device.link.task is not None if fleet else device.link == link
            if mine and not self.lose(device, message):
                self.flying.append((self.now + 2 * device.delay, device, message))

    def commit(self):
        if self.intake.waiting():
            batch = self.intake.batch(self.now, self.now)
            for link, message in self.intake.committed(self.store.commit(batch)):
                self.down(link, message)

    def rejections(self):
        return dict(self.store.rejections())

    def answers(self):
        found = {}
        for t, phase, reports in self.store.answers(self.task.id.hex()):
            found[t, phase] = reports
        return found


def mixed(task, n=6):
    """Devices on MQTT and on serial ports, out of step with each other."""
    return [
        Modelled(task, i, "mqtt" if i % 2 else f"/dev/tty{i}", offset=STEP * (1 + 7 * i % 19))
        for i in range(n)
    ]
