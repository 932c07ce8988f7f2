"""The Task: the integers that device, host, simulator and auditor agree on.

A CBOR map with ascending integer keys, of integers and arrays of integers only:

     0  version     1
     1  mechanism   streams: 1 RanSwitch, 2 StaSwitch, 3 JitterSort;
                    oracles: 4 GRR, 5 OUE, 6 OLH;
                    epochs: 7 Thresh, 8 HeavyThresh; 9, 10: see crrtask.py
     2  window      slots of the buffer: RanSwitch k..1024, StaSwitch k,
                    JitterSort 2L+1, odd, 3..1023             (streams only)
     3  k           neighbours exchange two values less than k apart: 2..1024
                                                              (streams only)
     4  w           steps over which the certificate states the loss of an
                    oracle, too; with a method, those of a window: 1..1024
                              (oracles only, may be absent without a method)
     5  epsilon     point of the privacy curve, of an oracle the target for one
                    report, in 2^-16, rounded down: 1..2^30-1; with a method
                    what a device may spend in any window;
                    with epochs what the whole Task costs
                             (may be absent with a stream or a lone oracle)
     6  delta       target, over 2^30, rounded down: 0..2^30-1
                                                 (streams only, may be absent)
     7  symbols     size of the alphabet: 2..65536, OUE to 1880, with a method
                    to 1848, OLH to 32749; HeavyThresh: items of the
                    dictionary, to 2^20
     8  bins        strictly ascending bin edges in -2^30..2^30-1: symbols - 1
                    of them, or symbols - 2 when missing is symbols - 1 and so
                    has a symbol of its own
                                        (may be absent; not HeavyThresh)
     9  missing     symbol for a missing reading                (absent: 0)
    10  thresholds  probabilities over 2^24, each 1 or more
                    switches    [T] of each switch distance, window * T <= 2^24
                    JitterSort  [c_0, ..., c_L]: a key is late by L - j or
                                L + j, each with c_j; c_0 + 2 (c_1 + ... + c_L)
                                is 2^24
                    GRR         [T] of each lie, symbols * T < 2^24
                    OUE         [T] that a zero is sent as one, T < 2^23; that
                                a one is kept: 1/2
                    OLH         [T] of each lie about the bucket,
                                buckets * T < 2^24
                    with a method one T for each spend, not ascending
                    epochs      [vote, estimate], with polls a third one: T
                                that a bit is 1 where nothing is said, and 0
                                where it is, T < 2^23
    11  spends      what an answer may cost, in 2^-16 of one epsilon, each one
                    at least the exact loss with its threshold: 1..512 numbers,
                    strictly ascending, the last at most epsilon  (method only)
    12  tick        milliseconds from one step to the next: 1..2^24
    13  batch       values in one release frame: 1..235 bytes of them
    14  resend      ticks until an unacknowledged frame is sent again: 1..2^20
                             (batch, resend, outbox: no method, no epochs)
    15  beacon      ticks from one hello or status to the next: 1..2^20
    16  outbox      frames that the device holds for an acknowledgement: 1..255
    17  buckets     what symbols are hashed to: 2..4096             (OLH only)
    18  method      the device reports when it is asked, and the host asks by
                    1 LBU, 2 LSP, 3 LBD, 4 LBA, 5 LPU, 6 LPD, 7 LPA
                                                 (oracles only, may be absent)
    19  to 27: of epochs, see epochtask.py; 28 to 35: see crrtask.py

Its id is the first 8 bytes of the SHA-256 of the encoding. A Task file is the
encoding, the id, and the CRC-32 (little-endian) of both.
"""

try:
    from hashlib import sha256
except ImportError:
    sha256 = None

from tinyldp_protocol.cbor import Reader, put_array, put_int, put_map
from tinyldp_protocol.framing import Crc32

SCALE = 1 << 24
RANSWITCH = 1
STASWITCH = 2
JITTERSORT = 3
GRR = 4
OUE = 5
OLH = 6
THRESH = 7
HEAVYTHRESH = 8
CRR = 9
CRR_BATCH = 10
# Methods of rounds (LDP-IDS): of budgets, then of populations.
LBU = 1
LSP = 2
LBD = 3
LBA = 4
LPU = 5
LPD = 6
LPA = 7
# Rules of conditional randomized response.
PRESERVE = 1
MIN_ERROR = 2
TABLE = 3
MAX_VALUES = 235
# What is left to a report in an answer.
MAX_REPORT = 231

# In the order of their keys.
OF_EPOCHS = (
    "epochs",
    "rounds",
    "votes",
    "estimates",
    "levels",
    "failure",
    "polls",
    "coordinates",
    "items",
)
OF_CRR = (
    "rule",
    "loss",
    "prior",
    "transitions",
    "costs",
    "block",
    "memory",
    "table",
)
# In the order of their keys, from 1 on.
_OF_OTHERS = (
    "mechanism",
    "window",
    "k",
    "w",
    "epsilon",
    "delta",
    "symbols",
    "bins",
    "missing",
    "thresholds",
    "spends",
    "tick",
    "batch",
    "resend",
    "beacon",
    "outbox",
    "buckets",
    "method",
)
FIELDS = _OF_OTHERS + OF_EPOCHS + OF_CRR
LISTS = ("bins", "thresholds", "spends", "levels", "prior", "transitions", "costs", "table")
OPTIONAL = (
    "w",
    "epsilon",
    "delta",
    "bins",
    "missing",
    "method",
    "polls",
    "costs",
    "memory",
    "table",
)


