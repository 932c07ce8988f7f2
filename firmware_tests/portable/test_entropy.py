"""entropy: good sources pass, each planted fault is refused by its name."""

from helpers import raised

from tinyldp_device.entropy import Entropy, EntropyError, Replay, Urandom
from tinyldp_protocol.messages import OS, TEST


class Source:
    """Pseudorandom bytes from a 24-bit generator, each passed through change(index, byte)."""

    quality = OS

    def __init__(self, change=None, seed=1):
        self.state = seed
        self.change = change
        self.log = []

    def fill(self, buf):
        for i in range(len(buf)):
            self.state = (self.state * 1140671485 + 12820163) & 0xFFFFFF
            buf[i] = self.state >> 16
            if self.change is not None:
                buf[i] = self.change(len(self.log), buf[i])
            self.log.append(buf[i])


class Gone(Source):
    """A source that is there for its first `count` bytes."""

    def __init__(self, count):
        Source.__init__(self)
        self.count = count

    def fill(self, buf):
        if len(self.log) + len(buf) > self.count:
            raise OSError(5)
        Source.fill(self, buf)


def refused(source, words=16):
    return raised(EntropyError, Entropy, source, words)


def drained(change, words=2000):
    """The name of the fault that stops a device in mid-run."""
    entropy = Entropy(Source(change), 16)

    def draw():
        for _ in range(words):
            entropy.word()

    reason = raised(EntropyError, draw)
    # Refused for good, under the same name, and before the source is asked again.
    asked = len(entropy._source.log)
    assert raised(EntropyError, entropy.word) == reason
    assert raised(EntropyError, entropy.refill) == reason
    assert len(entropy._source.log) == asked
    return reason


def test_a_good_source_passes():
    for seed in range(1, 60):
        entropy = Entropy(Source(seed=seed), 16)
        for _ in range(500):
            assert 0 <= entropy.word() < 1 << 24
        assert entropy.quality == OS


def test_words_are_the_bytes_in_order_and_none_is_used_twice():
    for words in (3, 4, 16, 400):
        source = Source()
        entropy = Entropy(source, words)
        assert list(entropy.nonce) == source.log[:8]
        used = []
        for _ in range(3 * words):
            word = entropy.word()
            used += [word & 255, word >> 8 & 255, word >> 16]
        assert used == source.log[-9 * words :]
        # None of them was tested and thrown away, or in the nonce.
        assert len(source.log) - 9 * words >= 8 + 1024


def test_refilling_early_wastes_nothing():
    source = Source()
    entropy = Entropy(source, 4)
    entropy.word()
    drawn = len(source.log)
    for _ in range(3):
        entropy.refill()
        assert len(source.log) == drawn
        entropy.word()
    entropy.refill()
    assert len(source.log) == drawn + 12


def test_a_step_that_needs_more_words_than_are_left_gets_a_new_pool():
    for need in (1, 2, 3, 4, 9):
        for taken in range(5):
            source = Source()
            entropy = Entropy(source, 4)
            for _ in range(taken):
                entropy.word()
            drawn = len(source.log)
            entropy.refill(need)
            entropy.refill(need)
            # A full pool is all there can be, and is kept.
            new = taken > 0 and 4 - taken < need
            assert len(source.log) == drawn + 12 * new, (need, taken)
            word = entropy.word()
            at = drawn if new or taken == 4 else drawn - 12 + 3 * taken
            assert [word & 255, word >> 8 & 255, word >> 16] == source.log[at : at + 3]


def test_stuck():
    for byte in (0, 1, 255):
        assert refused(Source(lambda i, b: byte)) == "stuck"
    assert refused(Source(lambda i, b: 7 if 500 <= i < 506 else b)) == "stuck"
    assert drained(lambda i, b: 7 if i >= 4000 else b) == "stuck"
    # Five in a row are no fault yet.
    Entropy(Source(lambda i, b: 7 if 500 <= i < 505 else b), 16)


def test_stuck_across_two_refills():
    size = 3 * 16
    edge = 8 + size * 30
    assert drained(lambda i, b: 7 if edge - 3 <= i < edge + 3 else b) == "stuck"


def test_biased():
    assert refused(Source(lambda i, b: 9 if i % 3 == 0 else b)) == "biased"
    assert drained(lambda i, b: 9 if i >= 4000 and i % 3 == 0 else b) == "biased"


