"""agent.Agent for boards with a few kilobytes: the same frames, on a serial line only."""

from tinyldp_device.entropy import EntropyError
from tinyldp_device.mechanism import make_mechanism, step_words
from tinyldp_device.quantize import Quantizer
from tinyldp_device.smallpost import SmallPost
from tinyldp_protocol.framing import TAIL
from tinyldp_protocol.messages import (
    COUNTER_END,
    COUNTER_MAX,
    ENDED,
    ENTROPY_FAILED,
    RUNNING,
    set_word,
)
from tinyldp_protocol.task import OLH, OUE

# Where a release's sequence number begins, in a message laid out like its frame.
_SEQUENCE = 10


class SmallAgent(SmallPost):
    """One device: a Task, its randomness, a serial port and an 8-byte pseudonym."""

    def __init__(self, task, entropy, port, pseudonym):
        SmallPost.__init__(self, task, entropy, port, pseudonym)
        self._entropy = entropy
        self._quantizer = Quantizer(task)
        self._mechanism = make_mechanism(task, entropy)
        self._words = step_words(task)
        self._stopping = False
        # Whether a report is bytes; else whether it is an integer of two.
        self._bytes = task.mechanism == OUE or task.mechanism == OLH
        self._wide = task.width == 2
        self._values_end = len(self._release) - TAIL
        self._values_at = self._values_end - task.batch * task.width
        self._at = self._values_at

    def tick(self, reading):
        """One step of the device's time, with the reading latched for it, or None."""
        if self.health != RUNNING:
            return
        try:
            if self._stopping:
                released = self._mechanism.flush()
            else:
                released = self._mechanism.step(self._quantizer.symbol(reading))
        except EntropyError:
            self._halt(ENTROPY_FAILED)
            return
        if released is None:
            if self._stopping:
                self._halt(ENDED)
            return
        at = self._at
        if self._bytes:
            for i in range(len(released)):
                self._release[at] = released[i]
                at += 1
        else:
            if self._wide:
                self._release[at] = released & 255
                at += 1
                released >>= 8
            self._release[at] = released
            at += 1
        self._at = at
        self.count += 1
        if at == self._values_end:
            self._close()
        if self.count == COUNTER_MAX:
            self._halt(COUNTER_END)

    def stop(self):
        """End the segment: from now on each tick releases what is still held."""
        self._stopping = True

    def service(self):
        """After each tick: the next random words, what the host says, what is due."""
        if self.health == RUNNING:
            try:
                self._entropy.refill(self._words)
            except EntropyError:
                self._halt(ENTROPY_FAILED)
        # Not where it halts, deep in a step: a call takes a seventh of a micro:bit's stack.
        if self.health != RUNNING and self._at != self._values_at:
            self._close()
        self.listen()
        self.exchange()

    def _close(self):
        """Finish the frame under construction; what is not filled is padding."""
        message = self._release
        for i in range(self._at, self._values_end):
            message[i] = 0
        self._at = self._values_at
        set_word(message, _SEQUENCE, self.outbox.next)
        slot = self.outbox.add()
        self.line.frame(message, slot)


def run(agent, period, sample, clock):
    """Play a whole segment in real time, as agent.run does; listens while it waits."""
    due = clock.ticks_ms()
    ended = False
    while True:
        late = clock.ticks_diff(clock.ticks_ms(), due)
        while late < 0:
            agent.listen()
            clock.sleep_ms(1)
            late = clock.ticks_diff(clock.ticks_ms(), due)
        agent.service()
        if agent.idle():
            return
        reading = None
        if late < period and not ended:
            try:
                reading = sample()
            except StopIteration:
                ended = True
                agent.stop()
            except Exception:
                pass
            if clock.ticks_diff(clock.ticks_ms(), due) >= period:
                reading = None
        agent.tick(reading)
        due = clock.ticks_add(due, period)
