"""Where frames are kept: any database that SQLAlchemy speaks, SQLite by default.

A frame is counted once because (boot, sequence) is the primary key of `frames`:
whoever writes to the database, and however often, the second row is refused
inside the transaction that would have counted it. Frames, counters and the
state of each boot are committed together; what is received and what is lost is
not counted anywhere but read off the frames that are there.

A frame below `wanted` that is not there is lost; one that comes late after all
makes the loss smaller by itself.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.exc import DatabaseError, IntegrityError, OperationalError

from tinyldp.collect import rounds
from tinyldp.collect.decoding import Hello
from tinyldp.collect.records import (
    Batch,
    DecisionRow,
    EpochRow,
    Frame,
    Known,
    Outcome,
    Peer,
    Question,
    Stream,
    frames_made,
)
from tinyldp.collect.schema import (
    ALARMS,
    ANSWERS,
    BOOT_STATE,
    BOOTS,
    CERTIFICATES,
    COUNTERS,
    EPOCHS,
    FRAMES,
    METADATA,
    ROUNDS,
    TASKS,
    UPDATE_BOOT,
    Damaged,
    Prepared,
    check,
    is_empty,
    make_tables,
    open_engine,
    sentences,
    table_names,
)
from tinyldp.errors import UserError
from tinyldp_protocol.cbor import Malformed
from tinyldp_protocol.messages import RUNNING
from tinyldp_protocol.task import OLH, OUE, Task, TaskError, read_file, write_file

# Values that a stream may claim beyond four times those that came: no real device has lost more.
MOST_UNSEEN = 1 << 20
_ATTEMPTS = 5
# Tables that create() fills.
_GIVEN = {TASKS.name, CERTIFICATES.name}
_SQLITE = b"SQLite format 3\0"
_SELECT = 500


class Store:
    """The database at a path (SQLite) or a SQLAlchemy URL, which must exist.

    Raises UserError when it does not, is no tinyldp store, or has lost tables: an older one lacks
    those of rounds or epochs, but knows no Task of them.
    """

    def __init__(self, path_or_url: str | Path) -> None:
        self.name = str(path_or_url)
        self._engine = open_engine(self.name)
        self._file: os.stat_result | None = None
        self._made = False
        if "://" not in self.name:
            self._file = _look_at_file(Path(self.name))
        with self._sentences():
            there = self._look()
        if not there >= set(METADATA.tables) - ROUNDS - {EPOCHS.name}:
            raise UserError(f"{self.name} is no tinyldp store.")
        self._rounds = bool(there & ROUNDS)
        self._epochs = EPOCHS.name in there
        if self._rounds and not there >= ROUNDS:
            lacking = ", ".join(sorted(ROUNDS - there))
            raise UserError(f"{self.name} is damaged: its tables of rounds lack {lacking}.")
        self._tasks: dict[str, Task] = {}
        if not (self._rounds and self._epochs):
            self._check_tasks()
        self._insert_frame = Prepared(self._engine, FRAMES.insert(), FRAMES.columns.keys())
        self._insert_answer = Prepared(self._engine, ANSWERS.insert(), ANSWERS.columns.keys())
        self._update_boot = Prepared(self._engine, UPDATE_BOOT, BOOT_STATE)

    @classmethod
    def create(
        cls, path_or_url: str | Path, task: Task, certificate: dict[str, Any] | None = None
    ) -> "Store":
        """Open the store, made first if there is none; keep the Task, and its certificate's JSON.

        An older one is given the tables that it lacks; one that has lost some is refused. Without a
        certificate the Task is uncertified from now on, and reports say so.
        """
        name = str(path_or_url)
        made = "://" not in name and not Path(name).exists()
        engine = open_engine(name)
        with sentences(name):
            for attempt in range(_ATTEMPTS):
                try:
                    there = table_names(engine)
                    if there <= set(METADATA.tables):
                        if there < set(METADATA.tables) and not is_empty(engine, there):
                            cls(path_or_url).close()
                        make_tables(engine)
                    break
                except DatabaseError:
                    # Another process makes it at this moment, or it can't be made.
                    if attempt == _ATTEMPTS - 1:
                        raise
                    time.sleep(0.02 * 2**attempt)
        engine.dispose()
        store = cls(path_or_url)
        store._made = made
        file = write_file(task)
        # Refused when it is there: the id is that of the content.
        with store._sentences(), suppress(IntegrityError), store._engine.begin() as connection:
            connection.execute(TASKS.insert().values(id=task.id.hex(), file=file))
        row = {"task": task.id.hex(), "content": json.dumps(certificate)}
        with store._sentences(), store._engine.begin() as connection:
            connection.execute(CERTIFICATES.delete().where(CERTIFICATES.c.task == row["task"]))
            if certificate is not None:
                connection.execute(CERTIFICATES.insert().values(row))
        return store

    def _look(self) -> set[str]:
        """The tables; from where nothing can be written, as on a full disk, only to read.

        A reader, too, writes: SQLite keeps an index of the log beside it.
        """
        try:
            return table_names(self._engine)
        except OperationalError:
            if self._file is None:
                raise
            log = Path(self.name + "-wal")
            if log.exists() and log.stat().st_size:
                raise UserError(
                    f"What came last into {self.name} is in {log.name} beside it, and can't be read"
                    " where nothing can be written: copy both into another folder, and look there."
                ) from None
            self._engine.dispose()
            self._engine = open_engine(self.name, frozen=True)
            return table_names(self._engine)

    def close(self) -> None:
        self._engine.dispose()

    def discard(self) -> None:
        """Close it; a file that create() has made goes again, while nothing is in it."""
        unused = False
        with suppress(UserError), self._sentences():
            if self._made:
                self._check_file()
                unused = is_empty(self._engine, set(METADATA.tables) - _GIVEN)
        self.close()
        if unused:
            Path(self.name).unlink(missing_ok=True)

    def _check_tasks(self) -> None:
        """Raise UserError for a Task whose tables were lost."""
        for task in map(self.task, self.task_ids()):
            if task.epochs is not None and not self._epochs:
                raise UserError(f"{self.name} is damaged: it lacks the table of epochs.")
            if task.batch is None and not self._rounds:
                raise UserError(f"{self.name} is damaged: it lacks the tables of rounds.")

    # Writing

    def recall(self, hello: Hello, link: str, at: int) -> Known:
        """The boot that says hello, recorded first if it is new."""
        pseudonym = hello.pseudonym.hex()
        nonce = hello.nonce.hex()
        c = BOOTS.c
        mine = (c.pseudonym == pseudonym) & (c.nonce == nonce)
        new = BOOTS.insert().values(
            task=hello.task.hex(),
            pseudonym=pseudonym,
            nonce=nonce,
            quality=hello.quality,
            software=".".join(map(str, hello.software)),
            link=link,
            since=at,
            wanted=0,
            duplicates=0,
        )
        with self._sentences():
            with suppress(IntegrityError), self._engine.begin() as connection:
                connection.execute(new)
            with self._engine.connect() as connection:
                boot = connection.execute(sa.select(BOOTS).where(mine)).one()
                check(BOOTS, BOOTS.c.keys(), boot)
                frames = FRAMES.c.boot == boot.id
                above = sa.select(FRAMES.c.sequence).where(frames, FRAMES.c.sequence >= boot.wanted)
                received = sa.select(sa.func.count()).select_from(FRAMES).where(frames)
                newest = sa.select(sa.func.max(c.id)).where(c.pseudonym == pseudonym)
                same = (c.pseudonym == pseudonym) & (c.task == hello.task.hex())
                first = connection.scalar(sa.select(sa.func.min(c.id)).where(same)) or boot.id
                answers = rounds.answers_of(connection, first, boot.id) if self._rounds else 0
                others = sa.select(c.pseudonym).where(c.nonce == nonce, c.pseudonym != pseudonym)
                return Known(
                    boot.id,
                    boot.task,
                    first,
                    boot.wanted,
                    frozenset(connection.scalars(above)),
                    connection.scalar(received) or 0,
                    answers,
                    boot.duplicates,
                    boot.health,
                    boot.drops,
                    boot.lowest,
                    boot.released,
                    connection.scalar(newest) or boot.id,
                    tuple(connection.scalars(others.limit(8))),
                    boot.since,
                )

    def find(self, task: bytes, pseudonym: bytes, nonce: bytes) -> Hello | None:
        """What a boot said in its hello, by the first 4 bytes of its nonce, if just one did."""
        c = BOOTS.c
        mine = (c.task == task.hex()) & (c.pseudonym == pseudonym.hex())
        query = sa.select(BOOTS).where(mine, c.nonce.startswith(nonce.hex()))
        with self._sentences(), self._engine.connect() as connection:
            rows = connection.execute(query.limit(2)).all()
        if len(rows) != 1:
            return None
        software = bytes(map(int, rows[0].software.split(".")))
        whole = bytes.fromhex(rows[0].nonce)
        return Hello(software, task, pseudonym, whole, rows[0].quality, rows[0].lowest or 0)

    def commit(self, batch: Batch) -> Outcome:
        """Write all of the batch, or nothing (then UserError)."""
        self._check_file()
        with self._sentences():
            for attempt in range(_ATTEMPTS):
                try:
                    return self._write(batch, careful=attempt > 0)
                except IntegrityError:
                    # Another process was quicker with some row: look before writing.
                    continue
        raise UserError(f"{self.name} is written to by too many at once.")

    def _check_file(self) -> None:
        """SQLite would go on writing into a file that was removed, and all would be lost."""
        if self._file is None:
            return
        try:
            there = os.path.samestat(self._file, os.stat(self.name))
        except OSError:
            there = False
        if not there:
            raise UserError(f"{self.name} was removed or replaced while it was written.")

    def _write(self, batch: Batch, careful: bool) -> Outcome:
        outcome = Outcome()
        with self._engine.begin() as connection:
            # A write comes first: SQLite then waits for other writers here and nowhere else.
            # Rows come in one order from all writers, so that none waits for another's end.
            self._update_boot.run(connection, sorted(batch.boots))
            if careful:
                self._sort_out(connection, batch.frames, outcome)
            else:
                self._insert_frame.run(connection, sorted(batch.frames))
            for frame in self._sort_out(connection, batch.doubtful, outcome):
                outcome.late[frame[0]] += 1
            if batch.task:
                rounds.write_rounds(connection, self._insert_answer, batch, careful)
            duplicates = outcome.duplicates + batch.repeated
            if duplicates:
                _add_duplicates(connection, duplicates)
            links = {state.boot: state.link for state in batch.boots}
            outcome.rejections.update((links[row[0]], "conflict") for row in outcome.conflicts)
            _add_counts(connection, batch.rejections + outcome.rejections)
            _raise_alarms(connection, batch.alarms | outcome.alarms(), batch.at)
        return outcome

    def _sort_out(
        self, connection: sa.Connection, frames: list[Frame], outcome: Outcome
    ) -> list[Frame]:
        """Insert those that are not there, note the rest; gives the inserted ones."""
        new: dict[tuple[int, int], Frame] = {}
        held = _held(connection, frames)
        for frame in frames:
            key = frame[:2]
            there = held.get(key)
            if there is None:
                held[key] = frame[3]
                new[key] = frame
            elif there == frame[3]:
                outcome.duplicates[frame[0]] += 1
            else:
                outcome.conflicts.append(frame)
        inserted = sorted(new.values())
        self._insert_frame.run(connection, inserted)
        return inserted

    # Reading

    def streams(self) -> list[Stream]:
        """One for each boot, in the order of their first hellos."""
        c = BOOTS.c
        f = FRAMES.c
        below = sa.func.coalesce(sa.func.sum(sa.case((f.sequence < c.wanted, 1), else_=0)), 0)
        query = (
            sa.select(
                BOOTS,
                sa.func.count(f.sequence).label("received"),
                sa.func.max(f.sequence).label("highest"),
                below.label("below"),
            )
            .select_from(BOOTS.outerjoin(FRAMES, f.boot == c.id))
            .group_by(c.id)
            .order_by(c.id)
        )
        with self._sentences(), self._engine.connect() as connection:
            answers = rounds.answers_by_boot(connection) if self._rounds else Counter[int]()
            return [self._stream(row, answers[row.id]) for row in connection.execute(query)]

    def _stream(self, row: Any, answers: int) -> Stream:
        check(BOOTS, BOOTS.c.keys(), row[: len(BOOTS.c)])
        if row.highest is not None:
            check(FRAMES, ["sequence"], [row.highest])
        made = 0 if row.highest is None else row.highest + 1
        if row.released is not None:
            made = max(made, frames_made(row.released, self.task(row.task).batch, row.health))
        received = int(row.received)
        lost = row.wanted - int(row.below)
        return Stream(
            boot=row.id,
            pseudonym=row.pseudonym,
            nonce=row.nonce,
            task_id=row.task,
            quality=row.quality,
            software=row.software,
            link=row.link,
            received=received + answers,
            lost=lost,
            duplicates=row.duplicates,
            missing=max(0, made - received - lost),
            health=row.health,
            count=row.released,
            drops=row.drops,
            lowest=row.lowest,
        )

    def values(self, boot: int) -> tuple[np.ndarray, np.ndarray]:
        """(reports in the order of release, mask of those that are present).

        Both have the length of the stream as far as it is known; a report that
        is lost, or not here yet, is 0 and masked out (False). The last frame's
        padding is cut off by the count of the last status. Reports are symbols,
        (n,) integers; those of OUE and OLH their bytes, (n, task.width) uint8.
        """
        with self._sentences(), self._engine.connect() as connection:
            row = connection.execute(sa.select(BOOTS).where(BOOTS.c.id == boot)).first()
            if row is None:
                raise UserError(f"{self.name} has no stream {boot}.")
            check(BOOTS, BOOTS.c.keys(), row)
            frames = connection.execute(
                sa.select(FRAMES.c.sequence, FRAMES.c["values"])
                .where(FRAMES.c.boot == boot)
                .order_by(FRAMES.c.sequence)
            ).all()
        task = self.task(row.task)
        batch = task.batch
        if batch is None:
            raise UserError(f"Device {row.pseudonym} gives answers in rounds, and no stream.")
        if not all(type(n) is int and n >= 0 and type(data) is bytes for n, data in frames):
            raise UserError(f"Stream {boot} in {self.name} is damaged.")
        sequences = np.fromiter((frame[0] for frame in frames), np.int64, len(frames))
        length = (int(sequences[-1]) + 1) * batch if frames else 0
        if row.released is not None:
            ended = row.health != RUNNING
            length = row.released if ended else max(length, row.released)
        if length > MOST_UNSEEN + 4 * len(frames) * batch:
            raise UserError(f"Stream {boot} claims {length} values, of which hardly any came.")
        if any(len(frame[1]) != batch * task.width for frame in frames) or length < 0:
            raise UserError(f"Stream {boot} in {self.name} is damaged.")
        places = (sequences[:, None] * batch + np.arange(batch)).ravel()
        joined = b"".join(frame[1] for frame in frames)
        inside = places < length
        if task.mechanism in (OUE, OLH):
            released = np.frombuffer(joined, np.uint8).reshape(-1, task.width)
            reports = np.zeros((length, task.width), np.uint8)
        else:
            released = np.frombuffer(joined, f"<u{task.width}")
            reports = np.zeros(length, np.int64)
        present = np.zeros(length, np.bool_)
        reports[places[inside]] = released[inside]
        present[places[inside]] = True
        return reports, present

    def next_step(self, task_id: str) -> int:
        """The first step t of this Task's rounds that nothing is known about."""
        with self._sentences(), self._engine.connect() as connection:
            return rounds.next_step(connection, task_id) if self._rounds else 0

    def first_heard(self, task_id: str) -> int | None:
        """When a device first said hello with this Task, ms since 1970; None: never."""
        c = BOOTS.c
        with self._sentences(), self._engine.connect() as connection:
            found = connection.scalar(sa.select(sa.func.min(c.since)).where(c.task == task_id))
            if found is not None:
                check(BOOTS, ["since"], [found])
            return found

    def last_heard(self, task_id: str) -> int | None:
        """When this Task's devices were last known to spend, ms since 1970; None: never."""
        with self._sentences(), self._engine.connect() as connection:
            return rounds.last_heard(connection, task_id) if self._rounds else None

    def decisions(self, task_id: str) -> list[DecisionRow]:
        """What this Task's rounds decided, by t."""
        with self._sentences(), self._engine.connect() as connection:
            return rounds.decisions(connection, task_id) if self._rounds else []

    def epochs(self, task_id: str) -> list[EpochRow]:
        """What was decided in this Task's epochs, by t."""
        with self._sentences(), self._engine.connect() as connection:
            return rounds.epochs(connection, task_id) if self._epochs else []

    def questions(self, task_id: str) -> list[Question]:
        """What this Task's rounds asked, by t and phase."""
        with self._sentences(), self._engine.connect() as connection:
            found = rounds.questions(connection, task_id) if self._rounds else []
            if found:
                task = self.task(task_id)
                entries = len(task.thresholds) if task.epochs is None else 2
                if any(asked.phase > 1 or asked.entry >= entries for asked in found):
                    raise Damaged("the column phase or entry of its table questions")
        return found

    def answers(
        self, task_id: str, first: int = 0
    ) -> Iterator[tuple[int, int, npt.NDArray[np.uint8]]]:
        """(t, phase, reports: (n, task.width) bytes) of what was counted, by t and phase.

        first: the least t.
        """
        if not self._rounds:
            return
        with self._sentences(), self._engine.connect() as connection:
            try:
                width = self.task(task_id).width
                yield from rounds.answers(connection, task_id, width, first)
            except ValueError as error:
                raise UserError(f"{error} in {self.name} is damaged.") from None

    def peers(self, task_id: str) -> list[Peer]:
        """What this Task's rounds came to with each device, by its first hello."""
        with self._sentences(), self._engine.connect() as connection:
            return rounds.peers(connection, task_id) if self._rounds else []

    def rejections(self) -> dict[tuple[str, str], int]:
        """How many messages were refused, by (link, name of the reason)."""
        query = sa.select(COUNTERS).order_by(COUNTERS.c.link, COUNTERS.c.name)
        with self._sentences(), self._engine.connect() as connection:
            rows = connection.execute(query).all()
            for row in rows:
                check(COUNTERS, COUNTERS.c.keys(), row)
        return {(link, name): count for link, name, count in rows}

    def alarms(self) -> list[dict[str, Any]]:
        """name, detail and at (ms since 1970) of each alarm, oldest first."""
        c = ALARMS.c
        query = sa.select(c.name, c.detail, c.at).order_by(c.at, c.name, c.subject)
        with self._sentences(), self._engine.connect() as connection:
            rows = connection.execute(query).mappings().all()
            for row in rows:
                check(ALARMS, row.keys(), row.values())
        return [dict(row) for row in rows]

    def task(self, task_id: str) -> Task:
        """The Task with this id (hexadecimal)."""
        if task_id not in self._tasks:
            query = sa.select(TASKS.c.file).where(TASKS.c.id == task_id)
            with self._sentences(), self._engine.connect() as connection:
                file = connection.scalar(query)
                if file is not None:
                    check(TASKS, ["file"], [file])
            if file is None:
                raise UserError(f"{self.name} has no Task {task_id}.")
            try:
                self._tasks[task_id] = read_file(file)
            except (Malformed, TaskError) as error:
                raise UserError(f"{self.name} holds a damaged Task {task_id}: {error}") from None
        return self._tasks[task_id]

    def task_ids(self) -> list[str]:
        """Of all Tasks that were collected for (hexadecimal), whoever was heard."""
        with self._sentences(), self._engine.connect() as connection:
            return list(connection.scalars(sa.select(TASKS.c.id).order_by(TASKS.c.id)))

    def certificate(self, task_id: str) -> dict[str, Any] | None:
        """The JSON of this Task's certificate, or None: it is uncertified."""
        query = sa.select(CERTIFICATES.c.content).where(CERTIFICATES.c.task == task_id)
        with self._sentences(), self._engine.connect() as connection:
            content = connection.scalar(query)
        try:
            found = None if content is None else json.loads(content)
        except (ValueError, TypeError, RecursionError):
            found = None
        return found if isinstance(found, dict) else None

    def _sentences(self) -> AbstractContextManager[None]:
        return sentences(self.name)


