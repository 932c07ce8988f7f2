from tinyldp_device.entropy import Entropy
from tinyldp_device.links.serial import Port
from tinyldp_device.links.smallserial import SmallSerial
from tinyldp_device.outbox import Outbox
from tinyldp_protocol.task import Task

class SmallPost:
    health: int
    count: int
    outbox: Outbox
    line: SmallSerial
    _release: bytearray
    _until_beacon: int
    def __init__(self, task: Task, entropy: Entropy, port: Port, pseudonym: bytes) -> None: ...
    def idle(self) -> bool: ...
    def listen(self) -> None: ...
    def exchange(self) -> None: ...
