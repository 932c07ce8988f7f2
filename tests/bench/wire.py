"""Bytes on the wire for each one-byte sample, beside SenML (RFC 8428) and JSON."""

import json

import cbor2

from tinyldp_protocol.framing import HEAD, TAIL
from tinyldp_protocol.messages import put_release

_NAME = "urn:dev:ops:5f0c3a9e71d2b846"
_TIME = 1_764_460_800
_KEY = {"n": 0, "v": 2, "t": 6, "bn": -2, "bt": -3}


def tinyldp_bytes(batch: int) -> float:
    """A release frame on a serial line: delimiters, COBS, CRC-32 and all."""
    return (HEAD + put_release(None, 0, bytes(4), 0, bytes(batch)) + TAIL) / batch


def _senml(batch: int) -> list[dict[str, object]]:
    if batch == 1:
        return [{"n": _NAME, "t": _TIME, "v": 7}]
    first: dict[str, object] = {"bn": _NAME, "bt": _TIME, "v": 7}
    return [first, *({"t": 60 * i, "v": 7} for i in range(1, batch))]


def senml_cbor_bytes(batch: int) -> float:
    pack = [{_KEY[name]: value for name, value in record.items()} for record in _senml(batch)]
    return len(cbor2.dumps(pack)) / batch


def json_bytes(batch: int) -> float:
    return len(json.dumps(_senml(batch), separators=(",", ":"))) / batch
