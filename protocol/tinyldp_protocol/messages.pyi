from collections.abc import Sequence

VERSION: int

HELLO: int
RELEASE: int
ACK: int
STATUS: int

TEST: int
OS: int
HARDWARE: int

RUNNING: int
ENDED: int
COUNTER_END: int
ENTROPY_FAILED: int

COUNTER_MAX: int

NONCE_AT: int
SEQUENCE_AT: int
ACK_HELLO_AT: int
RELEASE_VALUES_AT: int

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
def check(buf: bytes | bytearray, end: int, values: int) -> int: ...
