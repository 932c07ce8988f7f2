"""Hostile input with a structure: messages, serial streams and Task files, whole and broken.

Everything comes from one random.Random, so a seed names its mutants.
"""

from collections.abc import Iterator
from random import Random
from typing import Any
from zlib import crc32

from tests.oracle import decoder, encoder

LIMIT = decoder.LIMIT
EDGES = (0, 1, 23, 24, 255, 256, 65535, 65536, LIMIT - 2, LIMIT - 1)
# Bytes of a release's values: one byte, some, and the first length with a two-byte head.
SIZES = (1, 3, 24)
BREAK = b"\xff"


def counter(random: Random) -> int:
    """Draw a counter, often one at an edge."""
    return random.choice(EDGES) if random.random() < 0.5 else random.randrange(LIMIT)


def fields(random: Random, size: int) -> tuple[str, dict[str, Any]]:
    """Draw a valid message: its name and fields."""
    name, spec = decoder.MESSAGES[random.randrange(7)]
    drawn: dict[str, Any] = {}
    for key, what in spec:
        if isinstance(what, range):
            drawn[key] = random.choice(what)
        elif what == "bool":
            drawn[key] = random.random() < 0.5
        elif what in decoder.NUMBERS:
            _, least, most = decoder.NUMBERS[what]
            drawn[key] = max(least, min(most, counter(random)))
        else:
            drawn[key] = random.randbytes(size if what == "values" else what)
    return name, drawn


def message(random: Random, size: int) -> bytes:
    """Draw a valid message."""
    return encoder.message(*fields(random, size))


def any_item(random: Random, depth: int = 2) -> bytes:
    """Draw one item of any type, sometimes one that is not well-formed or not minimal."""
    major = random.randrange(8)
    if major == 7:
        return random.choice(
            [b"\xf4", b"\xf5", b"\xf6", b"\xf7", b"\xf9\x3c\x00", b"\xf8\x20", BREAK]
        )
    number = counter(random) if random.random() < 0.3 else random.randrange(9)
    if major < 2:
        return head(random, major, number)
    if major < 4:
        return head(random, major, number) + random.randbytes(min(number, 30))
    if depth == 0:
        return head(random, major, number)
    inner = [any_item(random, depth - 1) for _ in range(random.randrange(4))]
    if major == 6:
        return head(random, 6, number) + any_item(random, depth - 1)
    return head(random, major, len(inner)) + b"".join(inner) * (major - 3)


def head(random: Random, major: int, number: int) -> bytes:
    """Write a head, one time in five longer than it has to be."""
    if random.random() < 0.8:
        return encoder.head(major, number)
    return longer(random, encoder.head(major, number))


def longer(random: Random, data: bytes) -> bytes:
    """Encode the head that data begins with in more bytes than it needs."""
    major, info = data[0] >> 5, data[0] & 31
    size = 0 if info < 24 else 1 << (info - 24)
    if size > 4 or major > 5:
        return data
    number = info if size == 0 else int.from_bytes(data[1 : 1 + size], "big")
    more = random.choice([n for n in (1, 2, 4, 8) if n > size])
    return encoder.head(major, number, more) + data[1 + size :]


def split(data: bytes) -> list[bytes]:
    """Cut a valid message or Task into its first head and its items."""
    _, _, at = decoder.head(data, 0)
    parts = [data[:at]]
    while at < len(data):
        _, end = decoder.item(data, at, 1)
        parts.append(data[at:end])
        at = end
    return parts


def bytewise(random: Random, data: bytes) -> bytes:
    """Damage that knows no structure."""
    way = random.randrange(6)
    at = random.randrange(len(data))
    if way == 0:
        return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
    if way == 1:
        return data[:at]
    if way == 2:
        return data + random.randbytes(1 + random.randrange(4))
    if way == 3:
        return data[:at] + random.randbytes(1) + data[at:]
    if way == 4:
        return data[:at] + data[at + 1 :]
    other = random.randrange(len(data))
    swapped = bytearray(data)
    swapped[at], swapped[other] = swapped[other], swapped[at]
    return bytes(swapped)


