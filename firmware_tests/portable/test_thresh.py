"""thresh: sums of epochs, when a vote is worth casting, and what each word makes of it."""

from helpers import Generator, Words, epoch_task

from tinyldp_device.thresh import Thresh
from tinyldp_protocol.task import SCALE

VOTE = SCALE // 8
ESTIMATE = SCALE // 16


def taken(thresh, at=0):
    data = bytearray(64)
    thresh.take(data, at)
    return data


def test_an_epoch_is_a_sum_and_the_last_one_counts():
    thresh = Thresh(epoch_task(), Words([]))
    for symbols, total in (([0, 0, 0, 0], 0), ([2, 2, 2, 2], 8), ([0, 1, 2, 0], 3)):
        for symbol in symbols:
            assert not thresh.ready
            thresh.step(symbol)
        assert thresh.ready
        data = taken(thresh, 5)
        assert list(data[4:11]) == [0, total, 0, 0, 0, 0, 0]
        assert not thresh.ready
    for symbol in [1] * 4 + [2] * 4 + [0] * 3:
        thresh.step(symbol)
    assert taken(thresh)[0] == 8


def test_the_largest_sum():
    task = epoch_task(symbols=65536, rounds=256)
    thresh = Thresh(task, Words([]))
    for _ in range(256):
        thresh.step(65535)
    data = taken(thresh)
    assert list(data[:4]) == [0, 255, 255, 0]
    task = epoch_task(symbols=2, rounds=1 << 20)
    thresh = Thresh(task, Words([]))
    thresh._sum = (1 << 20) - 1
    thresh._left = 1
    thresh.step(1)
    assert list(taken(thresh)[:4]) == [0, 0, 16, 0]
    assert thresh.difference(b"\0\0\0\1\0\0\0\0", 0, 4) == SCALE
    assert thresh.difference(b"\0\0\0\1\0\0\0\0", 4, 0) == SCALE
    assert thresh.difference(b"\7\0\0\0\7\0\0\0", 4, 0) == 0


def test_the_highest_level_that_is_exceeded_says_when():
    # Levels 0, 1, 2, 3 of eight epochs: 2^3, 2^2, 2, 1 must divide t.
    thresh = Thresh(epoch_task(), Words([]))
    for difference, every in ((1, 8), (2, 4), (3, 2), (4, 1), (100, 1)):
        for t in range(1, 9):
            assert thresh.votes(t, difference) == (t % every == 0), (t, difference)
    for t in range(1, 9):
        assert not thresh.votes(t, 0)
    # Equal levels: the highest one counts.
    thresh = Thresh(epoch_task(levels=[2, 2, 2, 2]), Words([]))
    assert [thresh.votes(7, difference) for difference in (2, 3)] == [False, True]
    # Of 12 epochs, the last power of two is 8.
    thresh = Thresh(epoch_task(epochs=12), Words([]))
    assert [t for t in range(1, 13) if thresh.votes(t, 1)] == [8]
    # The most epochs.
    thresh = Thresh(epoch_task(epochs=1 << 14, levels=[0] + [8] * 14), Words([]))
    assert thresh.votes(1 << 14, 1) and not thresh.votes(1 << 13, 1)


def test_each_word_of_a_vote():
    for yes, threshold in ((False, VOTE), (True, SCALE - VOTE)):
        for word, bit in ((0, 1), (threshold - 1, 1), (threshold, 0), (SCALE - 1, 0)):
            words = Words([word])
            report = bytearray(1)
            Thresh(epoch_task(), words).vote(report, yes, None)
            assert (report[0], words.used) == (bit, 1)


def test_a_poll_has_a_word_and_a_bit_of_its_own():
    task = epoch_task(polls=2, thresholds=[VOTE, ESTIMATE, SCALE // 4])
    for poll, threshold in ((False, SCALE // 4), (True, SCALE - SCALE // 4)):
        for first in (0, SCALE - 1):
            for word, bit in ((0, 2), (threshold - 1, 2), (threshold, 0), (SCALE - 1, 0)):
                words = Words([first, word])
                report = bytearray(1)
                Thresh(task, words).vote(report, True, poll)
                assert (report[0], words.used) == (bit | (0 if first else 1), 2)


def estimated(words, total, said, **changed):
    words = Words(words)
    report = bytearray(b"\7")
    Thresh(epoch_task(**changed), words).estimate(report, bytes([total, 0, 0, 0]), 0, said)
    return report[0], words.used


def test_each_word_of_an_estimate():
    # M = 8: the first word modulo 8 is below the sum, and the estimate may say so.
    for v in (0, 3, 4, 7, 8 * 1000, 8 * 1000 + 5, SCALE - 1):
        for total in (0, 4, 8):
            for said in (False, True):
                threshold = SCALE - ESTIMATE if said and v % 8 < total else ESTIMATE
                for u in (0, threshold - 1, threshold, SCALE - 1):
                    assert estimated([v, u], total, said) == (int(u < threshold), 2)


def test_words_that_would_favour_small_numbers_are_drawn_again():
    # M = 12, and 2^24 is 4 modulo 12.
    last = SCALE - 4
    for v, used in (([last - 1], 2), ([last, 3], 3), ([last, SCALE - 1, last + 1, 11], 5)):
        for said in (False, True):
            found = estimated(v + [0], 12, said, rounds=6)
            assert found == (1, used)
    # A sum of 2^24: no word is drawn again.
    assert estimated([SCALE - 1, 0], 0, True, symbols=2, rounds=1 << 20) == (1, 2)


def test_reproducible_words_give_these_bytes():
    """The same on every lane, and for whoever else implements it."""
    task = epoch_task(polls=4, thresholds=[VOTE, ESTIMATE, SCALE // 4])
    words = Generator(1)
    thresh = Thresh(task, words)
    report = bytearray(1)
    found = []
    for t in range(1, 9):
        thresh.vote(report, t & 1 == 0, None if t & 1 else True)
        found.append(report[0])
        thresh.estimate(report, bytes([t, 0, 0, 0]), 0, t & 3 == 0)
        found.append(report[0])
    assert found == [1, 0, 3, 0, 0, 0, 0, 1, 0, 0, 3, 0, 0, 0, 3, 1]
