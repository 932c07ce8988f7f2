from tinyldp_device.agent import Link
from tinyldp_device.entropy import Entropy
from tinyldp_device.ledger import Ledger
from tinyldp_protocol.task import Task

class RoundAgent:
    health: int
    count: int
    drops: int
    rejected: int
    def __init__(
        self, task: Task, entropy: Entropy, link: Link, pseudonym: bytes, ledger: Ledger
    ) -> None: ...
    def tick(self, reading: object) -> None: ...
    def stop(self) -> None: ...
    def idle(self) -> bool: ...
    def service(self) -> None: ...
