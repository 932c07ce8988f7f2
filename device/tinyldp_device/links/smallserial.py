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

    sequence, hello: of the last acknowledgement that receive() found.
    rejected: frames that were none of this boot, or damaged.
    """

    def __init__(self, port, nonce):
        self.rejected = 0
        self.sequence = 0
        self.hello = False
        self._port = port
        self._crc = Crc32()
        self._known = b"\x84\x02\x44" + nonce + b"\x44"
        self._chunk = bytearray(_CHUNK)
        self._at = 0
        self._end = 0
        self._inbox = bytearray(_ACK + 1)
        self._got = 0

    def write(self, frame):
        """True when the whole frame went out; a torn one is left to the CRC."""
        return self._port.write(frame) == len(frame)

    def frame(self, message, out):
        """Write the frame of a message, laid out like it, into out. Allocates nothing."""
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
                if got <= _ACK:
                    self._inbox[got] = byte
                    self._got = got + 1
            elif got:
                self._got = 0
                if got == _ACK and self._take():
                    return True
                if self.rejected < COUNTER_MAX:
                    self.rejected += 1
        return False

    def _take(self):
        """Whether the inbox holds an acknowledgement of this boot."""
        inbox = self._inbox
        at = 0
        while at < _ACK:
            ahead = inbox[at]
            inbox[at] = 0
            at += ahead
        crc = self._crc
        crc.reset()
        crc.feed(inbox, 1, _ACK)
        if at != _ACK or crc.low != _RESIDUE_LOW or crc.high != _RESIDUE_HIGH:
            return False
        for i in range(len(self._known)):
            if inbox[1 + i] != self._known[i]:
                return False
        if inbox[12] > 63 or inbox[13] | 1 != 0xF5:
            return False
        self.hello = inbox[13] == 0xF5
        self.sequence = inbox[9] | inbox[10] << 8 | inbox[11] << 16 | inbox[12] << 24
        return True
