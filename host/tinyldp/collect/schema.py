"""The tables, and how a database is opened and spoken to."""

import math
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from tinyldp.collect.records import BootState
from tinyldp.errors import UserError

# Seconds that a writer waits for another one.
_PATIENCE = 30

# ms since 1970 of the end of the year 9999, beyond which no date is told.
_LATEST = 253_402_300_799_999


class Damaged(Exception):
    """A database holds what no collector has written; its text says where."""


class Blob(sa.TypeDecorator[bytes]):
    """Bytes as the driver gives them: whatever else a damaged row holds is not made to be some."""

    impl = sa.LargeBinary
    cache_ok = True

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Any:
        return _as_bytes


def _as_bytes(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


METADATA = sa.MetaData()
TASKS = sa.Table(
    "task",
    METADATA,
    sa.Column("id", sa.String(16), primary_key=True),
    sa.Column("file", Blob, nullable=False),
)
CERTIFICATES = sa.Table(
    "certificates",
    METADATA,
    sa.Column("task", sa.String(16), primary_key=True),
    sa.Column("content", sa.Text, nullable=False),
)
BOOTS = sa.Table(
    "boots",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("task", sa.String(16), nullable=False),
    sa.Column("pseudonym", sa.String(16), nullable=False),
    sa.Column("nonce", sa.String(16), nullable=False, index=True),
    sa.Column("quality", sa.Integer, nullable=False),
    sa.Column("software", sa.String(16), nullable=False),
    sa.Column("link", sa.String(200), nullable=False),
    sa.Column("since", sa.BigInteger, nullable=False),
    sa.Column("wanted", sa.Integer, nullable=False),
    sa.Column("duplicates", sa.Integer, nullable=False),
    # From the last status; absent before the first.
    sa.Column("health", sa.Integer),
    sa.Column("drops", sa.Integer),
    sa.Column("lowest", sa.Integer),
    sa.Column("released", sa.Integer),
    sa.UniqueConstraint("pseudonym", "nonce"),
)
FRAMES = sa.Table(
    "frames",
    METADATA,
    sa.Column("boot", sa.Integer, sa.ForeignKey("boots.id"), primary_key=True),
    sa.Column("sequence", sa.Integer, primary_key=True),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("values", Blob, nullable=False),
    sqlite_with_rowid=False,
)
# Of rounds. `device`: the first of the boots of one pseudonym under one Task.
QUESTIONS = sa.Table(
    "questions",
    METADATA,
    sa.Column("task", sa.String(16), primary_key=True),
    sa.Column("t", sa.Integer, primary_key=True),
    sa.Column("phase", sa.Integer, primary_key=True),
    sa.Column("entry", sa.Integer, nullable=False),
    # Known devices that were meant, and those of them whose answers were counted.
    sa.Column("meant", sa.Integer, nullable=False),
    sa.Column("answered", sa.Integer, nullable=False),
)
ANSWERS = sa.Table(
    "answers",
    METADATA,
    sa.Column("device", sa.Integer, sa.ForeignKey("boots.id"), primary_key=True),
    sa.Column("t", sa.Integer, primary_key=True),
    sa.Column("phase", sa.Integer, primary_key=True),
    sa.Column("boot", sa.Integer, sa.ForeignKey("boots.id"), nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("report", Blob, nullable=False),
    sqlite_with_rowid=False,
)
DECISIONS = sa.Table(
    "decisions",
    METADATA,
    sa.Column("task", sa.String(16), primary_key=True),
    sa.Column("t", sa.Integer, primary_key=True),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("published", sa.Boolean, nullable=False),
    sa.Column("outcome", sa.String(20), nullable=False),
    sa.Column("dis", sa.Float),
    sa.Column("err", sa.Float),
    # Ledger units of the publication; 0 when there was none.
    sa.Column("units", sa.Integer, nullable=False),
    # Answers to the publication; devices that were known.
    sa.Column("n", sa.Integer, nullable=False),
    sa.Column("users", sa.Integer, nullable=False),
    # One float64, little-endian, for each value.
    sa.Column("release", Blob, nullable=False),
)
REFUSALS = sa.Table(
    "refusals",
    METADATA,
    sa.Column("device", sa.Integer, sa.ForeignKey("boots.id"), primary_key=True),
    sa.Column("reason", sa.Integer, primary_key=True),
    sa.Column("total", sa.Integer, nullable=False),
)
ASKED = sa.Table(
    "asked",
    METADATA,
    sa.Column("device", sa.Integer, sa.ForeignKey("boots.id"), primary_key=True),
    # Questions that it was meant by.
    sa.Column("total", sa.Integer, nullable=False),
)
EPOCHS = sa.Table(
    "epochs",
    METADATA,
    sa.Column("task", sa.String(16), primary_key=True),
    sa.Column("t", sa.Integer, primary_key=True),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("outcome", sa.String(20), nullable=False),
    sa.Column("update", sa.Boolean, nullable=False),
    sa.Column("published", sa.Boolean, nullable=False),
    sa.Column("users", sa.Integer, nullable=False),
    # Votes for an update, and all of them; the share that it takes.
    sa.Column("ones", sa.Integer, nullable=False),
    sa.Column("votes_n", sa.Integer, nullable=False),
    sa.Column("needed", sa.Float),
    # Answers to the estimate; limits of this epoch's mean.
    sa.Column("n", sa.Integer, nullable=False),
    sa.Column("low", sa.Float),
    sa.Column("high", sa.Float),
    sa.Column("drift", sa.Float, nullable=False),
    sa.Column("poll", sa.Float),
    sa.Column("poll_low", sa.Float),
    sa.Column("poll_high", sa.Float),
    # Where it is published, float64, little-endian: the mean, or one for each coordinate.
    sa.Column("release", Blob, nullable=False),
)
# What an older store lacks: without them it holds no rounds, without EPOCHS no epochs.
ROUNDS = {table.name for table in (QUESTIONS, ANSWERS, DECISIONS, REFUSALS, ASKED)}
COUNTERS = sa.Table(
    "counters",
    METADATA,
    sa.Column("link", sa.String(200), primary_key=True),
    sa.Column("name", sa.String(40), primary_key=True),
    sa.Column("total", sa.Integer, nullable=False),
)
ALARMS = sa.Table(
    "alarms",
    METADATA,
    sa.Column("name", sa.String(40), primary_key=True),
    sa.Column("subject", sa.String(80), primary_key=True),
    sa.Column("detail", sa.String(400), nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
)


def _latest(name: str) -> Any:
    """The greater of what is there and what is new: an old status may come again, or late."""
    there = BOOTS.c[name]
    new = sa.bindparam(f"b_{name}")
    return sa.case((there.is_(None), new), (there < new, new), else_=there)


# Bound apart from the columns' own names, which an UPDATE takes for itself.
BOOT_STATE = ["b_" + name for name in BootState._fields]
UPDATE_BOOT = (
    BOOTS.update()
    .where(BOOTS.c.id == sa.bindparam("b_boot"))
    .values(
        link=sa.bindparam("b_link"),
        # A health that ends a segment is never taken back: RUNNING is the least.
        **{name: _latest(name) for name in ("wanted", "health", "drops", "lowest", "released")},
    )
)


def check(table: sa.Table, names: Iterable[str], row: Iterable[Any]) -> None:
    """Raise Damaged unless each value fits the column of this name: SQLite takes any.

    Numbers are never negative, but for floats, which are finite.
    """
    for name, value in zip(names, row, strict=True):
        column = table.c[name]
        if not (column.nullable if value is None else _fits(column.type, value)):
            raise Damaged(f"the column {name} of its table {table.name}")


def _fits(kind: sa.types.TypeEngine[Any], value: Any) -> bool:
    if isinstance(kind, sa.Integer):
        most = _LATEST if isinstance(kind, sa.BigInteger) else math.inf
        return type(value) is int and 0 <= value <= most
    if isinstance(kind, sa.Float):
        return type(value) in (int, float) and math.isfinite(value)
    if isinstance(kind, sa.Boolean):
        return type(value) is bool
    return type(value) is (bytes if isinstance(kind, Blob) else str)


def open_engine(name: str, frozen: bool = False) -> sa.Engine:
    """frozen: only to read an SQLite file beside which nothing can be written."""
    try:
        # Made of its parts, because a file's name may hold what means something in a URL.
        url = sa.make_url(name) if "://" in name else sa.URL.create("sqlite", database=name)
        if frozen:
            # SQLite reads such a URI, and no other way to say it.
            file = f"{Path(name).absolute().as_uri()}?mode=ro&immutable=1"
            return sa.create_engine("sqlite://", creator=lambda: sqlite3.connect(file, uri=True))
        if url.get_backend_name() != "sqlite":
            return sa.create_engine(url)
        engine = sa.create_engine(url, connect_args={"timeout": _PATIENCE})
    except (SQLAlchemyError, ImportError) as error:
        raise UserError(f"{name} is no database that can be opened: {_first_line(error)}") from None

    @event.listens_for(engine, "connect")
    def _pragmas(connection: Any, _record: Any) -> None:
        # A commit outlives any process, but not a power cut, which may take the last
        # batches: their frames then count as lost. A sync for each batch would cost more
        # than all the rest.
        connection.execute("PRAGMA synchronous = NORMAL")
        # Pages (16 MB): a checkpoint rewrites the same few pages however late it comes.
        connection.execute("PRAGMA wal_autocheckpoint = 4000")

    return engine


def make_tables(engine: sa.Engine) -> None:
    """Make what is missing. On SQLite readers and one writer then go on side by side (WAL)."""
    METADATA.create_all(engine)
    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")


def table_names(engine: sa.Engine) -> set[str]:
    return set(sa.inspect(engine).get_table_names())


def is_empty(engine: sa.Engine, names: Iterable[str]) -> bool:
    """Whether none of these tables of ours holds a row."""
    with engine.connect() as connection:
        tables = [METADATA.tables[name] for name in names]
        # By a number: of a damaged table no column need be there.
        queries = [sa.select(sa.literal(1)).select_from(table).limit(1) for table in tables]
        return not any(connection.scalar(query) for query in queries)


class Prepared:
    """A statement for many rows, in the driver's own words.

    Core's handling of each row costs twice what SQLite's does, so that Core
    only writes the statement. names: what each place of a row is bound to.
    """

    def __init__(self, engine: sa.Engine, statement: Any, names: Sequence[str]) -> None:
        compiled = statement.compile(dialect=engine.dialect)
        self._sql = str(compiled)
        self._names = names
        self._order = [names.index(name) for name in compiled.positiontup or ()]
        self._as_is = self._order == list(range(len(names)))

    def run(self, connection: sa.Connection, rows: Sequence[tuple]) -> None:
        if not rows:
            return
        driver_rows: Any = rows
        if not self._order:
            driver_rows = [dict(zip(self._names, row, strict=True)) for row in rows]
        elif not self._as_is:
            driver_rows = [tuple([row[i] for i in self._order]) for row in rows]
        connection.exec_driver_sql(self._sql, driver_rows)


@contextmanager
def sentences(name: str) -> Iterator[None]:
    """Database errors as sentences; uniqueness is the store's own business."""
    try:
        yield
    except IntegrityError:
        raise
    except Damaged as damaged:
        raise UserError(f"{name} is damaged: {damaged} holds what no run wrote.") from None
    except SQLAlchemyError as error:
        raise UserError(f"{name} can't be used as a store: {_first_line(error)}.") from None


def _first_line(error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    return str(cause).splitlines()[0]
