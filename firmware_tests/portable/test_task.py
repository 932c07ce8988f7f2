"""task: encoding there and back, every bound, every damaged byte."""

from helpers import BY_BELIEF, EACH, TABLED, Mixed, krr_table, make_task, numbers, raised, unhex

import tinyldp_protocol.task
from tinyldp_protocol.cbor import Malformed
from tinyldp_protocol.task import (
    CRR,
    CRR_BATCH,
    FIELDS,
    GRR,
    HEAVYTHRESH,
    JITTERSORT,
    LBA,
    LBU,
    LISTS,
    LPA,
    OF_CRR,
    OF_EPOCHS,
    OLH,
    OPTIONAL,
    OUE,
    SCALE,
    STASWITCH,
    THRESH,
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

# Rounds: 4 entries of LBA over OLH.
ROUNDS = {
    "mechanism": OLH,
    "w": 4,
    "epsilon": 65536,
    "symbols": 4,
    "bins": [-300, 0, 70000],
    "missing": 3,
    "thresholds": [SCALE // 3, SCALE // 3, 5000000, 4000000],
    "spends": [8192, 16384, 24576, 32768],
    "tick": 60000,
    "beacon": 60,
    "buckets": 3,
    "method": LBA,
}

EPOCHS = {
    "mechanism": THRESH,
    "epsilon": 65536,
    "symbols": 3,
    "missing": 1,
    "thresholds": [6000000, 5000000, 7000000],
    "tick": 60000,
    "beacon": 60,
    "epochs": 5,
    "rounds": 300,
    "votes": 2,
    "estimates": 3,
    "levels": [10, 10, 600],
    "failure": 1000,
    "polls": 4,
}
HEAVY = dict(EPOCHS, mechanism=HEAVYTHRESH, symbols=100000, coordinates=64, items=9)

JITTER = EACH[JITTERSORT]
GRR_OF_4 = EACH[GRR]
OUE_OF_4 = EACH[OUE]
OLH_OF_4 = EACH[OLH]


def encoded(task):
    buf = bytearray(put_task(None, 0, task))
    assert put_task(buf, 0, task) == len(buf)
    return bytes(buf)


def same(a, b):
    for name in FIELDS:
        assert getattr(a, name) == getattr(b, name), name


def test_literal_bytes():
    task = Task(numbers())
    assert encoded(task) == unhex("ab" "0001" "0101" "0203" "0303" "07190100" "0a811a00200000"
                                  "0c1903e8" "0d01" "0e05" "0f1864" "1004")  # fmt: skip


def test_literal_bytes_of_an_oracle():
    task = Task(numbers(**dict(OLH_OF_4, w=20, epsilon=65536, buckets=3, thresholds=[3])))
    assert encoded(task) == unhex("ac" "0001" "0106" "0414" "051a00010000" "0704" "0a8103"
                                  "0c1903e8" "0d01" "0e05" "0f1864" "1004" "1103")  # fmt: skip


def test_there_and_back():
    for changes in EACH.values():
        task = Task(numbers(**changes))
        buf = encoded(task)
        back = get_task(buf, len(buf))
        same(task, back)
        assert encoded(back) == buf
        assert back.width == task.width
    for full in (FULL, ROUNDS, EPOCHS, HEAVY):
        same(Task(full), get_task(encoded(Task(full)), len(encoded(Task(full)))))


def test_absent_fields():
    for changes in EACH.values():
        given = numbers(**changes)
        task = Task(given)
        for name in FIELDS:
            if name not in given:
                assert getattr(task, name) is None
            elif name not in OPTIONAL:
                without = dict(given)
                del without[name]
                assert name in raised(TaskError, Task, without)


def test_fields_of_other_mechanisms():
    for changes in EACH.values():
        given = numbers(**changes)
        mechanism = given["mechanism"]
        for name in ("window", "k", "w", "delta", "buckets"):
            of = (OLH,) if name == "buckets" else (GRR, OUE, OLH)
            if (mechanism in of) == (name in ("w", "buckets")):
                Task(dict(given, **{name: given.get(name, 3)}))
            else:
                message = raised(TaskError, Task, dict(given, **{name: 3}))
                assert message == "Mechanism %d has no %s." % (mechanism, name)


# Every field: memory 2, as far as a block goes; a table of costs.
BLOCKS = {
    "mechanism": CRR_BATCH,
    "w": 20,
    "epsilon": 65536,
    "delta": 1000,
    "symbols": 3,
    "bins": [5, 6],
    "missing": 1,
    "thresholds": [SCALE // 2],
    "tick": 60000,
    "batch": 2,
    "resend": 30,
    "beacon": 60,
    "outbox": 4,
    "rule": 2,
    "loss": 4,
    "prior": [32760, 1, 1, 1, 1, 1, 1, 1, 1],
    "transitions": [16383, 1, 0, 0, 1, 16383, 16382, 1, 1] * 3,
    "costs": [0, 1, 1023, 1, 0, 7, 1023, 7, 0],
    "block": 2,
    "memory": 2,
}


def rounds(**changed):
    """ROUNDS' numbers with changes; None leaves one out."""
    given = dict(ROUNDS, **changed)
    return {name: given[name] for name in given if given[name] is not None}


def test_literal_bytes_of_rounds():
    task = Task(rounds(bins=None, missing=None))
    assert encoded(task) == unhex("ab" "0001" "0106" "0404" "051a00010000" "0704"
                                  "0a84" "1a00555555" "1a00555555" "1a004c4b40" "1a003d0900"
                                  "0b84" "192000" "194000" "196000" "198000"
                                  "0c19ea60" "0f183c" "1103" "1204")  # fmt: skip


def test_fields_of_rounds():
    for name in ROUNDS:
        if name in ("bins", "missing"):
            Task(rounds(bins=None, missing=None))
        elif name == "method":
            assert "spends" in raised(TaskError, Task, rounds(method=None))
        else:
            assert name in raised(TaskError, Task, rounds(**{name: None}))
    for name in ("batch", "resend", "outbox", "window", "k", "delta"):
        message = raised(TaskError, Task, rounds(**{name: 3}))
        assert message == "A Task with a method has no %s." % name
    for method in range(LBU, LPA + 1):
        assert Task(rounds(method=method)).method == method
    for method in (0, LPA + 1):
        assert "method" in raised(TaskError, Task, rounds(method=method))


def test_no_method_without_rounds():
    for changes in EACH.values():
        given = numbers(**changes)
        assert Task(given).method is None
        assert Task(given).spends is None
        assert "spends" in raised(TaskError, Task, dict(given, spends=[1]))
        oracle = given["mechanism"] in (GRR, OUE, OLH)
        found = raised(TaskError, Task, dict(given, method=LBU, w=3, epsilon=9))
        assert ("spends" if oracle else "w") in found


def test_bounds_of_spends():
    one = {"thresholds": [1]}
    for good in (
        {"spends": [1, 2, 3, 4]},
        {"spends": [1, 2, 3, 65536]},
        {"spends": [1], "thresholds": [SCALE // 3]},
        {"spends": list(range(1, 513)), "thresholds": [7] * 512},
        {"spends": [0x3FFFFFFF], "epsilon": 0x3FFFFFFF, "thresholds": [1]},
    ):
        assert list(Task(rounds(**good)).spends) == good["spends"]
    for bad in (
        {"spends": [0, 1, 2, 3]},
        {"spends": [1, 2, 2, 3]},
        {"spends": [4, 3, 2, 1]},
        {"spends": [1, 2, 3, 65537]},
        {"spends": [], "thresholds": []},
        {"spends": list(range(1, 514)), "thresholds": [7] * 513},
        dict(one, spends=[-1]),
        dict(one, spends=[0x40000000], epsilon=0x3FFFFFFF),
        dict(one, spends=[1.0]),
        dict(one, spends=[True]),
        dict(one, spends=3),
    ):
        assert "spend" in raised(TaskError, Task, rounds(**bad)), bad
    for bad in (
        [4, 3, 2],
        [5, 4, 3, 2, 1],
        [1, 2, 2, 2],
        [3, 2, 1, 0],
        [SCALE // 3 + 1, 3, 2, 1],
    ):
        assert "threshold" in raised(TaskError, Task, rounds(thresholds=bad)), bad


def test_payloads():
    for changes in EACH.values():
        task = Task(numbers(**dict(changes, batch=7)))
        assert task.payload == 7 * task.width
    for more, width in (
        ({"mechanism": GRR, "buckets": None, "thresholds": [1] * 4}, 1),
        ({"mechanism": GRR, "buckets": None, "symbols": 257, "thresholds": [1] * 4}, 2),
        ({"mechanism": OUE, "buckets": None, "symbols": 9}, 2),
        ({"mechanism": OUE, "buckets": None, "symbols": 1848}, 231),
        ({}, 5),
        ({"buckets": 257, "thresholds": [1] * 4}, 6),
    ):
        task = Task(rounds(bins=None, missing=None, **more))
        assert task.payload == task.width == width
    more = {"mechanism": OUE, "buckets": None, "symbols": 1849, "bins": None, "missing": None}
    assert "symbols" in raised(TaskError, Task, rounds(**more))


def epochs(given=EPOCHS, **changed):
    """Such numbers with changes; None leaves one out."""
    given = dict(given, **changed)
    return {name: given[name] for name in given if given[name] is not None}


def test_literal_bytes_of_epochs():
    task = Task(epochs(polls=None, thresholds=[7, 8]))
    assert encoded(task) == unhex("ae" "0001" "0107" "051a00010000" "0703" "0901" "0a820708"
                                  "0c19ea60" "0f183c" "1305" "1419012c" "1502" "1603"
                                  "17830a0a190258" "18181903e8")  # fmt: skip
    assert (task.width, task.payload) == (1, 1)
    task = Task(HEAVY)
    assert (task.width, task.payload) == (3, 3)


def test_fields_of_epochs():
    for full in (EPOCHS, HEAVY):
        for name in full:
            if name == "missing":
                Task(epochs(full, missing=None))
            elif name == "polls":
                assert "thresholds" in raised(TaskError, Task, epochs(full, polls=None))
            else:
                assert name in raised(TaskError, Task, epochs(full, **{name: None}))
        for name in ("window", "k", "w", "delta", "batch", "resend", "outbox", "buckets", "method"):
            message = raised(TaskError, Task, epochs(full, **{name: 3}))
            assert message == "Mechanism %d has no %s." % (full["mechanism"], name)
        assert "spends" in raised(TaskError, Task, epochs(full, spends=[3]))
    for name in ("coordinates", "items"):
        assert name in raised(TaskError, Task, epochs(**{name: 3}))
    assert "bins" in raised(TaskError, Task, epochs(HEAVY, symbols=2, missing=0, bins=[5]))
    Task(epochs(bins=[5, 6]))
    for changes in EACH.values():
        for name in OF_EPOCHS:
            value = [3] if name == "levels" else 3
            assert name in raised(TaskError, Task, dict(numbers(**changes), **{name: value}))


def test_bounds_of_epochs():
    many = [0] * 15
    for given, name, least, most, others in (
        (EPOCHS, "epochs", 2, 16384, {}),
        (EPOCHS, "rounds", 2, 1 << 20, {"levels": [0, 0, 0]}),
        (EPOCHS, "rounds", 2, SCALE // 65535, {"symbols": 65536, "levels": [0, 0, 0]}),
        (EPOCHS, "votes", 1, 5, {}),
        (EPOCHS, "estimates", 1, 5, {}),
        (EPOCHS, "polls", 1, 5, {}),
        (EPOCHS, "votes", 1, 16384, {"epochs": 16384, "levels": many}),
        (EPOCHS, "failure", 1, 0x3FFFFFFF, {}),
        (EPOCHS, "epsilon", 1, 0x3FFFFFFF, {}),
        (EPOCHS, "symbols", 2, 65536, {"rounds": 256, "levels": [0, 0, 0]}),
        (HEAVY, "symbols", 2, 1 << 20, {}),
        (HEAVY, "coordinates", 2, 32768, {}),
        (HEAVY, "items", 1, 300, {}),
        (HEAVY, "items", 1, 1024, {"rounds": 2000}),
        (HEAVY, "rounds", 2, 1 << 20, {"levels": [0, 0, 0], "items": 1}),
    ):
        for good, bad in ((least, least - 1), (most, most + 1)):
            given = dict(given, **others)
            if name == "epochs":
                given["levels"] = [0, 0] if good == 2 else many
                given["votes"] = given["estimates"] = given["polls"] = 1
            assert getattr(Task(dict(given, **{name: good})), name) == good
            assert name in raised(TaskError, Task, dict(given, **{name: bad})), (name, bad)


def test_bounds_of_levels():
    for given in (EPOCHS, HEAVY):
        for good in ([0, 0, 0], [600, 600, 600], [0, 1, 600]):
            assert Task(dict(given, levels=good)).levels == good
        for bad in (
            [],
            [1, 2],
            [1, 2, 3, 4],
            [1, 3, 2],
            [-1, 0, 0],
            [0, 0, 601],
            [0, 1.0, 2],
            [0, True, 2],
            3,
        ):
            assert "level" in raised(TaskError, Task, dict(given, levels=bad)), bad
    for n, count in ((2, 2), (3, 2), (4, 3), (7, 3), (8, 4), (16383, 14), (16384, 15)):
        given = dict(EPOCHS, epochs=n, votes=1, estimates=1, polls=1)
        Task(dict(given, levels=[0] * count))
        for wrong in (count - 1, count + 1):
            assert "levels" in raised(TaskError, Task, dict(given, levels=[0] * wrong))


def test_thresholds_of_epochs():
    for given in (EPOCHS, HEAVY):
        Task(dict(given, thresholds=[1, SCALE // 2 - 1, 1]))
        for bad in ([1, 2], [1, 2, 3, 4], [], [0, 1, 1], [1, SCALE // 2, 1], [1, 1, SCALE // 2]):
            assert "threshold" in raised(TaskError, Task, dict(given, thresholds=bad)), bad
        bad = dict(epochs(given, polls=None), thresholds=[1, 2, 3])
        assert "thresholds" in raised(TaskError, Task, bad)


def test_every_flipped_byte_of_a_file_with_epochs_is_refused():
    data = write_file(Task(HEAVY))
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 4
        raised(ValueError, read_file, bytes(changed))


def test_widths():
    for changes, width, most in (
        ({"symbols": 256}, 1, 235),
        ({"symbols": 257}, 2, 117),
        (dict(JITTER, symbols=256), 1, 235),
        (dict(JITTER, symbols=257), 2, 117),
        (dict(GRR_OF_4, symbols=256, thresholds=[1]), 1, 235),
        (dict(GRR_OF_4, symbols=257, thresholds=[1]), 2, 117),
        (dict(OUE_OF_4, symbols=8), 1, 235),
        (dict(OUE_OF_4, symbols=9), 2, 117),
        (dict(OUE_OF_4, symbols=1872), 234, 1),
        (dict(OUE_OF_4, symbols=1880), 235, 1),
        (dict(OLH_OF_4, buckets=256, thresholds=[1]), 5, 47),
        (dict(OLH_OF_4, buckets=257, thresholds=[1]), 6, 39),
        (dict(OLH_OF_4, symbols=32749), 5, 47),
    ):
        assert Task(numbers(**dict(changes, batch=most))).width == width, changes
        assert "batch" in raised(TaskError, Task, numbers(**dict(changes, batch=most + 1)))


# A field, its other fields, the least and the most it may be.
BOUNDS = (
    ("k", {"window": 1024, "thresholds": [1]}, 2, 1024),
    ("k", JITTER, 2, 1024),
    ("window", {"k": 5, "thresholds": [1]}, 5, 1024),
    ("window", {"k": 5, "mechanism": STASWITCH}, 5, 5),
    ("window", JITTER, 3, None),
    ("w", GRR_OF_4, 1, 1024),
    ("w", OLH_OF_4, 1, 1024),
    ("epsilon", {}, 1, 0x3FFFFFFF),
    ("epsilon", OUE_OF_4, 1, 0x3FFFFFFF),
    ("delta", {}, 0, 0x3FFFFFFF),
    ("symbols", {}, 2, 65536),
    ("symbols", JITTER, 2, 65536),
    ("symbols", dict(GRR_OF_4, thresholds=[1]), 2, 65536),
    ("symbols", OUE_OF_4, 2, 1880),
    ("symbols", OLH_OF_4, 2, 32749),
    ("buckets", dict(OLH_OF_4, thresholds=[1]), 2, 4096),
    ("missing", {"symbols": 7}, 0, 6),
    ("missing", OLH_OF_4, 0, 3),
    ("tick", {}, 1, SCALE),
    ("batch", {}, 1, 235),
    ("resend", {}, 1, 1 << 20),
    ("beacon", {}, 1, 1 << 20),
    ("outbox", {}, 1, 255),
)


def test_each_bound():
    for name, others, least, most in BOUNDS:
        check_bound(name, others, least, least - 1)
        if most is not None:
            check_bound(name, others, most, most + 1)
    for bad in (0, CRR_BATCH + 1, -1):
        assert "mechanism" in raised(TaskError, Task, numbers(mechanism=bad))


def check_bound(name, others, good, bad):
    assert getattr(Task(numbers(**dict(others, **{name: good}))), name) == good
    assert name in raised(TaskError, Task, numbers(**dict(others, **{name: bad})))


def test_bounds_of_bins():
    Task(numbers(symbols=3, bins=[-0x40000000, 0x3FFFFFFF]))
    for bad in ([5], [5, 6, 7], [5, 5], [6, 5], [-0x40000001, 5], [5, 0x40000000]):
        assert "bin" in raised(TaskError, Task, numbers(symbols=3, bins=bad)), bad


def test_bounds_of_thresholds():
    # The others, and the most that a threshold may be.
    for others, most in (
        ({"window": 3, "k": 2}, SCALE // 3),
        ({"window": 2, "k": 2}, SCALE // 2),
        ({"window": 1024, "k": 2}, SCALE // 1024),
        (dict(GRR_OF_4, symbols=2), SCALE // 2 - 1),
        (dict(GRR_OF_4, symbols=3), SCALE // 3),
        (dict(GRR_OF_4, symbols=5), SCALE // 5),
        (dict(GRR_OF_4, symbols=65536), 255),
        (dict(OUE_OF_4, symbols=2), SCALE // 2 - 1),
        (dict(OUE_OF_4, symbols=1880), SCALE // 2 - 1),
        (dict(OLH_OF_4, buckets=2), SCALE // 2 - 1),
        (dict(OLH_OF_4, buckets=3), SCALE // 3),
        (dict(OLH_OF_4, buckets=4096), 4095),
    ):
        for n in (1, most):
            Task(numbers(**dict(others, thresholds=[n])))
        for n in (0, most + 1, -1):
            found = raised(TaskError, Task, numbers(**dict(others, thresholds=[n])))
            assert "threshold" in found
        for bad in ([], [1, 1]):
            found = raised(TaskError, Task, numbers(**dict(others, thresholds=bad)))
            assert "thresholds" in found


def test_thresholds_of_jittersort():
    for window, good in (
        (3, [SCALE - 2, 1]),
        (3, [2, SCALE // 2 - 1]),
        (5, [SCALE - 4, 1, 1]),
        (5, [4, SCALE // 2 - 3, 1]),
        (1023, [SCALE - 1022] + [1] * 511),
    ):
        Task(numbers(**dict(JITTER, window=window, thresholds=good)))
    for window, bad in (
        (3, [SCALE]),
        (3, [SCALE - 3, 1]),
        (3, [SCALE - 1, 1]),
        (3, [SCALE, 1]),
        (3, [0, SCALE // 2]),
        (3, [SCALE - 2, 0]),
        (3, [SCALE - 2, 1, 1]),
        (3, [SCALE + 2, -1]),
        (5, [SCALE - 2, 1]),
        (5, [SCALE - 2, 1, 1]),
        (1023, [SCALE // 2] * 512),
    ):
        found = raised(TaskError, Task, numbers(**dict(JITTER, window=window, thresholds=bad)))
        assert "threshold" in found, bad


def test_windows_of_jittersort():
    for bad in (1, 2, 4, 1022, 1024, 1025):
        given = dict(JITTER, window=bad, thresholds=[SCALE // 2] * (bad // 2 + 1))
        assert "window" in raised(TaskError, Task, numbers(**given))


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
        (b"\xac" + good[1:] + b"\x18\x24\x00", TaskError),
        (b"\xac" + good[1:] + b"\x11\x02", TaskError),
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


def by_belief(mechanism, **changed):
    """Numbers of a small Task of CRR or CRR_BATCH."""
    return numbers(**dict(BY_BELIEF[mechanism], **changed))


def test_literal_bytes_of_crr():
    given = {"symbols": 2, "prior": [32767, 1], "transitions": [16383, 1, 8192, 8192]}
    task = Task(by_belief(CRR, loss=2, **given))
    assert encoded(task) == unhex("ad" "0001" "0109" "0702" "0a811a00400000" "0c1903e8" "0d01"
                                  "0e05" "0f1864" "1004" "181c01" "181d02" "181e82197fff01"
                                  "181f84193fff01192000192000")  # fmt: skip
    assert (task.width, task.payload, task.memory) == (1, 1, None)
    task = Task(by_belief(CRR_BATCH, batch=7, memory=1, **given))
    assert encoded(task)[-6:] == unhex("182102182201")
    assert (task.width, task.payload) == (1, 7)
    blocks = krr_table(4, 2)
    blocks[:4] = [24, 1000, 300, 31444]
    given["thresholds"] = [1024]
    task = Task(by_belief(CRR_BATCH, rule=3, table=blocks, **given))
    assert encoded(task)[-35:] == unhex("182102" "182390" "18181903e819012c197ad4" "02197ffa0202"
                                        "0202197ffa02" "020202197ffa")  # fmt: skip


def test_crr_there_and_back():
    for full in (by_belief(CRR), by_belief(CRR_BATCH), BLOCKS, numbers(**TABLED)):
        buf = encoded(Task(full))
        same(Task(full), get_task(buf, len(buf)))


def test_fields_of_crr():
    for full in (by_belief(CRR), by_belief(CRR_BATCH), BLOCKS, numbers(**TABLED)):
        for name in full:
            if name not in OPTIONAL:
                without = dict(full)
                del without[name]
                assert name in raised(TaskError, Task, without), name
        others = ["window", "k", "spends", "buckets", "method"]
        others += ["block", "memory", "table"] if full["mechanism"] == CRR else []
        for name in others + list(OF_EPOCHS):
            value = [3] if name in LISTS else 3
            message = raised(TaskError, Task, dict(full, **{name: value}))
            assert message == "Mechanism %d has no %s." % (full["mechanism"], name)
    for given in [numbers(**changes) for changes in EACH.values()] + [ROUNDS, EPOCHS, HEAVY]:
        for name in OF_CRR:
            value = [3] if name in LISTS else 3
            assert "has no %s." % name in raised(TaskError, Task, dict(given, **{name: value}))


def uniform(n, whole):
    return [whole // n] * (n - 1) + [whole - whole // n * (n - 1)]


def chain(mechanism, symbols, memory=1, **changed):
    """Numbers of a Task with a uniform model."""
    first = symbols**memory
    given = {"symbols": symbols, "prior": uniform(first, 1 << 15)}
    given["transitions"] = uniform(symbols, 1 << 14) * first
    if mechanism == CRR_BATCH:
        given["memory"] = memory
    given.update(changed)
    return by_belief(mechanism, **given)


def test_bounds_of_crr():
    for symbols in (2, 32):
        assert Task(chain(CRR, symbols)).symbols == symbols
    for symbols in (1, 33):
        assert "symbols" in raised(TaskError, Task, chain(CRR, symbols))
    for threshold in (1024, 4096, SCALE - 1024):
        assert Task(by_belief(CRR, thresholds=[threshold])).thresholds == [threshold]
    for bad in ([], [0], [1023], [1025], [SCALE - 1], [SCALE], [1024, 1024]):
        assert "threshold" in raised(TaskError, Task, by_belief(CRR, thresholds=bad))
    for name, good, bad in (
        ("rule", (1, 2), (0, 3)),
        ("loss", (1, 2, 3), (0, 4, 5)),
        ("w", (1, 1024), (0, 1025)),
        ("epsilon", (1, 0x3FFFFFFF), (0, 0x40000000)),
        ("delta", (0, 0x3FFFFFFF), (-1, 0x40000000)),
        ("batch", (1, 235), (0, 236)),
    ):
        for n in good:
            assert getattr(Task(by_belief(CRR, **{name: n})), name) == n
        for n in bad:
            assert name in raised(TaskError, Task, by_belief(CRR, **{name: n})), (name, n)
    assert "rule" in raised(TaskError, Task, by_belief(CRR_BATCH, rule=1))
    Task(by_belief(CRR, missing=3, bins=[4, 5]))
    assert "bin" in raised(TaskError, Task, by_belief(CRR, bins=[4, 5]))


def test_bounds_of_blocks():
    for symbols, block, memory in (
        (2, 2, 1),
        (2, 10, 1),
        (2, 10, 9),
        (4, 5, 1),
        (10, 3, 2),
        (32, 2, 1),
    ):
        task = Task(chain(CRR_BATCH, symbols, memory, block=block))
        assert (task.block, task.memory) == (block, memory)
    for symbols, block in ((2, 1), (2, 11), (3, 7), (5, 5), (11, 3), (32, 3), (32, 10)):
        assert "block" in raised(TaskError, Task, chain(CRR_BATCH, symbols, block=block))
    for memory in (0, 3):
        found = raised(TaskError, Task, dict(chain(CRR_BATCH, 2, block=2), memory=memory))
        assert "memory" in found
    # What the prior holds is about `memory` symbols.
    found = raised(TaskError, Task, dict(chain(CRR_BATCH, 2, block=2), memory=2))
    assert found == "the size of the prior must lie in 4..4, but is 2."


def test_shares_of_crr():
    for bad, why in (
        ([16000, 9000, 7000, 767], "prior must make up exactly 32768."),
        ([16000, 9000, 7000, 769], "prior must make up exactly 32768."),
        ([16000, 9000, 7768, 0], "a number of prior must lie in 1..32767, but is 0."),
        ([-1, 9000, 16000, 7769], "a number of prior must lie in 1..32767, but is -1."),
        ([16000, 9000, 7768], "the size of the prior must lie in 4..4, but is 3."),
        ([16000, 9000, 7000, 767, 1], "the size of the prior must lie in 4..4, but is 5."),
        (4, "prior must be a list of integers."),
        ([16000.0, 9000, 7000, 768], "a number of prior must be an integer."),
    ):
        assert raised(TaskError, Task, by_belief(CRR, prior=bad)) == why
    good = by_belief(CRR)["transitions"]
    for at in range(16):
        for less in (-1, 1):
            bad = list(good)
            bad[at] += less
            assert "transitions" in raised(TaskError, Task, by_belief(CRR, transitions=bad))
    for bad in (good[:-1], good[:-4], good + [0], good[:12] + [16384, 0, 0, 0], []):
        assert "transitions" in raised(TaskError, Task, by_belief(CRR, transitions=bad))
    # What makes up a row does so nowhere else.
    bad = good[:3] + [384] + good[4:12] + [0, 8000, 8000, 0]
    assert "transitions" in raised(TaskError, Task, by_belief(CRR, transitions=bad))


def test_costs_of_crr():
    good = [0, 1, 2, 3, 1, 0, 4, 5, 2, 4, 0, 1023, 3, 5, 1023, 0]
    assert Task(by_belief(CRR, loss=4, costs=good)).costs == good
    for loss in (1, 2, 3):
        assert "costs" in raised(TaskError, Task, by_belief(CRR, loss=loss, costs=good))
    for bad in (good[:-1], good + [0], [], 3):
        assert "costs" in raised(TaskError, Task, by_belief(CRR, loss=4, costs=bad))
    for at in range(16):
        bad = list(good)
        bad[at] = 1024 if good[at] == 1023 else good[at] + 1
        assert "cost" in raised(TaskError, Task, by_belief(CRR, loss=4, costs=bad))
    assert "cost" in raised(TaskError, Task, by_belief(CRR, loss=4, costs=[0, -1] + good[2:]))


def tabled(symbols, block, table, threshold=1024, **changed):
    """Numbers of a Task with a uniform model and this table."""
    given = {"rule": 3, "block": block, "table": table, "thresholds": [threshold]}
    given.update(changed)
    return chain(CRR_BATCH, symbols, **given)


def test_a_table_belongs_to_its_rule():
    good = tabled(2, 2, krr_table(4, 1))
    assert Task(good).table == krr_table(4, 1)
    for rule, table in ((3, None), (2, krr_table(4, 1))):
        bad = dict(good, rule=rule, table=table)
        assert raised(TaskError, Task, bad) == "A Task has a table if, and only if, its rule is 3."
    for rule in (0, 1, 4):
        assert "rule" in raised(TaskError, Task, dict(good, rule=rule))
    # CRR has neither.
    assert "rule" in raised(TaskError, Task, by_belief(CRR, rule=3))
    found = raised(TaskError, Task, by_belief(CRR, rule=3, table=krr_table(4, 1)))
    assert found == "Mechanism 9 has no table."


def test_the_size_of_a_table():
    for symbols, block in ((2, 2), (2, 5), (3, 3), (5, 2), (6, 2)):
        blocks = symbols**block
        table = krr_table(blocks, 100)
        assert Task(tabled(symbols, block, table)).table == table
        for bad in (table[:-1], table + [0], table[:-blocks], table + table[-blocks:], []):
            assert "table" in raised(TaskError, Task, tabled(symbols, block, bad))
    for symbols, block in ((7, 2), (4, 3), (2, 6), (32, 2), (2, 10)):
        found = raised(TaskError, Task, tabled(symbols, block, krr_table(4, 1)))
        assert found.startswith("symbols ^ block, with a table, must lie in 4..45, but is ")
    assert "symbols ^ block" in raised(TaskError, Task, tabled(4, 5, krr_table(45, 100)))
    assert "list" in raised(TaskError, Task, tabled(2, 2, 7))


def test_rows_of_a_table():
    good = krr_table(4, 3)
    for at in range(16):
        for less in (-1, 1):
            bad = list(good)
            bad[at] += less
            assert "each row of the table" in raised(TaskError, Task, tabled(2, 2, bad))
            # A unit that is missing there is in no other row.
            bad[(at + 4) % 16] -= less
            assert "each row of the table" in raised(TaskError, Task, tabled(2, 2, bad))
    for bad in ([-1, 32769, 0, 0] * 4, [0, 32769, -1, 0] * 4, [32768.0, 0, 0, 0] * 4):
        assert "each row of the table" in raised(TaskError, Task, tabled(2, 2, bad))
    # The same block for each tells nothing.
    for y in range(4):
        table = [32768 if k % 4 == y else 0 for k in range(16)]
        assert Task(tabled(2, 2, table, SCALE - 1024)).table == table


def test_columns_of_a_table():
    """What tells more than 2 epsilon is refused, by a unit."""
    for threshold in (1024, 5 << 10, 1000 << 10, 4096 << 10, 9999 << 10, SCALE - 1024):
        share = threshold >> 10
        for blocks, symbols, block in ((4, 2, 2), (27, 3, 3), (36, 6, 2)):
            least = 1
            while (32768 - (blocks - 1) * least) * share * share > least << 28:
                least += 1
            if 32768 - (blocks - 1) * least < least:
                # Only numbers that are the same, which do not make up a row.
                continue
            table = krr_table(blocks, least)
            assert Task(tabled(symbols, block, table, threshold)).table == table
            bad = tabled(symbols, block, krr_table(blocks, least - 1), threshold)
            found = raised(TaskError, Task, bad)
            assert found == "Column 0 of the table tells more than 2 epsilon."


def test_a_column_of_zeros():
    some = [30000, 2768, 0, 0] * 4
    assert Task(tabled(2, 2, some)).table == some
    for x in range(4):
        # Never for another block: then it tells that it was this one.
        bad = list(some)
        bad[4 * x] -= 1
        bad[4 * x + 2] = 1
        found = raised(TaskError, Task, tabled(2, 2, bad))
        assert found == "Column 2 of the table tells more than 2 epsilon."
        bad = [30000, 2767, 1, 0] * 4
        bad[4 * x : 4 * x + 4] = [30001, 2767, 0, 0]
        assert raised(TaskError, Task, tabled(2, 2, bad)) == found


def test_the_bound_of_columns_is_exact():
    """As numbers of any size give it, from both sides of the bound and at it."""
    seen = [0, 0, 0]
    words = Mixed(3)
    for _ in range(300):
        share = words.word() % 16383 + 1
        most = words.word() % 16384 + 16384
        # About what the bound is.
        least = min(most, max(1, most * share * share + (1 << 27) >> 28))
        for lower in (least - 1, least, min(most, least + 1)):
            if lower < 1:
                continue
            excess = most * share * share - (lower << 28)
            # The other column has what is left, and is nearer to even.
            table = [most, 32768 - most, 0, 0] + [lower, 32768 - lower, 0, 0] * 3
            other = (32768 - lower) * share * share - (32768 - most << 28)
            good = excess <= 0 and (most == lower or other <= 0)
            try:
                Task(tabled(2, 2, table, share << 10))
                assert good, (share, most, lower)
            except TaskError as error:
                assert not good, (share, most, lower)
                assert error.args[0].endswith("of the table tells more than 2 epsilon.")
            seen[good] += 1
    assert min(seen[:2]) > 100


def test_every_flipped_byte_of_a_file_with_a_table_is_refused():
    data = write_file(make_task(**TABLED))
    assert read_file(data).table == TABLED["table"]
    for at in range(0, len(data), 3):
        changed = bytearray(data)
        changed[at] ^= 4
        raised(ValueError, read_file, bytes(changed))
