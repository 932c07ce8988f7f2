"""What must survive a reset: one payload, kept twice.

Each of two slots holds

    generation (4 bytes, little-endian, below 2^30) | payload | CRC-32 of both

A slot is an object with read() -> bytes, b"" when there is nothing, and
write(data), which may be cut anywhere, and does not hold on to data. One slot is
only written while the other is good, so that a cut leaves the old payload or the
new one.
"""

from tinyldp_protocol.framing import Crc32
from tinyldp_protocol.messages import COUNTER_MAX, set_word


class StateError(Exception):
    """There is no state to go on from; its argument names the reason.

    "missing": both slots are empty; "damaged": neither is valid, or the two
    contradict each other; "ended": no generation is left.
    """


class State:
    """The payload in two slots. Call load() or create() before save()."""

    def __init__(self, first, second):
        self._slots = (first, second)
        self._generation = 0

    def create(self, payload, generation=0):
        """Provision: whatever the slots held is gone."""
        self._generation = generation
        end = 4 + len(payload)
        data = bytearray(end + 4)
        _seal(data, end, generation, payload)
        data = bytes(data)
        for slot in self._slots:
            slot.write(data)

    def load(self):
        """The payload of the newer valid slot, from which the other is repaired first."""
        first = self._slots[0].read()
        second = self._slots[1].read()
        if not first and not second:
            raise StateError("missing")
        one = _generation(first)
        two = _generation(second)
        newest = max(one, two)
        if newest < 0 or (one >= 0 and two >= 0 and abs(one - two) > 1):
            raise StateError("damaged")
        if one == two and first != second:
            raise StateError("damaged")
        good = first
        if one < two:
            good = second
            self._slots[0].write(good)
        elif two < one:
            self._slots[1].write(good)
        self._generation = newest
        return good[4:-4]

    def save(self, payload):
        """Write both slots, one after the other; what was there before is gone."""
        if self._generation == COUNTER_MAX:
            raise StateError("ended")
        self.create(payload, self._generation + 1)

    def save_through(self, payload, data):
        """As save(); data: a bytearray, 8 bytes longer, for what the slots will hold."""
        if self._generation == COUNTER_MAX:
            raise StateError("ended")
        self._generation += 1
        _seal(data, 4 + len(payload), self._generation, payload)
        for slot in self._slots:
            slot.write(data)


def _seal(data, end, generation, payload):
    set_word(data, 0, generation)
    for i in range(len(payload)):
        data[4 + i] = payload[i]
    crc = Crc32()
    crc.feed(data, 0, end)
    crc.put(data, end)


def _generation(data):
    """A slot's generation, or -1 when the slot is not valid."""
    end = len(data) - 4
    if end < 4 or data[3] > 63:
        return -1
    crc = Crc32()
    crc.feed(data, 0, end)
    if not crc.matches(data, end):
        return -1
    return data[0] | data[1] << 8 | data[2] << 16 | data[3] << 24
