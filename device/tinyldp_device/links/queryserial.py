"""The small serial line of a device that is asked: it takes queries, too.

A query is checked against what all queries have in common, and left in the inbox.
"""

from tinyldp_device.ledger import word_at
from tinyldp_device.links.smallserial import SmallSerial
from tinyldp_protocol.hashing import GROUPS

# COBS code, query, CRC. Where its fields begin, after that code.
_QUERY = 35
TASK = 4
T = 13
PHASE = 17
ENTRY = 19
START = 22
SIZE = 27
# Places, and what is there in each query: the heads of its fields.
_HEADS = b"\x01\x87\x02\x04\x03\x48\x0c\x44\x12\x42\x15\x44\x1a\x44"


class QuerySerial(SmallSerial):
    """query: whether the last message that receive() found is one; its fields: in inbox()."""

    def __init__(self, port, nonce):
        SmallSerial.__init__(self, port, nonce)
        self.query = False
        self._inbox = bytearray(_QUERY + 1)

    def inbox(self):
        return self._inbox

    def _take(self, got):
        self.query = got == _QUERY
        taken = self._whole(got)
        if taken:
            taken = self._is_query() if self.query else self._is_ack(got)
        return taken

    def _is_query(self):
        inbox = self._inbox
        same = True
        for i in range(0, 14, 2):
            if inbox[_HEADS[i]] != _HEADS[i + 1]:
                same = False
        return (
            same
            and inbox[T + 3] < 64
            and inbox[PHASE] < 2
            and inbox[START + 3] < 64
            and inbox[SIZE + 3] < 64
            and word_at(inbox, START) < GROUPS
            and 0 < word_at(inbox, SIZE) <= GROUPS
        )
