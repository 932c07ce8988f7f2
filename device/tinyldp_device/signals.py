"""What a device says about itself: hello until the host has it, and its status."""

from tinyldp_protocol.framing import HEAD, TAIL
from tinyldp_protocol.messages import ACK_HELLO_AT, NONCE_AT, put_hello, put_status

SOFTWARE = b"\x00\x01\x00"
# An agent takes in so many messages for each tick, and says goodbye so many times.
MESSAGES_A_TICK = 4
FAREWELLS = 3


class Signals:
    """Hello and status of one boot, every task.beacon ticks.

    nonce: the first 4 bytes of the boot nonce. known: the host has hello.
    until: ticks to the next time; 0 for at once.
    """

    def __init__(self, task, entropy, link, pseudonym):
        self.nonce = bytes(entropy.nonce[:4])
        self.known = False
        self.until = 0
        self._task = task
        self._entropy = entropy
        self._link = link
        self._pseudonym = pseudonym
        self._hello = framed(self._put_hello)
        self._hello_encoder = link.encoder(self._hello, HEAD, 0)
        self._hello_frame = self._hello_encoder.slot()
        self._status = framed(self._put_status)
        self._status_encoder = link.encoder(self._status, HEAD, 0)
        self._status_frame = self._status_encoder.slot()

    def send(self, health, drops, lowest, count):
        """Once for each tick: True when the link took all that was due."""
        self.until -= 1
        if self.until > 0:
            return False
        link = self._link
        if not self.known:
            self._put_hello(self._hello, HEAD, lowest)
            self._hello_encoder.frame(self._hello_frame)
            if not link.write(self._hello_frame):
                return False
        self._put_status(self._status, HEAD, health, drops, lowest, count)
        self._status_encoder.frame(self._status_frame)
        if not link.write(self._status_frame):
            return False
        self.until = self._task.beacon
        return True

    def hear(self, buf):
        """Take in an ack; False when it is for another boot."""
        for i in range(4):
            if buf[NONCE_AT + i] != self.nonce[i]:
                return False
        wanted = buf[ACK_HELLO_AT] == 0xF5
        if wanted and self.known:
            self.until = 0
        self.known = not wanted
        return True

    def _put_hello(self, buf, pos, lowest=0):
        return put_hello(
            buf,
            pos,
            SOFTWARE,
            self._task.id,
            self._pseudonym,
            self._entropy.nonce,
            self._entropy.quality,
            lowest,
        )

    def _put_status(self, buf, pos, health=0, drops=0, lowest=0, count=0):
        return put_status(buf, pos, self.nonce, health, drops, lowest, count)


def framed(put):
    """A buffer for messages of one kind, laid out like a frame, with the first one in it."""
    message = bytearray(HEAD + put(None, 0) + TAIL)
    put(message, HEAD)
    return message
