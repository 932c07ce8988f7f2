"""What a small agent says about itself, and how many of its frames may be unanswered.

Messages are templates in which what changes is written at fixed places.

Each frame that the host receives is its credit for one of its own, and a board has
little room for them while it is busy. So it leaves only `credits` frames unanswered.
What got no answer within `patience` steps gets none any more.
"""

from tinyldp_device.signals import SOFTWARE
from tinyldp_protocol.framing import TAIL
from tinyldp_protocol.messages import RUNNING, set_word

# Where, in a message laid out like its frame, the contents begin.
HELLO_LOWEST = 38
_STATUS_HEALTH = 9
STATUS_DROPS = 11
STATUS_LOWEST = 16
_STATUS_COUNT = 21


class SmallSignals:
    """Hello and status on a SmallSerial, and the host's acknowledgement of hello.

    health: one of messages' health codes; count: values released so far. Those who build
    on it _fill() in what else these say.
    """

    def __init__(self, task, entropy, line, pseudonym, credits, patience):
        self.health = RUNNING
        self.count = 0
        self.line = line
        self._credits = credits
        self._patience = patience
        # A boot's and a counter's bytes in a message, of which templates are made.
        self._boot = b"\x44" + bytes(entropy.nonce[:4])
        self._word = word = b"\x44" + bytes(4)
        status = b"\x86\x03" + self._boot + b"\0" + word + word + word
        self._status = small_message(status, 0)
        hello = b"\x88\x00\x01\x43" + SOFTWARE + b"\x48" + task.id + b"\x48" + pseudonym
        hello += b"\x48" + bytes(entropy.nonce) + bytes([entropy.quality])
        self._hello = small_message(hello + word, 0)
        self._hello_known = False
        self._beacon = task.beacon
        self._until_beacon = 0
        # Frames that the host may still answer, those of them after the last that was no
        # signal, and steps until none of them counts any more.
        self._open = 0
        self._signals = 0
        self._until_closed = 0

    def _acknowledged(self):
        """Take in an acknowledgement that the line has received."""
        line = self.line
        if line.hello and self._hello_known:
            self._until_beacon = 0
        self._hello_known = not line.hello

    def _halt(self, health):
        self.health = health
        self._until_beacon = 0

    def _fill(self):
        """Write what is not known here into hello and status."""

    def _wait(self):
        """Once a step: for answers and for the next beacon."""
        self._until_closed -= 1
        if self._until_closed <= 0:
            self._open = 0
        self._until_beacon -= 1

    def _signal(self):
        """Send hello until the host has it, and status; True when both were taken."""
        self._fill()
        self._status[_STATUS_HEALTH] = self.health
        set_word(self._status, _STATUS_COUNT, self.count)
        for i in range(int(self._hello_known), 2):
            message = self._status if i else self._hello
            # So rare that their frames need no place of their own.
            frame = bytearray(len(message))
            self.line.frame(message, frame)
            if not self._send(frame):
                return False
            self._signals += 1
        return True

    def _send(self, frame):
        """Whether the host's answer to one more frame finds room, and the whole frame left."""
        if self._open == self._credits or not self.line.write(frame):
            return False
        self._open += 1
        self._until_closed = self._patience
        return True


def small_message(content, more):
    """A message laid out like its frame, with `more` zeros at its end."""
    return bytearray(b"\0\0" + content + bytes(more + TAIL))
