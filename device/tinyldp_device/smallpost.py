"""What a small agent says besides its values, and what it makes of the host's answers.

Messages are templates in which what changes is written at fixed places.

Each frame that the host receives is its credit for one answer, and a board may have
room for three, of 20 bytes, while it is busy. So no more than three frames are ever
unanswered. An answer may stand for several frames; on a line, what was sent before a
frame that is acknowledged was answered before. What got no answer within Task.resend
steps gets none any more.
"""

from tinyldp_device.links.smallserial import SmallSerial
from tinyldp_device.outbox import Outbox
from tinyldp_protocol.framing import TAIL
from tinyldp_protocol.messages import RUNNING, set_word

_SOFTWARE = b"\x00\x01\x00"
_MESSAGES_A_TICK = 4
_FAREWELLS = 3
_CREDITS = 3
# Where, in a message laid out like its frame, the contents begin.
_HELLO_LOWEST = 38
_STATUS_HEALTH = 9
_STATUS_DROPS = 11
_STATUS_LOWEST = 16
_STATUS_COUNT = 21


class SmallPost:
    """Hello, status, the outbox and its acknowledgements, on a serial port.

    health: one of messages' health codes; count: values released so far.
    """

    def __init__(self, task, entropy, port, pseudonym):
        self.health = RUNNING
        self.count = 0
        self._resend = task.resend
        self._beacon = task.beacon
        boot = b"\x44" + bytes(entropy.nonce[:4])
        word = b"\x44" + bytes(4)
        size = task.batch * task.width
        head = bytes([0x40 + size]) if size < 24 else bytes([0x58, size])
        self.line = SmallSerial(port, boot[1:])
        self._release = _message(b"\x84\x01" + boot + word + head, size)
        self.outbox = Outbox([bytearray(len(self._release)) for _ in range(task.outbox)])
        self._status = _message(b"\x86\x03" + boot + b"\0" + word + word + word, 0)
        self._status_frame = bytearray(len(self._status))
        hello = b"\x88\x00\x01\x43" + _SOFTWARE + b"\x48" + task.id + b"\x48" + pseudonym
        hello += b"\x48" + bytes(entropy.nonce) + bytes([entropy.quality])
        self._hello = _message(hello + word, 0)
        self._hello_frame = bytearray(len(self._hello))
        self._hello_known = False
        self._until_beacon = 0
        self._until_resend = task.resend
        self._farewells = 0
        # Frames that the host may still answer, those of them after the last release, and
        # steps until none of them counts any more.
        self._open = 0
        self._signals = 0
        self._until_closed = 0

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
            if line.hello and self._hello_known:
                self._until_beacon = 0
            self._hello_known = not line.hello
            lowest = outbox.lowest
            outbox.free(line.sequence)
            if outbox.lowest != lowest:
                self._until_resend = self._resend
            self._open = max(0, self._open - 1)
            if line.sequence == outbox.unsent:
                self._open = min(self._open, self._signals)

    def exchange(self):
        """Send what is due, signals first. To be called once a step, after listen().

        But the last place goes to a release that waits, if a signal went since the one
        before: else signals could take the place of every answer.
        """
        outbox = self.outbox
        self._until_closed -= 1
        if self._until_closed <= 0:
            self._open = 0
        self._until_beacon -= 1
        last = self._open >= _CREDITS - 1 and self._signals and outbox.unsent < outbox.next
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

    def _signal(self):
        """Send hello until the host has it, and status; True when both were taken."""
        line = self.line
        outbox = self.outbox
        if not self._hello_known:
            set_word(self._hello, _HELLO_LOWEST, outbox.lowest)
            line.frame(self._hello, self._hello_frame)
            if not self._send(self._hello_frame):
                return False
            self._signals += 1
        status = self._status
        status[_STATUS_HEALTH] = self.health
        set_word(status, _STATUS_DROPS, outbox.drops)
        set_word(status, _STATUS_LOWEST, outbox.lowest)
        set_word(status, _STATUS_COUNT, self.count)
        line.frame(status, self._status_frame)
        if not self._send(self._status_frame):
            return False
        self._signals += 1
        return True

    def _send(self, frame):
        """Whether the host's answer to one more frame finds room, and the whole frame left."""
        if self._open == _CREDITS or not self.line.write(frame):
            return False
        self._open += 1
        self._until_closed = self._resend
        return True


def _message(content, more):
    """A message laid out like its frame, with `more` zeros at its end."""
    return bytearray(b"\0\0" + content + bytes(more + TAIL))
