"""Strict decoding of messages, frames and Tasks, from the norm alone.

Written from protocol/tinyldp.cddl, RFC 8949 and the docstrings of the protocol package. Plain
rather than fast: whole items are parsed into Python objects, with Python's integers, zlib and
hashlib, and the shape is checked afterwards.
"""

import hashlib
import zlib
from typing import Any

LIMIT = 1 << 30
SCALE = 1 << 24
MAX_MESSAGE = 249


class Refused(Exception):
    """The one error of this module; its argument is the reason."""


# --- CBOR ------------------------------------------------------------------------------------


def take(data: bytes, at: int, size: int) -> bytes:
    """Exactly `size` bytes of data from position at."""
    if at + size > len(data):
        raise Refused("truncated")
    return data[at : at + size]


def head(data: bytes, at: int) -> tuple[int, int, int]:
    """Read one head (RFC 8949, section 3): major type, argument, position after it."""
    first = take(data, at, 1)[0]
    major, info = first >> 5, first & 31
    at += 1
    if info == 31:
        raise Refused("indefinite")
    if info > 27:
        raise Refused("reserved")
    if major == 6:
        raise Refused("tag")
    if major == 7 and info not in (20, 21, 22):
        raise Refused("float")
    if info < 24:
        return major, info, at
    size = 1 << (info - 24)
    argument = int.from_bytes(take(data, at, size), "big")
    if argument < {1: 24, 2: 1 << 8, 4: 1 << 16, 8: 1 << 32}[size]:
        raise Refused("not minimal")
    if argument >= LIMIT:
        raise Refused("too large")
    return major, argument, at + size


