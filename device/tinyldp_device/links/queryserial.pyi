from tinyldp_device.links.serial import Port
from tinyldp_device.links.smallserial import SmallSerial

TASK: int
T: int
PHASE: int
ENTRY: int
START: int
SIZE: int

class QuerySerial(SmallSerial):
    query: bool
    def __init__(self, port: Port, nonce: bytes) -> None: ...
    def inbox(self) -> bytearray: ...
