"""A host that asks one board, step by step, as a test says."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tinyldp.collect.deframing import Deframer, framed
from tinyldp.lanes.lane import Process
from tinyldp_protocol.hashing import GROUPS
from tinyldp_protocol.messages import (
    ANSWER,
    EARLY,
    ENTRY_AT,
    HELLO,
    PHASE_AT,
    REASON_AT,
    REFUSAL,
    REPORT_AT,
    SEQUENCE_AT,
    get_word,
    put_ack,
    put_query,
)
from tinyldp_protocol.task import Task

# Seconds without what is waited for, after which it fails: a tick has a fifth of one.
PATIENCE = 60
# A sample.py that says how much heap is free.
MEASURING = b"""import gc
def sample():
    gc.collect()
    print("free", gc.mem_free())
    return 3
"""


def query(task: Task, t: int, phase: int = 0, entry: int = 0, name: bytes | None = None) -> bytes:
    """A query for everyone; name: a Task's id, by default this one's."""
    fields = (name or task.id, t, phase, entry, 0, GROUPS)
    message = bytearray(put_query(None, 0, *fields))
    put_query(message, 0, *fields)
    return bytes(message)


class Host:
    """A host that keeps to its credit: a frame for each that it received.

    said: what came last, (t, phase, entry, report) of an answer or (t, phase, reason) of a
    refusal. text: lines that are no frame, since clear().
    """

    def __init__(self, board: Process) -> None:
        self.board = board
        self.text = bytearray()
        self.begin()

    def begin(self) -> None:
        """The board has just been reset."""
        self.deframer = Deframer()
        self.text.clear()
        self.credit = 0
        self.pseudonym = b""

    def listen(self) -> Iterator[tuple]:
        """What the board says now; its hello is acknowledged."""
        data = self.board.read(4096, 0.05)
        self.text += data
        for message in self.deframer.feed(data):
            self.credit = 1
            if message[1] == HELLO:
                self.pseudonym = message[17:25]
                self.acknowledge(message[26:30])
            elif message[1] == ANSWER:
                entry = message[ENTRY_AT] | message[ENTRY_AT + 1] << 8
                t = get_word(message, SEQUENCE_AT)
                yield t, message[PHASE_AT], entry, message[REPORT_AT + 1 :]
            elif message[1] == REFUSAL:
                yield get_word(message, SEQUENCE_AT), message[PHASE_AT], message[REASON_AT]

    def acknowledge(self, nonce: bytes) -> None:
        message = bytearray(put_ack(None, 0, nonce, 0, False))
        put_ack(message, 0, nonce, 0, False)
        self.send(bytes(message))

    def send(self, message: bytes) -> None:
        assert self.credit
        self.credit = 0
        self.board.write(framed(message))

    def asks(self, message: bytes, early: bool = False) -> tuple:
        """What comes back; asked again while it is EARLY, unless that is awaited."""
        deadline = time.monotonic() + PATIENCE
        waiting = False
        while True:
            for said in self.listen():
                if waiting and (early or said[2:] != (EARLY,)):
                    return said
                waiting = False
            assert b"Traceback" not in self.text, bytes(self.text)
            assert time.monotonic() < deadline, bytes(self.text[-300:])
            # A status in between took the place of the answer: that leaves with the next.
            if self.credit:
                self.send(message)
                waiting = True
