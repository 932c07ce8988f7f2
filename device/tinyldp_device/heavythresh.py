"""HeavyThresh: an epoch's histogram of items of a large dictionary, hashed to w coordinates.

As Thresh (which see), but an epoch is a table of task.items slots, each an item and
its count (3 bytes each, little-endian); D_j is the sum over the slots of the count
times the sign of hash coordinate j for the item, in -rounds..rounds. Two epochs
are as far apart as the coordinate that differs most.

    sign      + where bit j % 32 of the HalfSipHash of (j // 32, item), its key
              the Task's id, is 1
    estimate  j, then v, each a word as Thresh draws it: j below w, v below
              2 * rounds; then u; a device that may speak says v < rounds + D_j,
              any other v < rounds; reported are the bit and j (2 bytes)

Where the table has no room for one item more, the oldest one's slot is taken, and
that count is missing from the histogram: such an epoch shows less than there was.

How long a step or a difference takes does not depend on what is in the tables: empty
slots are looked at, and hashed, too.
"""

from tinyldp_device.thresh import Thresh
from tinyldp_protocol.hashing import halfsiphash

_SLOT = 6


class HeavyThresh(Thresh):
    """Counts the epochs of one device, and randomizes what is said of them."""

    def __init__(self, task, entropy):
        Thresh.__init__(self, task, entropy)
        self._table = bytearray(_SLOT * task.items)
        self._last = bytearray(_SLOT * task.items)
        self._used = 0
        self._oldest = 0
        self._hash = [0, 0]
        self._sums = [0] * 32

    def step(self, symbol):
        """One step of the running epoch. Allocates nothing."""
        table = self._table
        low = symbol & 255
        middle = symbol >> 8 & 255
        high = symbol >> 16
        used = self._used
        at = used
        i = 0
        while i < len(table):
            if not (table[i] ^ low | table[i + 1] ^ middle | table[i + 2] ^ high) and i < used:
                at = i
            i += _SLOT
        if at == used:
            if at < len(table):
                self._used += _SLOT
            else:
                at = self._oldest
                self._oldest = (at + _SLOT) % len(table)
            table[at] = low
            table[at + 1] = middle
            table[at + 2] = high
            table[at + 3] = table[at + 4] = table[at + 5] = 0
        count = _three_at(table, at + 3) + 1
        table[at + 3] = count & 255
        table[at + 4] = count >> 8 & 255
        table[at + 5] = count >> 16
        if self._ends():
            self._table = self._last
            self._last = table
            self._used = 0
            self._oldest = 0
            for i in range(len(table)):
                self._table[i] = 0

    def take(self, data, at):
        """Write the last complete epoch into data at `at`, where the others read it."""
        self.ready = False
        for i in range(len(self._last)):
            data[at + i] = self._last[i]

    def difference(self, data, one, other):
        """How far two epochs in data are apart."""
        sums = self._sums
        left = self._task.coordinates
        most = 0
        block = 0
        while left > 0:
            for i in range(32):
                sums[i] = 0
            self._add(data, one, block, 1)
            self._add(data, other, block, -1)
            for i in range(min(left, 32)):
                most = max(most, abs(sums[i]))
            left -= 32
            block += 1
        return most

    def vote(self, report, yes, poll):
        """Draw a vote, and a poll's bit unless poll is None."""
        report[1] = report[2] = 0
        Thresh.vote(self, report, yes, poll)

    def estimate(self, report, data, at, said):
        """Draw an estimate of the epoch in data; said: whether it tells anything of it."""
        rounds = self._task.rounds
        j = self._below(self._task.coordinates)
        v = self._below(2 * rounds)
        for i in range(32):
            self._sums[i] = 0
        self._add(data, at, j >> 5, 1 if said else 0)
        report[0] = self._bit(1, v < rounds + self._sums[j & 31])
        report[1] = j & 255
        report[2] = j >> 8

    def _add(self, data, at, block, factor):
        """Add a table's 32 coordinates of this block, `factor` times."""
        sums = self._sums
        halves = self._hash
        for _ in range(self._task.items):
            halfsiphash(self._task.id, block, _three_at(data, at), halves)
            count = _three_at(data, at + 3) * factor
            bits = halves[0]
            for i in range(16):
                sums[i] += count if bits & 1 else -count
                bits >>= 1
            bits = halves[1]
            for i in range(16, 32):
                sums[i] += count if bits & 1 else -count
                bits >>= 1
            at += _SLOT


def _three_at(data, at):
    return data[at] | data[at + 1] << 8 | data[at + 2] << 16
