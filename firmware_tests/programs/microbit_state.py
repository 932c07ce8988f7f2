"""Count a boot on the micro:bit, and stop in the middle at the point that the file names."""

import os

from microbit import uart

from tinyldp_device.boards.files import FileSlot
from tinyldp_device.identity import Identity
from tinyldp_device.state import State


class Point:
    """Stops at its turn; the file is gone by then, so that the next boot runs through."""

    def __init__(self):
        self.left = -1
        if "point" in os.listdir():
            file = open("point")  # noqa: SIM115
            self.left = int(file.read())
            file.close()
            os.remove("point")

    def pass_(self):
        if self.left == 0:
            uart.write("ready")
            while True:
                pass
        self.left -= 1


class Stopping(FileSlot):
    def write(self, data):
        point.pass_()
        file = open(self._name, "wb")  # noqa: SIM115
        point.pass_()
        file.write(data)
        point.pass_()
        file.close()
        point.pass_()


def play():
    print("state", str(identity.pseudonym, "utf-8"), identity.boots)


task = None
point = Point()
identity = Identity(State(Stopping("state0"), Stopping("state1")))
play()
