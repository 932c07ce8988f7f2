"""heavythresh: tables of items, their hashed coordinates, and what each word makes of them."""

from helpers import Counting, Words, epoch_task

from tinyldp_device import heavythresh
from tinyldp_device.heavythresh import HeavyThresh
from tinyldp_protocol.hashing import halfsiphash
from tinyldp_protocol.task import SCALE

ESTIMATE = SCALE // 16


def task_of(**changed):
    given = {"coordinates": 70, "items": 3, "rounds": 6, "symbols": 1 << 20}
    given.update(changed)
    return epoch_task(**given)


def lived(thresh, symbols, reference):
    """An epoch, and so many steps more that it was compared with the reference's data."""
    for symbol in symbols:
        thresh.step(symbol)
        thresh.compare(reference, 0)
    while not thresh.ready:
        thresh.compare(reference, 0)


def table_of(symbols, **changed):
    """The slots (item, count) of an epoch."""
    task = task_of(rounds=len(symbols), **changed)
    thresh = HeavyThresh(task, Words([]))
    lived(thresh, symbols, table([], task.items))
    data = bytearray(6 * task.items + 7)
    thresh.take(data, 7)
    assert not thresh.ready
    return slots_of(data, 7)


def slots_of(data, at):
    found = []
    for i in range(at, len(data), 6):
        item = data[i] | data[i + 1] << 8 | data[i + 2] << 16
        count = data[i + 3] | data[i + 4] << 8 | data[i + 5] << 16
        if count:
            found.append((item, count))
    return found


def table(slots, items=3):
    data = bytearray(6 * items)
    for i in range(len(slots)):
        for byte in range(3):
            data[6 * i + byte] = slots[i][0] >> 8 * byte & 255
            data[6 * i + 3 + byte] = slots[i][1] >> 8 * byte & 255
    return data


