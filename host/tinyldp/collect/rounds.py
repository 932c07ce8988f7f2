"""How questions, answers, refusals and decisions of rounds are kept.

An answer is counted once because (device, t, phase) is its primary key, whichever
boot of the device it came from. Of two hosts that run rounds of one Task into one
database, what the first one wrote about a step stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from tinyldp.collect.records import AnswerRow, Batch, DecisionRow, EpochRow, Peer, Question
from tinyldp.collect.schema import (
    ANSWERS,
    ASKED,
    BOOTS,
    DECISIONS,
    EPOCHS,
    QUESTIONS,
    REFUSALS,
    Prepared,
    check,
)

_SELECT = 500


def write_rounds(
    connection: sa.Connection, insert_answer: Prepared, batch: Batch, careful: bool
) -> None:
    """Write the batch's part of rounds. careful: look first at what is there."""
    answers = sorted(batch.answers)
    if careful:
        held = _held(connection, answers)
        answers = [row for row in answers if row[:3] not in held]
    insert_answer.run(connection, answers)
    for question in sorted(batch.questions):
        row = {"task": batch.task, **question._asdict()}
        keys = ("task", "t", "phase")
        if not careful or not _there(connection, QUESTIONS, row, keys):
            connection.execute(QUESTIONS.insert(), row)
    for question in sorted(batch.closed):
        same = sa.and_(*(QUESTIONS.c[k] == v for k, v in _key(batch.task, question).items()))
        ended = {"meant": question.meant, "answered": question.answered}
        connection.execute(QUESTIONS.update().where(same).values(ended))
    for decision in sorted(batch.decisions):
        release = np.asarray(decision.release, "<f8").tobytes()
        row = {"task": batch.task, **decision._asdict(), "release": release}
        if not careful or not _there(connection, DECISIONS, row, ("task", "t")):
            connection.execute(DECISIONS.insert(), row)
    for epoch in sorted(batch.epochs):
        release = np.asarray(epoch.release, "<f8").tobytes()
        row = {"task": batch.task, **epoch._asdict(), "release": release}
        if not careful or not _there(connection, EPOCHS, row, ("task", "t")):
            connection.execute(EPOCHS.insert(), row)
    for (device, reason), n in sorted(batch.refusals.items()):
        _add(connection, REFUSALS, {"device": device, "reason": reason}, n)
    for device, n in sorted(batch.asked.items()):
        _add(connection, ASKED, {"device": device}, n)


def _key(task: str, question: Question) -> dict[str, object]:
    return {"task": task, "t": question.t, "phase": question.phase}


def next_step(connection: sa.Connection, task: str) -> int:
    """The first t that no question, no decision and no answer is about.

    A step that has answers and no question was open when a host was killed. Asked again,
    devices would repeat what is stored for it, and only those.
    """
    last = [_greatest(connection, table, "t", task) for table in (QUESTIONS, DECISIONS, ANSWERS)]
    return max((t + 1 for t in last if t is not None), default=0)


def last_heard(connection: sa.Connection, task: str) -> int | None:
    """When the last decision was taken or the last answer came, ms since 1970; None: never."""
    last = [_greatest(connection, table, "at", task) for table in (DECISIONS, ANSWERS)]
    return max((at for at in last if at is not None), default=None)


def _greatest(connection: sa.Connection, table: sa.Table, name: str, task: str) -> int | None:
    """The greatest value of a column in this Task's rows; None: there is no row."""
    query = sa.select(sa.func.max(table.c[name]))
    if "task" in table.c:
        query = query.where(table.c.task == task)
    else:
        query = query.join(BOOTS, BOOTS.c.id == table.c.device).where(BOOTS.c.task == task)
    found = connection.scalar(query)
    if found is not None:
        check(table, [name], [found])
    return found


def decisions(connection: sa.Connection, task: str) -> list[DecisionRow]:
    """By t. A damaged release is shorter, or longer, than it should be."""
    c = DECISIONS.c
    columns = [c[name] for name in DecisionRow._fields]
    query = sa.select(*columns).where(c.task == task).order_by(c.t)
    rows = _checked(connection, DECISIONS, query, DecisionRow._fields)
    return [row._replace(release=_floats(row.release)) for row in map(DecisionRow._make, rows)]


def epochs(connection: sa.Connection, task: str) -> list[EpochRow]:
    """By t. A damaged release is shorter, or longer, than it should be."""
    c = EPOCHS.c
    columns = [c[name] for name in EpochRow._fields]
    query = sa.select(*columns).where(c.task == task).order_by(c.t)
    rows = _checked(connection, EPOCHS, query, EpochRow._fields)
    return [row._replace(release=_floats(row.release)) for row in map(EpochRow._make, rows)]


def questions(connection: sa.Connection, task: str) -> list[Question]:
    """By t and phase."""
    c = QUESTIONS.c
    columns = [c[name] for name in Question._fields]
    query = sa.select(*columns).where(c.task == task).order_by(c.t, c.phase)
    return list(map(Question._make, _checked(connection, QUESTIONS, query, Question._fields)))


