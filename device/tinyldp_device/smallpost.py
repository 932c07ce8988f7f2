"""How a small agent's releases leave, and what it makes of the host's acknowledgements.

A board may have room for three answers, of 20 bytes, while it is busy. An answer may
stand for several frames; on a line, what was sent before a frame that is acknowledged
was answered before.
"""

from tinyldp_device.links.smallserial import SmallSerial
from tinyldp_device.outbox import Outbox
from tinyldp_device.smallsignals import (
    HELLO_LOWEST,
    STATUS_DROPS,
    STATUS_LOWEST,
    SmallSignals,
    small_message,
)
from tinyldp_protocol.messages import RUNNING, set_word

_MESSAGES_A_TICK = 4
_FAREWELLS = 3
_CREDITS = 3


class SmallPost(SmallSignals):
    """Signals, the outbox and its acknowledgements, on a serial port."""

    def __init__(self, task, entropy, port, pseudonym):
        line = SmallSerial(port, bytes(entropy.nonce[:4]))
        SmallSignals.__init__(self, task, entropy, line, pseudonym, _CREDITS, task.resend)
        size = task.batch * task.width
        head = bytes([0x40 + size]) if size < 24 else bytes([0x58, size])
        release = b"\x84\x01" + self._boot + self._word + head
        self._release = small_message(release, size)
        self.outbox = Outbox([bytearray(len(self._release)) for _ in range(task.outbox)])
        self._resend = task.resend
        self._until_resend = task.resend
        self._farewells = 0

    def idle(self):
        """Whether the segment is over, the host has every frame, and was told so thrice."""
        return self._farewells >= _FAREWELLS

    def listen(self):
        """Take in what the host says; may be called at any time, for a ring soon overruns."""
        line = self.line
        outbox = self.outbox
        for _ in range(_MESSAGES_A_TICK):
            if not line.receive():
                break
            self._acknowledged()
            lowest = outbox.lowest
            sequence = line.sequence()
            outbox.free(sequence)
            if outbox.lowest != lowest:
                self._until_resend = self._resend
            self._open = max(0, self._open - 1)
            if sequence == outbox.unsent:
                self._open = min(self._open, self._signals)

    def exchange(self):
        """Send what is due, signals first. To be called once a step, after listen().

        But the last place goes to a release that waits, if a signal went since the one
        before: else signals could take the place of every answer.
        """
        outbox = self.outbox
        self._wait()
        last = self._open >= self._credits - 1 and self._signals and outbox.unsent < outbox.next
        if self._until_beacon <= 0 and not last and self._signal():
            self._until_beacon = self._beacon
            if self.health != RUNNING and outbox.lowest == outbox.next:
                self._farewells += 1
        if outbox.unsent > outbox.lowest:
            self._until_resend -= 1
            if self._until_resend <= 0:
                outbox.resend()
        while (last or self._until_beacon > 0) and outbox.unsent < outbox.next:
            if not self._send(outbox.slot(outbox.unsent)):
                break
            if outbox.unsent == outbox.lowest:
                self._until_resend = self._resend
            outbox.unsent += 1
            self._signals = 0

    def _fill(self):
        outbox = self.outbox
        set_word(self._hello, HELLO_LOWEST, outbox.lowest)
        set_word(self._status, STATUS_DROPS, outbox.drops)
        set_word(self._status, STATUS_LOWEST, outbox.lowest)
