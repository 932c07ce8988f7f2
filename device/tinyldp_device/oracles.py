"""GRR, OUE and OLH: frequency oracles, each value randomized alone.

Wang, Blocki, Li and Jha, Locally Differentially Private Protocols for Frequency
Estimation (2017): generalized randomized response, optimized unary encoding,
optimized local hashing. T is the Task's threshold, N = 2^24, u a word.

    GRR  u < (d - 1) * T: lie number u // T, the value itself left out; else
         the value
    OUE  bit i, for i = 0..d-1: u < N / 2 where i is the value, else u < T;
         it is bit i % 8, the lowest first, of byte i // 8
    OLH  a fresh key (a, b) of hashing.multilinear, each the first word below
         512 * p, modulo p; then GRR's rule over the g buckets on the value's
         hash modulo g; reported are a, b (2 bytes each) and the bucket (1 byte
         up to 256 of them, else 2), little-endian

step(value) gives the report, an integer or the mechanism's own bytearray,
overwritten each time; flush() gives None. Nothing allocates. `threshold` is T,
at first the Task's first one; it may be another one of them for each step.
"""

from tinyldp_protocol.hashing import PRIME, multilinear
from tinyldp_protocol.task import SCALE


class Grr:
    """Reports the value, or one of the others, each with probability T / N."""

    def __init__(self, task, entropy):
        self._entropy = entropy
        self.threshold = task.thresholds[0]
        self._lies = task.symbols - 1

    def step(self, value):
        """The symbol that is reported for this one: one word."""
        lie = self._entropy.word() // self.threshold
        if lie >= self._lies:
            return value
        if lie >= value:
            lie += 1
        return lie

    def flush(self):
        """Nothing is held back."""
        return None


class Oue:
    """Reports a bit for each symbol: the value's with 1/2, the others with T / N."""

    def __init__(self, task, entropy):
        self._entropy = entropy
        self.threshold = task.thresholds[0]
        self._symbols = task.symbols
        self._report = bytearray(task.width)

    def step(self, value):
        """The bytes that are reported for this symbol: task.symbols words."""
        entropy = self._entropy
        report = self._report
        for i in range(self._symbols):
            if not i & 7:
                report[i >> 3] = 0
            if entropy.word() < (SCALE >> 1 if i == value else self.threshold):
                report[i >> 3] |= 1 << (i & 7)
        return report

    def flush(self):
        """Nothing is held back."""
        return None


class Olh:
    """Reports a hash key and, by GRR's rule, the bucket that it puts the value in."""

    def __init__(self, task, entropy):
        self._entropy = entropy
        self.threshold = task.thresholds[0]
        self._buckets = task.buckets
        self._key = [0, 0]
        self._limbs = [0]
        self._report = bytearray(task.width)

    def step(self, value):
        """The bytes that are reported for this symbol: three words, but for rare redraws."""
        report = self._report
        key = self._key
        for i in range(2):
            word = SCALE
            while word >= 512 * PRIME:
                word = self._entropy.word()
            word %= PRIME
            key[i] = word
            report[2 * i] = word & 255
            report[2 * i + 1] = word >> 8
        self._limbs[0] = value
        bucket = multilinear(key, self._limbs) % self._buckets
        lie = self._entropy.word() // self.threshold
        if lie < self._buckets - 1:
            bucket = lie + 1 if lie >= bucket else lie
        report[4] = bucket & 255
        if len(report) > 5:
            report[5] = bucket >> 8
        return report

    def flush(self):
        """Nothing is held back."""
        return None
