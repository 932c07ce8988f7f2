"""Strict decoding of what devices send: one adapter over cbor2.

cbor2 takes non-minimal integers, duplicate keys and trailing bytes, and believes
the lengths that the input states. So nothing reaches it before its every head
byte has been compared with the one layout that its kind of message has
(messages' docstring); a message that fits its layout is canonical. Releases and
answers, nearly all of the traffic, have their fields at fixed places and are read from there.

Accepted is exactly what tinyldp_protocol.messages.check accepts, which also
names the reason of each rejection.
"""

import re
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

import cbor2

from tinyldp_protocol.cbor import Malformed, put_bytes
from tinyldp_protocol.hashing import GROUPS
from tinyldp_protocol.messages import COUNTER_MAX, check


class Rejected(Exception):
    """A message that is not taken; its argument is the reason's name."""


class Hello(NamedTuple):
    """What a device is, and the first 8 bytes that it drew at boot.

    software: 3 bytes; task, pseudonym, nonce: 8 bytes each; lowest < 2^30.
    """

    software: bytes
    task: bytes
    pseudonym: bytes
    nonce: bytes
    quality: int
    lowest: int


class Release(NamedTuple):
    """One frame of released values, still encoded; nonce: 4 bytes."""

    nonce: bytes
    sequence: int
    values: bytes


class Ack(NamedTuple):
    """What only a host sends."""

    nonce: bytes
    sequence: int
    hello: bool


class Status(NamedTuple):
    """How a device is; nonce: 4 bytes; drops, lowest and count < 2^30."""

    nonce: bytes
    health: int
    drops: int
    lowest: int
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]


class Query(NamedTuple):
    """What only a host sends; task: 8 bytes; t, start, size < 2^30."""

    task: bytes
    t: int
    phase: int
    entry: int
    start: int
    size: int


class Answer(NamedTuple):
    """One report, still encoded, to the query of step t and this phase; nonce: 4 bytes."""

    nonce: bytes
    t: int
    phase: int
    entry: int
    report: bytes


class Refusal(NamedTuple):
    """Why a query is not answered: messages.LATE to messages.LOST; nonce: 4 bytes."""

    nonce: bytes
    t: int
    phase: int
    reason: int


Message = Hello | Release | Ack | Status | Query | Answer | Refusal

_WORD = rb"\x44.{3}[\x00-\x3f]"
_LAYOUTS = re.compile(
    rb"\x88\x00\x01\x43.{3}\x48.{8}\x48.{8}\x48.{8}[\x00-\x02]" + _WORD
    # ack, status and refusal
    + rb"|\x84\x02\x44.{4}" + _WORD + rb"[\xf4\xf5]"
    + rb"|\x86\x03\x44.{4}[\x00-\x03]" + _WORD * 3
    + rb"|\x85\x06\x44.{4}" + _WORD + rb"[\x00\x01][\x01-\x07]",
    re.DOTALL,
)  # fmt: skip
_QUERY = re.compile(rb"\x87\x04\x48.{8}" + _WORD + rb"[\x00\x01]\x42.." + _WORD * 2, re.DOTALL)


class Decoding:
    """Decodes the messages of one Task. values: its payload, bytes."""

    def __init__(self, values: int) -> None:
        coded = bytearray(put_bytes(None, 0, bytes(values)))
        put_bytes(coded, 0, bytes(values))
        self.values = values
        self._values_head = bytes(coded[: len(coded) - values])
        layout = Struct(f"<3s4scI{len(self._values_head)}s{values}s")
        self._size = layout.size
        self._unpack = layout.unpack
        answer = Struct(f"<3s4scI2sH{len(self._values_head)}s{values}s")
        self._answer_size = answer.size
        self._unpack_answer = answer.unpack

    def release(self, message: bytes) -> tuple[bytes, int, bytes] | None:
        """(nonce, sequence, values) when this is a good release, else None."""
        if len(message) != self._size:
            return None
        head, nonce, word, sequence, tail, values = self._unpack(message)
        if (
            head == b"\x84\x01\x44"
            and word == b"\x44"
            and tail == self._values_head
            and sequence <= COUNTER_MAX
        ):
            return nonce, sequence, values
        return None

    def answer(self, message: bytes) -> Answer | None:
        """The answer when this is a good one, else None."""
        if len(message) != self._answer_size:
            return None
        head, nonce, word, t, asked, entry, tail, report = self._unpack_answer(message)
        if (
            head == b"\x86\x05\x44"
            and word == b"\x44"
            and asked in (b"\x00\x42", b"\x01\x42")
            and tail == self._values_head
            and t <= COUNTER_MAX
        ):
            return Answer(nonce, t, asked[0], entry, report)
        return None

    def decode(self, message: bytes) -> Message:
        """The message, or Rejected with the reason's name and nothing else."""
        release = self.release(message)
        if release is not None:
            return Release(*release)
        answer = self.answer(message)
        if answer is not None:
            return answer
        if _LAYOUTS.fullmatch(message):
            return _typed(cbor2.loads(message))
        if _QUERY.fullmatch(message):
            query = _query(cbor2.loads(message))
            if query.start < GROUPS and 1 <= query.size <= GROUPS:
                return query
        try:
            check(message, len(message), self.values)
        except Malformed as error:
            raise Rejected(str(error)) from None
        raise Rejected("layout")


def decode(message: bytes, values: int) -> Message:
    """Decode one message; values: the Task's payload, bytes. Rejected(name) if bad."""
    return _decoding(values).decode(message)


@lru_cache(maxsize=16)
def _decoding(values: int) -> Decoding:
    return Decoding(values)


def _typed(items: list) -> Message:
    kind, *fields = items
    if kind == 0:
        _, software, task, pseudonym, nonce, quality, lowest = fields
        return Hello(software, task, pseudonym, nonce, quality, _number(lowest))
    if kind == 2:
        nonce, sequence, hello = fields
        return Ack(nonce, _number(sequence), hello)
    if kind == 6:
        nonce, t, phase, reason = fields
        return Refusal(nonce, _number(t), phase, reason)
    nonce, health, drops, lowest, count = fields
    return Status(nonce, health, _number(drops), _number(lowest), _number(count))


def _query(items: list) -> Query:
    _, task, t, phase, entry, start, size = items
    return Query(task, _number(t), phase, _number(entry), _number(start), _number(size))


def _number(word: bytes) -> int:
    return int.from_bytes(word, "little")
