"""What intake and store hand to each other, free of any database."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from tinyldp.coordinate import EpochDecision
from tinyldp_protocol.messages import RUNNING


def frames_made(count: int, batch: int | None, health: int) -> int:
    """Frames finished after `count` values: the last may be partly padding; in rounds none."""
    if batch is None:
        return 0
    return count // batch if health == RUNNING else -(-count // batch)


# A row of `frames`: boot, sequence, host's time in ms since 1970, values.
# A plain tuple, because millions are made.
Frame = tuple[int, int, int, bytes]


class Link(NamedTuple):
    """A way to one device; on MQTT the topic says which Task and pseudonym.

    Without a pseudonym, but with a Task, it is the topic that all of its devices hear.
    """

    name: str
    task: bytes | None = None
    pseudonym: bytes | None = None


# A row of `answers`: device (the first boot of its pseudonym), t, phase, boot, time, report.
AnswerRow = tuple[int, int, int, int, int, bytes]


class Question(NamedTuple):
    """What was asked in one phase of step t, and how it ended.

    meant: known devices that it meant; answered: those whose answers were counted.
    """

    t: int
    phase: int
    entry: int
    meant: int
    answered: int


class DecisionRow(NamedTuple):
    """What was decided in step t, and why: see coordinate.Decision.

    units: ledger units that a publication cost each who was asked for it; n: answers to
    it; users: devices known; release: one float for each value, raw.
    """

    t: int
    at: int
    published: bool
    outcome: str
    dis: float | None
    err: float | None
    units: int
    n: int
    users: int
    release: tuple[float, ...]


class EpochRow(NamedTuple):
    """What was decided in epoch t, and why: see coordinate.EpochDecision.

    release: floats of an estimate that was published in this epoch, else empty.
    poll, poll_low, poll_high: share of devices that have votes left, if that was asked.
    """

    t: int
    at: int
    outcome: str
    update: bool
    published: bool
    users: int
    ones: int
    votes_n: int
    needed: float | None
    n: int
    low: float | None
    high: float | None
    drift: float
    poll: float | None
    poll_low: float | None
    poll_high: float | None
    release: tuple[float, ...]


def epoch_row(made: EpochDecision) -> EpochRow:
    """The decision as it is kept; at: 0."""
    poll = made.poll
    return EpochRow(
        made.t,
        0,
        made.outcome,
        made.update,
        made.published,
        made.users,
        made.ones,
        made.votes_n,
        made.needed,
        made.n,
        made.low,
        made.high,
        made.drift,
        None if poll is None else poll.mean,
        None if poll is None else poll.low,
        None if poll is None else poll.high,
        tuple(made.release.tolist()) if made.published else (),
    )


@dataclass(frozen=True, slots=True)
class Peer:
    """What rounds came to with one device: questions that meant it, answers counted,
    refusals by reason (messages.LATE to LOST)."""

    device: int
    pseudonym: str
    asked: int
    answers: int
    refusals: dict[int, int]


class BootState(NamedTuple):
    """What is to be remembered of a boot; None leaves a column as it was.

    released: the `count` of its last status.
    """

    boot: int
    link: str
    wanted: int
    health: int | None
    drops: int | None
    lowest: int | None
    released: int | None

    def over(self, batch: int | None) -> bool:
        """Whether the device has ended and all of its frames, if any, are here or lost."""
        if not self.health or self.released is None:
            return False
        return self.wanted >= frames_made(self.released, batch, self.health)


@dataclass(slots=True)
class Batch:
    """What one transaction writes.

    frames: rows that should be new; doubtful: rows that may be there already;
    rejections: counts to add, by (link, name); alarms: detail by (name, subject).
    Of rounds, under `task` (hexadecimal): questions that are new, and those that are there
    and closed now; decisions, of epochs in `epochs`; answers that were counted; refusals to
    add, by (device, reason), questions, by device, and answers that came again, by boot.
    """

    at: int
    frames: list[Frame] = field(default_factory=list)
    doubtful: list[Frame] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    closed: list[Question] = field(default_factory=list)
    decisions: list[DecisionRow] = field(default_factory=list)
    epochs: list[EpochRow] = field(default_factory=list)
    answers: list[AnswerRow] = field(default_factory=list)
    refusals: Counter[tuple[int, int]] = field(default_factory=Counter)
    asked: Counter[int] = field(default_factory=Counter)
    repeated: Counter[int] = field(default_factory=Counter)
    task: str = ""
    boots: list[BootState] = field(default_factory=list)
    rejections: Counter[tuple[str, str]] = field(default_factory=Counter)
    alarms: dict[tuple[str, str], str] = field(default_factory=dict)


@dataclass(slots=True)
class Outcome:
    """What the transaction found: late: doubtful rows that were new, by boot;
    duplicates: rows that were there, by boot; conflicts: rows that were there
    with other values; rejections: those same rows, by (link, "conflict")."""

    late: Counter[int] = field(default_factory=Counter)
    duplicates: Counter[int] = field(default_factory=Counter)
    conflicts: list[Frame] = field(default_factory=list)
    rejections: Counter[tuple[str, str]] = field(default_factory=Counter)

    def alarms(self) -> dict[tuple[str, str], str]:
        """Detail of each alarm that the conflicts are, by (name, subject): one for each boot."""
        return {
            ("conflict", f"boot {boot}"): f"boot {boot}: frame {sequence} came with two contents"
            for boot, sequence, _, _ in reversed(self.conflicts)
        }


@dataclass(frozen=True, slots=True)
class Known:
    """What the store knows of a boot when its hello comes.

    above: sequence numbers held at or beyond wanted; answers: those counted in rounds;
    task: that of its first hello, hexadecimal; first, newest: ids of the first and the
    newest boot of the same pseudonym; same_nonce: other pseudonyms with this nonce; since: ms
    since 1970 of its first hello.
    """

    id: int
    task: str
    first: int
    wanted: int
    above: frozenset[int]
    received: int
    answers: int
    duplicates: int
    health: int | None
    drops: int | None
    lowest: int | None
    count: int | None
    newest: int
    same_nonce: tuple[str, ...]
    since: int


@dataclass(frozen=True, slots=True)
class Stream:
    """One boot of one device; pseudonym, nonce and task_id in hexadecimal.

    received, lost, duplicates, missing: frames; missing ones were made, are not
    here, and are not known to be lost. In rounds received are answers that were
    counted, duplicates those that came again, and none is lost. count: values released, by its last
    status. health, count, drops and lowest are None before the first status.
    """

    boot: int
    pseudonym: str
    nonce: str
    task_id: str
    quality: int
    software: str
    link: str
    received: int
    lost: int
    duplicates: int
    missing: int
    health: int | None
    count: int | None
    drops: int | None
    lowest: int | None
