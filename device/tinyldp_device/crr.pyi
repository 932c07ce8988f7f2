from tinyldp_device.coupling import Coupling
from tinyldp_device.switch import Words
from tinyldp_protocol.task import Task

class Crr:
    coupling: Coupling
    def __init__(self, task: Task, entropy: Words) -> None: ...
    # What lies outside the alphabet never comes here: Quantizer clamps it.
    def step(self, symbol: int) -> int: ...
    def flush(self) -> None: ...
