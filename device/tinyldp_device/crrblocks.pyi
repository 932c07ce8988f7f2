from tinyldp_device.blocks import BlockCoupling
from tinyldp_device.switch import Words
from tinyldp_protocol.task import Task

class CrrBlocks:
    coupling: BlockCoupling
    def __init__(self, task: Task, entropy: Words) -> None: ...
    # What lies outside the alphabet never comes here: Quantizer clamps it.
    def step(self, symbol: int) -> int | None: ...
    def flush(self) -> int | None: ...
