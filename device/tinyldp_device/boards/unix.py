"""The unix port of MicroPython: generator, storage, and a terminal as the line."""

import termios

from tinyldp_device.boards.files import FileSlot
from tinyldp_device.boards.repl import ReplLine
from tinyldp_device.entropy import Urandom

_VMIN = 6
_VTIME = 5


def source():
    return Urandom()


def slots():
    return FileSlot("tinyldp/state0"), FileSlot("tinyldp/state1")


def open_line():
    """The terminal that the interpreter itself runs on."""
    before = termios.tcgetattr(0)

    def interrupt(byte):
        termios.setraw(0) if byte < 0 else termios.tcsetattr(0, termios.TCSANOW, before)

    return ReplLine(interrupt)


def open_serial(path):
    """Another terminal, as a raw line whose reads do not wait."""
    port = open(path, "r+b", buffering=0)
    termios.setraw(port.fileno())
    attributes = termios.tcgetattr(port.fileno())
    attributes[6][_VMIN] = attributes[6][_VTIME] = 0
    termios.tcsetattr(port.fileno(), termios.TCSANOW, attributes)
    return port
