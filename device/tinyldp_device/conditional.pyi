from tinyldp_device.crr import Crr
from tinyldp_device.crrblocks import CrrBlocks
from tinyldp_device.crrtables import CrrTable
from tinyldp_device.switch import Words
from tinyldp_protocol.task import Task

def make_crr(task: Task, entropy: Words) -> Crr | CrrTable | CrrBlocks: ...