def test_each_stuck_bit_is_biased():
    for place in range(8):
        assert refused(Source(lambda i, b: b & ~(1 << place))) == "biased", place
        assert refused(Source(lambda i, b: b | 1 << place)) == "biased", place


def test_a_leaning_bit_is_biased():
    assert refused(Source(lambda i, b: b | (0x80 if i % 3 == 0 else 0))) == "biased"


def test_repeating():
    for period in (8, 40, 200):
        kept = []

        def repeat(i, b):
            if i < period:
                kept.append(b)
            return kept[i % period]

        assert refused(Source(repeat)) in ("repeating", "biased"), period
        if period == 40:
            continue
        if period == 200:
            del kept[:]
            assert refused(Source(repeat)) == "repeating"


def test_missing():
    for count in (0, 7, 8, 500, 1000):
        assert refused(Gone(count)) == "missing"
    entropy = Entropy(Gone(3000), 16)

    def draw():
        for _ in range(3000):
            entropy.word()

    assert raised(EntropyError, draw) == "missing"
    assert raised(EntropyError, entropy.word) == "missing"


class TestSource(Source):
    quality = TEST


def test_a_test_source_needs_permission():
    source = TestSource()
    assert refused(source) == "test source"
    assert source.log == []
    assert Entropy(source, 4, True).quality == TEST
    assert raised(EntropyError, Entropy, TestSource(lambda i, b: 0), 4, True) == "stuck"


class File:
    def __init__(self, data):
        self.data = data

    def readinto(self, buf):
        n = min(len(buf), len(self.data))
        buf[:n] = self.data[:n]
        self.data = self.data[n:]
        return n


def test_replay():
    source = Source()
    data = bytearray(8 + 1056 + 48 + 47)
    source.fill(data)
    entropy = Entropy(Replay(File(data)), 16, True)
    expected = data[8 + 1056 :]
    for i in range(16):
        word = entropy.word()
        assert word == expected[3 * i] | expected[3 * i + 1] << 8 | expected[3 * i + 2] << 16
    assert raised(EntropyError, entropy.word) == "missing"
    assert raised(EntropyError, Entropy, Replay(File(data)), 16) == "test source"


def test_the_system_s_source_works_or_is_missing():
    try:
        first = Entropy(Urandom(), 16)
    except EntropyError as error:
        assert error.args[0] == "missing"
        return
    second = Entropy(Urandom(), 16)
    assert first.nonce != second.nonce
    assert [first.word() for _ in range(40)] != [second.word() for _ in range(40)]


class Circling:
    """A good start, and then the same `period` bytes again and again."""

    quality = OS

    def __init__(self, period, start=0):
        generator = Source()
        self.bytes = bytearray(start + period)
        generator.fill(self.bytes)
        self.at = 0
        self.period = period

    def fill(self, buf):
        for i in range(len(buf)):
            buf[i] = self.bytes[self.at]
            self.at += 1
            if self.at == len(self.bytes):
                self.at -= self.period


class Stale:
    """The same block for the same size: a buffer that nobody fills any more."""

    quality = OS

    def fill(self, buf):
        Source(seed=len(buf)).fill(buf)


def circled(source):
    """The reason why it is refused, at start or within 60,000 words."""

    def draw():
        entropy = Entropy(source, 16)
        for _ in range(60000):
            entropy.word()

    return raised(EntropyError, draw)


def test_a_circle_of_any_length_is_found():
    assert circled(Stale()) == "repeating"
    for period in (1100, 1153, 2000, 4096):
        assert circled(Circling(period)) == "repeating"
    assert circled(Circling(1500, 9000)) == "repeating"


def test_any_error_of_a_source_is_a_missing_source():
    for error in (OSError(5), ValueError("x"), RuntimeError(), MemoryError()):

        class Failing:
            quality = OS

            def fill(self, buf):
                raise error

        assert refused(Failing()) == "missing"


def test_an_unknown_quality_is_a_test_source():
    for quality in (-1, 3, 9, None, "good"):
        source = Source()
        source.quality = quality
        assert refused(source) == "test source"
        assert Entropy(source, 16, allow_test=True).quality == TEST


def test_a_pool_too_small_to_compare_is_refused():
    raised_ = False
    try:
        Entropy(Source(), 2)
    except ValueError:
        raised_ = True
    assert raised_
