"""The messages: CBOR arrays that have one length for each kind and Task.

    hello    [0, version, software, task, pseudonym, nonce, quality, lowest]
    release  [1, nonce, sequence, values]
    ack      [2, nonce, sequence, hello]
    status   [3, nonce, health, drops, lowest, count]
    query    [4, task, t, phase, entry, start, size]
    answer   [5, nonce, t, phase, entry, report]
    refusal  [6, nonce, t, phase, reason]

    version    1, this protocol
    software   3 bytes: major, minor, patch of the device package
    task       the Task's id, 8 bytes
    pseudonym  8 random bytes, no hardware id
    nonce      the boot nonce: 8 bytes in hello, its first 4 everywhere else
    quality    of the device's randomness: TEST, OS or HARDWARE
    lowest     lowest sequence number that the device still holds
    sequence   of a release: its number since boot; of an ack: the first number
               that the host still wants
    values     the Task's batch of reports: symbols, little-endian, or bytes
    hello      true: the host has no hello of this boot and asks for it
    health     RUNNING or ENDED, or what made the device stop
    drops      frames that the outbox had to drop
    count      values released since boot; of the last frame's values those
               beyond count are padding
    t          the host's number of the step, or epoch, that is asked about
    phase      0: the dissimilarity, or all that is asked in this step; 1: the
               publication. With epochs, 0: a vote; 1: an estimate
    entry      2 bytes, little-endian: which of the Task's spends. With epochs, 1: an
               estimate's update; 0: else
    start      the devices that are meant are those with (hashing.group - start)
    size       modulo GROUPS below size; start < GROUPS, 1 <= size <= GROUPS
    report     one of the Task's reports, as in a release
    reason     LATE to LOST

Sequences, counters (lowest, drops, count), t, start and size are 4 bytes,
little-endian, below 2^30. Whatever the values are, a kind's length stays the same.

put_* functions write into buf at pos and give the position after; buf=None
only measures (see cbor).
"""

from tinyldp_protocol.cbor import (
    Malformed,
    Reader,
    put_array,
    put_bytes,
    put_head,
    put_int,
    put_simple,
)
from tinyldp_protocol.hashing import GROUPS

VERSION = 1

HELLO = 0
RELEASE = 1
ACK = 2
STATUS = 3
QUERY = 4
ANSWER = 5
REFUSAL = 6

# Quality of a source of randomness.
TEST = 0
OS = 1
HARDWARE = 2

# Health.
RUNNING = 0
ENDED = 1
COUNTER_END = 2
ENTROPY_FAILED = 3

# Why an answer is refused. Nothing is spent on a refusal.
LATE = 1  # t lies below the one that is bound, or its value is no longer kept
EARLY = 2  # the device's present step is bound to another t
FOREIGN = 3  # the query is for another Task
UNKNOWN = 4  # the Task has no such entry
BUDGET = 5  # a window would exceed what it may spend, or nothing is left for life
WAITING = 6  # the ledger was lost or damaged: a whole window is waited out
LOST = 7  # it was spent before a reset that no answer survived

COUNTER_MAX = 0x3FFFFFFF

# Where, in an ack and a release, the contents of nonce and sequence begin, and what
# follows them: an ack's hello, or the head of a release's values.
NONCE_AT = 3
SEQUENCE_AT = 8
ACK_HELLO_AT = 12
RELEASE_VALUES_AT = 12
# In an answer and a refusal nonce and t stand as nonce and sequence do, then follow these.
PHASE_AT = 12
REASON_AT = 13
ENTRY_AT = 14
REPORT_AT = 16  # the head of the report
# In a query.
QUERY_TASK_AT = 3
QUERY_T_AT = 12
QUERY_PHASE_AT = 16
QUERY_ENTRY_AT = 18
QUERY_START_AT = 21
QUERY_SIZE_AT = 26


def put_word(buf, pos, n):
    """Write a sequence or counter: a byte string of 4 bytes."""
    if n < 0 or n >> 30:
        raise ValueError("beyond 30 bits")
    pos = put_head(buf, pos, 0x40, 4)
    if buf is not None:
        set_word(buf, pos, n)
    return pos + 4


def set_word(buf, pos, n):
    """Store n < 2^30 in 4 bytes, little-endian."""
    buf[pos] = n & 255
    buf[pos + 1] = n >> 8 & 255
    buf[pos + 2] = n >> 16 & 255
    buf[pos + 3] = n >> 24


def get_word(buf, pos):
    """Read 4 bytes, little-endian; Malformed("too large") from 2^30 on."""
    high = buf[pos + 3]
    if high > 63:
        raise Malformed("too large")
    return buf[pos] | buf[pos + 1] << 8 | buf[pos + 2] << 16 | high << 24


def put_hello(buf, pos, software, task, pseudonym, nonce, quality, lowest):
    pos = put_array(buf, pos, 8)
    pos = put_int(buf, pos, HELLO)
    pos = put_int(buf, pos, VERSION)
    pos = put_bytes(buf, pos, software)
    pos = put_bytes(buf, pos, task)
    pos = put_bytes(buf, pos, pseudonym)
    pos = put_bytes(buf, pos, nonce)
    pos = put_int(buf, pos, quality)
    return put_word(buf, pos, lowest)


