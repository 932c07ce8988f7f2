"""Frames into and out of a serial byte stream (the format: tinyldp_protocol.framing).

Takes the same frames as framing.Decoder(MAX_MESSAGE), and counts what it
rejects under the same names, at the speed of CPython's C code.
"""

from zlib import crc32

from tinyldp_protocol.framing import MAX_MESSAGE

# A frame between its delimiters: the first run's length, message, CRC.
_MOST = 1 + MAX_MESSAGE + 4
# crc32 of anything followed by its own CRC, little-endian.
_RESIDUE = 0x2144DF1C


def framed(message: bytes) -> bytes:
    """The frame of a message of at most MAX_MESSAGE bytes, else ValueError."""
    if len(message) > MAX_MESSAGE:
        raise ValueError("message too long")
    body = message + crc32(message).to_bytes(4, "little")
    runs = [bytes((len(run) + 1,)) + run for run in body.split(b"\0")]
    return b"\0" + b"".join(runs) + b"\0"


class Deframer:
    """Takes chunks of any size; holds at most one unfinished frame.

    rejected: how many frames were refused, by name: "bad_cobs", "bad_crc",
    "too_long", "too_short". Nothing between two delimiters is no frame.
    """

    def __init__(self) -> None:
        self.rejected = {"bad_cobs": 0, "bad_crc": 0, "too_long": 0, "too_short": 0}
        self._open = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The messages of the frames that end in this chunk, in order."""
        pieces = (self._open + chunk).split(b"\0")
        # A byte more than fits is kept, so that the frame is known to be too long.
        self._open = pieces.pop()[: _MOST + 1]
        messages = []
        for coded in filter(None, pieces):
            size = len(coded)
            if size > _MOST:
                self.rejected["too_long"] += 1
                continue
            # Each run's length stands where a zero was; the first one before the message.
            plain = bytearray(coded)
            at = 0
            while at < size:
                plain[at] = 0
                at += coded[at]
            if at != size:
                self.rejected["bad_cobs"] += 1
            elif size < 6:
                self.rejected["too_short"] += 1
            else:
                message = bytes(plain[1:])
                if crc32(message) == _RESIDUE:
                    messages.append(message[:-4])
                else:
                    self.rejected["bad_crc"] += 1
        return messages
