"""The other direction of the norm: CBOR, messages, frames and Task files as bytes."""

import zlib
from typing import Any

from tests.oracle import decoder


def head(major: int, argument: int, size: int | None = None) -> bytes:
    """Write a head; size: bytes of its argument (0, 1, 2, 4, 8), by default as few as do."""
    if size is None:
        size = 0 if argument < 24 else next(n for n in (1, 2, 4, 8) if argument < 256**n)
    if size == 0:
        return bytes([major << 5 | argument])
    return bytes([major << 5 | {1: 24, 2: 25, 4: 26, 8: 27}[size]]) + argument.to_bytes(size, "big")


def item(value: Any) -> bytes:
    """Encode one item."""
    if value is None or isinstance(value, bool):
        return {False: b"\xf4", True: b"\xf5", None: b"\xf6"}[value]
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(item(each) for each in value)
    pairs = sorted(value.items())
    return head(5, len(pairs)) + b"".join(item(key) + item(each) for key, each in pairs)


def message(name: str, fields: dict[str, Any]) -> bytes:
    """Encode a message from its fields, counters being integers."""
    kind, spec = next((kind, spec) for kind, (n, spec) in decoder.MESSAGES.items() if n == name)
    array = [kind]
    for key, what in spec:
        value = fields[key]
        if what in decoder.NUMBERS:
            value = value.to_bytes(decoder.NUMBERS[what][0], "little")
        array.append(value)
    return item(array)


def cobs(plain: bytes) -> bytes:
    """COBS of less than 254 bytes."""
    return b"".join(bytes([len(run) + 1]) + run for run in plain.split(b"\0"))


def frame(data: bytes) -> bytes:
    """Frame a message for a serial line."""
    return b"\0" + cobs(data + zlib.crc32(data).to_bytes(4, "little")) + b"\0"


def task(fields: dict[str, Any]) -> bytes:
    """Encode a Task."""
    return item({key: fields[name] for key, (name, *_) in decoder.TASK.items() if name in fields})


def task_file(encoding: bytes) -> bytes:
    """Make a Task file of an encoding."""
    body = encoding + decoder.task_id(encoding)
    return body + zlib.crc32(body).to_bytes(4, "little")
