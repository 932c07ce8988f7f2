"""The unix port of MicroPython on Linux: generator, storage, line."""

import termios

from tinyldp_device.boards.files import FileSlot, ledger_slots, lifetime_slots  # noqa: F401
from tinyldp_device.boards.repl import ReplLine
from tinyldp_device.entropy import Urandom


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
