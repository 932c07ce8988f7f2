"""Frames on a serial line.

    0x00 | COBS( message, CRC-32 of the message, little-endian ) | 0x00

The CRC is the IEEE one (reflected 0xEDB88320, as in zlib). COBS (Cheshire and
Baker, 1999) leaves no zero inside, so that a zero always means "a frame ends
here" and a receiver that joins in the middle, or has lost bytes, is in step
again at the next one. A delimiter on both sides keeps noise between two frames
from costing the second.

A message has 1 to 249 bytes: with its CRC it then fits in one COBS run of
254, so that every message of n bytes makes a frame of exactly n + 7 bytes and
no message has two encodings.

A small integer holds 30 bits: the CRC is kept in its low 28 bits and, 4 places
to the right of where they belong, its high 4 bits.
"""

MAX_MESSAGE = 249
# Bytes of a frame before the message, and after it.
HEAD = 2
TAIL = 5

# The CRC of each 4-bit value: low 28 bits, and high 4 bits moved right by 4.
_LOW = (
    0x0000000, 0xDB71064, 0xB6E20C8, 0x6D930AC,
    0x6DC4190, 0xB6B51F4, 0xDB26158, 0x005713C,
    0xDB88320, 0x00F9344, 0x6D6A3E8, 0xB61B38C,
    0xB64C2B0, 0x6D3D2D4, 0x00AE278, 0xDBDF21C,
)  # fmt: skip
_HIGH = (
    0x0000000, 0x1000000, 0x3000000, 0x2000000,
    0x7000000, 0x6000000, 0x4000000, 0x5000000,
    0xE000000, 0xF000000, 0xD000000, 0xC000000,
    0x9000000, 0x8000000, 0xA000000, 0xB000000,
)  # fmt: skip


class Crc32:
    """CRC-32 (IEEE) of what was fed since reset()."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.low = 0xFFFFFFF
        self.high = 0xF000000

    def feed(self, buf, start, end):
        """Take in buf[start:end]. Allocates nothing."""
        low = self.low
        high = self.high
        lows = _LOW
        highs = _HIGH
        for i in range(start, end):
            low ^= buf[i]
            n = low & 15
            low = low >> 4 ^ high ^ lows[n]
            high = low & 15
            low = low >> 4 ^ highs[n] ^ lows[high]
            high = highs[high]
        self.low = low
        self.high = high

    def put(self, buf, pos):
        """Write the CRC's four bytes, little-endian, at buf[pos]."""
        low = self.low ^ 0xFFFFFFF
        buf[pos] = low & 255
        buf[pos + 1] = low >> 8 & 255
        buf[pos + 2] = low >> 16 & 255
        buf[pos + 3] = low >> 24 | (self.high ^ 0xF000000) >> 20

    def matches(self, buf, pos):
        """Whether the four bytes at buf[pos] are this CRC."""
        low = self.low ^ 0xFFFFFFF
        return (
            buf[pos] == low & 255
            and buf[pos + 1] == low >> 8 & 255
            and buf[pos + 2] == low >> 16 & 255
            and buf[pos + 3] == low >> 24 | (self.high ^ 0xF000000) >> 20
        )


