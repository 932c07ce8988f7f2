from tinyldp_device.entropy import Entropy
from tinyldp_device.links.smallserial import SmallSerial
from tinyldp_protocol.task import Task

HELLO_LOWEST: int
STATUS_DROPS: int
STATUS_LOWEST: int

class SmallSignals:
    health: int
    count: int
    line: SmallSerial
    _boot: bytes
    _word: bytes
    _hello: bytearray
    _status: bytearray
    _hello_known: bool
    _beacon: int
    _until_beacon: int
    _open: int
    _signals: int
    _credits: int
    _patience: int
    def __init__(
        self,
        task: Task,
        entropy: Entropy,
        line: SmallSerial,
        pseudonym: bytes,
        credits: int,
        patience: int,
    ) -> None: ...
    def _acknowledged(self) -> None: ...
    def _halt(self, health: int) -> None: ...
    def _wait(self) -> None: ...
    def _signal(self) -> bool: ...
    def _send(self, frame: bytearray) -> bool: ...
    def _fill(self) -> None: ...

def small_message(content: bytes, more: int) -> bytearray: ...
