"""task: encoding there and back, every bound, every damaged byte."""

from helpers import make_task, numbers, raised, unhex

import tinyldp_protocol.task
from tinyldp_protocol.cbor import Malformed
from tinyldp_protocol.task import (
    FIELDS,
    OPTIONAL,
    RANSWITCH,
    SCALE,
    STASWITCH,
    Task,
    TaskError,
    get_task,
    put_task,
    read_file,
    sha256,
    write_file,
)

FULL = {
    "mechanism": STASWITCH,
    "window": 8,
    "k": 8,
    "epsilon": 131072,
    "delta": 1000,
    "symbols": 4,
    "bins": [-300, 0, 70000],
    "missing": 3,
    "thresholds": [SCALE // 8],
    "tick": 60000,
    "batch": 16,
    "resend": 30,
    "beacon": 60,
    "outbox": 255,
}


def encoded(task):
    buf = bytearray(put_task(None, 0, task))
    assert put_task(buf, 0, task) == len(buf)
    return bytes(buf)


def same(a, b):
    for _, name in FIELDS:
        assert getattr(a, name) == getattr(b, name), name


def test_literal_bytes():
    task = Task(numbers())
    assert encoded(task) == unhex("ab" "0001" "0101" "0203" "0303" "07190100" "0a811a00200000"
                                  "0c1903e8" "0d01" "0e05" "0f1864" "1004")  # fmt: skip


def test_there_and_back():
    for given in (FULL, numbers(), numbers(symbols=257, batch=117)):
        task = Task(given)
        buf = encoded(task)
        back = get_task(buf, len(buf))
        same(task, back)
        assert encoded(back) == buf
        assert back.width == (2 if task.symbols > 256 else 1)


def test_absent_fields():
    task = Task(numbers())
    for name in OPTIONAL:
        assert getattr(task, name) is None
    for _, name in FIELDS:
        if name not in OPTIONAL:
            assert name in raised(TaskError, Task, numbers(**{name: None}))


# A field, its other fields, the least and the most it may be.
BOUNDS = (
    ("mechanism", {}, RANSWITCH, STASWITCH),
    ("k", {"window": 1024, "thresholds": [1]}, 2, 1024),
    ("window", {"k": 5, "thresholds": [1]}, 5, 1024),
    ("window", {"k": 5, "mechanism": STASWITCH}, 5, 5),
    ("epsilon", {}, 1, 0x3FFFFFFF),
    ("delta", {}, 0, 0x3FFFFFFF),
    ("symbols", {}, 2, 65536),
    ("missing", {"symbols": 7}, 0, 6),
    ("tick", {}, 1, SCALE),
    ("batch", {}, 1, 235),
    ("batch", {"symbols": 256}, 1, 235),
    ("batch", {"symbols": 257}, 1, 117),
    ("resend", {}, 1, 1 << 20),
    ("beacon", {}, 1, 1 << 20),
    ("outbox", {}, 1, 255),
)


def test_each_bound():
    for name, others, least, most in BOUNDS:
        for n in (least, most):
            assert getattr(Task(numbers(**dict(others, **{name: n}))), name) == n
        for n in (least - 1, most + 1):
            assert name in raised(TaskError, Task, numbers(**dict(others, **{name: n})))


def test_bounds_of_lists():
    for window, most in ((3, SCALE // 3), (2, SCALE // 2), (1024, SCALE // 1024)):
        for n in (1, most):
            Task(numbers(window=window, k=2, thresholds=[n]))
        for n in (0, most + 1, -1):
            assert "threshold" in raised(
                TaskError, Task, numbers(window=window, k=2, thresholds=[n])
            )
    for bad in ([], [1, 1]):
        assert "thresholds" in raised(TaskError, Task, numbers(thresholds=bad))
    Task(numbers(symbols=3, bins=[-0x40000000, 0x3FFFFFFF]))
    for bad in ([5], [5, 6, 7], [5, 5], [6, 5], [-0x40000001, 5], [5, 0x40000000]):
        assert "bin" in raised(TaskError, Task, numbers(symbols=3, bins=bad)), bad


def test_only_integers():
    for name in ("k", "tick", "delta", "missing"):
        for bad in (1.0, "3", b"3", [3]):
            assert "integer" in raised(TaskError, Task, numbers(**{name: bad}))
    assert "integer" in raised(TaskError, Task, numbers(thresholds=[1.5]))


def test_wrong_encodings():
    good = encoded(Task(numbers()))
    for bad, kind in (
        (good + b"\x00", Malformed),
        (b"\xac" + good[1:], Malformed),
        (b"\xaa" + good[1:], Malformed),
        (good[:2] + b"\x02" + good[3:], TaskError),
        (b"\xac" + good[1:] + b"\x18\x1e\x00", TaskError),
        (b"\xac" + good[1:] + b"\x10\x04", Malformed),
        (b"\xac" + good[1:] + b"\x0f\x04", Malformed),
        (good[:3] + b"\x01\xf9\x3c\x00" + good[5:], Malformed),
        (b"\xa0", TaskError),
        (b"\x80", Malformed),
        (b"", Malformed),
    ):
        raised(kind, get_task, bad, len(bad))
    for n in range(len(good)):
        raised(Malformed, get_task, good, n)


def test_the_file():
    task = Task(FULL)
    data = write_file(task)
    assert len(task.id) == 8
    assert task.id == sha256(encoded(task)).digest()[:8]
    back = read_file(data)
    same(task, back)
    assert back.id == task.id
    assert write_file(make_task(tick=1))[-12:-4] != write_file(make_task(tick=2))[-12:-4]


def test_every_flipped_byte_of_a_file_is_refused():
    data = write_file(Task(FULL))
    for at in range(len(data)):
        for mask in (1, 0x80, 0xFF):
            changed = bytearray(data)
            changed[at] ^= mask
            raised(ValueError, read_file, bytes(changed))
    for n in range(len(data)):
        raised(ValueError, read_file, data[:n])
    raised(ValueError, read_file, data + b"\x00")
    raised(ValueError, read_file, b"")
    raised(ValueError, read_file, bytes(100))


def test_a_file_whose_id_is_wrong_is_refused_even_with_a_right_crc():
    from tinyldp_protocol.framing import Crc32

    data = bytearray(write_file(Task(FULL)))
    n = len(data) - 4
    data[n - 1] ^= 1
    crc = Crc32()
    crc.feed(data, 0, n)
    crc.put(data, n)
    assert "id" in raised(TaskError, read_file, bytes(data))


def test_a_board_without_sha256_trusts_the_crc():
    data = write_file(Task(FULL))
    tinyldp_protocol.task.sha256 = None
    try:
        task = read_file(data)
        assert task.id == data[-12:-4]
        for at in range(len(data)):
            damaged = bytearray(data)
            damaged[at] ^= 4
            raised((TaskError, Malformed), read_file, bytes(damaged))
    finally:
        tinyldp_protocol.task.sha256 = sha256