def put_release(buf, pos, nonce, sequence, values):
    pos = put_array(buf, pos, 4)
    pos = put_int(buf, pos, RELEASE)
    pos = put_bytes(buf, pos, nonce)
    pos = put_word(buf, pos, sequence)
    return put_bytes(buf, pos, values)


def put_ack(buf, pos, nonce, sequence, hello):
    pos = put_array(buf, pos, 4)
    pos = put_int(buf, pos, ACK)
    pos = put_bytes(buf, pos, nonce)
    pos = put_word(buf, pos, sequence)
    return put_simple(buf, pos, hello)


def put_status(buf, pos, nonce, health, drops, lowest, count):
    pos = put_array(buf, pos, 6)
    pos = put_int(buf, pos, STATUS)
    pos = put_bytes(buf, pos, nonce)
    pos = put_int(buf, pos, health)
    pos = put_word(buf, pos, drops)
    pos = put_word(buf, pos, lowest)
    return put_word(buf, pos, count)


def put_query(buf, pos, task, t, phase, entry, start, size):
    pos = put_array(buf, pos, 7)
    pos = put_int(buf, pos, QUERY)
    pos = put_bytes(buf, pos, task)
    pos = _put_asked(buf, put_word(buf, pos, t), phase, entry)
    return put_word(buf, put_word(buf, pos, start), size)


def put_answer(buf, pos, nonce, t, phase, entry, report):
    pos = put_array(buf, pos, 6)
    pos = put_int(buf, pos, ANSWER)
    pos = put_bytes(buf, pos, nonce)
    pos = _put_asked(buf, put_word(buf, pos, t), phase, entry)
    return put_bytes(buf, pos, report)


def put_refusal(buf, pos, nonce, t, phase, reason):
    pos = put_array(buf, pos, 5)
    pos = put_int(buf, pos, REFUSAL)
    pos = put_bytes(buf, pos, nonce)
    pos = put_int(buf, put_word(buf, pos, t), phase)
    return put_int(buf, pos, reason)


def _put_asked(buf, pos, phase, entry):
    if entry >> 16:
        raise ValueError("beyond 16 bits")
    pos = put_head(buf, put_int(buf, pos, phase), 0x40, 2)
    if buf is not None:
        buf[pos] = entry & 255
        buf[pos + 1] = entry >> 8
    return pos + 2


def check_ack(buf, end):
    """Raise Malformed unless check() would find an ack in buf[:end]; allocates only to raise."""
    reader = Reader(buf, 0, end)
    if reader.array() != 4 or reader.uint(COUNTER_MAX) != ACK:
        raise Malformed("kind")
    reader.skip_bytes(4)
    get_word(buf, reader.skip_bytes(4))
    if reader.simple() is None:
        raise Malformed("wrong type")
    reader.finish()


def check(buf, end, values):
    """Give the kind of the message in buf[:end], or raise Malformed.

    Besides cbor's reasons there are "kind" (one that does not exist), "version"
    (of another protocol) and "zero" (a query for nobody, a refusal without a
    reason). values: the payload of the Task at hand.
    Accepts exactly what put_* can write; allocates only to raise.
    """
    reader = Reader(buf, 0, end)
    items = reader.array()
    kind = reader.uint(COUNTER_MAX)
    if kind > REFUSAL:
        raise Malformed("kind")
    if items != (8, 4, 4, 6, 7, 6, 5)[kind]:
        raise Malformed("wrong length")
    if kind == HELLO:
        if reader.uint(COUNTER_MAX) != VERSION:
            raise Malformed("version")
        reader.skip_bytes(3)
        reader.skip_bytes(8)
        reader.skip_bytes(8)
        reader.skip_bytes(8)
        reader.uint(HARDWARE)
    else:
        reader.skip_bytes(8 if kind == QUERY else 4)
    if kind == STATUS:
        reader.uint(ENTROPY_FAILED)
        get_word(buf, reader.skip_bytes(4))
        get_word(buf, reader.skip_bytes(4))
    get_word(buf, reader.skip_bytes(4))
    if kind == RELEASE:
        reader.skip_bytes(values)
    elif kind == ACK:
        if reader.simple() is None:
            raise Malformed("wrong type")
    elif kind >= QUERY:
        _check_asked(reader, kind, values)
    reader.finish()
    return kind


def _check_asked(reader, kind, values):
    reader.uint(1)
    least = 1
    if kind == REFUSAL:
        least = reader.uint(LOST)
    else:
        reader.skip_bytes(2)
        if kind == ANSWER:
            reader.skip_bytes(values)
        else:
            start = get_word(reader.buf, reader.skip_bytes(4))
            least = get_word(reader.buf, reader.skip_bytes(4))
            if start >= GROUPS or least > GROUPS:
                raise Malformed("too large")
    if not least:
        raise Malformed("zero")
