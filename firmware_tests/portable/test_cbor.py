"""cbor: RFC 8949 appendix A for the types spoken here, and every reason to refuse."""

from helpers import raised, unhex

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

# Every change of width, and both ends: an integer and its encoding.
INTS = (
    (0, "00"), (1, "01"), (10, "0a"), (23, "17"), (24, "1818"), (25, "1819"), (100, "1864"),
    (255, "18ff"), (256, "190100"), (1000, "1903e8"), (65535, "19ffff"), (65536, "1a00010000"),
    (1000000, "1a000f4240"), (1000000000, "1a3b9aca00"), (0x3FFFFFFF, "1a3fffffff"),
    (-1, "20"), (-10, "29"), (-24, "37"), (-25, "3818"), (-100, "3863"), (-256, "38ff"),
    (-257, "390100"), (-1000, "3903e7"), (-65536, "39ffff"), (-65537, "3a00010000"),
    (-0x40000000, "3a3fffffff"),
)  # fmt: skip
TEXTS = (
    ("", "60"), ("61", "6161"), ("49455446", "6449455446"), ("225c", "62225c"),
    ("c3bc", "62c3bc"), ("e6b0b4", "63e6b0b4"), ("f0908591", "64f0908591"),
)  # fmt: skip


def written(put, *args):
    """What put writes, after checking that measuring gives the same size."""
    size = put(None, 0, *args)
    buf = bytearray(size + 2)
    assert put(buf, 1, *args) == size + 1
    assert buf[0] == 0 and buf[size + 1] == 0
    assert put(None, 7, *args) == size + 7
    return bytes(buf[1 : size + 1])


def reader(text):
    data = unhex(text)
    return Reader(data, 0, len(data))


def test_integers():
    for n, text in INTS:
        assert written(put_int, n) == unhex(text), n
        r = reader(text)
        assert r.int() == n
        r.finish()


def test_integers_beyond_30_bits_are_not_written():
    buf = bytearray(16)
    for n in (0x3FFFFFFF + 1, -0x40000000 - 1, 1 << 62, -(1 << 62)):
        # OverflowError: where integers are guarded, a number too large for them is.
        raised((ValueError, OverflowError), put_int, buf, 0, n)
        raised((ValueError, OverflowError), put_int, None, 0, n)
    assert buf == bytearray(16)


