"""A serial line for boards with a few kilobytes: the frames of links.serial, less code.

Nothing is decoded here but an acknowledgement of this boot, whose frame has one
length and begins with bytes that are known; all else is counted and ignored.
"""

from tinyldp_protocol.framing import HEAD, TAIL, Crc32
from tinyldp_protocol.messages import COUNTER_MAX

_CHUNK = 48
# COBS code, ack, CRC; what the CRC is after a message and its own CRC.
_ACK = 18
_RESIDUE_LOW = 0xEBB20E3
_RESIDUE_HIGH = 0xD000000


class SmallSerial:
    """port: write(buf) and readinto(buf), neither of which waits; nonce: its first 4 bytes.

    hello: of the last acknowledgement that receive() found.
    rejected: frames that were none of this boot, or damaged.
    """

    def __init__(self, port, nonce):
        self.rejected = 0
        self.hello = False
        self._port = port
        self._crc = Crc32()
        self._known = b"\x84\x02\x44" + nonce + b"\x44"
        self._chunk = bytearray(_CHUNK)
        self._at = 0
        self._end = 0
        self._inbox = bytearray(_ACK + 1)
        self._got = 0

    def sequence(self):
        """Of that one."""
        inbox = self._inbox
        return inbox[9] | inbox[10] << 8 | inbox[11] << 16 | inbox[12] << 24

    def write(self, frame):
        """True when the whole frame went out; a torn one is left to the CRC."""
        return self._port.write(frame) == len(frame)

    def frame(self, message, out):
        """Write the frame of a message, laid out like it, into out."""
        end = len(message) - TAIL
        crc = self._crc
        crc.reset()
        crc.feed(message, HEAD, end)
        crc.put(message, end)
        zero = end + 4
        for i in range(zero - 1, HEAD - 1, -1):
            byte = message[i]
            if not byte:
                byte = zero - i
                zero = i
            out[i] = byte
        out[HEAD - 1] = zero - HEAD + 1

    def receive(self):
        """Whether there is another acknowledgement; reads at most one chunk."""
        if self._at == self._end:
            self._at = 0
            self._end = self._port.readinto(self._chunk) or 0
        while self._at < self._end:
            byte = self._chunk[self._at]
            self._at += 1
            got = self._got
            if byte:
                if got < len(self._inbox):
                    self._inbox[got] = byte
                    self._got = got + 1
            elif got:
                self._got = 0
                if self._take(got):
                    return True
                if self.rejected < COUNTER_MAX:
                    self.rejected += 1
        return False

    def _take(self, got):
        """Whether the inbox, so many bytes, holds an acknowledgement of this boot."""
        taken = self._whole(got)
        if taken:
            taken = self._is_ack(got)
        return taken

    def _whole(self, got):
        """Undo COBS; whether the CRC is right."""
        inbox = self._inbox
        at = 0
        while at < got:
            ahead = inbox[at]
            inbox[at] = 0
            at += ahead
        crc = self._crc
        crc.reset()
        crc.feed(inbox, 1, got)
        return at == got and crc.low == _RESIDUE_LOW and crc.high == _RESIDUE_HIGH

    def _is_ack(self, got):
        inbox = self._inbox
        for i in range(len(self._known)):
            if inbox[1 + i] != self._known[i]:
                got = 0
        self.hello = inbox[13] == 0xF5
        return got == _ACK and inbox[12] < 64 and inbox[13] | 1 == 0xF5
