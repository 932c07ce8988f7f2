"""Answers of a device whose Task has a method: its oracle, under its ledger.

What a step's value is shows only in a report, for which the ledger has been paid
before the oracle draws, and which is stored before it leaves.
"""

from tinyldp_device.ledger import FRESH
from tinyldp_device.mechanism import make_oracle, step_words
from tinyldp_protocol.task import OLH, OUE


class OracleRounds:
    """What a RoundAgent asks."""

    def __init__(self, task, entropy, ledger):
        self._task = task
        self._entropy = entropy
        self._ledger = ledger
        self._oracle = make_oracle(task, entropy)
        self._words = step_words(task)
        # Whether a report is bytes, or an integer.
        self._bytes = task.mechanism == OUE or task.mechanism == OLH
        # Of the present step, and of the one that is bound once it is over.
        self._symbol = 0
        self._bound = 0

    def step(self, symbol):
        """The next own step, with its symbol; False when there is none. Allocates nothing."""
        ledger = self._ledger
        if ledger.bound == ledger.now:
            self._bound = self._symbol
        self._symbol = symbol
        return ledger.step()

    def settle(self, t, phase, entry):
        """FRESH: report(phase) was made now; STORED: before; else the reason of a refusal."""
        ledger = self._ledger
        result = ledger.ask(t, phase, entry)
        if result == FRESH:
            self._entropy.refill(self._words)
            self._oracle.threshold = self._task.thresholds[entry]
            report = self._oracle.step(self._symbol if ledger.bound == ledger.now else self._bound)
            if not self._bytes:
                report = (report & 255, report >> 8)  # type: ignore
            ledger.keep(phase, report)
        return result

    def report(self, phase):
        """The bytes of the answer."""
        return self._ledger.report(phase)

    def entry(self, phase):
        """The entry that it was paid with."""
        return self._ledger.entry(phase)

    def checkpoint(self):
        """Once for each step: stores now and then how far it has come."""
        self._ledger.checkpoint()
