"""The only place that draws randomness.

A source has `quality` (messages.TEST, OS or HARDWARE) and fill(buf), which
overwrites the whole bytearray buf with fresh bytes or raises. A word is
3 bytes, little-endian: uniform in [0, 2^24).

Entropy keeps a pool of words, so that the per-sample path only takes from
memory; refill(), called outside it, sees to it that a step's words are there. No
byte is ever handed out twice.

Health (NIST SP 800-90B, section 4.4, on bytes with 8 bits of entropy claimed
and a false-alarm rate of 2^-40 for each sample): every byte goes through

    repetition count     6 equal bytes in a row: "stuck"
    adaptive proportion  the first of 512 bytes at least 20 times: "biased"

and at start, over the first 1,024 bytes, also through

    bit proportion       a one in one of the 8 places fewer than 398 or more
                         than 626 times: "biased"
    recurrence           the 8 bytes of the boot nonce again: "repeating"

and each pool's first 8 bytes are compared with those of an earlier pool, which
is chosen anew after 1, 2, 4, 8, ... pools, so that a source that goes in a
circle, however long, is found by the time it has gone round about twice.

A source that fails is refused for good: nothing is drawn any more. What such
tests can find is bounded: a bit that is one in 40 % of cases passes now and
then, one in 45 % always.
"""

try:
    from os import urandom
except ImportError:
    urandom = None

from tinyldp_protocol.messages import HARDWARE, OS, TEST

_REPEATS = 6
_WINDOW = 512
_PROPORTION = 20
_START = 1024
_ONES = 398


class EntropyError(Exception):
    """Randomness that must not be used; its argument names the reason.

    "missing", "stuck", "biased", "repeating" or "test source".
    """


class Entropy:
    """A pool of random words from one source, health-tested.

    words: size of the pool, 3 or more. allow_test: accept a source of quality
    TEST, or of none that is known, which then counts as TEST.
    nonce: the boot nonce, 8 bytes, drawn before anything else.
    Raises EntropyError when the source must not be used.
    """

    def __init__(self, source, words, allow_test=False):
        self.quality = source.quality
        if self.quality != OS and self.quality != HARDWARE:
            if not allow_test:
                raise EntropyError("test source")
            self.quality = TEST
        if words < 3:
            raise ValueError("a pool has 3 words or more")
        self._failed = ""
        self._source = source
        self._last = -1
        self._run = 0
        self._first = -1
        self._equal = 0
        self._seen = _WINDOW
        self._pool = bytearray(3 * words)
        self._at = 3 * words
        self._mark = bytearray(8)
        self._pools = 0
        self._until = 1
        self.nonce = bytearray(8)
        self._fill(self.nonce)
        self._start()
        self.refill()

    def word(self):
        """A fresh word, uniform in [0, 2^24). Allocates nothing while the pool lasts."""
        pool = self._pool
        if self._at == len(pool):
            self.refill()
        at = self._at
        self._at = at + 3
        return pool[at] | pool[at + 1] << 8 | pool[at + 2] << 16

    def refill(self, need=1):
        """Draw a new pool when fewer than `need` words are left of one that was begun.

        The words that are left are thrown away. A pool that begins like the one
        that was marked is refused.
        """
        pool = self._pool
        mark = self._mark
        if not self._at or self._at + 3 * need <= len(pool):
            return
        self._fill(pool)
        equal = 0
        for i in range(8):
            if pool[i] == mark[i]:
                equal += 1
        if equal == 8 and self._pools:
            self._fail("repeating")
        self._pools += 1
        if self._pools == self._until:
            # Brent's way to find a cycle of any length with one mark.
            for i in range(8):
                mark[i] = pool[i]
            if self._until < 1 << 28:
                self._until *= 2
            else:
                self._until = 1
                self._pools = 0
        self._at = 0

    def _fail(self, reason):
        self._failed = reason
        self._at = len(self._pool)
        raise EntropyError(reason)

    def _fill(self, buf):
        """Fill buf from the source and put every byte through the two running tests."""
        if self._failed:
            raise EntropyError(self._failed)
        try:
            self._source.fill(buf)
        except Exception:
            self._fail("missing")
        last = self._last
        run = self._run
        first = self._first
        equal = self._equal
        seen = self._seen
        for i in range(len(buf)):
            byte = buf[i]
            if byte == last:
                run += 1
                if run == _REPEATS:
                    self._fail("stuck")
            else:
                last = byte
                run = 1
            if seen == _WINDOW:
                first = byte
                equal = 0
                seen = 0
            seen += 1
            if byte == first:
                equal += 1
                if equal == _PROPORTION:
                    self._fail("biased")
        self._last = last
        self._run = run
        self._first = first
        self._equal = equal
        self._seen = seen

    def _start(self):
        """Test the first 1,024 bytes, which are then thrown away."""
        pool = self._pool
        ones = [0] * 8
        matched = 0
        tested = 0
        while tested < _START:
            self.refill()
            self._at = len(pool)
            for i in range(len(pool)):
                byte = pool[i]
                # Restarting at the first byte is enough: random bytes rarely overlap themselves.
                if byte != self.nonce[matched]:
                    matched = 0
                if byte == self.nonce[matched]:
                    matched += 1
                    if matched == 8:
                        self._fail("repeating")
                if tested < _START:
                    tested += 1
                    for place in range(8):
                        ones[place] += byte >> place & 1
        for n in ones:
            if n < _ONES or n > _START - _ONES:
                self._fail("biased")


class Urandom:
    """os.urandom: good on unix, rp2, esp8266, stm32 with a hardware generator."""

    quality = OS

    def fill(self, buf):
        if urandom is None:
            raise OSError("no urandom")
        buf[:] = urandom(len(buf))


class Replay:
    """Bytes from an open file: the same words again, for tests and demonstrations."""

    quality = TEST

    def __init__(self, file):
        self._file = file

    def fill(self, buf):
        if self._file.readinto(buf) != len(buf):
            raise OSError("no more words")
