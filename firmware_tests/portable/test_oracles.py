"""oracles: each rule at its edges, bit by bit."""

from helpers import Mixed, Words, task_of

from tinyldp_device.oracles import Grr, Olh, Oue
from tinyldp_protocol.hashing import PRIME, multilinear
from tinyldp_protocol.task import GRR, OLH, OUE, SCALE

HALF = SCALE // 2
T = SCALE // 8


def grr(words, value, **changed):
    return Grr(task_of(GRR, **changed), Words(words)).step(value)


def test_grr_at_its_edges():
    # Lie number 0, 1 or 2 of the three others; from 3 T on the truth.
    for value in range(4):
        others = [other for other in range(4) if other != value]
        for number in range(3):
            for word in (number * T, number * T + 1, number * T + T - 1):
                assert grr([word], value) == others[number], (value, word)
        for word in (3 * T, 3 * T + 1, SCALE - 1):
            assert grr([word], value) == value


def test_grr_of_two_and_of_many():
    assert [grr([word], 0, symbols=2) for word in (0, T - 1, T, SCALE - 1)] == [1, 1, 0, 0]
    assert [grr([word], 1, symbols=2) for word in (0, T - 1, T, SCALE - 1)] == [0, 0, 1, 1]
    many = {"symbols": 65536, "thresholds": [255]}
    assert grr([0], 65535, **many) == 0
    assert grr([255 * 65535 - 1], 65535, **many) == 65534
    assert grr([255 * 65535 - 1], 65534, **many) == 65535
    assert grr([255 * 65535], 65534, **many) == 65534
    assert grr([255 * 1000], 1000, **many) == 1001
    assert grr([255 * 999], 1000, **many) == 999


def test_grr_takes_one_word_and_holds_nothing():
    entropy = Words([0, SCALE - 1, T])
    oracle = Grr(task_of(GRR), entropy)
    assert [oracle.step(2), oracle.step(2), oracle.step(2)] == [0, 2, 1]
    assert entropy.used == 3
    assert oracle.flush() is None


def oue(words, value, **changed):
    entropy = Words(words)
    report = Oue(task_of(OUE, **changed), entropy).step(value)
    assert entropy.used == len(words)
    return list(report)


def test_oue_bit_by_bit():
    for symbols in (2, 8, 9, 16, 100):
        width = (symbols + 7) // 8
        for value in (0, 1, symbols // 2, symbols - 1):
            for bit in range(symbols):
                # Only this bit's word is low: it alone is set; only it is high: it alone is not.
                limit = HALF if bit == value else T
                for word, high in ((0, SCALE - 1), (limit - 1, HALF)):
                    words = [high] * symbols
                    words[bit] = word
                    expected = [0] * width
                    expected[bit // 8] = 1 << bit % 8
                    assert oue(words, value, symbols=symbols) == expected
                words = [0] * symbols
                words[bit] = limit
                expected = [255] * width
                expected[-1] = (1 << (symbols - 1) % 8 + 1) - 1
                expected[bit // 8] &= 255 - (1 << bit % 8)
                assert oue(words, value, symbols=symbols) == expected


def test_oue_keeps_nothing_from_one_report_to_the_next():
    entropy = Words([0] * 12 + [SCALE - 1] * 12 + [0] * 12)
    oracle = Oue(task_of(OUE, symbols=12), entropy)
    assert list(oracle.step(3)) == [255, 15]
    assert list(oracle.step(3)) == [0, 0]
    assert list(oracle.step(4)) == [255, 15]
    assert oracle.flush() is None


def test_oue_at_its_widest():
    report = oue([0] * 1880, 1879, symbols=1880)
    assert report == [255] * 235


def olh(words, value, **changed):
    entropy = Words(words)
    report = list(Olh(task_of(OLH, **changed), entropy).step(value))
    assert entropy.used == len(words)
    return report


def test_olh_tells_its_key_and_the_bucket():
    # 259 + 2 * 3 = 265; modulo 3: 1.
    assert olh([259, 2, SCALE - 1], 3) == [3, 1, 2, 0, 1]
    # Lies: 0 and 2.
    assert olh([259, 2, 0], 3) == [3, 1, 2, 0, 0]
    assert olh([259, 2, T - 1], 3) == [3, 1, 2, 0, 0]
    assert olh([259, 2, T], 3) == [3, 1, 2, 0, 2]
    assert olh([259, 2, 2 * T - 1], 3) == [3, 1, 2, 0, 2]
    assert olh([259, 2, 2 * T], 3) == [3, 1, 2, 0, 1]
    # Modulo PRIME first: 32748 + 32748 * 3 = 32745 modulo PRIME; modulo 3: 0.
    assert olh([32748, 32748, SCALE - 1], 3) == [236, 127, 236, 127, 0]


def test_olh_keys_are_uniform():
    # A word is taken modulo PRIME when it lies in the whole multiples, else drawn again.
    assert olh([PRIME + 5, 511 * PRIME + 7, SCALE - 1], 0) == [5, 0, 7, 0, 2]
    last = 512 * PRIME
    assert olh([last - 1, last - 2, SCALE - 1], 0)[:4] == [236, 127, 235, 127]
    assert olh([last, SCALE - 1, 5, last, 7, SCALE - 1], 0)[:4] == [5, 0, 7, 0]
    # The last word is drawn once, however high.
    assert SCALE - 1 >= last


def test_olh_with_many_buckets_has_one_byte_more():
    many = {"symbols": 32749, "buckets": 4096, "thresholds": [4095]}
    assert olh([10, 1, SCALE - 1], 4000, **many) == [10, 0, 1, 0, 4010 & 255, 4010 >> 8]
    assert olh([10, 1, 4095 * 4095 - 1], 4000, **many) == [10, 0, 1, 0, 255, 15]
    assert olh([10, 1, 4095 * 4010], 4000, **many) == [10, 0, 1, 0, 4011 & 255, 4011 >> 8]
    assert len(olh([10, 1, 5], 0, buckets=256, thresholds=[1])) == 5
    assert len(olh([10, 1, 5], 0, buckets=257, thresholds=[1])) == 6


def test_olh_hashes_every_value_as_hashing_does():
    entropy = Mixed(5)
    oracle = Olh(task_of(OLH, symbols=32749, buckets=7, thresholds=[1]), entropy)
    differ = 0
    for value in list(range(300)) + [32747, 32748]:
        report = oracle.step(value)
        key = [report[0] | report[1] << 8, report[2] | report[3] << 8]
        assert key[0] < PRIME and key[1] < PRIME
        bucket = multilinear(key, [value]) % 7
        differ += report[4] != bucket
        assert report[4] < 7
    # A lie has the probability 6 / 2^24.
    assert differ == 0
    assert oracle.flush() is None
