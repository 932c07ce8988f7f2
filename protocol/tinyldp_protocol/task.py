"""The Task: the integers that device, host, simulator and auditor agree on.

A CBOR map with ascending integer keys, of integers and arrays of integers only:

     0  version     1
     1  mechanism   1 RanSwitch, 2 StaSwitch
     2  window      slots of the switching buffer: RanSwitch k..1024, StaSwitch k
     3  k           neighbours exchange two values less than k apart: 2..1024
     5  epsilon     point of the privacy curve, in 2^-16, rounded down:
                    1..2^30-1                                   (may be absent)
     6  delta       target, over 2^30, rounded down: 0..2^30-1  (may be absent)
     7  symbols     size of the alphabet: 2..65536
     8  bins        strictly ascending bin edges in -2^30..2^30-1: symbols - 1
                    of them, or symbols - 2 when missing is symbols - 1 and so
                    has a symbol of its own                     (may be absent)
     9  missing     symbol for a missing reading                (absent: 0)
    10  thresholds  probabilities over 2^24; here [T], T >= 1 of each switch
                    distance, window * T <= 2^24
    12  tick        milliseconds from one step to the next: 1..2^24
    13  batch       values in one release frame: 1..235 bytes of them
    14  resend      ticks until an unacknowledged frame is sent again: 1..2^20
    15  beacon      ticks from one hello or status to the next: 1..2^20
    16  outbox      frames that the device holds for an acknowledgement: 1..255

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
MAX_VALUES = 235

FIELDS = (
    (1, "mechanism"),
    (2, "window"),
    (3, "k"),
    (5, "epsilon"),
    (6, "delta"),
    (7, "symbols"),
    (8, "bins"),
    (9, "missing"),
    (10, "thresholds"),
    (12, "tick"),
    (13, "batch"),
    (14, "resend"),
    (15, "beacon"),
    (16, "outbox"),
)
LISTS = ("bins", "thresholds")
OPTIONAL = ("epsilon", "delta", "bins", "missing")


class TaskError(ValueError):
    """A Task that must not run; its argument says why in one sentence."""


class Task:
    """A checked Task: its integers as attributes, absent ones as None.

    numbers: dict from the names of FIELDS to integers, or lists of them.
    width: bytes of one released value. id: 8 bytes, or b"" before it is known.
    Raises TaskError unless every bound holds.
    """

    def __init__(self, numbers):
        for _, name in FIELDS:
            value = numbers.get(name)
            if value is None and name not in OPTIONAL:
                raise TaskError("The Task lacks its %s." % name)
            if value is not None and isinstance(value, (list, tuple)) != (name in LISTS):
                kind = "a list of integers" if name in LISTS else "an integer"
                raise TaskError("%s must be %s." % (name, kind))
            setattr(self, name, value)
        self.width = 1
        self.id = b""
        _check(self)


def _between(name, n, least, most):
    # Not isinstance: True is an int on CPython alone.
    if type(n) is not int:
        raise TaskError("%s must be an integer." % name)
    if n < least or n > most:
        raise TaskError("%s must lie in %d..%d, but is %d." % (name, least, most, n))


def _check(task):
    _between("mechanism", task.mechanism, RANSWITCH, STASWITCH)
    _between("k", task.k, 2, 1024)
    if task.mechanism == STASWITCH:
        _between("window", task.window, task.k, task.k)
    else:
        _between("window", task.window, task.k, 1024)
    if task.epsilon is not None:
        _between("epsilon", task.epsilon, 1, 0x3FFFFFFF)
    if task.delta is not None:
        _between("delta", task.delta, 0, 0x3FFFFFFF)
    _between("symbols", task.symbols, 2, 65536)
    if task.missing is not None:
        _between("missing", task.missing, 0, task.symbols - 1)
    if task.bins is not None:
        edges = task.symbols - 1
        if task.missing == edges and len(task.bins) != edges:
            # The last symbol belongs to missing readings alone.
            edges = max(1, edges - 1)
        _between("the number of bin edges", len(task.bins), edges, edges)
        last = None
        for edge in task.bins:
            _between("a bin edge", edge, -0x40000000, 0x3FFFFFFF)
            if last is not None and edge <= last:
                raise TaskError("The bin edges must ascend, but %d follows %d." % (edge, last))
            last = edge
    _between("the number of thresholds", len(task.thresholds), 1, 1)
    # p >= q: staying is at least as probable as each switch distance.
    _between("threshold", task.thresholds[0], 1, SCALE // task.window)
    if task.symbols > 256:
        task.width = 2
    _between("batch", task.batch, 1, MAX_VALUES // task.width)
    _between("tick", task.tick, 1, SCALE)
    _between("resend", task.resend, 1, 1 << 20)
    _between("beacon", task.beacon, 1, 1 << 20)
    _between("outbox", task.outbox, 1, 255)


def put_task(buf, pos, task):
    """Write the encoding into buf at pos, give the position after; None measures."""
    pairs = 1
    for _, name in FIELDS:
        if getattr(task, name) is not None:
            pairs += 1
    pos = put_int(buf, put_int(buf, put_map(buf, pos, pairs), 0), 1)
    for key, name in FIELDS:
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
    names = dict(FIELDS)
    numbers = {}
    reader = Reader(buf, 0, end)
    pairs = reader.map()
    last = -1
    for i in range(pairs):
        last = reader.key(last)
        if i == 0:
            if last != 0 or reader.int() != 1:
                raise TaskError("This Task is of another version.")
        elif last not in names:
            raise TaskError("Key %d is unknown in a Task." % last)
        elif names[last] in LISTS:
            numbers[names[last]] = [reader.int() for _ in range(reader.array())]
        else:
            numbers[names[last]] = reader.int()
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
