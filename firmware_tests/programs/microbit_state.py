"""Count a boot on the micro:bit; announce each point of each write, and wait there for a byte.

A line says: repair or save, the slot, the step (before the file is opened, before each
byte and before it is closed, when it is closed), and the boots that the payload counts.
"""

from microbit import uart

from tinyldp_device.boards.files import FileSlot
from tinyldp_device.identity import Identity
from tinyldp_device.state import State


class Slot(FileSlot):
    def write(self, data):
        at_point(self._name, 0, data)
        file = open(self._name, "wb")  # noqa: SIM115
        for i in range(len(data)):
            at_point(self._name, 1 + i, data)
            file.write(data[i : i + 1])
        at_point(self._name, 1 + len(data), data)
        file.close()
        at_point(self._name, 2 + len(data), data)


def at_point(name, step, data):
    # load() repairs before it knows a generation.
    print("save" if state._generation else "repair", name, step, data[12] | data[13] << 8)
    while not uart.any():
        pass
    uart.read(1)


def play():
    print("up", str(identity.pseudonym, "utf-8"), identity.boots)


task = None
state = State(Slot("state0"), Slot("state1"))
identity = Identity(state)
play()