class Encoder:
    """Frames messages of one size that begin alike.

    message: a bytearray laid out like the frame, HEAD bytes, the message, TAIL
    bytes; the caller writes the message, the rest is the encoder's. Up to
    message[same] it is the same in every frame, and is encoded only once.

    counted: 0, or how many bytes from there on are a 4-byte little-endian number,
    which frame() sets, and constants after it. Going from one number to the next
    costs no CRC over them.
    """

    def __init__(self, message, same, counted=0):
        if len(message) > HEAD + MAX_MESSAGE + TAIL:
            raise ValueError("message too long")
        self._message = message
        self._same = same
        # The last place in the part that stays whose run reaches beyond it.
        self._open = HEAD - 1
        for i in range(HEAD, same):
            if not message[i]:
                self._open = i
        self._fed = same + counted
        self._crc = Crc32()
        self._number = -1
        self._lows = []
        self._highs = []
        self._feed()
        if counted:
            self._learn()

    def _feed(self):
        """The CRC's state before the first byte that changes freely."""
        crc = self._crc
        crc.reset()
        crc.feed(self._message, HEAD, self._fed)
        self._low = crc.low
        self._high = crc.high

    def _learn(self):
        """What flipping the lowest 1..8 bits of the number does to the state.

        A CRC is linear: the same bits flipped change it by the same difference,
        and counting on flips the lowest bits up to the first 0.
        """
        low = self._low
        high = self._high
        for bits in range(1, 9):
            self._message[self._same] ^= (1 << bits) - 1
            self._feed()
            self._message[self._same] ^= (1 << bits) - 1
            self._lows.append(self._low ^ low)
            self._highs.append(self._high ^ high)
        self._feed()

    def slot(self):
        """A new bytearray that frame() can write into."""
        message = self._message
        out = bytearray(len(message))
        last = HEAD - 1
        for i in range(HEAD, self._same):
            out[i] = message[i]
            if not out[i]:
                out[last] = i - last
                last = i
        return out

    def frame(self, out, number=-1):
        """Write the finished frame into a slot; number < 2^30, if counted. Allocates nothing."""
        message = self._message
        same = self._same
        end = len(message) - TAIL
        if number >= 0:
            flips = number & 255
            message[same] = flips
            if flips and number - 1 == self._number:
                bits = 0
                while not flips & 1:
                    flips >>= 1
                    bits += 1
                self._low ^= self._lows[bits]
                self._high ^= self._highs[bits]
            else:
                message[same + 1] = number >> 8 & 255
                message[same + 2] = number >> 16 & 255
                message[same + 3] = number >> 24
                self._feed()
            self._number = number
        # Crc32.feed and put, written out: on this path calls cost more than bytes.
        low = self._low
        high = self._high
        lows = _LOW
        highs = _HIGH
        for i in range(self._fed, end):
            low ^= message[i]
            n = low & 15
            low = low >> 4 ^ high ^ lows[n]
            high = low & 15
            low = low >> 4 ^ highs[n] ^ lows[high]
            high = highs[high]
        low ^= 0xFFFFFFF
        message[end] = low & 255
        message[end + 1] = low >> 8 & 255
        message[end + 2] = low >> 16 & 255
        message[end + 3] = low >> 24 | (high ^ 0xF000000) >> 20
        zero = end + 4
        for i in range(end + 3, same - 1, -1):
            byte = message[i]
            if byte:
                out[i] = byte
            else:
                out[i] = zero - i
                zero = i
        out[self._open] = zero - self._open


class Decoder:
    """Takes a byte stream apart into messages, and counts what it must reject.

    message: buffer that holds the last good message; length: its size, or 0.
    bad_cobs, bad_crc, too_long, too_short: how many frames were rejected, each
    counted once, by reason. The counters stop at 2^30-1.
    """

    def __init__(self, size):
        self.message = bytearray(size + 4)
        self.length = 0
        self.bad_cobs = 0
        self.bad_crc = 0
        self.too_long = 0
        self.too_short = 0
        self._crc = Crc32()
        self._at = 0
        self._run = 0
        self._zero = False
        self._long = False

    def feed(self, data, start, end):
        """Consume data[start:end] up to the end of the first good frame.

        Gives the position after what was consumed; self.length tells whether a
        message is there. Call again with the rest.
        """
        self.length = 0
        message = self.message
        size = len(message)
        at = self._at
        while start < end:
            byte = data[start]
            start += 1
            if byte == 0:
                if self._run or self._zero or self._long:
                    self._end(at)
                at = 0
                self._at = 0
                self._run = 0
                self._zero = False
                self._long = False
                if self.length:
                    return start
            elif self._long:
                pass
            elif self._run:
                if at < size:
                    message[at] = byte
                    at += 1
                else:
                    self._long = True
                self._run -= 1
            else:
                # A run's length; the zero that the last run stood before comes first.
                if self._zero:
                    if at < size:
                        message[at] = 0
                        at += 1
                    else:
                        self._long = True
                self._zero = True
                self._run = byte - 1
        self._at = at
        return start

    def _end(self, at):
        if self._long:
            self.too_long = _more(self.too_long)
        elif self._run:
            self.bad_cobs = _more(self.bad_cobs)
        elif at < 5:
            self.too_short = _more(self.too_short)
        else:
            crc = self._crc
            crc.reset()
            crc.feed(self.message, 0, at - 4)
            if crc.matches(self.message, at - 4):
                self.length = at - 4
            else:
                self.bad_crc = _more(self.bad_crc)


def _more(count):
    if count < 0x3FFFFFFF:
        return count + 1
    return count