class TaskError(ValueError):
    """A Task that must not run; its argument says why in one sentence."""


class Task:
    """A checked Task: its integers as attributes, absent ones as None.

    numbers: dict from the names of FIELDS to integers, or lists of them.
    width: bytes of one report. payload: those of a release's values, or of an answer's
    report. id: 8 bytes, or b"" before it is known.
    Raises TaskError unless every bound holds.
    """

    def __init__(self, numbers):
        mechanism = numbers.get("mechanism")
        if mechanism is None:
            raise TaskError("The Task lacks its mechanism.")
        between("mechanism", mechanism, RANSWITCH, CRR_BATCH)
        owner = "Mechanism %d" % mechanism
        absent = ("window", "k", "delta") + OF_EPOCHS
        optional = OPTIONAL
        if mechanism <= JITTERSORT:
            absent = ("w", "spends", "method") + OF_EPOCHS
        elif mechanism > HEAVYTHRESH:
            absent = ("window", "k", "spends", "method") + OF_EPOCHS
            if mechanism == CRR:
                absent += ("block", "memory", "table")
        elif mechanism > OLH:
            absent = ("window", "k", "w", "delta", "spends", "method", "batch", "resend", "outbox")
            absent += ("coordinates", "items") if mechanism == THRESH else ("bins",)
            optional = ("bins", "missing", "polls")
        elif numbers.get("method") is None:
            absent += ("spends",)
        else:
            owner = "A Task with a method"
            absent += ("batch", "resend", "outbox")
            optional = ("bins", "missing")
        if mechanism <= HEAVYTHRESH:
            absent += OF_CRR
        for name in FIELDS:
            value = numbers.get(name)
            if name in absent or (name == "buckets" and mechanism != OLH):
                if value is not None:
                    raise TaskError("%s has no %s." % (owner, name))
            elif value is None and name not in optional:
                raise TaskError("The Task lacks its %s." % name)
            if value is not None and isinstance(value, (list, tuple)) != (name in LISTS):
                kind = "a list of integers" if name in LISTS else "an integer"
                raise TaskError("%s must be %s." % (name, kind))
            setattr(self, name, value)
        self.width = 1
        self.payload = 0
        self.id = b""
        _check(self, numbers)


def between(name, n, least, most):
    # Not isinstance: True is an int on CPython alone.
    if type(n) is not int:
        raise TaskError("%s must be an integer." % name)
    if n < least or n > most:
        raise TaskError("%s must lie in %d..%d, but is %d." % (name, least, most, n))