def test_a_short_buffer_raises():
    for n, text in INTS:
        raised(IndexError, put_int, bytearray(len(text) // 2 - 1), 0, n)
    raised(IndexError, put_bytes, bytearray(3), 0, b"abc")
    raised(IndexError, put_simple, bytearray(0), 0, None)


def test_strings():
    assert written(put_bytes, b"") == b"\x40"
    assert written(put_bytes, b"\x01\x02\x03\x04") == unhex("4401020304")
    assert reader("4401020304").bytes() == b"\x01\x02\x03\x04"
    assert reader("4401020304").skip_bytes(4) == 1
    for data, text in TEXTS:
        assert written(put_text, unhex(data)) == unhex(text)
        assert reader(text).text() == str(unhex(data), "utf-8")
    for n in (23, 24, 255, 256, 300):
        data = bytes([i & 255 for i in range(n)])
        buf = written(put_bytes, data)
        r = Reader(buf, 0, len(buf))
        assert r.bytes() == data
        r.finish()


def test_arrays():
    assert written(put_array, 0) == b"\x80"
    r = reader("8301820203820405")
    assert (r.array(), r.int(), r.array(), r.int(), r.int()) == (3, 1, 2, 2, 3)
    assert (r.array(), r.int(), r.int()) == (2, 4, 5)
    r.finish()
    assert written(put_array, 25) == unhex("9819")
    r = reader("98190102030405060708090a0b0c0d0e0f101112131415161718181819")
    assert [r.int() for _ in range(r.array())] == list(range(1, 26))
    r.finish()


def test_lists_of_integers():
    r = reader("80" "83011903e820" "05")  # fmt: skip
    assert (r.ints(), r.ints(), r.int()) == ([], [1, 1000, -1], 5)
    r.finish()
    for bad, why in (
        ("8301", "truncated"),
        ("83010240", "wrong type"),
        ("05", "wrong type"),
        ("811800", "not minimal"),
        ("811a40000000", "too large"),
        ("9a3fffffff0101", "truncated"),
    ):
        assert raised(Malformed, reader(bad).ints) == why, bad


def test_maps():
    assert written(put_map, 0) == b"\xa0"
    assert written(put_map, 24) == b"\xb8\x18"
    r = reader("a201020304")
    assert (r.map(), r.key(-1), r.int(), r.key(1), r.int()) == (2, 1, 2, 3, 4)
    r.finish()


def test_simple_values():
    for value, text in ((False, "f4"), (True, "f5"), (None, "f6")):
        assert written(put_simple, value) == unhex(text)
        assert reader(text).simple() is value


# A reader's method and arguments, an input, and why it must be refused.
REFUSED = (
    ("int", (), "", "truncated"), ("int", (), "18", "truncated"), ("int", (), "1903", "truncated"),
    ("int", (), "1a000f42", "truncated"), ("int", (), "1b00000000000000", "truncated"),
    ("int", (), "39ff", "truncated"), ("bytes", (), "4401", "truncated"),
    ("bytes", (), "58", "truncated"), ("text", (), "6161"[:2], "truncated"),
    ("array", (), "81", "truncated"), ("map", (), "a1", "truncated"),
    ("array", (), "9a3fffffff00", "truncated"), ("map", (), "ba3fffffff00", "truncated"),
    ("bytes", (), "5a3fffffff00", "truncated"), ("text", (), "7a3fffffff00", "truncated"),
    ("int", (), "40", "wrong type"), ("int", (), "f4", "wrong type"),
    ("int", (), "80", "wrong type"),
    ("bytes", (), "6161", "wrong type"), ("text", (), "4161", "wrong type"),
    ("array", (), "a0", "wrong type"), ("map", (), "80", "wrong type"),
    ("simple", (), "00", "wrong type"), ("uint", (9,), "20", "wrong type"),
    ("key", (-1,), "20", "wrong type"), ("skip_bytes", (4,), "00", "wrong type"),
    ("skip_bytes", (4,), "43010203", "wrong length"),
    ("skip_bytes", (2,), "43010203", "wrong length"), ("skip_bytes", (0,), "4101", "wrong length"),
    ("int", (), "1800", "not minimal"), ("int", (), "1817", "not minimal"),
    ("int", (), "190000", "not minimal"), ("int", (), "1900ff", "not minimal"),
    ("int", (), "1a00000000", "not minimal"), ("int", (), "1a0000ffff", "not minimal"),
    ("int", (), "1b0000000000000000", "not minimal"),
    ("int", (), "1b000000003fffffff", "not minimal"), ("int", (), "3817", "not minimal"),
    ("bytes", (), "580161", "not minimal"), ("text", (), "780161", "not minimal"),
    ("array", (), "980100", "not minimal"), ("map", (), "b8010000", "not minimal"),
    ("int", (), "1a40000000", "too large"), ("int", (), "1affffffff", "too large"),
    ("int", (), "3a40000000", "too large"), ("int", (), "1bffffffffffffffff", "too large"),
    ("int", (), "1b1000000000000000", "too large"), ("int", (), "3b0000000100000000", "too large"),
    ("bytes", (), "5b1000000000000000", "too large"),
    ("array", (), "9b1000000000000000", "too large"),
    ("map", (), "bb1000000000000000", "too large"), ("uint", (9,), "0a", "too large"),
    ("bytes", (), "5f42010243030405ff", "indefinite"),
    ("text", (), "7f657374726561ff", "indefinite"),
    ("array", (), "9fff", "indefinite"), ("map", (), "bf01ff", "indefinite"),
    ("int", (), "ff", "indefinite"), ("int", (), "1f", "indefinite"),
    ("int", (), "1c", "reserved"), ("int", (), "1d", "reserved"), ("array", (), "9e", "reserved"),
    ("int", (), "c11a514b67b0", "tag"), ("bytes", (), "d74401020304", "tag"),
    ("int", (), "c249010000000000000000", "tag"), ("text", (), "d82076", "tag"),
    ("int", (), "f90000", "float"), ("int", (), "fa47c35000", "float"),
    ("int", (), "fb3ff199999999999a", "float"), ("simple", (), "f7", "float"),
    ("simple", (), "f0", "float"), ("simple", (), "f8ff", "float"), ("simple", (), "f820", "float"),
    ("key", (3,), "02", "key order"), ("key", (30,), "181d", "key order"),
    ("key", (3,), "03", "duplicate key"), ("key", (0,), "00", "duplicate key"),
    ("text", (), "61ff", "text"), ("text", (), "62c328", "text"), ("text", (), "61c3", "text"),
)  # fmt: skip
REASONS = (
    "truncated", "wrong type", "wrong length", "not minimal", "too large", "indefinite",
    "reserved", "tag", "float", "key order", "duplicate key", "text",
)  # fmt: skip


def test_each_refusal_has_its_reason():
    for method, args, text, reason in REFUSED:
        found = raised(Malformed, getattr(reader(text), method), *args)
        assert found == reason, (method, text, found)


def test_no_reason_is_left_out():
    for reason in REASONS:
        assert reason in [row[3] for row in REFUSED]


def test_trailing_bytes():
    r = reader("0000")
    r.int()
    assert raised(Malformed, r.finish) == "trailing"


def test_the_end_given_is_the_end():
    data = unhex("1903e8")
    for end in (0, 1, 2):
        assert raised(Malformed, Reader(data, 0, end).int) == "truncated"
    assert Reader(data, 0, 3).int() == 1000
    assert Reader(b"\x00" + data, 1, 4).int() == 1000


def test_every_head_is_read_or_refused_by_name():
    rest = bytes(8)
    for head in range(256):
        for method in ("int", "bytes", "text", "array", "map", "simple"):
            try:
                getattr(Reader(bytes([head]) + rest, 0, 9), method)()
            except Malformed as error:
                assert error.args[0] in REASONS
