"""A host that asks one board, step by step, as a test says, or resets it while it writes."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterable, Iterator

from tinyldp.collect.deframing import Deframer, framed
from tinyldp.lanes.lane import Process
from tinyldp_device.state import State
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
# What programs/announced_files.py prints.
_POINT = re.compile(rb"(\w+\d)([A-E])([a-i])\n")
_READ = r"read (%s) (b'[^\n]*'|b\"[^\n]*\")\r\n"
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


def crowded(board: Process, queries: Iterator[bytes]) -> tuple[int, int, int, int]:
    """A host that spends each credit at once, until programs/microbit_rounds.py is at its end.

    Gives the bytes sent, and what the board says: bytes taken, messages rejected, free heap.
    """
    deframer = Deframer()
    heard = b""
    sent = 0
    deadline = time.monotonic() + 2 * PATIENCE
    while b"over\r\n" not in heard:
        assert time.monotonic() < deadline, heard[-300:]
        assert b"Error" not in heard, heard[-600:]
        data = b""
        while chunk := board.read(4096, 0.02):
            data += chunk
        heard += data
        for _ in deframer.feed(data):
            message = framed(next(queries))
            board.write(message)
            sent += len(message)
    # What was sent before is taken then, or was lost.
    pause = time.monotonic() + 1
    while time.monotonic() < pause:
        heard += board.read(4096, 0.1)
    end = b"\0end\0"
    board.write(end)
    while (found := re.search(rb"end (\d+) (\d+) (\d+)", heard)) is None:
        assert time.monotonic() < deadline, heard[-300:]
        heard += board.read(4096, 0.1)
    free, rejected, taken = map(int, found.groups())
    return sent + len(end), taken, rejected, free


class Memory:
    """A slot as the board had it."""

    def __init__(self, data: bytes) -> None:
        self.data = bytes(data)

    def read(self) -> bytes:
        return self.data

    def write(self, data: bytes | bytearray, /) -> None:
        self.data = bytes(data)


class Siege:
    """Resets a board at each of the points where its files are written, once; looks after each.

    slots: the two files of the state that is asked about; it is handed to take_in() after
    each boot. left: points (file, where in the write, kind) at which no reset was yet.
    """

    def __init__(
        self,
        host: Host,
        task: Task,
        pseudonym: bytes,
        slots: tuple[str, str],
        points: Iterable[tuple[str, str, str]],
    ) -> None:
        self.host = host
        self.left = set(points)
        self._task = task
        self._pseudonym = pseudonym
        self._slots = slots
        self._read = re.compile((_READ % "|".join(slots)).encode())

    def take_in(self, payload: bytes) -> None:
        """Check what is stored, beside what was known."""
        raise NotImplementedError

    def ask(self, t: int, phase: int = 0, entry: int = 0) -> tuple | None:
        """The answer or refusal; None when the board was reset meanwhile."""
        deadline = time.monotonic() + PATIENCE
        waiting = False
        while True:
            for said in self.host.listen():
                if waiting and said[:2] == (t, phase) and said[2:] != (EARLY,):
                    return said
                waiting = False
            self._check(deadline)
            if self._cut():
                return None
            if self.host.credit and self.host.pseudonym:
                assert self.host.pseudonym == self._pseudonym
                self.host.send(query(self._task, t, phase, entry))
                waiting = True

    def boot(self) -> None:
        """Until the state was read from the flash, however often the board is reset before."""
        while not self._booted():
            pass

    def _booted(self) -> bool:
        self.host.begin()
        deadline = time.monotonic() + PATIENCE
        while True:
            list(self.host.listen())
            self._check(deadline)
            reads = list(self._read.finditer(bytes(self.host.text)))
            if len(reads) == 2:
                found = {read[1].decode(): ast.literal_eval(read[2].decode()) for read in reads}
                self.take_in(State(*(Memory(found[name]) for name in self._slots)).load())
                return True
            if self._cut():
                return False

    def _check(self, deadline: float) -> None:
        assert b"Traceback" not in self.host.text, bytes(self.host.text)
        assert time.monotonic() < deadline, bytes(self.host.text[-400:])

    def _cut(self) -> bool:
        """Let the board pass the point where it waits, if it does; True when it was reset there."""
        found = _POINT.search(self.host.text)
        if found is None:
            return False
        name, at, kind = (part.decode() for part in found.groups())
        where = (name, at, kind)
        del self.host.text[: found.end()]
        if where in self.left:
            self.left.remove(where)
            self.host.board.reset()
            return True
        self.host.board.write(b".")
        return False
