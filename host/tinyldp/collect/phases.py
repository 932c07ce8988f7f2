"""What is being asked, of whom, and what came of it; without input or output."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tinyldp.collect.records import AnswerRow, DecisionRow, EpochRow, Link, Question
from tinyldp.coordinate import Ask
from tinyldp_protocol.hashing import GROUPS
from tinyldp_protocol.messages import put_query


@dataclass(eq=False)
class Peer:
    """A known device. id: the store's; position: on the circle of groups; link: its last;
    heard: when it said anything last."""

    id: int
    position: int
    link: Link
    heard: float


class Query(NamedTuple):
    """A message for a link; on MQTT a link without a pseudonym is the whole fleet's."""

    link: Link
    message: bytes


@dataclass(eq=False)
class Phase:
    """What is being asked. waiting: devices that have not spoken yet; ends: ms; half: what comes
    before would also have come in time if its step took half as many ticks.

    asked: when and how often a query has left on each link.
    """

    ask: Ask
    ranges: list[tuple[int, int]]
    messages: list[bytes]
    ends: float
    half: float
    waiting: dict[int, Peer] = field(default_factory=dict)
    meant: dict[int, Peer] = field(default_factory=dict)
    answers: dict[int, bytes] = field(default_factory=dict)
    asked: dict[Link, tuple[float, int]] = field(default_factory=dict)
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    late: int = 0
    # Whose last word was EARLY; whether some must not hear what is asked of all the others.
    early: set[int] = field(default_factory=set)
    apart: bool = False

    def means(self, peer: Peer) -> bool:
        return any((peer.position - start) % GROUPS < size for start, size in self.ranges)

    def due(self, link: Link, now: float, again: float, most: float) -> bool:
        """Whether a query may leave on this link, the first time or once more."""
        last, times = self.asked.get(link, (-math.inf, 0))
        return now - last >= min(most, again * 2**times / 2)

    def message(self, peer: Peer) -> bytes:
        """The one query that means this device."""
        for (start, size), message in zip(self.ranges, self.messages, strict=True):
            if (peer.position - start) % GROUPS < size:
                return message
        raise ValueError("the device is not meant")

    def question(self) -> Question:
        """As it is stored."""
        t, number, entry, _ = self.ask
        return Question(t, number, entry, len(self.meant), len(self.answers))

    def queries(self, now: float, again: float, most: float) -> Iterator[Query]:
        """What is to leave now, to all that have not spoken.

        A device that has not is asked again after `again` ms, then after twice as many
        each time, but `most` at most.
        """
        ports: dict[Link, Peer] = {}
        fleets: dict[Link, list[Peer]] = {}
        for peer in self.waiting.values():
            link = peer.link
            if link.task is not None:
                fleets.setdefault(Link(link.name, link.task), []).append(peer)
            elif self.due(link, now, again, most):
                ports[link] = peer
        for link, peer in ports.items():
            yield Query(link, self.message(peer))
        for fleet, silent in fleets.items():
            if self._for_all(fleet, silent):
                if self.due(fleet, now, again, most):
                    for message in self.messages:
                        yield Query(fleet, message)
                continue
            if not self.apart and not self.due(fleet, now, again, most):
                continue
            for peer in silent:
                if self.due(peer.link, now, again, most):
                    yield Query(peer.link, self.message(peer))

    def _for_all(self, fleet: Link, silent: list[Peer]) -> bool:
        """One message for all, until more of them have spoken than are still silent."""
        if self.apart:
            return False
        on_mqtt = sum(peer.link.task is not None for peer in self.meant.values())
        return fleet not in self.asked or 2 * len(silent) > on_mqtt


@dataclass
class News:
    """What is to be written since the last time.

    questions: of rounds when their phase is over, of epochs when it begins; closed: these
    when it is over.
    """

    questions: list[Question] = field(default_factory=list)
    closed: list[Question] = field(default_factory=list)
    decisions: list[DecisionRow] = field(default_factory=list)
    epochs: list[EpochRow] = field(default_factory=list)
    answers: list[AnswerRow] = field(default_factory=list)
    refusals: Counter[tuple[int, int]] = field(default_factory=Counter)
    asked: Counter[int] = field(default_factory=Counter)

    def __len__(self) -> int:
        """About how many rows that is."""
        decided = len(self.closed) + len(self.decisions) + len(self.epochs)
        return len(self.questions) + decided + len(self.answers) + len(self.refusals)


def query(task: bytes, ask: Ask, start: int, size: int) -> bytes:
    """The message for a range of devices."""
    fields = (task, ask.t, ask.phase, ask.entry, start, size)
    message = bytearray(put_query(None, 0, *fields))
    put_query(message, 0, *fields)
    return bytes(message)
