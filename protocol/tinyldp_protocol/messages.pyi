from collections.abc import Sequence

VERSION: int

HELLO: int
RELEASE: int
ACK: int
STATUS: int
QUERY: int
ANSWER: int
REFUSAL: int

TEST: int
OS: int
HARDWARE: int

RUNNING: int
ENDED: int
COUNTER_END: int
ENTROPY_FAILED: int

LATE: int
EARLY: int
FOREIGN: int
UNKNOWN: int
BUDGET: int
WAITING: int
LOST: int

COUNTER_MAX: int

NONCE_AT: int
SEQUENCE_AT: int
ACK_HELLO_AT: int
RELEASE_VALUES_AT: int
PHASE_AT: int
REASON_AT: int
ENTRY_AT: int
REPORT_AT: int
QUERY_TASK_AT: int
QUERY_T_AT: int
QUERY_PHASE_AT: int
QUERY_ENTRY_AT: int
QUERY_START_AT: int
QUERY_SIZE_AT: int

def put_word(buf: bytearray | None, pos: int, n: int) -> int: ...
def set_word(buf: bytearray, pos: int, n: int) -> None: ...
def get_word(buf: bytes | bytearray, pos: int) -> int: ...
def put_hello(
    buf: bytearray | None,
    pos: int,
    software: Sequence[int],
    task: Sequence[int],
    pseudonym: Sequence[int],
    nonce: Sequence[int],
    quality: int,
    lowest: int,
) -> int: ...
def put_release(
    buf: bytearray | None,
    pos: int,
    nonce: Sequence[int],
    sequence: int,
    values: Sequence[int],
) -> int: ...
def put_ack(
    buf: bytearray | None, pos: int, nonce: Sequence[int], sequence: int, hello: bool
) -> int: ...
def put_status(
    buf: bytearray | None,
    pos: int,
    nonce: Sequence[int],
    health: int,
    drops: int,
    lowest: int,
    count: int,
) -> int: ...
def put_query(
    buf: bytearray | None,
    pos: int,
    task: Sequence[int],
    t: int,
    phase: int,
    entry: int,
    start: int,
    size: int,
) -> int: ...
def put_answer(
    buf: bytearray | None,
    pos: int,
    nonce: Sequence[int],
    t: int,
    phase: int,
    entry: int,
    report: Sequence[int],
) -> int: ...
def put_refusal(
    buf: bytearray | None, pos: int, nonce: Sequence[int], t: int, phase: int, reason: int
) -> int: ...
def check_ack(buf: bytes | bytearray, end: int) -> None: ...
def check(buf: bytes | bytearray, end: int, values: int) -> int: ...