def answers(
    connection: sa.Connection, task: str, width: int, first: int
) -> Iterator[tuple[int, int, npt.NDArray[np.uint8]]]:
    """(t, phase, reports (n, width) uint8), by t, from `first` on, and phase; ValueError for a
    damaged report."""
    c = ANSWERS.c
    query = (
        sa.select(c.t, c.phase, c.report)
        .join(BOOTS, BOOTS.c.id == c.device)
        .where(BOOTS.c.task == task, c.t >= first)
        .order_by(c.t, c.phase, c.device)
    )
    key: tuple[int, int] | None = None
    reports: list[bytes] = []
    for t, phase, report in connection.execute(query.execution_options(yield_per=10_000)):
        if type(report) is not bytes or len(report) != width:
            raise ValueError(f"an answer of step {t}")
        if key != (t, phase):
            if key is not None:
                yield *key, _matrix(reports, width)
            key = (t, phase)
            reports = []
        reports.append(report)
    if key is not None:
        yield *key, _matrix(reports, width)


def peers(connection: sa.Connection, task: str) -> list[Peer]:
    """One for each device that was ever known to rounds of this Task, by its first boot."""
    first = (
        sa.select(sa.func.min(BOOTS.c.id).label("device"), BOOTS.c.pseudonym)
        .where(BOOTS.c.task == task)
        .group_by(BOOTS.c.pseudonym)
        .order_by(sa.func.min(BOOTS.c.id))
    )
    names = ("device", "total")
    query = sa.select(ASKED.c.device, ASKED.c.total)
    asked = Counter(dict(_checked(connection, ASKED, query, names)))
    count = sa.select(ANSWERS.c.device, sa.func.count()).group_by(ANSWERS.c.device)
    answered = _totals(connection, count)
    refused: dict[int, dict[int, int]] = {}
    names = REFUSALS.c.keys()
    for device, reason, total in _checked(connection, REFUSALS, sa.select(REFUSALS), names):
        refused.setdefault(device, {})[reason] = total
    return [
        Peer(
            device, pseudonym, asked[device], answered[device], refused.get(device, {})
        )
        for device, pseudonym in _checked(connection, BOOTS, first, ("id", "pseudonym"))
    ]  # fmt: skip


def answers_by_boot(connection: sa.Connection) -> Counter[int]:
    query = sa.select(ANSWERS.c.boot, sa.func.count()).group_by(ANSWERS.c.boot)
    return _totals(connection, query)


def answers_of(connection: sa.Connection, device: int, boot: int) -> int:
    """How many answers of this boot of the device were counted."""
    mine = (ANSWERS.c.device == device) & (ANSWERS.c.boot == boot)
    return connection.scalar(sa.select(sa.func.count()).select_from(ANSWERS).where(mine)) or 0


def _checked(
    connection: sa.Connection, table: sa.Table, query: Any, names: Sequence[str]
) -> Iterator[Any]:
    """Rows of these columns of the table; raises schema.Damaged."""
    for row in connection.execute(query):
        check(table, names, row)
        yield row


def _floats(data: Any) -> tuple[float, ...]:
    whole = data[: len(data) // 8 * 8]
    return tuple(np.frombuffer(whole, "<f8").tolist())


def _totals(connection: sa.Connection, query: Any) -> Counter[int]:
    rows: Any = connection.execute(query)
    return Counter(dict(map(tuple, rows)))


def _matrix(reports: list[bytes], width: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(b"".join(reports), np.uint8).reshape(-1, width)


def _held(connection: sa.Connection, rows: list[AnswerRow]) -> set[tuple[int, ...]]:
    """The keys among these rows' that the database holds."""
    c = ANSWERS.c
    held: set[tuple[int, ...]] = set()
    devices: dict[tuple[int, int], list[int]] = {}
    for device, t, phase, *_ in rows:
        devices.setdefault((t, phase), []).append(device)
    for (t, phase), ids in devices.items():
        for i in range(0, len(ids), _SELECT):
            mine = (c.t == t) & (c.phase == phase) & c.device.in_(ids[i : i + _SELECT])
            held |= {
                (device, t, phase) for device in connection.scalars(sa.select(c.device).where(mine))
            }
    return held


def _there(
    connection: sa.Connection, table: sa.Table, row: dict[str, object], keys: tuple[str, ...]
) -> bool:
    same = sa.and_(*(table.c[key] == row[key] for key in keys))
    return connection.execute(sa.select(table.c[keys[0]]).where(same)).first() is not None


def _add(connection: sa.Connection, table: sa.Table, key: dict[str, int], n: int) -> None:
    same = sa.and_(*(table.c[name] == value for name, value in key.items()))
    if not connection.execute(table.update().where(same).values(total=table.c.total + n)).rowcount:
        connection.execute(table.insert(), {**key, "total": n})
