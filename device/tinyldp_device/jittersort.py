"""JitterSort: release a stream in the order of jittered arrival times.

It hides when a value occurred, not which values occurred. Each arriving value
gets the key (its step + Z), Z in 0..2L with a probability that falls off on both
sides of L. The buffer holds 2L+1 values; once it is full the one with the least
key is released at each step, chosen uniformly among equal keys: by arrival it
would tell which came first. So what leaves is a function of the set of
(value, key) pairs alone, and no value waits for more than 4L steps.

Words: one for the key, from the Task's thresholds [c_0, ..., c_L] (Z = L - j and
Z = L + j have c_j / 2^24 each); one to choose among c equal keys, drawn again
until it is below c * (2^24 // c). The value in the last slot takes the place of
the released one.
"""

from array import array

from tinyldp_protocol.task import SCALE


class JitterSort:
    """A buffer of task.window = 2L+1 values and their keys.

    step(symbol) and flush() consume words from `entropy` and give the symbol
    that is released now, or None. Neither allocates.
    """

    def __init__(self, task, entropy):
        self._window = task.window
        self._thresholds = task.thresholds
        self._entropy = entropy
        self._slots = array("B" if task.symbols <= 256 else "H", [0] * task.window)
        # Modulo 2^16: those held lie within 2L of this step on either side.
        self._keys = array("H", [0] * task.window)
        self._now = 0
        self._held = 0

    def step(self, symbol):
        """Take in the next symbol; give a released one, or None while filling."""
        thresholds = self._thresholds
        word = self._entropy.word()
        j = 0
        weight = thresholds[0]
        while word >= weight:
            word -= weight
            j += 1
            weight = 2 * thresholds[j]
        if not word & 1:
            j = -j
        held = self._held
        now = self._now + 1 & 0xFFFF
        self._now = now
        self._slots[held] = symbol
        self._keys[held] = now + (self._window >> 1) + j & 0xFFFF
        self._held = held + 1
        if held + 1 < self._window:
            return None
        return self.flush()

    def flush(self):
        """After the last step: give one more symbol, or None when all are released."""
        held = self._held
        if not held:
            return None
        keys = self._keys
        early = self._now - self._window
        least = SCALE
        equal = 0
        for i in range(held):
            key = keys[i] - early & 0xFFFF
            if key < least:
                least = key
                equal = 0
            if key == least:
                equal += 1
        share = SCALE // equal
        skip = equal
        while skip >= equal:
            word = self._entropy.word()
            skip = word // share
        at = -1
        while skip >= 0:
            at += 1
            if keys[at] - early & 0xFFFF == least:
                skip -= 1
        slots = self._slots
        out = slots[at]
        held -= 1
        slots[at] = slots[held]
        keys[at] = keys[held]
        self._held = held
        return out
