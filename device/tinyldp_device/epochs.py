"""Answers of a device whose Task has epochs: Thresh or HeavyThresh, under its lifetime counters.

The host's t is the number of an epoch. A new t is bound to the device's last complete
epoch, one t to an epoch; t's phase 0 is a vote, phase 1 an estimate, whose entry 1 says
that this is an update. Every phase is answered, in one shape and with two writes of one
size, whether or not there was anything to say.
"""

from tinyldp_device.ledger import FRESH
from tinyldp_device.lifetime import REFERENCE_AT
from tinyldp_protocol.messages import EARLY
from tinyldp_protocol.task import THRESH


class Epochs:
    """What a RoundAgent asks: see OracleRounds."""

    def __init__(self, task, entropy, lifetime):
        self._task = task
        self._entropy = entropy
        self._lifetime = lifetime
        self._thresh = make_thresh(task, entropy)
        self._report = bytearray(task.payload)

    def step(self, symbol):
        """The next own step; there always is one. Allocates nothing."""
        self._thresh.step(symbol)
        return True

    def settle(self, t, phase, entry):
        """FRESH: report(phase) was made now; STORED: before; else the reason of a refusal."""
        lifetime = self._lifetime
        result = lifetime.ask(t, phase, entry)
        if result != FRESH:
            return result
        if t != lifetime.t:
            if not self._thresh.ready:
                return EARLY
            lifetime.bind(t)
            self._thresh.take(lifetime.data, lifetime.bound_at)
        for i in range(len(self._report)):
            self._report[i] = 0
        if phase:
            self._estimate(entry)
        else:
            self._vote(t)
        lifetime.keep(phase, self._report)
        return FRESH

    def report(self, phase):
        """The bytes of the answer."""
        return self._lifetime.report(phase)

    def entry(self, phase):
        """The entry that it was given for."""
        return self._lifetime.entry(phase)

    def checkpoint(self):
        """Once for each step: what a reset loses of an epoch is not worth storing."""

    def _vote(self, t):
        lifetime = self._lifetime
        thresh = self._thresh
        # Worked out whether or not it matters, and so in the same time.
        changed = thresh.votes(t, thresh.difference(lifetime.data, lifetime.bound_at, REFERENCE_AT))
        yes = changed and lifetime.known() and lifetime.left(0)
        lifetime.count(0, 0, yes)
        self._entropy.refill(2)
        thresh.vote(self._report, yes, lifetime.left(0) if polled(self._task, t) else None)

    def _estimate(self, entry):
        lifetime = self._lifetime
        said = entry == 1 and lifetime.left(1)
        if entry:
            lifetime.update()
        lifetime.count(1, entry, said)
        self._entropy.refill(3)
        self._thresh.estimate(self._report, lifetime.data, lifetime.bound_at, said)


def make_thresh(task, entropy):
    """A fresh Thresh or HeavyThresh, which draws from entropy.word()."""
    # Imported where they are used: a board holds what it runs.
    if task.mechanism == THRESH:
        from tinyldp_device.thresh import Thresh

        return Thresh(task, entropy)
    from tinyldp_device.heavythresh import HeavyThresh

    return HeavyThresh(task, entropy)


def polled(task, t):
    """Whether epoch t has a poll."""
    if task.polls is None:
        return False
    every = task.epochs // task.polls
    return t % every == 0 and t <= every * task.polls
