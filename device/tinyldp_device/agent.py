"""The loop: reading -> symbol -> mechanism -> frame -> outbox -> link, on a fixed tick.

tick(reading) is the per-sample path and allocates nothing; service() does the
rest: link, acknowledgements, hello, status, resending, the next random words.
Nothing in either depends on a reading, except the released values themselves.

A link offers

    encoder(message, same, counted)  as framing.Encoder: slot and frame
    write(frame)                     True when the whole frame was taken
    receive()                        bytes of one message now in link.inbox, or 0
"""

from tinyldp_device.entropy import EntropyError
from tinyldp_device.mechanism import make_mechanism, step_words
from tinyldp_device.outbox import Outbox
from tinyldp_device.quantize import Quantizer
from tinyldp_device.signals import FAREWELLS, MESSAGES_A_TICK, Signals, framed
from tinyldp_protocol.cbor import Malformed
from tinyldp_protocol.framing import HEAD, TAIL
from tinyldp_protocol.messages import (
    COUNTER_END,
    COUNTER_MAX,
    ENDED,
    ENTROPY_FAILED,
    RUNNING,
    SEQUENCE_AT,
    check_ack,
    get_word,
    put_release,
)
from tinyldp_protocol.task import OUE


class Agent:
    """One device: a Task, its randomness, a link and an 8-byte pseudonym.

    health: one of messages' health codes; count: values released so far;
    rejected: messages from the host that were malformed or not for this boot.
    looks: how often a step run() looks for what the host says.
    """

    looks = 1

    def __init__(self, task, entropy, link, pseudonym):
        self.health = RUNNING
        self.count = 0
        self.rejected = 0
        self._task = task
        self._entropy = entropy
        self._link = link
        self._signals = Signals(task, entropy, link, pseudonym)
        self._quantizer = Quantizer(task)
        self._mechanism = make_mechanism(task, entropy)
        self._words = step_words(task)
        self._stopping = False

        # Whether a report is bytes, or an integer of two.
        self._wide = task.width > 1 or task.mechanism == OUE
        self._release = framed(self._put_release)
        end = len(self._release) - TAIL
        self._values_at = end - task.payload
        self._values_end = end
        self._at = self._values_at
        same = HEAD + SEQUENCE_AT
        self._encoder = link.encoder(self._release, same, self._values_at - same)
        self.outbox = Outbox([self._encoder.slot() for _ in range(task.outbox)])

        self._until_resend = task.resend
        self._farewells = 0

    def tick(self, reading):
        """One step of the device's time, with the reading latched for it, or None.

        After stop() the reading is ignored and what the mechanism still holds
        leaves, one value a tick.
        """
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
        if self._wide:
            at = self._put_wide(at, released)
        else:
            self._release[at] = released
            at += 1
        self._at = at
        count = self.count + 1
        self.count = count
        if at == self._values_end:
            # As _close(), but for the call.
            self._at = self._values_at
            outbox = self.outbox
            self._encoder.frame(outbox.add(), outbox.next - 1)
        if count == COUNTER_MAX:
            self._halt(COUNTER_END)

    def _put_wide(self, at, released):
        """Write a report that is bytes, or an integer of two; give the position after it."""
        release = self._release
        if type(released) is int:
            release[at] = released & 255
            release[at + 1] = released >> 8
            return at + 2
        for i in range(len(released)):
            release[at + i] = released[i]
        return at + len(released)

    def stop(self):
        """End the segment: from now on each tick releases what is still held."""
        self._stopping = True

    def idle(self):
        """Whether the segment is over, the host has every frame, and was told so thrice."""
        return self._farewells >= FAREWELLS

    def service(self):
        """Once for each tick: take in what the host says, send what is due."""
        if self.health == RUNNING:
            try:
                self._entropy.refill(self._words)
            except EntropyError:
                self._halt(ENTROPY_FAILED)
        link = self._link
        for _ in range(MESSAGES_A_TICK):
            n = link.receive()
            if not n:
                break
            self._take(link.inbox, n)
        outbox = self.outbox
        sent = self._signals.send(self.health, outbox.drops, outbox.lowest, self.count)
        if sent and self.health != RUNNING and outbox.lowest == outbox.next:
            self._farewells += 1
        if outbox.unsent > outbox.lowest:
            self._until_resend -= 1
            if self._until_resend <= 0:
                outbox.resend()
        while outbox.unsent < outbox.next:
            if not link.write(outbox.slot(outbox.unsent)):
                break
            if outbox.unsent == outbox.lowest:
                self._until_resend = self._task.resend
            outbox.unsent += 1

    def _halt(self, health):
        """End the segment; what its last frame lacks is padding."""
        if self._at != self._values_at:
            for i in range(self._at, self._values_end):
                self._release[i] = 0
            self._close()
        self.health = health
        self._signals.until = 0

    def _close(self):
        """Finish the frame under construction."""
        self._at = self._values_at
        outbox = self.outbox
        self._encoder.frame(outbox.add(), outbox.next - 1)

    def _put_release(self, buf, pos):
        return put_release(buf, pos, self._signals.nonce, 0, bytes(self._task.payload))

    def _take(self, buf, n):
        """Take in one message of n bytes: only an ack of this boot has an effect."""
        try:
            check_ack(buf, n)
            heard = self._signals.hear(buf)
        except Malformed:
            heard = False
        if not heard:
            if self.rejected < COUNTER_MAX:
                self.rejected += 1
            return
        outbox = self.outbox
        lowest = outbox.lowest
        outbox.free(get_word(buf, SEQUENCE_AT))
        if outbox.lowest != lowest:
            self._until_resend = self._task.resend


def run(agent, period, sample, clock):
    """Play a whole segment in real time: one sample() each `period` ms.

    clock: ticks_ms, ticks_add, ticks_diff and sleep_ms, as in MicroPython's time.
    sample() gives the reading latched for this step; when it raises
    StopIteration the segment ends. When it raises anything else, comes after its
    step is over, or its step was slept through, the reading is missing and the
    frame leaves as always.

    What a step has released leaves at the start of the next one, so that the
    time which sample() takes shows nowhere, as long as it is less than the
    period: a sample() that may take longer would tell so by a late frame.
    An agent that answers queries also does so within the step, at fixed moments,
    agent.looks in all: there sample() must take less than the time between two.
    """
    due = clock.ticks_ms()
    ended = False
    while True:
        late = clock.ticks_diff(clock.ticks_ms(), due)
        if late < 0:
            clock.sleep_ms(-late)
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
        for i in range(1, agent.looks):
            wait = clock.ticks_diff(
                clock.ticks_add(due, i * period // agent.looks), clock.ticks_ms()
            )
            if wait > 0:
                clock.sleep_ms(wait)
                agent.look()
        due = clock.ticks_add(due, period)
