"""The store: once is once, whoever writes; and what is no store gets a sentence."""

import multiprocessing
import os
import sqlite3
import tempfile
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from tests.collecting import make_task, rounds_task
from tests.crr_tasks import random_crr
from tests.epochs_tasks import epoch_task
from tinyldp.collect.decoding import Hello
from tinyldp.collect.records import Batch, BootState
from tinyldp.collect.schema import BOOT_STATE, FRAMES, METADATA, ROUNDS, UPDATE_BOOT, Prepared
from tinyldp.collect.store import Store
from tinyldp.errors import UserError
from tinyldp_protocol.messages import ENDED, RUNNING
from tinyldp_protocol.task import CRR, CRR_BATCH, LBU, OLH, OUE

TASK = make_task()
HELLO = Hello(b"\0\1\0", TASK.id, b"wearer 1", b"nonce  1", 1, 0)


def batch(boot: int, sequences, link: str = "usb", wanted: int = 0) -> Batch:
    made = Batch(5)
    made.frames = [(boot, n, 5, bytes([n % 8, 1])) for n in sequences]
    made.boots = [BootState(boot, link, wanted, None, None, None, None)]
    return made


def write_all(path, start: threading.Event | None, found) -> None:
    """A second writer: all the same frames, in batches."""
    store = Store.create(path, TASK)
    boot = store.recall(HELLO, "usb", 1).id
    if start is not None:
        start.wait()
    duplicates = 0
    for i in range(0, 400, 20):
        made = batch(boot, range(i, i + 20))
        made.rejections["usb", "bad_crc"] = 1
        duplicates += store.commit(made).duplicates[boot]
    found.put(duplicates)
    store.close()


def test_two_processes_write_the_same_frames(tmp_path):
    path = tmp_path / "a.db"
    context = multiprocessing.get_context("spawn")
    start = context.Event()
    found = context.Queue()
    writers = [
        context.Process(target=write_all, args=(path, start, found), daemon=True) for _ in range(2)
    ]
    for writer in writers:
        writer.start()
    start.set()
    duplicates = [found.get(timeout=60) for _ in writers]
    for writer in writers:
        writer.join(60)
    store = Store(path)
    (stream,) = store.streams()
    assert sum(duplicates) == 400
    assert (stream.received, stream.duplicates) == (400, 400)
    assert store.rejections() == {("usb", "bad_crc"): 40}
    store.close()


