"""messages: literal bytes of each kind, each field's bounds, and nothing else accepted."""

from helpers import raised, unhex

from tinyldp_protocol import messages as m
from tinyldp_protocol.cbor import Malformed
from tinyldp_protocol.hashing import GROUPS

NONCE = unhex("a1a2a3a4a5a6a7a8")
TASK = b"task-id!"
PSEUDONYM = b"somebody"
VALUES = b"\x05\x06"

KINDS = (
    (
        m.HELLO, m.put_hello, (b"\x00\x01\x02", TASK, PSEUDONYM, NONCE, m.OS, 258),
        "88000143000102" "487461736b2d696421" "48736f6d65626f6479" "48a1a2a3a4a5a6a7a8" "01"
        "4402010000",
    ),
    (
        m.RELEASE, m.put_release, (NONCE[:4], 0x3FFFFFFF, VALUES),
        "840144a1a2a3a444ffffff3f420506",
    ),
    (m.ACK, m.put_ack, (NONCE[:4], 7, True), "840244a1a2a3a44407000000f5"),
    (
        m.STATUS, m.put_status, (NONCE[:4], m.COUNTER_END, 1, 65536, 300),
        "860344a1a2a3a402" "4401000000" "4400000100" "442c010000",
    ),
    (
        m.QUERY, m.put_query, (TASK, 258, 1, 511, GROUPS - 1, GROUPS),
        "870448" "7461736b2d696421" "4402010000" "01" "42ff01" "44ffd9ff00" "4400daff00",
    ),
    (
        m.ANSWER, m.put_answer, (NONCE[:4], 258, 0, 256, VALUES),
        "860544a1a2a3a4" "4402010000" "00" "420001" "420506",
    ),
    (
        m.REFUSAL, m.put_refusal, (NONCE[:4], 258, 1, m.BUDGET),
        "850644a1a2a3a4" "4402010000" "01" "05",
    ),
)  # fmt: skip


def written(put, args):
    size = put(None, 0, *args)
    buf = bytearray(size)
    assert put(buf, 0, *args) == size
    return buf


def refused(buf):
    return raised(Malformed, m.check, buf, len(buf), len(VALUES))


def test_literal_bytes_of_each_kind():
    for kind, put, args, text in KINDS:
        buf = written(put, args)
        assert bytes(buf) == unhex(text), kind
        assert m.check(buf, len(buf), len(VALUES)) == kind


def test_named_positions():
    ack = unhex(KINDS[2][3])
    assert ack[m.NONCE_AT : m.NONCE_AT + 4] == NONCE[:4]
    assert m.get_word(ack, m.SEQUENCE_AT) == 7
    assert ack[m.ACK_HELLO_AT] == 0xF5
    release = unhex(KINDS[1][3])
    assert m.get_word(release, m.SEQUENCE_AT) == m.COUNTER_MAX
    assert release[m.RELEASE_VALUES_AT] == 0x42
    query = unhex(KINDS[4][3])
    assert query[m.QUERY_TASK_AT : m.QUERY_TASK_AT + 8] == TASK
    assert m.get_word(query, m.QUERY_T_AT) == 258
    assert query[m.QUERY_PHASE_AT] == 1
    assert query[m.QUERY_ENTRY_AT] | query[m.QUERY_ENTRY_AT + 1] << 8 == 511
    assert m.get_word(query, m.QUERY_START_AT) == GROUPS - 1
    assert m.get_word(query, m.QUERY_SIZE_AT) == GROUPS
    answer = unhex(KINDS[5][3])
    assert m.get_word(answer, m.SEQUENCE_AT) == 258
    assert answer[m.PHASE_AT] == 0
    assert answer[m.ENTRY_AT] | answer[m.ENTRY_AT + 1] << 8 == 256
    assert answer[m.REPORT_AT] == 0x42
    refusal = unhex(KINDS[6][3])
    assert refusal[m.NONCE_AT : m.NONCE_AT + 4] == NONCE[:4]
    assert m.get_word(refusal, m.SEQUENCE_AT) == 258
    assert refusal[m.PHASE_AT] == 1
    assert refusal[m.REASON_AT] == m.BUDGET


