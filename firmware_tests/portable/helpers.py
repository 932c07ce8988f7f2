"""What the portable tests share. Runs on MicroPython 1.9.2 and newer, and on CPython."""

from tinyldp_protocol.framing import Decoder, Encoder
from tinyldp_protocol.task import (
    CRR,
    CRR_BATCH,
    GRR,
    HEAVYTHRESH,
    JITTERSORT,
    LBA,
    OLH,
    OUE,
    RANSWITCH,
    SCALE,
    STASWITCH,
    THRESH,
    Task,
)

# By mechanism: what a small Task of it needs besides what numbers() gives.
_ORACLE = {"window": None, "k": None, "symbols": 4, "thresholds": [SCALE // 8]}
EACH = {
    RANSWITCH: {},
    STASWITCH: {"mechanism": STASWITCH},
    JITTERSORT: {"mechanism": JITTERSORT, "thresholds": [SCALE // 2, SCALE // 4]},
    GRR: dict(_ORACLE, mechanism=GRR),
    OUE: dict(_ORACLE, mechanism=OUE),
    OLH: dict(_ORACLE, mechanism=OLH, buckets=3),
}
# A chain of four symbols, the last one of them rare.
_CHAIN = dict(_ORACLE, thresholds=[SCALE // 4], loss=1, prior=[16000, 9000, 7000, 768])
_CHAIN["transitions"] = [10000, 6000, 384, 0, 3000, 9000, 4000, 384]
_CHAIN["transitions"] += [384, 6000, 9800, 200, 0, 8000, 8000, 384]
BY_BELIEF = {
    CRR: dict(_CHAIN, mechanism=CRR, rule=1),
    CRR_BATCH: dict(_CHAIN, mechanism=CRR_BATCH, rule=2, block=2),
}


def krr_table(blocks, least):
    """A table that releases each block for itself, and as likely as `least` for each other one."""
    own = 32768 - (blocks - 1) * least
    return [own if x == y else least for x in range(blocks) for y in range(blocks)]


# Of the 16 blocks of that chain: as T allows, a block is told up to 16 times as often as another.
TABLED = dict(BY_BELIEF[CRR_BATCH], rule=3, table=krr_table(16, 1058))


def unhex(text):
    return bytes([int(text[i : i + 2], 16) for i in range(0, len(text), 2)])


def raised(kind, call, *args):
    """The first argument of the exception of this kind that the call raises."""
    try:
        call(*args)
    except kind as error:
        return error.args[0]
    raise AssertionError("nothing was raised")


def numbers(**changed):
    """A Task's numbers: a small RanSwitch, with changes; None leaves one out."""
    result = {
        "mechanism": RANSWITCH,
        "window": 3,
        "k": 3,
        "symbols": 256,
        "thresholds": [SCALE // 8],
        "tick": 1000,
        "batch": 1,
        "resend": 5,
        "beacon": 100,
        "outbox": 4,
    }
    for name in changed:
        if changed[name] is None:
            result.pop(name, None)
        else:
            result[name] = changed[name]
    return result


def make_task(**changed):
    """A checked Task with an id."""
    task = Task(numbers(**changed))
    task.id = b"task-id!"
    return task


def task_of(mechanism, **changed):
    """A checked Task of this mechanism with an id."""
    return make_task(**dict(EACH[mechanism], **changed))


def crr_task(mechanism=CRR, **changed):
    """A checked Task of conditional randomized response with an id."""
    return make_task(**dict(BY_BELIEF[mechanism], **changed))


def table_task(**changed):
    """A checked Task of blocks by a table with an id."""
    return make_task(**dict(TABLED, **changed))


def round_task(name=b"task-id!", **changed):
    """A checked Task with a method: GRR over 5, spends 2, 4 and 8 of 8 in 4 steps."""
    given = dict(_ORACLE, mechanism=GRR, symbols=5, method=LBA, w=4, epsilon=8, spends=[2, 4, 8])
    given.update(batch=None, resend=None, outbox=None)
    given.update(changed)
    if "thresholds" not in changed:
        given["thresholds"] = [SCALE // (2 * given["symbols"])] * len(given["spends"])
    task = make_task(**given)
    task.id = name
    return task


def epoch_task(name=b"task-id!", **changed):
    """A checked Task with epochs of 4 steps, 8 of them; with coordinates: HeavyThresh's."""
    given = {
        "mechanism": HEAVYTHRESH if "coordinates" in changed else THRESH,
        "symbols": 3,
        "thresholds": [SCALE // 8, SCALE // 16],
        "epsilon": 50,
        "epochs": 8,
        "rounds": 4,
        "votes": 2,
        "estimates": 2,
        "levels": [0, 1, 2, 3],
        "failure": 1,
    }
    for absent in ("window", "k", "batch", "resend", "outbox"):
        given[absent] = None
    given.update(changed)
    task = make_task(**given)
    task.id = name
    return task


class Port:
    """A serial port of a test: what was written; what is read next, from incoming."""

    def __init__(self):
        self.written = []
        self.incoming = b""
        self.busy = False

    def write(self, buf):
        if self.busy:
            return None
        self.written.append(bytes(buf))
        return len(buf)

    def readinto(self, buf):
        n = min(len(buf), len(self.incoming))
        for i in range(n):
            buf[i] = self.incoming[i]
        self.incoming = self.incoming[n:]
        return n or None


class Counting:
    """In place of a hash: how often it was taken since the last look."""

    def __init__(self, hash):
        self.count = 0
        self.hash = hash

    def __call__(self, key, first, second, out):
        self.count += 1
        self.hash(key, first, second, out)

    def look(self):
        count = self.count
        self.count = 0
        return count


class MemorySlot:
    """Keeps what was written; a write beyond `power` of them fails and tears the slot."""

    def __init__(self):
        self.data = b""
        self.written = 0
        self.power = 1 << 20

    def read(self):
        return self.data

    def write(self, data):
        if self.written == self.power:
            self.data = data[: len(data) // 2]
            raise OSError("cut")
        self.written += 1
        self.data = bytes(data)


class Words:
    """An Entropy whose words are given, and may be too few."""

    quality = 0
    nonce = b"\x01\x02\x03\x04\x05\x06\x07\x08"

    def __init__(self, words):
        self.words = words
        self.used = 0

    def word(self):
        self.used += 1
        return self.words[self.used - 1]

    def refill(self, need=1):
        pass


class FakeLink:
    """Keeps what was written; gives the messages in `incoming`; takes nothing while `busy`."""

    def __init__(self):
        self.written = []
        self.incoming = []
        self.busy = False
        self.inbox = None

    def encoder(self, message, same, counted):
        return Encoder(message, same, counted)

    def write(self, frame):
        if not self.busy:
            self.written.append(bytes(frame))
        return not self.busy

    def receive(self):
        if not self.incoming:
            return 0
        self.inbox = self.incoming.pop(0)
        return len(self.inbox)

    def take(self):
        """The messages written since the last call."""
        messages = decode(b"".join(self.written))[0]
        self.written = []
        return messages


def decode(stream, step=0, size=249):
    """All messages in a stream, fed `step` bytes at a time, and the decoder."""
    decoder = Decoder(size)
    messages = []
    step = step or len(stream)
    for start in range(0, len(stream), step or 1):
        at = start
        end = min(start + step, len(stream))
        while at < end:
            at = decoder.feed(stream, at, end)
            if decoder.length:
                messages.append(bytes(decoder.message[: decoder.length]))
    return messages, decoder


class Generator:
    """Reproducible words, the same everywhere: x' = (61 x + 7919) mod 2^24, from x = seed."""

    quality = 0
    nonce = Words.nonce

    def __init__(self, seed):
        self.state = seed

    def word(self):
        self.state = (self.state * 61 + 7919) & 0xFFFFFF
        return self.state

    def refill(self, need=1):
        pass


class Mixed(Generator):
    """Generator's words with their high bits mixed into the low: x xor (x >> 12).

    Its own lowest bit alternates, so that every second word is on one side of a JitterSort.
    """

    def word(self):
        word = Generator.word(self)
        return word ^ word >> 12


class Filler:
    """A source of Generator's words, the top byte of each. Allocates nothing."""

    quality = 1

    def __init__(self):
        self.state = 1

    def fill(self, buf):
        state = self.state
        for i in range(len(buf)):
            state = (state * 61 + 7919) & 0xFFFFFF
            buf[i] = state >> 16
        self.state = state


class Clock:
    """Milliseconds that pass when someone sleeps, and when a sample takes its time."""

    def __init__(self, start=0):
        self.now = start

    def ticks_ms(self):
        return self.now & 0x3FFFFFFF

    def ticks_add(self, ticks, ms):
        return ticks + ms & 0x3FFFFFFF

    def ticks_diff(self, a, b):
        return (a - b + 0x20000000 & 0x3FFFFFFF) - 0x20000000

    def sleep_ms(self, ms):
        self.now += ms


def player(samples, clock):
    """A sample() that gives each in turn: a value, an exception, or (value, ms it takes)."""
    waiting = list(samples)

    def sample():
        if not waiting:
            raise StopIteration
        value = waiting.pop(0)
        if isinstance(value, tuple):
            clock.now += value[1]
            value = value[0]
        if isinstance(value, Exception):
            raise value
        return value

    return sample