def test_stores_made_at_the_same_time(tmp_path):
    for i in range(10):
        failures = []

        def create(path=tmp_path / f"{i}.db", failures=failures):
            try:
                Store.create(path, TASK).close()
            except UserError as error:
                failures.append(error)

        threads = [threading.Thread(target=create) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []


def test_a_batch_is_written_whole_or_not_at_all(tmp_path):
    store = Store.create(tmp_path / "a.db", TASK)
    boot = store.recall(HELLO, "usb", 1).id
    made = batch(boot, range(5), wanted=5)
    made.rejections["usb", "bad_crc"] = 1
    made.alarms["alarm", "subject"] = None  # type: ignore[assignment]
    with pytest.raises(UserError):
        store.commit(made)
    (stream,) = store.streams()
    assert (stream.received, stream.lost, store.rejections()) == (0, 0, {})
    store.close()


def test_wanted_never_goes_back(tmp_path):
    store = Store.create(tmp_path / "a.db", TASK)
    boot = store.recall(HELLO, "usb", 1).id
    store.commit(batch(boot, [0, 1, 4], wanted=4))
    store.commit(batch(boot, [5], wanted=2))
    known = store.recall(HELLO, "usb", 1)
    assert (known.id, known.wanted, known.above, known.received) == (boot, 4, {4, 5}, 4)
    assert store.streams()[0].lost == 2
    store.close()


def test_values_are_placed_masked_and_trimmed(tmp_path):
    task = make_task(symbols=300, batch=3)
    store = Store.create(tmp_path / "a.db", task)
    boot = store.recall(HELLO._replace(task=task.id), "usb", 1).id
    empty, mask = store.values(boot)
    assert (empty.tolist(), mask.tolist()) == ([], [])
    made = Batch(1)
    made.frames = [
        (boot, 0, 1, b"\1\0\2\0\3\1"),
        (boot, 2, 1, b"\7\0\x08\0\0\0"),
    ]
    made.boots = [BootState(boot, "usb", 3, RUNNING, 0, 0, 7)]
    store.commit(made)
    symbols, present = store.values(boot)
    assert symbols.tolist() == [1, 2, 259, 0, 0, 0, 7, 8, 0]
    assert present.tolist() == [True] * 3 + [False] * 3 + [True] * 3
    store.commit(Batch(1, boots=[BootState(boot, "usb", 3, ENDED, 0, 3, 8)]))
    symbols, present = store.values(boot)
    assert symbols.tolist() == [1, 2, 259, 0, 0, 0, 7, 8]
    with pytest.raises(UserError, match="no stream 99"):
        store.values(99)
    store.commit(Batch(1, boots=[BootState(boot, "usb", 3, None, None, None, 0x3FFFFFFF)]))
    with pytest.raises(UserError, match="claims"):
        store.values(boot)
    store.close()


@pytest.mark.parametrize("mechanism", [OUE, OLH])
def test_wide_reports_are_rows_of_bytes(tmp_path, mechanism):
    task = make_task(mechanism=mechanism, symbols=40)
    assert task.width == 5
    store = Store.create(tmp_path / "a.db", task)
    boot = store.recall(HELLO._replace(task=task.id), "usb", 1).id
    empty, mask = store.values(boot)
    assert (empty.shape, mask.shape) == ((0, 5), (0,))
    made = Batch(1)
    made.frames = [(boot, 0, 1, bytes(range(10))), (boot, 2, 1, b"\7\7\7\7\7\0\0\0\0\0")]
    made.boots = [BootState(boot, "usb", 3, ENDED, 0, 3, 5)]
    store.commit(made)
    reports, present = store.values(boot)
    assert reports.dtype == "uint8"
    expected = [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [0] * 5, [0] * 5, [7] * 5]
    assert reports.tolist() == expected
    assert present.tolist() == [True, True, False, False, True]
    store.close()


def test_one_byte_of_bits_is_a_row_too(tmp_path):
    task = make_task(mechanism=OUE)
    store = Store.create(tmp_path / "a.db", task)
    boot = store.recall(HELLO._replace(task=task.id), "usb", 1).id
    store.commit(Batch(1, [(boot, 0, 1, b"\5\6")]))
    assert store.values(boot)[0].tolist() == [[5], [6]]
    store.close()


@pytest.mark.parametrize("more", [{}, {"block": 2}])
def test_symbols_of_crr_are_symbols(tmp_path, more):
    task = random_crr(np.random.default_rng(1), 3, batch=2, **more)
    assert task.mechanism == (CRR_BATCH if more else CRR)
    store = Store.create(tmp_path / "a.db", task)
    boot = store.recall(HELLO._replace(task=task.id), "usb", 1).id
    store.commit(Batch(1, [(boot, 0, 1, b"\2\1")]))
    assert store.values(boot)[0].tolist() == [2, 1]
    store.close()


@pytest.mark.parametrize(
    "damage", ["sequence = 'x'", "sequence = -1", "\"values\" = 'ab'", '"values" = 2']
)
def test_damaged_frames_are_a_sentence(tmp_path, damage):
    path = tmp_path / "a.db"
    store = Store.create(path, TASK)
    known = store.recall(HELLO, "usb", 1)
    store.commit(Batch(1, frames=[(known.id, 0, 1, b"\0\1")]))
    assert store.values(known.id)[0].tolist() == [0, 1]
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE frames SET {damage}")
    with pytest.raises(UserError, match="damaged"):
        store.values(known.id)
    store.close()


def test_streams_and_task(tmp_path):
    store = Store.create(tmp_path / "a.db", TASK)
    Store.create(tmp_path / "a.db", TASK).close()
    boot = store.recall(HELLO, "usb", 1).id
    made = batch(boot, [0, 1, 5], wanted=3)
    made.boots = [BootState(boot, "mqtt", 3, RUNNING, 1, 3, 20)]
    store.commit(made)
    (stream,) = store.streams()
    assert (stream.pseudonym, stream.nonce) == (HELLO.pseudonym.hex(), HELLO.nonce.hex())
    assert (stream.received, stream.lost, stream.missing, stream.link) == (3, 1, 6, "mqtt")
    assert (stream.software, stream.quality, stream.drops, stream.lowest) == ("0.1.0", 1, 1, 3)
    assert store.task(stream.task_id).id == TASK.id
    with pytest.raises(UserError, match="no Task"):
        store.task("00" * 8)
    store.close()


def test_what_is_no_store(tmp_path):
    text = tmp_path / "text"
    text.write_text("no database\n" * 100)
    other = tmp_path / "other.db"
    sqlite3.connect(other).execute("CREATE TABLE mine (x)").connection.close()
    before = other.read_bytes()
    for path in (text, other):
        for opened in (Store, lambda path: Store.create(path, TASK)):
            with pytest.raises(UserError, match=path.name):
                opened(path)
    assert sa.inspect(sa.create_engine(f"sqlite:///{other}")).get_table_names() == ["mine"]
    assert len(before) == len(other.read_bytes())
    for name in (tmp_path / "absent.db", tmp_path, "nosuch://database"):
        with pytest.raises(UserError):
            Store(name)
    assert not (tmp_path / "absent.db").exists()
    with pytest.raises(UserError, match="can't be used"):
        Store.create(tmp_path / "no" / "folder.db", TASK)


def test_a_url_and_a_driver_that_wants_names(tmp_path, monkeypatch):
    """Other databases' drivers bind by name: the same rows, the same once."""
    create_engine = sa.create_engine
    monkeypatch.setattr(
        sa, "create_engine", lambda url, **given: create_engine(url, paramstyle="named", **given)
    )
    store = Store.create(f"sqlite:///{tmp_path}/a.db", TASK)
    boot = store.recall(HELLO, "usb", 1).id
    assert store.commit(batch(boot, range(10), wanted=10)).duplicates == Counter()
    assert store.commit(batch(boot, range(5, 15), wanted=15)).duplicates == {boot: 5}
    (stream,) = store.streams()
    assert (stream.received, stream.duplicates, stream.lost) == (15, 5, 0)
    store.close()


def test_statements_for_postgresql():
    class Engine:
        dialect = postgresql.psycopg.dialect()

    for statement, names in ((FRAMES.insert(), FRAMES.columns.keys()), (UPDATE_BOOT, BOOT_STATE)):
        prepared = Prepared(Engine(), statement, names)  # type: ignore[arg-type]
        assert all(f"%({name})s" in prepared._sql for name in names)


def test_a_database_removed_while_it_is_written(tmp_path):
    store = Store.create(tmp_path / "a.db", TASK)
    boot = store.recall(HELLO, "usb", 1).id
    store.commit(Batch(2, frames=[(boot, 0, 2, b"\1\1")]))
    for path in tmp_path.glob("a.db*"):
        path.unlink()
    with pytest.raises(UserError, match="removed"):
        store.commit(Batch(3, frames=[(boot, 1, 3, b"\2\2")]))


def test_an_old_state_takes_nothing_back(tmp_path):
    """Another collector that knows less of a boot does not undo what is known."""
    store = Store.create(tmp_path / "a.db", TASK)
    boot = store.recall(HELLO, "usb", 1).id
    store.commit(Batch(2, boots=[BootState(boot, "usb", 3, ENDED, 1, 3, 12)]))
    store.commit(Batch(3, boots=[BootState(boot, "usb", 1, 0, 0, 0, 4)]))
    store.commit(Batch(4, boots=[BootState(boot, "usb", 1, None, None, None, None)]))
    (stream,) = store.streams()
    assert (stream.health, stream.drops, stream.lowest, stream.count) == (ENDED, 1, 3, 12)
    assert stream.lost == 3


def test_a_name_that_means_something_in_a_url(tmp_path):
    for name in ("x?y.db", "x%41y.db", "x;y#z.db"):
        Store.create(tmp_path / name, TASK).close()
        assert (tmp_path / name).is_file()
    assert len(list(tmp_path.glob("x*.db"))) == 3


def test_a_foreign_database_is_not_touched(tmp_path):
    path = tmp_path / "songs.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table songs (name text)")
    before = path.read_bytes()
    with pytest.raises(UserError, match="no tinyldp store"):
        Store(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("table", sorted(METADATA.tables))
def test_a_lost_table_is_told_and_not_made_again(table, tmp_path):
    """By collect in the words of report; a store without a row is a new one."""
    path = tmp_path / "a.db"
    Store.create(path, epoch_task()).close()
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO counters VALUES ('usb', 'crc', 1)")
        if table == "counters":
            connection.execute("INSERT INTO alarms VALUES ('a', 'b', 'c', 1)")
        connection.execute(f"DROP TABLE {table}")
    said = []
    for opened in (Store, lambda path: Store.create(path, epoch_task())):
        with pytest.raises(UserError) as error:
            opened(path)
        said.append(str(error.value))
    assert said[0] == said[1]
    with sqlite3.connect(path) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master").fetchall():
            if name in METADATA.tables:
                connection.execute(f'DELETE FROM "{name}"')
    Store.create(path, epoch_task()).close()
    assert Store(path).task_ids() == [epoch_task().id.hex()]


def test_a_store_without_its_rounds_is_damaged(tmp_path):
    path = tmp_path / "a.db"
    Store.create(path, rounds_task(LBU)).close()
    with sqlite3.connect(path) as connection:
        for table in ROUNDS:
            connection.execute(f"DROP TABLE {table}")
    with pytest.raises(UserError, match="damaged: it lacks the tables of rounds"):
        Store.create(path, rounds_task(LBU))


@contextmanager
def nobody(folder):
    """Where nothing can be written: not even by root, who is somebody else meanwhile."""
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)