def test_every_truncation_and_extension_is_refused():
    for _, _, _, text in KINDS:
        data = unhex(text)
        for n in range(len(data)):
            refused(data[:n])
        for extra in range(256):
            assert refused(data + bytes([extra])) == "trailing"


def test_a_changed_byte_is_refused_or_is_a_value():
    """check() accepts exactly what put_* writes: whatever it takes has the same structure."""
    for kind, _, _, text in KINDS:
        data = bytearray(unhex(text))
        for at in range(len(data)):
            kept = data[at]
            for byte in range(256):
                data[at] = byte
                try:
                    assert m.check(data, len(data), len(VALUES)) == kind
                except Malformed:
                    continue
                assert structure(data) == structure(unhex(text)), (kind, at, byte)
            data[at] = kept


def structure(data):
    """Heads of items, without the values of their fields."""
    heads = []
    at = 0
    while at < len(data):
        head = data[at]
        at += 1
        if head >> 5 == 2:
            at += head & 31
            heads.append(head)
        elif head >> 5 == 4:
            heads.append(head)
        else:
            heads.append(head >> 5)
    return heads


def test_field_bounds():
    for n in (0, 1, 255, 256, 65535, 65536, m.COUNTER_MAX):
        for put, args in (
            (m.put_hello, (b"abc", TASK, PSEUDONYM, NONCE, m.TEST, n)),
            (m.put_release, (NONCE[:4], n, VALUES)),
            (m.put_ack, (NONCE[:4], n, False)),
            (m.put_status, (NONCE[:4], m.RUNNING, n, n, n)),
            (m.put_query, (TASK, n, n & 1, n & 65535, n % GROUPS, n % GROUPS + 1)),
            (m.put_answer, (NONCE[:4], n, n & 1, n & 65535, VALUES)),
            (m.put_refusal, (NONCE[:4], n, n & 1, n % 7 + 1)),
        ):
            buf = written(put, args)
            m.check(buf, len(buf), len(VALUES))
            assert len(buf) == put(None, 0, *args)
        buf = bytearray(4)
        m.set_word(buf, 0, n)
        assert m.get_word(buf, 0) == n
    for n in (-1, m.COUNTER_MAX + 1):
        raised(ValueError, m.put_word, bytearray(5), 0, n)
        raised(ValueError, m.put_word, None, 0, n)
    for last in (0x40, 0x80, 0xFF):
        assert raised(Malformed, m.get_word, bytes([0, 0, 0, last]), 0) == "too large"


def test_each_word_of_each_kind_is_bounded():
    for _, _, _, text in KINDS:
        data = unhex(text)
        for at in range(len(data) - 4):
            # The fields' own heads: 0x44, then a word; the nonces have no bound.
            if data[at] == 0x44 and data[at + 1 : at + 5] != NONCE[:4]:
                changed = bytearray(data)
                changed[at + 4] = 0x40
                assert refused(changed) == "too large"


def test_wrong_kinds_versions_and_codes():
    hello = unhex(KINDS[0][3])
    for kind in (b"\x07", b"\x17", b"\x18\x18", b"\x1a\x3f\xff\xff\xff"):
        assert refused(hello[:1] + kind + hello[2:]) == "kind"
    assert refused(hello[:1] + b"\x20" + hello[2:]) == "wrong type"
    assert refused(hello[:2] + b"\x02" + hello[3:]) == "version"
    assert refused(hello[:2] + b"\x00" + hello[3:]) == "version"
    assert hello[34] == m.OS
    for quality in (m.TEST, m.OS, m.HARDWARE):
        m.check(hello[:34] + bytes([quality]) + hello[35:], len(hello), 2)
    assert refused(hello[:34] + b"\x03" + hello[35:]) == "too large"
    status = unhex(KINDS[3][3])
    for health in (m.RUNNING, m.ENDED, m.COUNTER_END, m.ENTROPY_FAILED):
        m.check(status[:7] + bytes([health]) + status[8:], len(status), 2)
    assert refused(status[:7] + b"\x04" + status[8:]) == "too large"
    assert refused(b"\x83" + status[1:]) == "wrong length"
    assert refused(unhex("840244a1a2a3a44407000000f6")) == "wrong type"
    assert refused(unhex("840244a1a2a3a4440700000001")) == "wrong type"