def _look_at_file(path: Path) -> os.stat_result:
    """Which file it is; UserError for what is no SQLite file."""
    try:
        with path.open("rb") as file:
            head = file.read(len(_SQLITE))
            found = os.fstat(file.fileno())
    except OSError as error:
        raise UserError(f"There is no store at {path}: {error.strerror}.") from None
    if head != _SQLITE:
        raise UserError(f"{path} is no tinyldp store.")
    return found


def _add_duplicates(connection: sa.Connection, duplicates: Counter[int]) -> None:
    boot = BOOTS.c.id == sa.bindparam("boot")
    add = BOOTS.update().where(boot).values(duplicates=BOOTS.c.duplicates + sa.bindparam("n"))
    rows = [{"boot": boot, "n": n} for boot, n in sorted(duplicates.items())]
    connection.execute(add, rows)


def _add_counts(connection: sa.Connection, counts: Counter[tuple[str, str]]) -> None:
    c = COUNTERS.c
    for (link, name), n in sorted(counts.items()):
        add = COUNTERS.update().where(c.link == link, c.name == name).values(total=c.total + n)
        if not connection.execute(add).rowcount:
            connection.execute(COUNTERS.insert().values(link=link, name=name, total=n))


def _raise_alarms(connection: sa.Connection, alarms: dict[tuple[str, str], str], at: int) -> None:
    """Each subject is named once."""
    c = ALARMS.c
    for (name, subject), detail in sorted(alarms.items()):
        there = sa.select(c.at).where(c.name == name, c.subject == subject)
        if connection.execute(there).first() is None:
            row = {"name": name, "subject": subject, "detail": detail, "at": at}
            connection.execute(ALARMS.insert(), row)


def _held(connection: sa.Connection, frames: list[Frame]) -> dict[tuple[int, ...], bytes]:
    """The values that the database holds for these frames' keys."""
    f = FRAMES.c
    held: dict[tuple[int, ...], bytes] = {}
    sequences: dict[int, set[int]] = {}
    for frame in frames:
        sequences.setdefault(frame[0], set()).add(frame[1])
    for boot, numbers in sequences.items():
        ordered = sorted(numbers)
        for i in range(0, len(ordered), _SELECT):
            there = sa.select(f.sequence, f["values"]).where(
                f.boot == boot, f.sequence.in_(ordered[i : i + _SELECT])
            )
            for sequence, values in connection.execute(there):
                held[boot, sequence] = values
    return held
