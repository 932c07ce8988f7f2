from collections.abc import Callable

from tinyldp_device.agent import Link
from tinyldp_device.entropy import Entropy
from tinyldp_protocol.task import Task

SOFTWARE: bytes
MESSAGES_A_TICK: int
FAREWELLS: int

class Signals:
    nonce: bytes
    known: bool
    until: int
    def __init__(self, task: Task, entropy: Entropy, link: Link, pseudonym: bytes) -> None: ...
    def send(self, health: int, drops: int, lowest: int, count: int) -> bool: ...
    def hear(self, buf: bytes | bytearray) -> bool: ...

def framed(put: Callable[[bytearray | None, int], int]) -> bytearray: ...
