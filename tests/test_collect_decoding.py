"""The host's strict decoder: hostile input, and agreement with the device's."""

import random
import tracemalloc
from collections import Counter

import cbor2
import pytest

from tests.collecting import ack, encoded, hello, make_task, release, status
from tinyldp.collect.decoding import (
    Ack,
    Answer,
    Decoding,
    Hello,
    Query,
    Refusal,
    Rejected,
    Release,
    Status,
    decode,
)
from tinyldp_protocol.cbor import Malformed
from tinyldp_protocol.hashing import GROUPS
from tinyldp_protocol.messages import BUDGET, check, put_answer, put_query, put_refusal

TASK = make_task()
NONCE = b"nonce567"
GOOD = [
    hello(TASK, b"wearer 1", NONCE, 7),
    release(NONCE, 300, b"\1\2"),
    ack(NONCE, 300, True),
    status(NONCE, 3, 999, 1, 2),
    encoded(put_query, TASK.id, 258, 1, 511, 7, GROUPS),
    encoded(put_answer, NONCE[:4], 258, 1, 511, b"\1\2"),
    encoded(put_refusal, NONCE[:4], 258, 0, BUDGET),
]
HOSTILE = {
    "2^60 items": (b"\x9b\x10" + bytes(7), "not minimal|too large"),
    "2^60 bytes": (b"\x84\x01\x5b\x10" + bytes(7), "not minimal|too large"),
    "500 nested arrays": (b"\x81" * 500, "wrong type|wrong length|truncated"),
    "nested where a nonce belongs": (b"\x84\x01" + b"\x84" * 12, "wrong type"),
    "trailing": (GOOD[1] + b"\0", "trailing"),
    "map with duplicate keys": (b"\xa2\0\0\0\0", "wrong type"),
    "tag": (b"\xc1" + GOOD[1], "tag"),
    "shared reference": (b"\xd8\x1c\x81\xd8\x1d\x00", "tag"),
    "indefinite array": (b"\x9f" + GOOD[1][1:] + b"\xff", "indefinite"),
    "indefinite bytes": (b"\x84\x01\x5f\x44nonc\xff", "indefinite"),
    "kind in two bytes": (b"\x84\x18\x01" + GOOD[1][2:], "not minimal"),
    "18 00": (b"\x18\x00", "wrong type"),
    "empty": (b"", "truncated"),
    "cut off": (GOOD[1][:-1], "truncated"),
    "float": (b"\xf9\x00\x00", "float"),
    "sequence of 2^30": (GOOD[1][:8] + b"\0\0\0\x40" + GOOD[1][12:], "too large"),
    "one value more": (release(NONCE, 1, b"\1\2\3"), "wrong length"),
    "query for nobody": (GOOD[4][:-4] + bytes(4), "zero"),
    "query beyond the circle": (GOOD[4][:-4] + b"\1\xda\xff\0", "too large"),
    "query from beyond the circle": (GOOD[4][:21] + b"\0\xda\xff\0" + GOOD[4][25:], "too large"),
    "answer of t = 2^30": (GOOD[5][:8] + b"\0\0\0\x40" + GOOD[5][12:], "too large"),
    "answer of phase 2": (GOOD[5][:12] + b"\2" + GOOD[5][13:], "too large"),
    "answer of phase -1": (GOOD[5][:12] + b"\x20" + GOOD[5][13:], "wrong type"),
    "answer with a byte more": (encoded(put_answer, NONCE[:4], 1, 0, 0, b"abc"), "wrong length"),
    "refusal without a reason": (GOOD[6][:-1] + b"\0", "zero"),
    "refusal for reason 8": (GOOD[6][:-1] + b"\x08", "too large"),
    "another version": (GOOD[0].replace(b"\x88\0\1", b"\x88\0\2"), "version"),
}


def outcome(message: bytes, values: int) -> str:
    try:
        decode(message, values)
    except Rejected as rejected:
        return str(rejected)
    return "accepted"