def _check(task, numbers):
    mechanism = task.mechanism
    jittersort = mechanism == JITTERSORT
    widest = 1023 if jittersort else 1024
    if mechanism == STASWITCH:
        widest = task.k
    # Each bound is made of numbers that were checked before it.
    for name, least, most in (
        ("symbols", 2, 1 << 20 if mechanism == HEAVYTHRESH else 65536),
        ("k", 2, 1024),
        ("window", 3 if jittersort else task.k, widest),
        ("w", 1, 1024),
        ("buckets", 2, 4096),
        ("epsilon", 1, 0x3FFFFFFF),
        ("delta", 0, 0x3FFFFFFF),
        ("tick", 1, SCALE),
        ("resend", 1, 1 << 20),
        ("beacon", 1, 1 << 20),
        ("outbox", 1, 255),
        ("method", LBU, LPA),
        ("epochs", 2, 1 << 14),
        ("rounds", 2, 1 << 20),
        ("votes", 1, task.epochs),
        ("estimates", 1, task.epochs),
        ("failure", 1, 0x3FFFFFFF),
        ("polls", 1, task.epochs),
        ("coordinates", 2, 1 << 15),
        ("items", 1, 1024),
        ("rule", PRESERVE, TABLE),
        ("loss", 1, 4),
        ("block", 2, 10),
        ("memory", 1, task.block),
    ):
        n = numbers.get(name)
        if n is not None:
            between(name, n, least, most)
    symbols = task.symbols
    rounds = task.method is not None
    if symbols > 256:
        task.width = 2
    # Truth is more probable than each lie; a switch's staying, than each distance, or as much.
    highest = SCALE - 1
    if mechanism == GRR:
        highest //= symbols
    elif mechanism == OUE:
        between("symbols", symbols, 2, 8 * (MAX_REPORT if rounds else MAX_VALUES))
        task.width = (symbols + 7) // 8
        highest //= 2
    elif mechanism == OLH:
        # hashing.PRIME
        between("symbols", symbols, 2, 32749)
        task.width = 5 if task.buckets <= 256 else 6
        highest //= task.buckets
    elif mechanism > HEAVYTHRESH:
        between("symbols", symbols, 2, 32)
    elif mechanism > OLH:
        highest //= 2
        task.width = 1 if mechanism == THRESH else 3
    elif not jittersort:
        highest = SCALE // task.window
    count = task.window // 2 + 1 if jittersort else 1
    if task.epochs is not None:
        count = 2 if task.polls is None else 3
    elif rounds:
        count = len(task.spends)
        between("the number of spends", count, 1, 512)
    between("the number of thresholds", len(task.thresholds), count, count)
    for threshold in task.thresholds:
        between("threshold", threshold, 1, highest)
        if rounds:
            highest = threshold
    if jittersort:
        _check_jittersort(task)
    task.payload = task.width
    if rounds:
        last = 0
        for spend in task.spends:
            between("spend", spend, 1, task.epsilon)
            if spend <= last:
                raise TaskError("The spends must ascend, but %d follows %d." % (spend, last))
            last = spend
    elif task.epochs is not None:
        # Imported where it is used: a board holds what it runs.
        from tinyldp_protocol.epochtask import check_epochs

        check_epochs(task)
    else:
        if mechanism > OLH:
            from tinyldp_protocol.crrtask import check_crr

            check_crr(task)
        between("batch", task.batch, 1, MAX_VALUES // task.width)
        task.payload *= task.batch
    if task.missing is not None:
        between("missing", task.missing, 0, symbols - 1)
    if task.bins is not None:
        _check_bins(task)


def _check_jittersort(task):
    if task.window % 2 == 0:
        raise TaskError("window must be odd, but is %d." % task.window)
    left = SCALE + task.thresholds[0]
    for threshold in task.thresholds:
        left -= 2 * threshold
        if left < 0:
            break
    if left:
        raise TaskError("The thresholds must make up exactly %d." % SCALE)


def _check_bins(task):
    edges = task.symbols - 1
    if task.missing == edges and len(task.bins) != edges:
        # The last symbol belongs to missing readings alone.
        edges = max(1, edges - 1)
    between("the number of bin edges", len(task.bins), edges, edges)
    last = None
    for edge in task.bins:
        between("a bin edge", edge, -0x40000000, 0x3FFFFFFF)
        if last is not None and edge <= last:
            raise TaskError("The bin edges must ascend, but %d follows %d." % (edge, last))
        last = edge


def put_task(buf, pos, task):
    """Write the encoding into buf at pos, give the position after; None measures."""
    pairs = 1
    for name in FIELDS:
        if getattr(task, name) is not None:
            pairs += 1
    pos = put_int(buf, put_int(buf, put_map(buf, pos, pairs), 0), 1)
    key = 0
    for name in FIELDS:
        key += 1
        value = getattr(task, name)
        if value is None:
            continue
        pos = put_int(buf, pos, key)
        if name in LISTS:
            pos = put_array(buf, pos, len(value))
            for n in value:
                pos = put_int(buf, pos, n)
        else:
            pos = put_int(buf, pos, value)
    return pos


def get_task(buf, end):
    """Read an encoding from buf[:end]: a Task, or Malformed or TaskError."""
    numbers = {}
    reader = Reader(buf, 0, end)
    pairs = reader.map()
    last = -1
    for i in range(pairs):
        last = reader.key(last)
        if i == 0:
            if last != 0 or reader.int() != 1:
                raise TaskError("This Task is of another version.")
        elif last > len(FIELDS):
            raise TaskError("Key %d is unknown in a Task." % last)
        else:
            name = FIELDS[last - 1]
            if name in LISTS:
                numbers[name] = reader.ints()
            else:
                numbers[name] = reader.int()
    reader.finish()
    task = Task(numbers)
    task.id = _id(buf, end)
    return task


def _id(buf, end):
    if sha256 is None:
        return b""
    return sha256(bytes(buf[:end])).digest()[:8]


def write_file(task):
    """The Task file's bytes. Sets task.id; needs SHA-256."""
    n = put_task(None, 0, task)
    data = bytearray(n + 12)
    put_task(data, 0, task)
    task.id = _id(data, n)
    for i in range(8):
        data[n + i] = task.id[i]
    crc = Crc32()
    crc.feed(data, 0, n + 8)
    crc.put(data, n + 8)
    return bytes(data)


def read_file(data):
    """A Task from its file's bytes; raises Malformed or TaskError."""
    n = len(data) - 12
    if n < 1:
        raise TaskError("This is no Task file: it is too short.")
    crc = Crc32()
    crc.feed(data, 0, n + 8)
    if not crc.matches(data, n + 8):
        raise TaskError("This is no Task file, or it is damaged: its CRC is wrong.")
    task = get_task(data, n)
    if not task.id:
        task.id = bytes(data[n : n + 8])
    elif task.id != data[n : n + 8]:
        raise TaskError("This Task's id is not that of its content.")
    return task
