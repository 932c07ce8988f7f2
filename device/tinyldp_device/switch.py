"""RanSwitch and StaSwitch: release a stream in a locally shuffled order.

They hide when a value occurred, not which values occurred. A ring buffer holds
the next W values of the stream. At each step the value in the current slot
changes places with the one d slots ahead, d = 0 with probability p and each of
1..W-1 with probability q, and the current slot is released (Stateful Switch,
algorithms RanSwitch and StaSwitch). q = threshold / 2^24, p = 1 - (W-1) q.

One word u a release: u < (W-1) * threshold gives d = 1 + u // threshold, else
d = 0. At the end of the stream d is drawn again until its slot lies inside the
stream; any other rule would weaken the guarantee.
"""

from array import array


class RanSwitch:
    """A switching buffer of task.window slots.

    step(symbol) and flush() consume words from `entropy` and give the symbol
    that is released now, or None. Neither allocates.
    """

    def __init__(self, task, entropy):
        self._window = task.window
        self._threshold = task.thresholds[0]
        self._switching = (task.window - 1) * task.thresholds[0]
        self._entropy = entropy
        self._slots = array("B" if task.symbols <= 256 else "H", [0] * task.window)
        # StaSwitch: how late the value in each slot is, beside that slot's own.
        self._late = None
        self._at = 0
        self._held = 0

    def step(self, symbol):
        """Take in the next symbol; give a released one, or None while filling."""
        at = self._at
        self._slots[at] = symbol
        at += 1
        if at == self._window:
            at = 0
        self._at = at
        held = self._held + 1
        if held < self._window:
            self._held = held
            return None
        return self._release(at, held)

    def flush(self):
        """After the last step: give one more symbol, or None when all are released."""
        held = self._held
        if held == 0:
            return None
        at = self._at - held
        if at < 0:
            at += self._window
        return self._release(at, held)

    def _release(self, at, held):
        """Release from the slot `at`, the oldest of `held` that hold a value."""
        late = self._late
        switching = self._switching
        while True:
            ahead = 0
            word = self._entropy.word()
            if word < switching:
                ahead = 1 + word // self._threshold
                if late is not None and late[at] + ahead >= self._window:
                    ahead = 0
            if ahead < held:
                break
        self._held = held - 1
        slots = self._slots
        out = slots[at]
        if ahead:
            other = at + ahead
            if other >= self._window:
                other -= self._window
            if late is not None:
                late[other] = late[at] + ahead
            out = slots[other]
            slots[other] = slots[at]
        if late is not None:
            late[at] = 0
        return out


class StaSwitch(RanSwitch):
    """RanSwitch in which no value is released more than k-1 steps late.

    Each value carries its lateness; a switch that would take the value in the
    current slot beyond k-1 is not made (d = 0).
    """

    def __init__(self, task, entropy):
        RanSwitch.__init__(self, task, entropy)
        self._late = array("B" if task.window <= 256 else "H", [0] * task.window)
