from collections.abc import Callable

from tinyldp_device.agent import Clock
from tinyldp_device.entropy import Entropy
from tinyldp_device.links.queryserial import QuerySerial
from tinyldp_device.links.serial import Port
from tinyldp_device.rounds import Rounds
from tinyldp_device.smallsignals import SmallSignals
from tinyldp_protocol.task import Task

class SmallRoundAgent(SmallSignals):
    _line: QuerySerial
    drops: int
    def __init__(
        self, task: Task, entropy: Entropy, port: Port, pseudonym: bytes, rounds: Rounds
    ) -> None: ...
    def tick(self, reading: object) -> None: ...
    def service(self, part: int = 0) -> None: ...

def run(
    agent: SmallRoundAgent, period: int, sample: Callable[[], object], clock: Clock
) -> None: ...