def item(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    """Read one item that nests at most `depth` deep: its value, and the position after it."""
    major, argument, at = head(data, at)
    if major == 0:
        return argument, at
    if major == 1:
        return -1 - argument, at
    if major == 2:
        return take(data, at, argument), at + argument
    if major == 3:
        try:
            return take(data, at, argument).decode("utf-8"), at + argument
        except UnicodeDecodeError:
            raise Refused("text") from None
    if major == 7:
        return {20: False, 21: True, 22: None}[argument], at
    if depth == 0:
        raise Refused("wrong type")
    if argument * (major - 3) > len(data) - at:
        raise Refused("truncated")
    if major == 4:
        array = []
        for _ in range(argument):
            value, at = item(data, at, depth - 1)
            array.append(value)
        return array, at
    pairs: dict[int, Any] = {}
    last = -1
    for _ in range(argument):
        key, at = item(data, at, 0)
        if not whole(key) or key < 0:
            raise Refused("wrong type")
        if key in pairs:
            raise Refused("duplicate key")
        if key < last:
            raise Refused("key order")
        pairs[key], at = item(data, at, depth - 1)
        last = key
    return pairs, at


def only_item(data: bytes, depth: int) -> Any:
    """Read the one item that data must be."""
    value, at = item(data, 0, depth)
    if at != len(data):
        raise Refused("trailing")
    return value


def whole(value: Any) -> bool:
    """Whether value is an integer (a Python bool is none)."""
    return isinstance(value, int) and not isinstance(value, bool)


# --- messages --------------------------------------------------------------------------------

# Name and type of each field after the kind; a number is the size of a byte string.
MESSAGES: dict[int, tuple[str, list[tuple[str, Any]]]] = {
    0: (
        "hello",
        [
            ("version", range(1, 2)),
            ("software", 3),
            ("task", 8),
            ("pseudonym", 8),
            ("nonce", 8),
            ("quality", range(3)),
            ("lowest", "counter"),
        ],
    ),
    1: ("release", [("nonce", 4), ("sequence", "counter"), ("values", "values")]),
    2: ("ack", [("nonce", 4), ("sequence", "counter"), ("hello", "bool")]),
    3: (
        "status",
        [
            ("nonce", 4),
            ("health", range(4)),
            ("drops", "counter"),
            ("lowest", "counter"),
            ("count", "counter"),
        ],
    ),
    4: (
        "query",
        [
            ("task", 8),
            ("t", "counter"),
            ("phase", range(2)),
            ("entry", "entry"),
            ("start", "start"),
            ("size", "size"),
        ],
    ),
    5: (
        "answer",
        [
            ("nonce", 4),
            ("t", "counter"),
            ("phase", range(2)),
            ("entry", "entry"),
            ("report", "values"),
        ],
    ),
    6: (
        "refusal",
        [("nonce", 4), ("t", "counter"), ("phase", range(2)), ("reason", range(1, 8))],
    ),
}
# Byte strings that are numbers, little-endian: their bytes, the least, and the most.
NUMBERS = {
    "counter": (4, 0, LIMIT - 1),
    "entry": (2, 0, 65535),
    "start": (4, 0, 512 * 32749 - 1),
    "size": (4, 1, 512 * 32749),
}


def field(value: Any, kind: Any, values: int) -> Any:
    """Check one field of a message; numbers become integers."""
    if isinstance(kind, range):
        if not whole(value) or value < 0:
            raise Refused("wrong type")
        if value not in kind:
            raise Refused(outside(value, kind))
        return value
    if kind == "bool":
        if not isinstance(value, bool):
            raise Refused("wrong type")
        return value
    size, least, most = NUMBERS.get(kind, (values if kind == "values" else kind, 0, 0))
    if not isinstance(value, bytes):
        raise Refused("wrong type")
    if len(value) != size:
        raise Refused("wrong length")
    if kind not in NUMBERS:
        return value
    number = int.from_bytes(value, "little")
    if number > most:
        raise Refused("too large")
    if number < least:
        raise Refused("zero")
    return number


def outside(value: int, kind: range) -> str:
    """Name what is wrong with a code outside its range; the version's holds one number."""
    if len(kind) == 1:
        return "version"
    return "zero" if value < kind.start else "too large"


def message(data: bytes, values: int) -> tuple[str, dict[str, Any]]:
    """Decode one message: its name and its fields.

    values: bytes of a release's values, or of an answer's report, under the Task at hand.
    """
    array = only_item(data, 1)
    if not isinstance(array, list):
        raise Refused("wrong type")
    if not array:
        raise Refused("wrong length")
    kind = array[0]
    if not whole(kind) or kind < 0:
        raise Refused("wrong type")
    if kind not in MESSAGES:
        raise Refused("kind")
    name, fields = MESSAGES[kind]
    if len(array) != 1 + len(fields):
        raise Refused("wrong length")
    return name, {
        key: field(value, what, values)
        for value, (key, what) in zip(array[1:], fields, strict=True)
    }


# --- frames ----------------------------------------------------------------------------------


def uncobs(chunk: bytes) -> bytes:
    """Undo COBS (Cheshire and Baker, 1999, section III) on what stood between two zeros."""
    plain = b""
    at = 0
    while at < len(chunk):
        code = chunk[at]
        run = chunk[at + 1 : at + code]
        if len(run) != code - 1:
            raise Refused("COBS")
        plain += run
        at += code
        if code < 255 and at < len(chunk):
            plain += b"\0"
    return plain


def frame(chunk: bytes, size: int = MAX_MESSAGE) -> bytes:
    """Give the message in what stood between two zeros; at most `size` bytes of it."""
    if len(chunk) > size + 5:
        raise Refused("too long")
    plain = uncobs(chunk)
    if len(plain) > size + 4:
        raise Refused("too long")
    if len(plain) < 5:
        raise Refused("too short")
    if zlib.crc32(plain[:-4]) != int.from_bytes(plain[-4:], "little"):
        raise Refused("CRC")
    return plain[:-4]


def frames(stream: bytes, size: int = MAX_MESSAGE) -> tuple[list[bytes], int]:
    """Take a whole stream apart: the good messages in order, and how many frames were refused.

    What follows the last zero is unfinished and counts as neither.
    """
    good = []
    refused = 0
    for chunk in stream.split(b"\0")[:-1]:
        if chunk:
            try:
                good.append(frame(chunk, size))
            except Refused:
                refused += 1
    return good, refused


# --- the Task --------------------------------------------------------------------------------

# Key: name, least, most under any mechanism. The two lists are marked by their names.
TASK: dict[int, tuple[str, int, int]] = {
    0: ("version", 1, 1),
    1: ("mechanism", 1, 10),
    2: ("window", 2, 1024),
    3: ("k", 2, 1024),
    4: ("w", 1, 1024),
    5: ("epsilon", 1, LIMIT - 1),
    6: ("delta", 0, LIMIT - 1),
    7: ("symbols", 2, 1 << 20),
    8: ("bins", -LIMIT, LIMIT - 1),
    9: ("missing", 0, (1 << 20) - 1),
    10: ("thresholds", 1, SCALE),
    11: ("spends", 1, LIMIT - 1),
    12: ("tick", 1, SCALE),
    13: ("batch", 1, 235),
    14: ("resend", 1, 1 << 20),
    15: ("beacon", 1, 1 << 20),
    16: ("outbox", 1, 255),
    17: ("buckets", 2, 4096),
    18: ("method", 1, 7),
    19: ("epochs", 2, 1 << 14),
    20: ("rounds", 2, 1 << 20),
    21: ("votes", 1, 1 << 14),
    22: ("estimates", 1, 1 << 14),
    23: ("levels", 0, SCALE),
    24: ("failure", 1, LIMIT - 1),
    25: ("polls", 1, 1 << 14),
    26: ("coordinates", 2, 1 << 15),
    27: ("items", 1, 1024),
    28: ("rule", 1, 3),
    29: ("loss", 1, 4),
    30: ("prior", 1, (1 << 15) - 1),
    31: ("transitions", 0, (1 << 14) - 1),
    32: ("costs", 0, 1023),
    33: ("block", 2, 10),
    34: ("memory", 1, 10),
    35: ("table", 0, 1 << 15),
}
LISTS = ("bins", "thresholds", "spends", "levels", "prior", "transitions", "costs", "table")
OPTIONAL = {"w", "epsilon", "delta", "bins", "missing", "polls", "costs", "memory", "table"}
STREAMS = (1, 2, 3)
THRESH, HEAVYTHRESH = EPOCHS = (7, 8)
CRR, CRR_BATCH = BY_BELIEF = (9, 10)
OF_EPOCHS = {name for key, (name, *_) in TASK.items() if 18 < key < 28}
OF_CRR = {name for key, (name, *_) in TASK.items() if key > 27}
JITTERSORT, GRR, OUE, OLH = 3, 4, 5, 6


def absent(mechanism: int, rounds: bool) -> set[str]:
    """The fields that a Task of this mechanism, with a method or without, can not have."""
    if mechanism in BY_BELIEF:
        never = {"window", "k", "buckets", "spends", "method"} | OF_EPOCHS
        return never | ({"block", "memory", "table"} if mechanism == CRR else set())
    if mechanism in STREAMS:
        return {"w", "buckets", "spends", "method"} | OF_EPOCHS | OF_CRR
    if mechanism in EPOCHS:
        never = {"window", "k", "w", "delta", "spends", "batch", "resend", "outbox"}
        never |= {"buckets", "method"} | OF_CRR
        return never | ({"coordinates", "items"} if mechanism == THRESH else {"bins"})
    never = (
        OF_EPOCHS | OF_CRR | {"window", "k", "delta"} | ({"buckets"} if mechanism != OLH else set())
    )
    return never | ({"batch", "resend", "outbox"} if rounds else {"spends", "method"})


def width(fields: dict[str, Any]) -> int:
    """Bytes of one report."""
    if fields["mechanism"] in EPOCHS:
        return 1 if fields["mechanism"] == THRESH else 3
    if fields["mechanism"] == OUE:
        return -(-fields["symbols"] // 8)
    if fields["mechanism"] == OLH:
        return 4 + (1 if fields["buckets"] <= 256 else 2)
    return 1 if fields["symbols"] <= 256 else 2


def task(data: bytes) -> dict[str, Any]:
    """Decode a Task's encoding; absent fields are left out."""
    pairs = only_item(data, 2)
    if not isinstance(pairs, dict):
        raise Refused("wrong type")
    fields = {}
    for key, value in pairs.items():
        if key not in TASK:
            raise Refused(f"key {key}")
        name, least, most = TASK[key]
        if name in LISTS:
            if not isinstance(value, list):
                raise Refused("wrong type")
            numbers = value
        else:
            numbers = [value]
        for number in numbers:
            if not whole(number):
                raise Refused("wrong type")
            if not least <= number <= most:
                raise Refused(name)
        fields[name] = value
    if "mechanism" not in fields:
        raise Refused("mechanism")
    mechanism = fields["mechanism"]
    rounds = "method" in fields and mechanism not in (*STREAMS, *EPOCHS, *BY_BELIEF)
    needed = {"w", "epsilon"} if rounds else {"epsilon"} if mechanism in EPOCHS else set()
    for name, _, _ in TASK.values():
        if name in absent(mechanism, rounds):
            if name in fields:
                raise Refused(name)
        elif name not in fields and name not in OPTIONAL - needed:
            raise Refused(name)
    if mechanism in STREAMS:
        check_window(fields)
    # An answer and its frame leave less to a report than a release does.
    bits = 8 * (231 if rounds else 235)
    most = {OUE: bits, OLH: 32749, HEAVYTHRESH: 1 << 20, CRR: 32, CRR_BATCH: 32}
    if fields["symbols"] > most.get(mechanism, 65536):
        raise Refused("symbols")
    check_bins(fields)
    if rounds:
        check_spends(fields)
    elif mechanism in EPOCHS:
        check_epochs(fields)
    elif len(fields["thresholds"]) != 1 and mechanism != JITTERSORT:
        raise Refused("thresholds")
    if mechanism in BY_BELIEF:
        check_belief(fields)
    elif not probable(fields):
        raise Refused("thresholds")
    if not rounds and mechanism not in EPOCHS and fields["batch"] * width(fields) > 235:
        raise Refused("batch")
    return fields


def check_spends(fields: dict[str, Any]) -> None:
    """Spends ascend up to epsilon; each has a threshold, the larger spend never the larger one."""
    spends, thresholds = fields["spends"], fields["thresholds"]
    if not 1 <= len(spends) <= 512 or spends != sorted(set(spends)):
        raise Refused("spends")
    if len(thresholds) != len(spends) or thresholds != sorted(thresholds, reverse=True):
        raise Refused("thresholds")
    if spends[-1] > fields["epsilon"]:
        raise Refused("spends")


def check_epochs(fields: dict[str, Any]) -> None:
    """What a device may say, within the epochs; as many levels as powers of 2 up to them."""
    for name in ("votes", "estimates", "polls"):
        if fields.get(name, 1) > fields["epochs"]:
            raise Refused(name)
    if len(fields["thresholds"]) != (3 if "polls" in fields else 2):
        raise Refused("thresholds")
    if fields["mechanism"] == THRESH:
        widest = fields["rounds"] * (fields["symbols"] - 1)
        if widest > SCALE:
            raise Refused("rounds")
    else:
        widest = 2 * fields["rounds"]
        if fields["items"] > fields["rounds"]:
            raise Refused("items")
    levels = fields["levels"]
    if len(levels) != fields["epochs"].bit_length() or levels != sorted(levels):
        raise Refused("levels")
    if levels[-1] > widest:
        raise Refused("levels")


def check_belief(fields: dict[str, Any]) -> None:
    """The model of what follows what, and what an error costs."""
    symbols = fields["symbols"]
    threshold = fields["thresholds"][0]
    if threshold % 1024 or threshold == SCALE:
        raise Refused("thresholds")
    if fields["mechanism"] == CRR_BATCH:
        if fields["rule"] == 1:
            raise Refused("rule")
        if symbols ** fields["block"] > 1024:
            raise Refused("block")
        if fields.get("memory", 1) > fields["block"]:
            raise Refused("memory")
    elif fields["rule"] == 3:
        raise Refused("rule")
    states = symbols ** fields.get("memory", 1)
    if len(fields["prior"]) != states or sum(fields["prior"]) != 1 << 15:
        raise Refused("prior")
    chances = fields["transitions"]
    rows = [chances[at : at + symbols] for at in range(0, len(chances), symbols)]
    if len(chances) != states * symbols or any(sum(row) != 1 << 14 for row in rows):
        raise Refused("transitions")
    if ("costs" in fields) != (fields["loss"] == 4):
        raise Refused("costs")
    costs = fields.get("costs", [0] * symbols**2)
    table = [costs[at : at + symbols] for at in range(0, len(costs), symbols)]
    if len(costs) != symbols**2 or any(table[x][x] for x in range(symbols)):
        raise Refused("costs")
    if table != [list(column) for column in zip(*table, strict=True)]:
        raise Refused("costs")
    if ("table" in fields) != (fields["rule"] == 3):
        raise Refused("table")
    if "table" in fields:
        check_table(fields["table"], symbols ** fields["block"], threshold)


def check_table(table: list[int], blocks: int, threshold: int) -> None:
    """Each block is released as something; no two blocks differ by more than 2 epsilon."""
    if blocks > 45 or len(table) != blocks**2:
        raise Refused("table")
    rows = [table[at : at + blocks] for at in range(0, len(table), blocks)]
    if any(sum(row) != 1 << 15 for row in rows):
        raise Refused("table")
    for column in zip(*rows, strict=True):
        if max(column) * threshold**2 > min(column) * SCALE**2:
            raise Refused("table")


def check_window(fields: dict[str, Any]) -> None:
    """A switch's window against k; JitterSort's is 2L + 1."""
    k, window = fields["k"], fields["window"]
    if fields["mechanism"] == JITTERSORT:
        if window < 3 or window % 2 == 0:
            raise Refused("window")
    elif window < k or (fields["mechanism"] == 2 and window != k):
        raise Refused("window")


def check_bins(fields: dict[str, Any]) -> None:
    """The edges of the bins, and the symbol of a missing reading."""
    symbols = fields["symbols"]
    if "bins" in fields:
        edges = fields["bins"]
        counts = {symbols - 1}
        if fields.get("missing") == symbols - 1:
            counts.add(symbols - 2)
        if not edges or len(edges) not in counts or edges != sorted(set(edges)):
            raise Refused("bins")
    if fields.get("missing", 0) >= symbols:
        raise Refused("missing")


def probable(fields: dict[str, Any]) -> bool:
    """Whether the thresholds are probabilities of the mechanism, truth the likeliest."""
    mechanism, thresholds = fields["mechanism"], fields["thresholds"]
    if mechanism == JITTERSORT:
        weights = thresholds[:0:-1] + thresholds
        return len(weights) == fields["window"] and sum(weights) == SCALE
    if mechanism in STREAMS:
        # p = 1 - (window - 1) q >= q, or the privacy formula does not hold.
        return fields["window"] * thresholds[0] <= SCALE
    if mechanism in EPOCHS:
        return all(SCALE - one > one for one in thresholds)
    answers = {GRR: fields["symbols"], OUE: 2, OLH: fields.get("buckets", 0)}[mechanism]
    return all(SCALE - (answers - 1) * lie > lie for lie in thresholds)


def task_id(encoding: bytes) -> bytes:
    """Give the id of a Task."""
    return hashlib.sha256(encoding).digest()[:8]


def task_file(data: bytes) -> dict[str, Any]:
    """Decode a Task file: the encoding, its id, CRC-32 of both."""
    if len(data) < 13:
        raise Refused("too short")
    encoding, name, crc = data[:-12], data[-12:-4], data[-4:]
    if zlib.crc32(data[:-4]) != int.from_bytes(crc, "little"):
        raise Refused("CRC")
    if task_id(encoding) != name:
        raise Refused("id")
    return task(encoding)


# --- who is meant by a query -----------------------------------------------------------------


def place(task: bytes, pseudonym: bytes) -> int:
    """Give a pseudonym's place on the circle, as protocol/README.md has it."""
    x = [int.from_bytes(task[at : at + 2], "little") for at in range(0, 8, 2)]
    carry = 1
    outputs = []
    for n in range(34):
        total = 15459 * x[n] + carry
        carry, output = divmod(total, 1 << 16)
        x.append(output)
        outputs.append(output % 32749)

    def h(key: list[int]) -> int:
        return (key[0] + sum(c * b for c, b in zip(key[1:], pseudonym, strict=True))) % 32749

    return 512 * h(outputs[16:25]) + h(outputs[25:34]) // 64


# --- the signs of HeavyThresh ----------------------------------------------------------------


def halfsiphash(key: bytes, message: bytes) -> int:
    """HalfSipHash-2-4 with 32 bits, of any message, after the SipHash paper's section 2."""
    words = [int.from_bytes(message[at : at + 4], "little") for at in range(0, len(message), 4)]
    if len(message) % 4 == 0:
        words.append(0)
    words[-1] |= len(message) % 256 << 24
    k = [int.from_bytes(key[at : at + 4], "little") for at in (0, 4)]
    v = [k[0], k[1], k[0] ^ 0x6C796765, k[1] ^ 0x74656462]

    def turned(word: int, by: int) -> int:
        return (word << by | word >> 32 - by) % (1 << 32)

    steps = ((0, 1, 5, 16), (2, 3, 8, 0), (0, 3, 7, 0), (2, 1, 13, 16))

    def rounds(count: int) -> None:
        for _ in range(count):
            for this, other, by, again in steps:
                v[this] = (v[this] + v[other]) % (1 << 32)
                v[other] = turned(v[other], by) ^ v[this]
                v[this] = turned(v[this], again)

    for word in words:
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[1] ^ v[3]
