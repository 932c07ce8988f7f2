"""Answers of a device whose Task has a method: its oracle, under its ledger.

What a step's value is shows only in a report, for which the ledger has been paid
before the oracle draws, and which is stored before it leaves.
"""

from tinyldp_device.ledger import FRESH
from tinyldp_device.mechanism import make_oracle, step_words


class OracleRounds:
    """What a RoundAgent asks."""

    def __init__(self, task, entropy, ledger):
        self._task = task
        self._entropy = entropy
        self._ledger = ledger
        self._oracle = make_oracle(task, entropy)
        self._words = step_words(task)
        # Of the present step, and of the one that is bound.
        self._symbol = 0
        self._bound = 0
        self._report = bytearray(task.payload)

    def step(self, symbol):
        """The next own step, with its symbol; False when there is none. Allocates nothing."""
        self._symbol = symbol
        return self._ledger.step()

    def settle(self, t, phase, entry):
        """FRESH: report(phase) was made now; STORED: before; else the reason of a refusal."""
        ledger = self._ledger
        before = ledger.t
        try:
            result = ledger.ask(t, phase, entry)
        finally:
            # Bound it is, even where storing it failed.
            if ledger.t != before:
                self._bound = self._symbol
        if result != FRESH:
            return result
        self._entropy.refill(self._words)
        self._oracle.threshold = self._task.thresholds[entry]
        report = self._oracle.step(self._bound)
        if type(report) is int:
            self._report[0] = report & 255
            if self._task.width > 1:
                self._report[1] = report >> 8
            report = self._report
        ledger.keep(phase, report)
        return FRESH

    def report(self, phase):
        """The bytes of the answer."""
        return self._ledger.report(phase)

    def entry(self, phase):
        """The entry that it was paid with."""
        return self._ledger.entry(phase)

    def checkpoint(self):
        """Once for each step: stores now and then how far it has come."""
        self._ledger.checkpoint()
