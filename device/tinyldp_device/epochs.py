"""Answers of a device whose Task has epochs: Thresh or HeavyThresh, under its lifetime counters.

The host's t is the number of an epoch. A new t is bound to the device's last complete
epoch, one t to an epoch; t's phase 0 is a vote, phase 1 an estimate, whose entry 1 says
that this is an update. Every phase is answered, in one shape and with two writes of one
size, whether or not there was anything to say.

An epoch of HeavyThresh counts as complete when it was compared with the reference, some
steps later; after an update that is done once more. Nothing is bound or stored before.
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
        if self._task.items is not None:
            self._thresh.compare(self._lifetime.data, REFERENCE_AT)  # type: ignore
        return True

    def settle(self, t, phase, entry):
        """FRESH: report(phase) was made now; STORED: before; else the reason of a refusal."""
        lifetime = self._lifetime
        result = lifetime.ask(t, phase, entry)
        if result == FRESH and t != lifetime.t:
            if self._thresh.ready:
                lifetime.bind(t)
                self._thresh.take(lifetime.data, lifetime.bound_at)
            else:
                result = EARLY
        if result == FRESH:
            said = self._says(t, phase, entry)
            lifetime.count(phase, entry, said)
            self._entropy.refill(2)
            if phase:
                self._thresh.estimate(self._report, lifetime.data, lifetime.bound_at, said)
            else:
                poll = lifetime.left(0) if polled(self._task, t) else None
                self._thresh.vote(self._report, said, poll)
            lifetime.keep(phase, self._report)
        return result

    def report(self, phase):
        """The bytes of the answer."""
        return self._lifetime.report(phase)

    def entry(self, phase):
        """The entry that it was given for."""
        return self._lifetime.entry(phase)

    def checkpoint(self):
        """Once for each step: what a reset loses of an epoch is not worth storing."""

    def _says(self, t, phase, entry):
        """Whether a phase tells anything; in entry 1 the epoch becomes the reference."""
        lifetime = self._lifetime
        thresh = self._thresh
        # All is worked out whether or not it matters, and so in the same time.
        left = lifetime.left(phase)
        if phase:
            says = entry == 1
        else:
            gap = thresh.difference(lifetime.data, lifetime.bound_at, REFERENCE_AT)
            votes = thresh.votes(t, gap)
            says = lifetime.known() and votes
        says = says and left
        if entry:
            lifetime.update()
            if self._task.items is not None:
                thresh.restart()  # type: ignore
        return says


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
