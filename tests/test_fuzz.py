"""Mutated input: the device's decoders, the host's and the oracle accept exactly the same set.

A decoder may raise its own rejection and nothing else: anything else fails the test. Seeds are
fixed. The oracle shares no code with the product.
"""

import tracemalloc
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from tests.oracle import decoder, encoder, mutate
from tinyldp.collect.decoding import Rejected, decode
from tinyldp.collect.deframing import Deframer
from tinyldp.errors import UserError
from tinyldp.study import load_task
from tinyldp_protocol import framing, messages, task
from tinyldp_protocol.cbor import Malformed

GUARD = b"\x00\xf5\x01\x44"  # follows each message in its buffer: nobody may read into it
KINDS = ("hello", "release", "ack", "status", "query", "answer", "refusal")
ON_DEVICE = Path(__file__).parent / "oracle" / "on_device.py"
soak = pytest.mark.soak


def by_device(data: bytes, size: int) -> str | None:
    """Give the kind of a message that the device accepts."""
    try:
        return KINDS[messages.check(data + GUARD, len(data), size)]
    except Malformed:
        return None


def by_host(data: bytes, size: int) -> tuple[str, dict] | None:
    """Give kind and fields of a message that the host accepts."""
    try:
        message = decode(data, size)
    except Rejected:
        return None
    return type(message).__name__.lower(), message._asdict()


def by_oracle(data: bytes, size: int) -> tuple[str, dict] | None:
    """Give kind and fields of a message that the oracle accepts."""
    try:
        return decoder.message(data, size)
    except decoder.Refused:
        return None


def compare_messages(mutants: Iterator[tuple[int, bytes]]) -> Counter:
    """Compare the three decoders: how many of each kind they accepted, and refused."""
    seen: Counter = Counter()
    for size, data in mutants:
        want = by_oracle(data, size)
        kind = None if want is None else want[0]
        assert by_device(data, size) == kind, (size, data.hex())
        got = by_host(data, size)
        if want is not None:
            want[1].pop("version", None)
        assert got == want, (size, data.hex())
        seen[kind] += 1
    return seen