def test_wrong_queries_answers_and_refusals():
    query, answer, refusal = (unhex(KINDS[at][3]) for at in (4, 5, 6))
    for good, at in ((query, m.QUERY_PHASE_AT), (answer, m.PHASE_AT), (refusal, m.PHASE_AT)):
        for phase in (0, 1):
            m.check(good[:at] + bytes([phase]) + good[at + 1 :], len(good), 2)
        assert refused(good[:at] + b"\x02" + good[at + 1 :]) == "too large"
    for reason in range(m.LATE, m.LOST + 1):
        m.check(refusal[:13] + bytes([reason]), 14, 2)
    assert refused(refusal[:13] + b"\x00") == "zero"
    assert refused(refusal[:13] + b"\x08") == "too large"
    for start, size, reason in (
        (0, 0, "zero"),
        (GROUPS - 1, 0, "zero"),
        (GROUPS, 1, "too large"),
        (0, GROUPS + 1, "too large"),
        (m.COUNTER_MAX, m.COUNTER_MAX, "too large"),
    ):
        changed = bytearray(query)
        m.set_word(changed, m.QUERY_START_AT, start)
        m.set_word(changed, m.QUERY_SIZE_AT, size)
        assert refused(changed) == reason, (start, size)
    for entry in (-1, 65536):
        raised(ValueError, m.put_query, None, 0, TASK, 0, 0, entry, 0, 1)
        raised(ValueError, m.put_answer, bytearray(30), 0, NONCE[:4], 0, 0, entry, VALUES)


def test_an_answer_has_the_size_of_its_task():
    for n in (1, 23, 24, 231):
        buf = written(m.put_answer, (NONCE[:4], 0, 0, 0, bytes(n)))
        assert m.check(buf, len(buf), n) == m.ANSWER
        assert raised(Malformed, m.check, buf, len(buf), n + 1) == "wrong length"
    assert len(buf) == 249


def test_a_release_has_the_size_of_its_task():
    release = unhex(KINDS[1][3])
    for values in (0, 1, 3, 235):
        assert raised(Malformed, m.check, release, len(release), values) == "wrong length"
    for n in (1, 23, 24, 235):
        buf = written(m.put_release, (NONCE[:4], 0, bytes(n)))
        assert m.check(buf, len(buf), n) == m.RELEASE
        assert len(buf) <= 249


def test_a_kind_has_one_length_whatever_its_values():
    lengths = {
        m.put_release(None, 0, NONCE[:4], n, bytes([n & 255] * 2)) for n in range(0, 70000, 7)
    }
    assert len(lengths) == 1
    lengths = {
        m.put_status(None, 0, NONCE[:4], 0, n, n, n) for n in (0, 23, 24, 65536, m.COUNTER_MAX)
    }
    assert len(lengths) == 1


def test_check_ack_finds_what_check_finds():
    for one in KINDS:
        kind, put, args = one[:3]
        original = written(put, args)
        for at in range(len(original)):
            for value in range(256):
                buf = bytearray(original)
                buf[at] = value
                try:
                    expected = m.check(buf, len(buf), 2) == m.ACK
                except Malformed:
                    expected = False
                try:
                    m.check_ack(buf, len(buf))
                    found = True
                except Malformed:
                    found = False
                assert found == expected, (kind, at, value)


def test_hostile_input():
    for text in (
        "9b1000000000000000", "ba3fffffff", "81" * 500, "9f", "c1840144", "f97e00", "1800",
        "", "80", "8100", "8401", "d9d9f7840144a1a2a3a44400000000420506",
    ):  # fmt: skip
        refused(unhex(text))