def test_good_messages():
    assert [decode(message, 2) for message in GOOD] == [
        Hello(b"\0\1\0", TASK.id, b"wearer 1", NONCE, 1, 7),
        Release(b"nonc", 300, b"\1\2"),
        Ack(b"nonc", 300, True),
        Status(b"nonc", 1, 2, 3, 999),
        Query(TASK.id, 258, 1, 511, 7, GROUPS),
        Answer(b"nonc", 258, 1, 511, b"\1\2"),
        Refusal(b"nonc", 258, 0, BUDGET),
    ]


@pytest.mark.parametrize("values", [1, 2, 23, 24, 235])
def test_releases_of_every_head(values):
    message = release(NONCE, 0x3FFFFFFF, bytes(range(values)))
    assert decode(message, values) == Release(b"nonc", 0x3FFFFFFF, bytes(range(values)))
    assert outcome(message, values + 1) == "wrong length"


@pytest.mark.parametrize("report", [1, 2, 23, 24, 231])
@pytest.mark.parametrize("phase", [0, 1])
def test_answers_of_every_head(report, phase):
    message = encoded(put_answer, NONCE[:4], 0x3FFFFFFF, phase, 65535, bytes(range(report)))
    assert decode(message, report) == Answer(
        b"nonc", 0x3FFFFFFF, phase, 65535, bytes(range(report))
    )
    assert outcome(message, report + 1) == "wrong length"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_input_is_rejected_by_name(name):
    message, reasons = HOSTILE[name]
    reason = outcome(message, 2)
    assert reason in reasons.split("|")
    with pytest.raises(Malformed, match=reason):
        check(message, len(message), 2)


def test_hostile_input_takes_no_memory():
    for message, _ in HOSTILE.values():
        outcome(message, 2)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(200):
            for message, _ in HOSTILE.values():
                outcome(message, 2)
        now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert now - before < 4_000
    assert peak - before < 40_000


def mutated(rng: random.Random, message: bytes) -> bytes:
    data = bytearray(message)
    for _ in range(rng.randrange(3)):
        at = rng.randrange(len(data) + 1)
        what = rng.randrange(4)
        if what == 0:
            data[at:at] = rng.randbytes(1)
        elif at < len(data):
            if what == 1:
                del data[at]
            elif what == 2:
                data[at] ^= 1 << rng.randrange(8)
            else:
                data[at] = rng.choice((0, 1, 0x18, 0x1B, 0x44, 0x5F, 0x9F, 0xC0, 0xF5, 0xFF))
    return bytes(data)


def compare(accepts, count: int) -> Counter[str]:
    """Outcomes of mutated messages, after comparing each with the device's decoder."""
    rng = random.Random(20)
    seen: Counter[str] = Counter()
    for _ in range(count):
        message = mutated(rng, rng.choice(GOOD))
        try:
            check(message, len(message), 2)
            expected = "accepted"
        except Malformed as error:
            expected = str(error)
        assert accepts(message) == expected, message.hex()
        seen[expected] += 1
    return seen


def test_both_sides_accept_and_name_the_same():
    seen = compare(lambda message: outcome(message, 2), 100_000)
    assert seen["accepted"] > 10_000
    assert len(seen) >= 12


def test_a_decoder_that_trusts_cbor2_is_found():
    def trusting(message: bytes) -> str:
        try:
            return "accepted" if isinstance(cbor2.loads(message), list) else "wrong type"
        except Exception:
            return "truncated"

    with pytest.raises(AssertionError):
        compare(trusting, 1_000)


def test_the_fast_paths_take_no_other_kind():
    decoding = Decoding(2)
    assert decoding.release(GOOD[1]) == (b"nonc", 300, b"\1\2")
    assert decoding.answer(GOOD[5]) == Answer(b"nonc", 258, 1, 511, b"\1\2")
    for at, message in enumerate(GOOD):
        if at != 1:
            assert decoding.release(message) is None
        if at != 5:
            assert decoding.answer(message) is None
