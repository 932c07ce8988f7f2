"""Thresh: an epoch's sum of symbols, and what a device says of it.

Joseph, Roth, Ullman and Waggoner, Local Differential Privacy for Evolving Data
(2018), on integers: an epoch is `rounds` steps, its sum S lies in 0..M with
M = rounds * (symbols - 1). N = 2^24, u a word. What a Task's threshold T says is
1 with probability (N - T) / N where a device has something to say, else T / N:

    vote      u < N - T or T; then, where the epoch has a poll, its bit alike
    estimate  v: a word below M * (N // M), drawn again until it is, modulo M;
              then u; a device that may speak says v < S

The same words are drawn whatever is said. A vote is worth casting when the
highest level that the difference of two sums is above is number b of 0..L, and
2^(L - b) divides t.
"""

from tinyldp_device.ledger import word_at
from tinyldp_protocol.task import SCALE


class Thresh:
    """Sums the epochs of one device, and randomizes what is said of them.

    ready: an epoch is complete that was not taken; a later one takes its place.
    """

    def __init__(self, task, entropy):
        self.ready = False
        self._task = task
        self._entropy = entropy
        self._left = task.rounds
        self._sum = 0
        self._done = 0

    def step(self, symbol):
        """One step of the running epoch. Allocates nothing."""
        self._sum += symbol
        if self._ends():
            self._done = self._sum
            self._sum = 0

    def take(self, data, at):
        """Write the last complete epoch into data at `at`, where the others read it."""
        self.ready = False
        for i in range(4):
            data[at + i] = self._done >> 8 * i & 255

    def difference(self, data, one, other):
        """How far two epochs in data are apart."""
        return abs(word_at(data, one) - word_at(data, other))

    def votes(self, t, difference):
        """Whether such a difference is worth a vote in epoch t."""
        levels = self._task.levels
        below = 0
        for level in levels:
            # All are compared, in the same time whatever the difference is.
            below += difference > level
        return below > 0 and not t & ((1 << (len(levels) - below)) - 1)

    def vote(self, report, yes, poll):
        """Draw a vote, and a poll's bit unless poll is None."""
        report[0] = self._bit(0, yes)
        if poll is not None:
            report[0] |= self._bit(2, poll) << 1

    def estimate(self, report, data, at, said):
        """Draw an estimate of the epoch in data; said: whether it tells anything of it."""
        task = self._task
        v = self._below(task.rounds * (task.symbols - 1))
        report[0] = self._bit(1, v < word_at(data, at) and said)

    def _ends(self):
        self._left -= 1
        if self._left:
            return False
        self._left = self._task.rounds
        self.ready = True
        return True

    def _bit(self, which, truth):
        threshold = self._task.thresholds[which]
        return 1 if self._entropy.word() < (SCALE - threshold if truth else threshold) else 0

    def _below(self, n):
        """Uniform in 0..n - 1."""
        word = SCALE
        while word >= SCALE // n * n:
            # For the bit as well; not from word(), which is deeper in a board's stack.
            self._entropy.refill(2)
            word = self._entropy.word()
        return word % n