def itemwise(random: Random, data: bytes) -> bytes:
    """Damage to whole items and to their heads."""
    parts = split(data)
    at = random.randrange(len(parts))
    way = random.randrange(9)
    if way == 0:
        parts[at] = longer(random, parts[at])
    elif way == 1:
        # The same argument under another major type, or the same type with another one.
        first = parts[at][0]
        change = random.randrange(1, 32) if random.random() < 0.5 else random.randrange(1, 8) << 5
        parts[at] = bytes([first ^ change]) + parts[at][1:]
    elif way == 2:
        other = random.randrange(len(parts))
        parts[at], parts[other] = parts[other], parts[at]
    elif way == 3:
        parts[at] = any_item(random)
    elif way == 4:
        parts.insert(at + 1, parts[at] if random.random() < 0.5 else any_item(random))
        if random.random() < 0.5:
            parts[0] = bytes([parts[0][0] + 1]) + parts[0][1:]
    elif way == 5:
        del parts[at]
        if at and random.random() < 0.5:
            parts[0] = bytes([parts[0][0] - 1]) + parts[0][1:]
    elif way == 6:
        parts[at] = encoder.head(6, random.choice((0, 24, 55799))) + parts[at]
    elif way == 7 and parts[at][0] >> 5 in (2, 4, 5):
        # Indefinite length: of the whole, or a string in one chunk.
        start = bytes([parts[at][0] & 0xE0 | 31])
        if at:
            parts[at] = start + parts[at] + BREAK
        else:
            parts[0] = start
            parts.append(BREAK)
    else:
        # A counter beyond its range, or at its edge.
        parts[at] = b"\x44" + random.choice(
            [
                *(b"\xff\xff\xff\x3f", b"\x00\x00\x00\x40", b"\x00\x00\x00\x80", bytes(4)),
                # The last start that a query may have, the largest size, and one more.
                *(b"\xff\xd9\xff\x00", b"\x00\xda\xff\x00", b"\x01\xda\xff\x00"),
                random.randbytes(4),
            ]
        )
    return b"".join(parts)


def mutant(random: Random, valid: list[bytes]) -> bytes:
    """Make one input of a few valid ones: whole, damaged, spliced, or noise."""
    way = random.randrange(10)
    data = random.choice(valid)
    if way == 0:
        return data
    if way < 5:
        return itemwise(random, data)
    if way < 8:
        for _ in range(random.choice((1, 1, 2, 3))):
            data = bytewise(random, data) or b"\0"
        return data
    if way == 8:
        other = random.choice(valid)
        return data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other)) :]
    return random.randbytes(random.randrange(60))


def messages(seed: int, count: int) -> Iterator[tuple[int, bytes]]:
    """Yield mutated messages, each with the size of values that its Task has."""
    random = Random(seed)
    for _ in range(count):
        size = random.choice(SIZES)
        yield size, mutant(random, [message(random, size), message(random, random.choice(SIZES))])


def stream(random: Random) -> bytes:
    """Make a few frames on a serial line, most lines damaged."""
    pieces = []
    for _ in range(random.randrange(1, 6)):
        way = random.randrange(8)
        if way == 0:
            # Any plain bytes, from nothing to just past the longest message.
            size = random.choice((0, 1, 2, 248, 249, 250, 251, 252, random.randrange(250)))
            plain = bytes(random.choice((0, 1, 255)) for _ in range(size))
            pieces.append(encoder.frame(plain))
        elif way == 1:
            pieces.append(random.randbytes(random.randrange(20)))
        elif way == 2:
            pieces.append(b"\0\xff" + b"\x07" * random.choice((252, 253, 254, 255, 300)) + b"\0")
        else:
            pieces.append(encoder.frame(message(random, random.choice(SIZES))))
    line = b"".join(pieces)
    for _ in range(random.choice((0, 0, 1, 1, 2, 3)) if line else 0):
        at = random.randrange(len(line))
        way = random.randrange(4)
        if way == 0:
            line = line[:at] + random.randbytes(1) + line[at:]
        elif way == 1:
            line = line[:at] + line[at + random.randrange(1, 13) :]
        elif way == 2:
            line = line[:at] + bytes([line[at] ^ 1 << random.randrange(8)]) + line[at + 1 :]
        else:
            line = line[:at] + b"\0" + line[at:]
        line = line or b"\0"
    return line


