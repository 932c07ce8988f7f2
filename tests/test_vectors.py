"""The literal vectors of the norm, against the device's side, the host's, and the oracle."""

from random import Random
from typing import Any

import pytest

from tests.oracle import decoder, encoder, vectors
from tests.oracle.vectors import GROUPS, MESSAGES, SIGNS, TASK, unhex
from tinyldp.collect.decoding import Rejected, decode
from tinyldp.collect.deframing import Deframer
from tinyldp_protocol import cbor, framing, hashing, messages, task
from tinyldp_protocol.cbor import Malformed

GUARD = b"\x00\xf5\x01\x44"  # follows each message in its buffer: nobody may read into it

ARGUMENTS = {
    "hello": ("software", "task", "pseudonym", "nonce", "quality", "lowest"),
    "release": ("nonce", "sequence", "values"),
    "ack": ("nonce", "sequence", "hello"),
    "status": ("nonce", "health", "drops", "lowest", "count"),
    "query": ("task", "t", "phase", "entry", "start", "size"),
    "answer": ("nonce", "t", "phase", "entry", "report"),
    "refusal": ("nonce", "t", "phase", "reason"),
}
PUT = {
    "hello": messages.put_hello,
    "release": messages.put_release,
    "ack": messages.put_ack,
    "status": messages.put_status,
    "query": messages.put_query,
    "answer": messages.put_answer,
    "refusal": messages.put_refusal,
}
KIND = {name: number for number, name in enumerate(PUT)}


def put(buf: bytearray | None, pos: int, vector: dict[str, Any]) -> int:
    fields = {key: unhex(value) for key, value in vector["fields"].items()}
    return PUT[vector["kind"]](buf, pos, *(fields[key] for key in ARGUMENTS[vector["kind"]]))


def feed(line: framing.Decoder, data: bytes, chunk: int) -> list[bytes]:
    """Feed a device's decoder `chunk` bytes at a time: the messages it finds."""
    found = []
    for start in range(0, len(data), chunk):
        end = min(start + chunk, len(data))
        while start < end:
            start = line.feed(data, start, end)
            if line.length:
                found.append(bytes(line.message[: line.length]))
    return found


def refused(line: framing.Decoder) -> int:
    return line.bad_cobs + line.bad_crc + line.too_long + line.too_short


# --- messages --------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", MESSAGES["valid"], ids=vectors.name)
def test_message(vector):
    data = bytes.fromhex(vector["hex"])
    fields = {key: unhex(value) for key, value in vector["fields"].items()}
    assert put(None, 5, vector) == 5 + len(data)
    buf = bytearray(len(data))
    assert put(buf, 0, vector) == len(data)
    assert buf == data
    assert messages.check(data + GUARD, len(data), vector["size"]) == KIND[vector["kind"]]
    decoded = decode(data, vector["size"])
    assert type(decoded).__name__.lower() == vector["kind"]
    assert decoded._asdict() == {key: fields[key] for key in ARGUMENTS[vector["kind"]]}
    assert decoder.message(data, vector["size"]) == (vector["kind"], fields)
    assert encoder.message(vector["kind"], fields) == data