@pytest.mark.parametrize(("seed", "count"), [(1, 100_000), pytest.param(2, 1_000_000, marks=soak)])
def test_messages(seed, count):
    seen = compare_messages(mutate.messages(seed, count))
    accepted = count - seen[None]
    assert accepted >= max(count // 100, 10_000 if count >= 1_000_000 else 0)
    assert seen[None] >= count // 2
    for kind in KINDS:
        assert seen[kind] >= count // 500


@pytest.mark.parametrize(
    "fault",
    [
        # An accepted one that is not minimal, one that is too long, and a refused good one.
        lambda data, want: want or data[:1] == b"\x98",
        lambda data, want: want or (len(data) > 40 and data[0] == 0x88),
        lambda data, want: want and data[-1] != 0x3F,
    ],
)
def test_a_decoder_with_a_fault_is_caught(fault, monkeypatch):
    honest = by_device

    def faulty(data, size):
        kind = honest(data, size)
        return kind if bool(fault(data, kind)) == (kind is not None) else "another"

    monkeypatch.setitem(globals(), "by_device", faulty)
    with pytest.raises(AssertionError):
        compare_messages(mutate.messages(1, 20_000))


# --- frames ----------------------------------------------------------------------------------


def device_frames(line: framing.Decoder, data: bytes, random: Random) -> list[bytes]:
    """Feed a stream to the device's decoder in pieces of random size."""
    found = []
    start = 0
    while start < len(data):
        end = min(len(data), start + random.choice((1, 2, 3, 50, 1000)))
        while start < end:
            start = line.feed(data, start, end)
            if line.length:
                found.append(bytes(line.message[: line.length]))
    return found


def host_frames(line: Deframer, data: bytes, random: Random) -> list[bytes]:
    """Feed a stream to the host's deframer in pieces of random size."""
    found = []
    start = 0
    while start < len(data):
        end = start + random.choice((1, 2, 3, 50, 1000))
        found += line.feed(data[start:end])
        start = end
    return found


@pytest.mark.parametrize(("seed", "count"), [(3, 10_000), pytest.param(4, 200_000, marks=soak)])
def test_frames(seed, count):
    random = Random(seed)
    frames = refused = 0
    names: Counter = Counter()
    for _ in range(count):
        data = mutate.stream(random)
        good, bad = decoder.frames(data)
        device = framing.Decoder(framing.MAX_MESSAGE)
        assert device_frames(device, data, random) == good, data.hex()
        counts = {
            name: getattr(device, name) for name in ("bad_cobs", "bad_crc", "too_long", "too_short")
        }
        assert sum(counts.values()) == bad, data.hex()
        host = Deframer()
        assert host_frames(host, data, random) == good, data.hex()
        assert sum(host.rejected.values()) == bad, data.hex()
        frames += len(good)
        refused += bad
        names.update(counts)
    assert frames >= count
    assert refused >= count // 4
    assert min(names.values()) >= count // 100


@pytest.mark.parametrize("seed", [5])
def test_frames_for_a_small_buffer(seed):
    """A device with room for 48 bytes takes exactly the frames that fit, and stays in step."""
    random = Random(seed)
    refused = 0
    for _ in range(5_000):
        data = mutate.stream(random)
        good, bad = decoder.frames(data, 48)
        device = framing.Decoder(48)
        assert device_frames(device, data, random) == good, data.hex()
        refused += device.too_long
        assert device.bad_cobs + device.bad_crc + device.too_long + device.too_short == bad
    assert refused >= 500


def test_numbered_frames():
    """An encoder that counts makes the frames that one without memory would."""
    random = Random(13)
    for size in mutate.SIZES:
        fields = {"nonce": random.randbytes(4), "sequence": 0, "values": bytes(size)}
        data = encoder.message("release", fields)
        values_at = len(data) - size
        buf = bytearray(framing.HEAD) + data + bytes(framing.TAIL)
        # The number is followed by the constant head of the values.
        line = framing.Encoder(buf, framing.HEAD + 8, values_at - 8)
        out = line.slot()
        steps = [*range(600), *range(65_400, 65_800), *range((1 << 30) - 300, 1 << 30)]
        steps += [7, 7, 8, 8, 256, 257, 255, 256, 0, 1, (1 << 30) - 1, 0]
        steps += [mutate.counter(random) for _ in range(500)]
        for n in steps:
            values = random.randbytes(size)
            buf[framing.HEAD + values_at : framing.HEAD + len(data)] = values
            line.frame(out, n)
            fields.update(sequence=n, values=values)
            assert out == encoder.frame(encoder.message("release", fields)), n


# --- the Task --------------------------------------------------------------------------------


def test_tasks(tmp_path):
    accepted: Counter = Counter()
    path = tmp_path / "mutant.task"
    for i, data in enumerate(mutate.task_files(6, 10_000)):
        try:
            want = decoder.task_file(data)
        except decoder.Refused:
            want = None
        try:
            read = task.read_file(data)
        except (Malformed, task.TaskError):
            got = None
        else:
            got = {name: getattr(read, name) for name in task.FIELDS}
            got = {"version": 1} | {name: n for name, n in got.items() if n is not None}
            assert read.id == data[-12:-4]
            assert task.write_file(read) == data
        assert got == want, data.hex()
        accepted[want is not None] += 1
        if i % 20 == 0:
            path.write_bytes(data)
            if want is None:
                with pytest.raises(UserError):
                    load_task(path)
            else:
                assert load_task(path).id == data[-12:-4]
    assert accepted[True] >= 1_000
    assert accepted[False] >= 5_000


# --- on MicroPython --------------------------------------------------------------------------


def recorded(mutants: list[tuple[int, bytes]]) -> bytes:
    """Write mutants as on_device.py reads them: size, length (2 bytes, little-endian), bytes."""
    return b"".join(
        bytes([size]) + len(data).to_bytes(2, "little") + data for size, data in mutants
    )


def bitmap(accepted: list[bool]) -> str:
    """Write one character for each input, in lines as on_device.py prints them."""
    return "".join("1" if each else "0" for each in accepted)


@pytest.mark.parametrize("lane", ["unix", "wasm"], indirect=True)
def test_on_micropython(lane):
    """Messages, Tasks and streams: real MicroPython in 64 KB accepts what the oracle does."""
    mutants = list(mutate.messages(7, 20_000))
    files = [data for data in mutate.task_files(8, 2_000) if len(data) < 60_000]
    random = Random(9)
    streams = [mutate.stream(random) for _ in range(2_000)]
    lane.install()
    lane.put(
        {
            "on_device.py": ON_DEVICE.read_bytes(),
            "messages": recorded(mutants),
            "tasks": recorded([(0, data) for data in files]),
            "streams": recorded([(0, data) for data in streams]),
        }
    )
    outputs = {}
    for what in ("messages", "tasks", "streams"):
        result = lane.run("on_device.py", what, heap="64K", timeout=120)
        assert result.exit_code == 0, result.stdout[-300:] + result.stderr[-300:]
        outputs[what] = result.stdout.decode().split()
    want = [by_oracle(data, size) is not None for size, data in mutants]
    assert sum(want) >= 200
    assert "".join(outputs["messages"]) == bitmap(want)
    want = []
    for data in files:
        try:
            decoder.task_file(data)
            want.append(True)
        except decoder.Refused:
            want.append(False)
    assert "".join(outputs["tasks"]) == bitmap(want)
    assert outputs["streams"] == [
        f"{len(good)},{bad},{sum(map(sum, good))}" for good, bad in map(decoder.frames, streams)
    ]


# --- hostile lengths -------------------------------------------------------------------------


CLAIMS = ((4, 1 << 29), (4, (1 << 32) - 1), (8, 1 << 60), (8, (1 << 64) - 1))


@pytest.mark.parametrize("major", range(2, 6))
def test_claimed_lengths_cost_nothing(major):
    """Heads that claim up to 2^64 - 1 items, in place of each item of a message and of a Task.

    Each is refused, and nothing near what it claims is ever allocated: 64 KB are enough for all.
    """
    random = Random(12)
    ack = mutate.split(encoder.message("ack", {"nonce": b"abcd", "sequence": 1, "hello": True}))
    some_task = mutate.split(encoder.task(mutate.task_fields(random)))
    tracemalloc.start()
    try:
        for parts in (ack, some_task):
            for at in range(len(parts)):
                for size, claim in CLAIMS:
                    head = encoder.head(major, claim, size)
                    data = b"".join([*parts[:at], head, bytes(100), *parts[at + 1 :]])
                    assert by_device(data, 1) is by_host(data, 1) is by_oracle(data, 1) is None
                    with pytest.raises((Malformed, task.TaskError)):
                        task.get_task(data, len(data))
        assert tracemalloc.get_traced_memory()[1] < 65536
    finally:
        tracemalloc.stop()


def test_mutants_are_a_fixed_set():
    first = list(islice(mutate.messages(1, 100), 100))
    assert first == list(islice(mutate.messages(1, 100), 100))
    assert first != list(islice(mutate.messages(2, 100), 100))