@pytest.fixture
def shared():
    """A folder that others may look into, too."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_store_where_nothing_can_be_written_is_read(shared):
    store = Store.create(shared / "a.db", TASK)
    store.recall(HELLO, "usb", 1)
    store.close()
    with nobody(shared):
        store = Store(shared / "a.db")
        assert [stream.pseudonym for stream in store.streams()] == [HELLO.pseudonym.hex()]
        with pytest.raises(UserError, match="can't be used as a store"):
            store.commit(batch(1, [0]))
        store.close()
        with pytest.raises(UserError, match="can't be used as a store"):
            Store.create(shared / "new.db", TASK)
    # What the log holds beside it would be left out.
    store = Store.create(shared / "a.db", TASK)
    store.commit(batch(1, [0]))
    whole = (shared / "a.db").read_bytes(), (shared / "a.db-wal").read_bytes()
    store.close()
    (shared / "a.db").write_bytes(whole[0])
    (shared / "a.db-wal").write_bytes(whole[1])
    assert len(whole[1]) > 0
    with nobody(shared), pytest.raises(UserError, match=r"is in a\.db-wal beside it"):
        Store(shared / "a.db")
    assert Store(shared / "a.db").streams()[0].received == 1


def test_what_was_made_for_nothing_goes_again(tmp_path):
    path = tmp_path / "a.db"
    Store.create(path, TASK).discard()
    assert list(tmp_path.iterdir()) == []
    store = Store.create(path, TASK)
    store.recall(HELLO, "usb", 1)
    store.discard()
    assert len(Store(path).streams()) == 1
    Store.create(path, TASK).discard()
    assert path.exists()
    store = Store.create(tmp_path / "b.db", TASK)
    (tmp_path / "b.db").unlink()
    (tmp_path / "b.db").write_text("another's")
    store.discard()
    assert (tmp_path / "b.db").exists()
