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

All coordinates of two tables are 2 * items hashes for each 32 of them, which may be
seconds of a board's time. So a complete epoch is compared with the reference in the
steps that follow, as many hashes in each as end it within a sixteenth of an epoch, and
is ready only then. How long a step takes, and when an epoch is ready, does not depend
on what is in the tables: empty slots are looked at, and hashed, too.
"""

from tinyldp_device.thresh import Thresh
from tinyldp_protocol.hashing import halfsiphash

_SLOT = 6
# Of so many parts of an epoch a comparison takes one; a host asks again within as much.
_COMPARED = 16


class HeavyThresh(Thresh):
    """Counts the epochs of one device, and randomizes what is said of them.

    ready: an epoch is complete and compared that was not taken; a later one takes its place.
    """

    def __init__(self, task, entropy):
        Thresh.__init__(self, task, entropy)
        self._table = bytearray(_SLOT * task.items)
        self._last = bytearray(_SLOT * task.items)
        self._used = 0
        self._oldest = 0
        self._hash = [0, 0]
        # Hashes of a comparison, of one step, and done; of coordinates: those of a block, the most.
        self._all = (task.coordinates + 31) // 32 * 2 * task.items
        self._part = -(-self._all // max(1, task.rounds // _COMPARED))
        self._compared = self._all
        self._sums = [0] * 32
        self._most = 0

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
            self._begin()

    def take(self, data, at):
        """Write the last complete epoch into data at `at`, where the others read it."""
        self.ready = False
        for i in range(len(self._last)):
            data[at + i] = self._last[i]

    def compare(self, data, at):
        """In each step: go on comparing the complete epoch with that in data. Allocates nothing."""
        n = self._compared
        end = min(n + self._part, self._all)
        if n == end:
            return
        items = self._task.items
        while n < end:
            block = n // (2 * items)
            i = n % (2 * items)
            if i < items:
                self._add(block, self._last, _SLOT * i, 1)
            else:
                self._add(block, data, at + _SLOT * (i - items), -1)
            n += 1
            if i == 2 * items - 1:
                self._close(min(32, self._task.coordinates - 32 * block))
        self._compared = n
        self.ready = n == self._all

    def restart(self):
        """The reference is another one: compare anew what was not taken."""
        if self.ready or self._compared < self._all:
            self._begin()

    def difference(self, data, one, other):
        """How far the epoch that was taken last is from what it was compared with."""
        return self._most

    def vote(self, report, yes, poll):
        """Draw a vote, and a poll's bit unless poll is None."""
        report[1] = report[2] = 0
        Thresh.vote(self, report, yes, poll)

    def estimate(self, report, data, at, said):
        """Draw an estimate of the epoch in data; said: whether it tells anything of it."""
        rounds = self._task.rounds
        j = self._below(self._task.coordinates)
        v = self._below(2 * rounds)
        halves = self._hash
        value = 0
        for _ in range(self._task.items):
            halfsiphash(self._task.id, j >> 5, _three_at(data, at), halves)
            count = _three_at(data, at + 3)
            value += count if halves[j >> 4 & 1] >> (j & 15) & 1 else -count
            at += _SLOT
        report[0] = self._bit(1, v < rounds + (value if said else 0))
        report[1] = j & 255
        report[2] = j >> 8

    def _begin(self):
        self.ready = False
        self._compared = 0
        self._close(0)
        self._most = 0

    def _add(self, block, data, at, sign):
        """Add a slot to the coordinates of this block, or subtract it."""
        sums = self._sums
        halves = self._hash
        halfsiphash(self._task.id, block, _three_at(data, at), halves)
        count = _three_at(data, at + 3) * sign
        for half in range(2):
            bits = halves[half]
            for i in range(16 * half, 16 * half + 16):
                sums[i] += count if bits & 1 else -count
                bits >>= 1

    def _close(self, width):
        """Take the most of a block's first coordinates, and begin with the next."""
        sums = self._sums
        for i in range(32):
            if i < width:
                self._most = max(self._most, abs(sums[i]))
            sums[i] = 0


def _three_at(data, at):
    return data[at] | data[at + 1] << 8 | data[at + 2] << 16
