"""The device package's epochs behind a modelled line, and a host for them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.collecting import answer, refusal, status
from tests.epochs_tasks import MemorySlot, epoch_task
from tests.modelled import STEP, Fleet, Modelled
from tinyldp.collect.collector import Collector
from tinyldp.collect.conversation import Conversation
from tinyldp.collect.decoding import Query, decode
from tinyldp.collect.intake import Intake
from tinyldp.collect.resuming import resume
from tinyldp.collect.store import Store
from tinyldp_device.epochs import Epochs
from tinyldp_device.ledger import FRESH, STORED
from tinyldp_device.lifetime import Lifetime, provision
from tinyldp_device.state import State
from tinyldp_protocol.messages import FOREIGN
from tinyldp_protocol.task import THRESH, Task


def small_task(mechanism: int = THRESH, **changed: Any) -> Task:
    """16 epochs of 8 ticks of 50 ms, and little noise."""
    numbers = {
        "epochs": 16, "rounds": 8, "tick": 50, "beacon": 4, "epsilon": 60 << 16,
        "thresholds": [100_000, 1_000_000], "levels": [1, 1, 2, 2, 3], "votes": 3, "estimates": 3,
    }  # fmt: skip
    return epoch_task(mechanism, **{**numbers, **changed})


class Entropy:
    """Words from a seeded generator."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def word(self) -> int:
        return self._random.randrange(1 << 24)

    def refill(self, need: int = 1) -> None:
        pass


class EpochDevice(Modelled):
    """What it measures is `means` of its own epoch, in order; the last one goes on.

    items: likewise, and instead, if there are any. asked: for what, (t, phase, entry).
    """

    def __init__(self, task, number, link="mqtt", offset=0, delay=5, means=(0.2,)):
        self.slots = (MemorySlot(), MemorySlot())
        provision(State(*self.slots), task.epsilon)
        self.means = means
        self.items: tuple[int, ...] = ()
        self.asked: list[tuple[int, int, int]] = []
        super().__init__(task, number, link, offset, delay)

    def boot(self):
        """The running epoch is gone."""
        super().boot()
        lifetime = Lifetime(State(*self.slots), self.task, self.task.epsilon)
        entropy: Any = Entropy(self.random.randrange(1 << 30))
        self.epochs = Epochs(self.task, entropy, lifetime)
        self.lifetime = lifetime
        self.step = -1

    def tick(self, now):
        if now < self.offset or (now - self.offset) % self.task.tick:
            return []
        self.step += 1
        self.epochs.step(self.symbol())
        return ([] if self.known else [self.hello()]) + [status(self.nonce)]

    def symbol(self):
        played = self.items or self.means
        value = played[min(self.step // self.task.rounds, len(played) - 1)]
        if self.items:
            return value
        # As many ones as the mean says, so that chance plays no part.
        return int(self.step % self.task.rounds < value * self.task.rounds)

    def settle(self, message):
        query = decode(message, 1)
        assert isinstance(query, Query)
        self.asked.append((query.t, query.phase, query.entry))
        if query.task != self.task.id:
            return refusal(self.nonce, query.t, query.phase, FOREIGN)
        result = self.epochs.settle(query.t, query.phase, query.entry)
        if result in (FRESH, STORED):
            phase = query.phase
            report = self.epochs.report(phase)
            return answer(self.nonce, query.t, phase, self.epochs.entry(phase), report)
        return refusal(self.nonce, query.t, query.phase, result)


class EpochFleet(Fleet):
    def start(self):
        self.store = Store.create(self.path, self.task)
        self.past = resume(self.store, self.task)
        # As the collector does it, but on this clock.
        Collector(self.task, self.store)
        self.rounds = Conversation(
            self.task, self.past.start, updates=self.past.updates, standing=self.past.standing
        )
        self.intake = Intake(self.task, self.store, self.rounds)

    def play(self, ms=STEP):
        for _ in range(ms // STEP):
            self.now += STEP
            self.live()
            self.rounds.turn(self.now)
            self.commit()
            for link, message in self.rounds.queries(self.now):
                self.sent.append((self.now, link, message))
                self.down(link, message)
                self.rounds.asked(link, self.now)

    def until(self, epoch):
        """Play until this epoch is decided, or for long enough; gives what is decided."""
        end = self.now + (epoch + 4) * self.task.rounds * self.task.tick
        while self.now < end and not any(row.t >= epoch for row in self.rows()):
            self.play(20 * STEP)
        return self.rows()

    def rows(self):
        return self.store.epochs(self.task.id.hex())

    def refused(self, reason):
        """How often any device did."""
        peers = self.store.peers(self.task.id.hex())
        return sum(peer.refusals.get(reason, 0) for peer in peers)

    def questions(self):
        return self.store.questions(self.task.id.hex())


def spread_devices(task, n=6, **named):
    """On MQTT and on serial ports, at different places of their own epochs."""
    rng = np.random.default_rng(n)
    length = task.rounds * task.tick
    return [
        EpochDevice(
            task, i, "mqtt" if i % 2 else f"/dev/tty{i}",
            offset=STEP * int(rng.integers(1, length // STEP)), **named,
        )
        for i in range(n)
    ]  # fmt: skip