def task_fields(random: Random) -> dict[str, Any]:
    """Draw a valid Task, small enough to be mutated often."""
    mechanism = random.choice((1, 2, 3, 4, 5, 6, 7, 8, 9, 10))
    if mechanism in decoder.EPOCHS:
        return epoch_fields(random, mechanism)
    if mechanism in decoder.BY_BELIEF:
        return belief_fields(random, mechanism)
    drawn: dict[str, Any] = {
        "version": 1,
        "mechanism": mechanism,
        "symbols": random.choice((2, 3, 8, 24, 256, 257, 1880)),
        "tick": random.choice((1, 1000, 1 << 24)),
        "resend": random.choice((1, 24, 1 << 20)),
        "beacon": random.choice((1, 256, 1 << 20)),
        "outbox": random.choice((1, 16, 255)),
    }
    if mechanism in decoder.STREAMS:
        drawn["k"] = random.choice((2, 3, 8, 10, 23, 24, 64, 1024))
    else:
        # What each report has to choose from.
        answers = 2 if mechanism == decoder.OUE else drawn["symbols"]
        if mechanism == decoder.OLH:
            answers = drawn["buckets"] = random.choice((2, 3, 256, 257, 4096))
        most = (decoder.SCALE - 1) // answers
        drawn["thresholds"] = [random.choice((1, most, random.randint(1, most)))]
    if mechanism == decoder.JITTERSORT:
        half = random.choice((1, 2, 5))
        sides = [random.choice((1, 1000, 1 << 20)) for _ in range(half)]
        drawn["window"] = 2 * half + 1
        drawn["thresholds"] = [decoder.SCALE - 2 * sum(sides), *sides]
    elif mechanism in decoder.STREAMS:
        k = drawn["k"]
        window = k if mechanism == 2 else random.choice((k, min(k + 5, 1024), 1024))
        most = (1 << 24) // window
        drawn["window"] = window
        drawn["thresholds"] = [random.choice((1, most, random.randint(1, most)))]
    if mechanism < decoder.OUE and random.random() < 0.3:
        drawn["symbols"] = 65536
        if mechanism == decoder.GRR:
            drawn["thresholds"] = [random.choice((1, 255))]
    drawn["batch"] = random.choice((1, 235 // decoder.width(drawn)))
    if mechanism not in decoder.STREAMS and random.random() < 0.4:
        to_rounds(random, drawn)
    elif mechanism not in decoder.STREAMS and random.random() < 0.5:
        drawn["w"] = random.choice((1, 24, 1024))
    if "method" not in drawn and random.random() < 0.5:
        drawn["epsilon"] = random.choice((1, 65536, LIMIT - 1))
    if mechanism in decoder.STREAMS and random.random() < 0.5:
        drawn["delta"] = random.choice((0, 1, LIMIT - 1))
    symbols = drawn["symbols"]
    if random.random() < 0.5:
        drawn["missing"] = random.randrange(symbols)
    if symbols <= 24 and random.random() < 0.7:
        edges = random.sample(range(-LIMIT, LIMIT), symbols - 1)
        if random.random() < 0.5:
            edges = list(range(-5, symbols - 6))
        drawn["bins"] = sorted(edges)
    return drawn


def epoch_fields(random: Random, mechanism: int) -> dict[str, Any]:
    """Draw a valid Task of epochs."""
    epochs = random.choice((2, 3, 16, 23, 24, 1 << 14))
    rounds = random.choice((2, 24, 256))
    thresh = mechanism == decoder.THRESH
    symbols = random.choice((2, 3, 24, 65536) if thresh else (2, 24, 100_000, 1 << 20))
    widest = rounds * (symbols - 1) if thresh else 2 * rounds
    drawn: dict[str, Any] = {
        "version": 1,
        "mechanism": mechanism,
        "epsilon": random.choice((1, 65536, LIMIT - 1)),
        "symbols": symbols,
        "tick": random.choice((1, 1000, 1 << 24)),
        "beacon": random.choice((1, 256, 1 << 20)),
        "epochs": epochs,
        "rounds": rounds,
        "votes": random.choice((1, epochs)),
        "estimates": random.choice((1, epochs)),
        "levels": sorted(random.choice((0, 23, widest)) for _ in range(epochs.bit_length())),
        "failure": random.choice((1, 107374182, LIMIT - 1)),
    }
    drawn["levels"] = [min(level, widest) for level in drawn["levels"]]
    if random.random() < 0.5:
        drawn["polls"] = random.choice((1, epochs))
    count = 3 if "polls" in drawn else 2
    most = decoder.SCALE // 2 - 1
    drawn["thresholds"] = [random.choice((1, most, 7000)) for _ in range(count)]
    if not thresh:
        drawn["coordinates"] = random.choice((2, 1024, 1 << 15))
        drawn["items"] = random.choice((1, rounds))
    if random.random() < 0.3:
        drawn["missing"] = random.choice((0, symbols - 1))
    if thresh and symbols <= 24 and random.random() < 0.5:
        drawn["bins"] = sorted(random.sample(range(-LIMIT, LIMIT), symbols - 1))
    return drawn


def belief_fields(random: Random, mechanism: int) -> dict[str, Any]:
    """Draw a valid Task of conditional randomized response."""
    batch = mechanism == decoder.CRR_BATCH
    symbols = random.choice((2, 3, 4) if batch else (2, 2, 3, 4, 8))
    block = random.choice((2, {2: 10, 3: 6}.get(symbols, 5)))
    by_table = batch and random.random() < 0.5
    if by_table:
        block = random.choice((2, 3 if symbols == 2 else 2))
    memory = random.choice((1, 2)) if batch and symbols < 4 else 1
    states = symbols**memory
    drawn: dict[str, Any] = {
        "version": 1,
        "mechanism": mechanism,
        "symbols": symbols,
        "thresholds": [1024 * random.choice((1, 24, 4096, random.randint(1, 16383), 16383))],
        "tick": random.choice((1, 1000, 1 << 24)),
        "batch": random.choice((1, 24, 235)),
        "resend": random.choice((1, 24, 1 << 20)),
        "beacon": random.choice((1, 256, 1 << 20)),
        "outbox": random.choice((1, 16, 255)),
        "rule": 3 if by_table else 2 if batch else random.choice((1, 2)),
        "loss": random.choice((1, 2, 3, 4)),
        "prior": shares(random, states, 1 << 15, 1),
        "transitions": [],
    }
    for _ in range(states):
        drawn["transitions"] += shares(random, symbols, 1 << 14, 0)
    if drawn["loss"] == 4:
        upper = {(x, y): random.choice((0, 1, 1023)) for x in range(symbols) for y in range(x)}
        pairs = [(x, y) for x in range(symbols) for y in range(symbols)]
        drawn["costs"] = [upper.get((max(pair), min(pair)), 0) for pair in pairs]
    if batch:
        drawn["block"] = block
        if by_table:
            drawn["table"] = table(random, symbols**block, drawn["thresholds"][0])
        if memory > 1 or random.random() < 0.5:
            drawn["memory"] = memory
    for name, values in {
        "w": (1, 24, 1024),
        "epsilon": (1, 65536, LIMIT - 1),
        "delta": (0, 1, LIMIT - 1),
        "missing": (0, symbols - 1),
    }.items():
        if random.random() < 0.4:
            drawn[name] = random.choice(values)
    if random.random() < 0.4:
        drawn["bins"] = sorted(random.sample(range(-LIMIT, LIMIT), symbols - 1))
    return drawn


def table(random: Random, blocks: int, threshold: int) -> list[int]:
    """Draw the kernel of k-RR over some of the blocks, others go to all; as far as it may be."""
    kept = random.randint(1, blocks)
    least = random.choice((1, 1, 20))
    own = (1 << 15) - least * (kept - 1)
    while own > least and own * threshold**2 > least * decoder.SCALE**2:
        least += 1
        own = (1 << 15) - least * (kept - 1)
    if own < least:
        kept, own = 1, 1 << 15
    rows = [[least if y < kept else 0 for y in range(blocks)] for _ in range(blocks)]
    for x, row in enumerate(rows):
        row[x % kept] = own
    return [number for row in rows for number in row]


def shares(random: Random, count: int, whole: int, least: int) -> list[int]:
    """Draw that many numbers from `least` up, in sum `whole`, none of which is all of it."""
    while True:
        most = whole - count * least
        cuts = sorted(
            random.choice((0, 1, most, random.randint(0, most))) for _ in range(count - 1)
        )
        found = [b - a + least for a, b in zip([0, *cuts], [*cuts, most], strict=True)]
        if max(found) < whole:
            return found


def to_rounds(random: Random, drawn: dict[str, Any]) -> None:
    """Give an oracle's Task a method, with one entry or a few."""
    for name in ("batch", "resend", "outbox"):
        del drawn[name]
    if drawn["mechanism"] == decoder.OUE:
        drawn["symbols"] = min(drawn["symbols"], 1848)
    highest = drawn["thresholds"][0]
    entries = random.choice((1, 1, 2, 5))
    drawn["thresholds"] = sorted((random.randint(1, highest) for _ in range(entries)), reverse=True)
    drawn["spends"] = sorted(random.sample(range(1, 1000), entries))
    drawn["epsilon"] = random.choice((drawn["spends"][-1], 1000, LIMIT - 1))
    drawn["w"] = random.choice((1, 24, 1024))
    drawn["method"] = random.randint(1, 7)


def task_mutant(random: Random) -> bytes:
    """Make one Task encoding: whole, with a number changed, or damaged like a message."""
    drawn = task_fields(random)
    if random.random() < 0.5:
        return mutant(random, [encoder.task(drawn), encoder.task(task_fields(random))])
    name = random.choice(list(drawn))
    value = drawn[name]
    if isinstance(value, list):
        value = list(value)
        at = random.randrange(len(value))
        value[at] += random.choice((-1, 1, -LIMIT, LIMIT, 0))
        if random.random() < 0.3:
            value.insert(at, value[at])
        drawn[name] = value
    elif random.random() < 0.2:
        del drawn[name]
    elif random.random() < 0.1:
        # A key that no Task has, or not this one, in its place among the others.
        pairs = {key: drawn[field] for key, (field, *_) in decoder.TASK.items() if field in drawn}
        key = random.choice((2, 3, 4, 6, 13, 17, 18, 19, 25, 27, 28, 32, 34, 35, 36, 65536))
        return encoder.item({key: 2} | pairs)
    else:
        edges = (0, 1, 2, 3, 4, 5, 9, 236, 256, 257, 1025, 16385, 65537, 1 << 24, LIMIT)
        drawn[name] = random.choice((value - 1, value + 1, -value, *edges))
    return encoder.task(drawn)


def task_files(seed: int, count: int) -> Iterator[bytes]:
    """Yield mutated Task files, most with an id and a CRC that fit."""
    random = Random(seed)
    for _ in range(count):
        data = encoder.task_file(task_mutant(random))
        way = random.random()
        if way < 0.1:
            data = bytewise(random, data)
        elif way < 0.15:
            # Another id, under a CRC that is right.
            body = data[:-12] + bytewise(random, data[-12:-4])
            data = body + crc32(body).to_bytes(4, "little")
        yield data
