"""The CBOR writer against cbor2's canonical encoder, and the reader against the writer."""

from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyldp_protocol.cbor import (
    Malformed,
    Reader,
    put_array,
    put_bytes,
    put_int,
    put_map,
    put_simple,
    put_text,
)

LIMIT = 1 << 30

integers = st.one_of(
    st.integers(-LIMIT, LIMIT - 1),
    st.sampled_from([n + d for n in (0, 24, 256, 65536, -24, -256, -65536) for d in (-1, 0, 1)]),
)
strings = st.one_of(
    st.binary(max_size=300), st.sampled_from([bytes(n) for n in (23, 24, 255, 256, 65535, 65536)])
)
values = st.recursive(
    st.one_of(integers, strings, st.text(max_size=300), st.sampled_from([False, True, None])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=30),
        st.dictionaries(st.integers(0, LIMIT - 1), inner, max_size=30),
    ),
    max_leaves=40,
)


def put(buf: bytearray | None, pos: int, value: Any) -> int:
    if value is None or isinstance(value, bool):
        return put_simple(buf, pos, value)
    if isinstance(value, int):
        return put_int(buf, pos, value)
    if isinstance(value, bytes):
        return put_bytes(buf, pos, value)
    if isinstance(value, str):
        return put_text(buf, pos, value.encode())
    if isinstance(value, list):
        pos = put_array(buf, pos, len(value))
        for each in value:
            pos = put(buf, pos, each)
        return pos
    pos = put_map(buf, pos, len(value))
    for key in sorted(value):
        pos = put(buf, put_int(buf, pos, key), value[key])
    return pos


def read(reader: Reader, like: Any) -> Any:
    """Read what has the type of `like`."""
    if like is None or isinstance(like, bool):
        return reader.simple()
    if isinstance(like, int):
        return reader.int()
    if isinstance(like, bytes):
        return reader.bytes()
    if isinstance(like, str):
        return reader.text()
    if isinstance(like, list):
        assert reader.array() == len(like)
        return [read(reader, each) for each in like]
    assert reader.map() == len(like)
    last, found = -1, {}
    for key in sorted(like):
        last = reader.key(last)
        found[last] = read(reader, like[key])
        assert last == key
    return found


def encoded(value: Any) -> bytes:
    buf = bytearray(put(None, 0, value))
    assert put(buf, 0, value) == len(buf)
    return bytes(buf)


@given(values)
def test_written_as_cbor2_does(value):
    assert encoded(value) == cbor2.dumps(value, canonical=True)


@given(values)
def test_read_back(value):
    data = encoded(value)
    reader = Reader(b"\xff" + data + b"\x00", 1, 1 + len(data))
    got = read(reader, value)
    reader.finish()
    assert got == value
    # Equality takes False for 0; their encodings tell them apart.
    assert cbor2.dumps(got, canonical=True) == data


@given(values, st.data())
def test_cut_short(value, data):
    whole = encoded(value)
    end = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(Malformed, match="truncated"):
        read(Reader(whole, 0, end), value)
    with pytest.raises(IndexError):
        put(bytearray(end), 0, value)


@given(values)
def test_what_follows_is_trailing(value):
    data = encoded(value) + b"\x00"
    reader = Reader(data, 0, len(data))
    read(reader, value)
    with pytest.raises(Malformed, match="trailing"):
        reader.finish()


@pytest.mark.parametrize("n", [LIMIT, -LIMIT - 1, 1 << 31, 1 << 62, -(1 << 63)])
def test_integers_beyond_30_bits(n):
    for buf in (None, bytearray(9)):
        with pytest.raises(ValueError, match="30 bits"):
            put_int(buf, 0, n)
    data = cbor2.dumps(n)
    with pytest.raises(Malformed, match="too large"):
        Reader(data, 0, len(data)).int()


@given(st.binary(max_size=12))
def test_any_bytes_are_read_canonically_or_refused(data):
    """An integer that is accepted is the one that cbor2 sees, canonically encoded."""
    for method in ("int", "bytes", "text", "simple"):
        reader = Reader(data, 0, len(data))
        try:
            value = getattr(reader, method)()
            reader.finish()
        except Malformed:
            continue
        assert cbor2.dumps(value, canonical=True) == data


@pytest.mark.parametrize(
    "data", [b"\x61\xff", b"\x62\xc3\x28", b"\x63\xed\xa0\x80", b"\x62\xc0\x80", b"\x61\xc3"]
)
def test_text_that_is_not_utf_8(data):
    with pytest.raises(Malformed, match="text"):
        Reader(data, 0, len(data)).text()