@pytest.mark.parametrize("vector", MESSAGES["valid"], ids=vectors.name)
def test_a_buffer_too_short_for_a_message(vector):
    with pytest.raises(IndexError):
        put(bytearray(len(vector["hex"]) // 2 - 1), 0, vector)


@pytest.mark.parametrize("vector", MESSAGES["invalid"], ids=vectors.name)
def test_rejected_message(vector):
    data = bytes.fromhex(vector["hex"])
    with pytest.raises(Malformed) as by_device:
        messages.check(data + GUARD, len(data), vector["size"])
    assert by_device.value.args[0] in (vector["reason"], vector.get("also"))
    with pytest.raises(Rejected) as by_host:
        decode(data, vector["size"])
    assert by_host.value.args[0] in (vector["reason"], vector.get("also"))
    with pytest.raises(decoder.Refused) as by_oracle:
        decoder.message(data, vector["size"])
    assert by_oracle.value.args[0] in (vector["reason"], vector.get("also"))


def test_every_reason_has_a_vector():
    reasons = {vector["reason"] for vector in MESSAGES["invalid"] + TASK["invalid"]}
    assert cbor.__doc__ is not None
    listed = cbor.__doc__.split("names the reason:\n\n")[1]
    names = {line[4:19].strip() for line in listed.splitlines()}
    # Neither a message nor a Task holds text.
    assert names - {"text"} <= reasons


@pytest.mark.parametrize("vector", MESSAGES["valid"], ids=vectors.name)
def test_message_lengths_do_not_depend_on_values(vector):
    lengths = {"hello": 40, "ack": 13, "status": 23, "query": 30, "refusal": 14}
    size = vector["size"]
    coded = (1 if size < 24 else 2) + size
    lengths |= {"release": 12 + coded, "answer": 16 + coded}
    assert len(vector["hex"]) // 2 == lengths[vector["kind"]]


def test_numbers_of_the_norm():
    """The CDDL's numbers have these names."""
    assert (messages.TEST, messages.OS, messages.HARDWARE) == (0, 1, 2)
    assert (messages.RUNNING, messages.ENDED) == (0, 1)
    assert (messages.COUNTER_END, messages.ENTROPY_FAILED) == (2, 3)
    assert (messages.HELLO, messages.RELEASE, messages.ACK, messages.STATUS) == (0, 1, 2, 3)
    assert (messages.QUERY, messages.ANSWER, messages.REFUSAL) == (4, 5, 6)
    reasons = ["LATE", "EARLY", "FOREIGN", "UNKNOWN", "BUDGET", "WAITING", "LOST"]
    assert [getattr(messages, name) for name in reasons] == [1, 2, 3, 4, 5, 6, 7]
    methods = ["LBU", "LSP", "LBD", "LBA", "LPU", "LPD", "LPA"]
    assert [getattr(task, name) for name in methods] == [1, 2, 3, 4, 5, 6, 7]
    assert messages.COUNTER_MAX == 2**30 - 1
    assert hashing.GROUPS == 16767488


@pytest.mark.parametrize("vector", MESSAGES["valid"], ids=vectors.name)
def test_fields_stand_where_the_offsets_say(vector):
    data = bytes.fromhex(vector["hex"])
    fields = {key: unhex(value) for key, value in vector["fields"].items()}
    if vector["kind"] in ("release", "ack"):
        assert data[messages.NONCE_AT : messages.NONCE_AT + 4] == fields["nonce"]
        assert messages.get_word(data, messages.SEQUENCE_AT) == fields["sequence"]
    if vector["kind"] == "ack":
        assert data[messages.ACK_HELLO_AT] == (0xF5 if fields["hello"] else 0xF4)
    if vector["kind"] in ("answer", "refusal"):
        assert data[messages.NONCE_AT : messages.NONCE_AT + 4] == fields["nonce"]
        assert messages.get_word(data, messages.SEQUENCE_AT) == fields["t"]
        assert data[messages.PHASE_AT] == fields["phase"]
    if vector["kind"] == "refusal":
        assert data[messages.REASON_AT] == fields["reason"]
    if vector["kind"] == "answer":
        assert data[messages.ENTRY_AT :][:2] == fields["entry"].to_bytes(2, "little")
        assert data.endswith(fields["report"])
        head = len(data) - len(fields["report"]) - (1 if vector["size"] < 24 else 2)
        assert head == messages.REPORT_AT
    if vector["kind"] == "query":
        assert data[messages.QUERY_TASK_AT :][:8] == fields["task"]
        assert messages.get_word(data, messages.QUERY_T_AT) == fields["t"]
        assert data[messages.QUERY_PHASE_AT] == fields["phase"]
        assert data[messages.QUERY_ENTRY_AT :][:2] == fields["entry"].to_bytes(2, "little")
        assert messages.get_word(data, messages.QUERY_START_AT) == fields["start"]
        assert messages.get_word(data, messages.QUERY_SIZE_AT) == fields["size"]


@pytest.mark.parametrize("entry", [-1, 65536, 1 << 30])
def test_an_entry_beyond_16_bits(entry):
    for buf in (None, bytearray(40)):
        with pytest.raises(ValueError, match="16 bits"):
            messages.put_query(buf, 0, bytes(8), 1, 0, entry, 0, 1)
        with pytest.raises(ValueError, match="16 bits"):
            messages.put_answer(buf, 0, bytes(4), 1, 0, entry, b"x")


@pytest.mark.parametrize("n", [0, 1, 255, 256, 65535, 65536, 0x01020304, 0x3FFFFFFF])
def test_word(n):
    buf = bytearray(5)
    assert messages.put_word(buf, 0, n) == 5
    assert buf == b"\x44" + n.to_bytes(4, "little")
    assert messages.get_word(buf, 1) == n


@pytest.mark.parametrize("n", [-1, 1 << 30, 1 << 32])
def test_word_beyond_30_bits(n):
    for buf in (None, bytearray(5)):
        with pytest.raises(ValueError, match="30 bits"):
            messages.put_word(buf, 0, n)


# --- groups ----------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", GROUPS["valid"], ids=vectors.name)
def test_group(vector):
    seed, pseudonym = bytes.fromhex(vector["task"]), bytes.fromhex(vector["pseudonym"])
    assert hashing.group(seed, pseudonym) == vector["group"]
    assert decoder.place(seed, pseudonym) == vector["group"]


def test_groups_of_any_pseudonym():
    random = Random(21)
    for _ in range(5_000):
        seed, pseudonym = random.randbytes(8), random.randbytes(8)
        assert hashing.group(seed, pseudonym) == decoder.place(seed, pseudonym)


@pytest.mark.parametrize("seed", [bytes(8), b"\xff" * 8, b"task-id!"])
def test_groups_spread_over_the_circle(seed):
    """16 sixteenths of the circle, by chi-square: 15 degrees of freedom, false alarm 1e-6."""
    random = Random(22)
    counts = [0] * 16
    for _ in range(16_000):
        counts[hashing.group(seed, random.randbytes(8)) * 16 // hashing.GROUPS] += 1
    assert sum((count - 1000) ** 2 for count in counts) / 1000 < 57


# --- signs -----------------------------------------------------------------------------------

# Of the reference implementation of SipHash: key 0, 1, .. 7; messages 0, 1, .. of 0 bytes and more.
HALFSIPHASH = """a9359f5b 27475ab8 fa62a603 8afee704 2a6e4689 c5fab669 5863fc23 8bcf63c5 d0b8848f
f806e779 94b07934 08083050 57f0872f 77e663ff d6fff87c 74fe2b97 d9b5ac84"""


def test_published_hashes():
    for size, published in enumerate(HALFSIPHASH.split()):
        found = decoder.halfsiphash(bytes(range(8)), bytes(range(size)))
        assert found.to_bytes(4, "little").hex() == published
    assert SIGNS["valid"][0]["hash"] == HALFSIPHASH.split()[8]


def hashed(key: bytes, block: int, item: int) -> str:
    out = [0, 0]
    hashing.halfsiphash(key, block, item, out)
    return (out[0] | out[1] << 16).to_bytes(4, "little").hex()


@pytest.mark.parametrize("vector", SIGNS["valid"], ids=vectors.name)
def test_signs(vector):
    key, block, item = bytes.fromhex(vector["task"]), vector["block"], vector["item"]
    message = block.to_bytes(4, "little") + item.to_bytes(4, "little")
    assert decoder.halfsiphash(key, message).to_bytes(4, "little").hex() == vector["hash"]
    assert hashed(key, block, item) == vector["hash"]


def test_signs_of_any_item():
    random = Random(23)
    for _ in range(5_000):
        key, block, item = random.randbytes(8), random.randrange(1 << 30), random.randrange(1 << 30)
        message = block.to_bytes(4, "little") + item.to_bytes(4, "little")
        expected = decoder.halfsiphash(key, message).to_bytes(4, "little").hex()
        assert hashed(key, block, item) == expected


# --- frames ----------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", MESSAGES["valid"], ids=vectors.name)
def test_frame(vector):
    data = bytes.fromhex(vector["hex"])
    frame = bytes.fromhex(vector["frame"])
    assert len(frame) == len(data) + 7
    assert encoder.frame(data) == frame
    assert decoder.frames(frame) == ([data], 0)
    for same in {0, 1, 8, len(data) - 1, len(data)}:
        buf = bytearray(framing.HEAD) + data + bytes(framing.TAIL)
        line = framing.Encoder(buf, framing.HEAD + same)
        out = line.slot()
        line.frame(out)
        assert out == frame
        # The part that may change changes, and comes back.
        for i in range(framing.HEAD + same, framing.HEAD + len(data)):
            buf[i] ^= 0xFF
        line.frame(out)
        changed = bytes(buf[framing.HEAD : framing.HEAD + len(data)])
        assert out == encoder.frame(changed)


@pytest.mark.parametrize("chunk", [1, 2, 7, 1000])
@pytest.mark.parametrize("vector", MESSAGES["streams"], ids=vectors.name)
def test_stream(vector, chunk):
    data = bytes.fromhex(vector["hex"])
    good = [bytes.fromhex(each) for each in vector["messages"]]
    line = framing.Decoder(framing.MAX_MESSAGE)
    assert feed(line, data, chunk) == good
    assert refused(line) == vector["refused"]
    deframer = Deframer()
    parts = [data[at : at + chunk] for at in range(0, len(data), chunk)]
    assert [each for part in parts for each in deframer.feed(part)] == good
    assert sum(deframer.rejected.values()) == vector["refused"]
    assert decoder.frames(data) == (good, vector["refused"])


def test_a_message_too_long_to_frame():
    spare = framing.HEAD + framing.TAIL
    framing.Encoder(bytearray(249 + spare), framing.HEAD)
    with pytest.raises(ValueError, match="too long"):
        framing.Encoder(bytearray(250 + spare), framing.HEAD)


def test_rejection_counters_stop():
    line = framing.Decoder(framing.MAX_MESSAGE)
    line.bad_cobs = 2**30 - 2
    for _ in range(3):
        feed(line, b"\x00\x09\x01\x00", 4)
    assert line.bad_cobs == 2**30 - 1


# --- the Task --------------------------------------------------------------------------------


def wrapped(vector: dict[str, Any]) -> bytes:
    return bytes.fromhex(vector["hex"] + vector["id"] + vector["crc"])


def names_it(sentence: str, field: str) -> bool:
    """Whether the sentence of a TaskError (or a bare reason) speaks of this field."""
    words = {name: name[:-1] for name in ("thresholds", "spends", "levels")} | {"bins": "bin edge"}
    return any(word.lower() in sentence.lower() for word in (field, words.get(field, field)))


@pytest.mark.parametrize("vector", TASK["valid"], ids=vectors.name)
def test_task(vector):
    data = bytes.fromhex(vector["hex"])
    file = wrapped(vector)
    read = task.read_file(file)
    for name in task.FIELDS:
        assert getattr(read, name) == vector["fields"].get(name)
    assert read.width == vector["width"]
    assert read.payload == vector["width"] * vector["fields"].get("batch", 1)
    assert read.id.hex() == vector["id"]
    assert task.get_task(data + GUARD, len(data)).id.hex() == vector["id"]
    made = task.Task(vector["fields"])
    assert task.put_task(None, 3, made) == 3 + len(data)
    assert task.write_file(made) == file
    assert made.id.hex() == vector["id"]
    assert decoder.task_file(file) == vector["fields"]
    assert encoder.task_file(encoder.task(vector["fields"])) == file


@pytest.mark.parametrize("vector", TASK["invalid"], ids=vectors.name)
def test_refused_task(vector):
    data = bytes.fromhex(vector["hex"])
    with pytest.raises((Malformed, task.TaskError)) as by_device:
        task.get_task(data + GUARD, len(data))
    if isinstance(by_device.value, Malformed):
        assert by_device.value.args == (vector["reason"],)
    else:
        assert names_it(str(by_device.value), vector["reason"])
    with pytest.raises(decoder.Refused) as by_oracle:
        decoder.task(data)
    assert by_oracle.value.args == (vector["reason"],)


@pytest.mark.parametrize("vector", TASK["files"], ids=vectors.name)
def test_refused_task_file(vector):
    data = bytes.fromhex(vector["hex"])
    with pytest.raises((Malformed, task.TaskError)) as by_device:
        task.read_file(data)
    assert names_it(str(by_device.value), vector["reason"])
    with pytest.raises(decoder.Refused) as by_oracle:
        decoder.task_file(data)
    assert by_oracle.value.args == (vector["reason"],)


# The least of everything, by the vector's name; and what this mechanism bounds more narrowly.
LOWEST = {
    "all lowest": {"symbols": (2, 65536)},
    "JitterSort, all lowest": {"window": (3, 1023), "symbols": (2, 65536)},
    "GRR, all lowest": {"symbols": (2, 65536)},
    "OUE, all lowest": {"symbols": (2, 1880)},
    "OLH, all lowest": {"symbols": (2, 32749)},
    "rounds over GRR, all lowest": {"symbols": (2, 65536)},
    "rounds over OUE, all lowest": {"symbols": (2, 1848)},
    "rounds over OLH, all lowest": {"symbols": (2, 32749)},
    "Thresh, all lowest": {"symbols": (2, 65536)},
    "HeavyThresh, all lowest": {},
    "CRR, all lowest": {"symbols": (2, 32)},
    "CRR_BATCH, all lowest": {"symbols": (2, 32)},
    "CRR_BATCH with a table, all lowest": {"symbols": (2, 32)},
}


@pytest.mark.parametrize("lowest", LOWEST)
@pytest.mark.parametrize(
    "spec", [spec for key, spec in decoder.TASK.items() if key], ids=lambda spec: spec[0]
)
def test_bounds_of_a_task_that_no_wire_carried(spec, lowest):
    name, *bounds = spec
    fields = next(v["fields"] for v in TASK["valid"] if v["name"] == lowest)
    least, most = LOWEST[lowest].get(name, bounds)
    for number in (least - 1, most + 1):
        wrong = [number] if name in decoder.LISTS else number
        with pytest.raises(task.TaskError) as error:
            task.Task({**fields, name: wrong})
        # A method alone makes no rounds of an oracle.
        oracle = task.JITTERSORT < fields["mechanism"] < task.THRESH
        lone = name == "method" and name not in fields and oracle
        assert names_it(str(error.value), "spends" if lone else name)