def sign(task, j, item):
    out = [0, 0]
    halfsiphash(task.id, j // 32, item, out)
    return 1 if (out[0] | out[1] << 16) >> j % 32 & 1 else -1


def test_items_are_counted():
    assert table_of([5, 5, 7, 5, 7, 5]) == [(5, 4), (7, 2)]
    assert table_of([0, 0, 0]) == [(0, 3)]
    # Items that differ in one byte alone.
    assert table_of([1, 257, 65537, 1, 1, 257]) == [(1, 3), (257, 2), (65537, 1)]
    assert table_of([(1 << 20) - 1] * 300) == [((1 << 20) - 1, 300)]


def test_without_room_the_oldest_goes_and_its_count_is_missing():
    assert table_of([1, 1, 1, 2, 3, 4, 4, 2]) == [(4, 2), (2, 2), (3, 1)]
    # Oldest by when it came, however often since; and one that went is new again.
    found = table_of([1, 2, 3, 1, 4, 1, 5, 2])
    # 4 takes 1's place, 1 takes 2's, 5 takes 3's, 2 takes 4's.
    assert found == [(2, 1), (1, 1), (5, 1)]
    assert table_of([1, 2, 1, 2], items=1) == [(2, 1)]


def test_an_epoch_begins_empty():
    task = task_of(rounds=4)
    thresh = HeavyThresh(task, Words([]))
    data = bytearray(18)
    for symbols, expected in (
        ([1, 2, 3, 4], [(4, 1), (2, 1), (3, 1)]),
        ([9, 9, 9, 9], [(9, 4)]),
        ([4, 4, 8, 7], [(4, 2), (8, 1), (7, 1)]),
        ([6, 5, 4, 3], [(3, 1), (5, 1), (4, 1)]),
    ):
        lived(thresh, symbols, table([]))
        thresh.take(data, 0)
        assert slots_of(data, 0) == expected


def test_a_difference_is_that_of_the_coordinate_that_differs_most():
    for w in (2, 31, 32, 33, 64, 70):
        task = task_of(coordinates=w, rounds=5)
        thresh = HeavyThresh(task, Words([]))
        one = [(5, 3), (900000, 2)]
        other = [(5, 1), (77, 2), (78, 2)]
        sums = [
            sum([n * sign(task, j, item) for item, n in one])
            - sum([n * sign(task, j, item) for item, n in other])
            for j in range(w)
        ]
        most = max([abs(n) for n in sums])
        for epoch, reference, expected in (
            ([5, 900000, 5, 900000, 5], other, most),
            ([5, 77, 78, 77, 78], one, most),
            ([5, 77, 78, 77, 78], other, 0),
        ):
            data = table(reference)
            lived(thresh, epoch, data)
            thresh.take(bytearray(18), 0)
            assert thresh.difference(data, 0, 0) == expected


def counted(symbols, extra, take):
    """Hashes of each step of an epoch and of `extra` more, and whether it was ready after it."""
    task = task_of(rounds=64)
    thresh = HeavyThresh(task, Words([]))
    hashes = Counting(heavythresh.halfsiphash)
    heavythresh.halfsiphash = hashes
    found = []
    try:
        for i in range(task.rounds + extra):
            thresh.step(symbols[i % len(symbols)])
            thresh.compare(bytearray(18), 0)
            found.append((hashes.look(), thresh.ready))
            if thresh.ready and take:
                thresh.take(bytearray(18), 0)
    finally:
        heavythresh.halfsiphash = hashes.hash
    return found


def test_a_comparison_takes_as_many_hashes_in_each_step_whatever_there_is():
    # 3 blocks of 2 tables of 3 slots, in a sixteenth of 64 steps.
    expected = [(0, False)] * 63 + [(5, False), (5, False), (5, False), (3, True), (0, True)]
    for symbols in ([0], [1], [1, 2, 3, 4, 5, 6, 7], [(1 << 20) - 1, 0]):
        assert counted(symbols, 4, False) == expected
    # What was taken is not compared again.
    assert counted([1], 4, True) == expected[:-1] + [(0, False)]


def test_a_step_takes_few_hashes():
    task = epoch_task(coordinates=1024, items=256, rounds=4096, symbols=100000)
    thresh = HeavyThresh(task, Words([]))
    hashes = Counting(heavythresh.halfsiphash)
    heavythresh.halfsiphash = hashes
    try:
        thresh._begin()
        for _ in range(3):
            thresh.compare(bytearray(6 * 256), 0)
            assert hashes.look() == 64
        thresh._entropy = Words([5, 6, 7])
        thresh.estimate(bytearray(3), bytearray(6 * 256), 0, True)
        assert hashes.look() == 256
    finally:
        heavythresh.halfsiphash = hashes.hash


def test_a_comparison_begins_anew_for_another_reference():
    for steps in range(5):
        thresh = HeavyThresh(task_of(rounds=64), Words([]))
        for _ in range(64):
            thresh.step(5)
        for _ in range(steps):
            thresh.compare(table([(7, 64)]), 0)
        thresh.restart()
        assert not thresh.ready
        data = table([(5, 63), (6, 1)])
        lived(thresh, [], data)
        assert thresh.difference(data, 0, 0) == 2
        thresh.take(data, 0)
        # Nothing is there to be compared.
        thresh.restart()
        for _ in range(9):
            thresh.compare(data, 0)
        assert not thresh.ready


def estimated(words, slots, said, **changed):
    words = Words(words)
    report = bytearray(3)
    thresh = HeavyThresh(task_of(**changed), words)
    thresh.estimate(report, b"x" + table(slots), 1, said)
    return report[0], report[1] | report[2] << 8, words.used


def test_each_word_of_an_estimate():
    task = task_of()
    slots = [(5, 3), (900000, 2)]
    for j in (0, 1, 31, 32, 63, 64, 69):
        value = sum([n * sign(task, j, item) for item, n in slots])
        for v in range(12):
            for said in (False, True):
                threshold = SCALE - ESTIMATE if v < 6 + (value if said else 0) else ESTIMATE
                for u in (0, threshold - 1, threshold, SCALE - 1):
                    found = estimated([j + 70 * 3, v + 12 * 1000, u], slots, said)
                    assert found == (int(u < threshold), j, 3)


def test_words_that_would_favour_small_numbers_are_drawn_again():
    # 2^24 is 6 modulo 70, and 4 modulo 12.
    words = [SCALE - 6, SCALE - 1, 69, SCALE - 4, 11, 0]
    assert estimated(words, [(5, 6)], False) == (1, 69, 6)


def test_the_largest_numbers():
    task = task_of(coordinates=1 << 15, rounds=1 << 20, items=3)
    slots = [(task.symbols - 1, 1 << 20)]
    thresh = HeavyThresh(task, Words([]))
    report = bytearray(3)
    data = table(slots) + table([(3, 1 << 20)])
    for j in (0, (1 << 15) - 1):
        value = sign(task, j, task.symbols - 1)
        for v, truth in ((0, value > 0), ((1 << 21) - 1, value > 0)):
            # All of the mass has one sign: v does not matter.
            thresh._entropy = Words([j, v, ESTIMATE])
            thresh.estimate(report, data, 0, True)
            assert report[0] == int(truth)
            assert report[1] | report[2] << 8 == j
    thresh = HeavyThresh(task_of(coordinates=40, rounds=1 << 20), Words([]))
    thresh._last = table(slots)
    thresh._begin()
    lived(thresh, [], table([(3, 1 << 20)]))
    # In some coordinate the two differ by all that there can be.
    assert thresh.difference(data, 0, 0) == 1 << 21
