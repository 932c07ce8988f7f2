"""A serial line: frames with COBS and CRC-32 (see framing).

On a line each frame that the host receives is its credit for one frame of at
most 48 bytes, so that a board's small receive ring never overruns.
"""

from tinyldp_protocol.framing import Decoder, Encoder

INBOX = 41
_CHUNK = 48


class SerialLink:
    """port: write(buf) and readinto(buf), neither of which waits.

    Both give the number of bytes, or None for none; a port that raises OSError
    (unplugged) counts as none, and is tried again. inbox: the last message.
    """

    def __init__(self, port):
        self._port = port
        self._decoder = Decoder(INBOX)
        self._chunk = bytearray(_CHUNK)
        self._at = 0
        self._end = 0
        self.inbox = self._decoder.message

    def encoder(self, message, same, counted):
        return Encoder(message, same, counted)

    def write(self, frame):
        """True when the whole frame went out; a torn one is left to the CRC."""
        try:
            return self._port.write(frame) == len(frame)
        except OSError:
            return False

    def receive(self):
        """Bytes of the next message, now in inbox, or 0; reads at most one chunk."""
        if self._at == self._end:
            self._at = 0
            try:
                self._end = self._port.readinto(self._chunk) or 0
            except OSError:
                self._end = 0
        self._at = self._decoder.feed(self._chunk, self._at, self._end)
        return self._decoder.length
