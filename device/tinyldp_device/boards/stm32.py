"""STM32 (pyboard, Nucleo and others): generator, storage, line.

MicroPython gives os.urandom only to those with a hardware generator, and reads
it there; on the others entropy refuses to start ("missing").
"""

from tinyldp_device.boards.files import FileSlot, ledger_slots, lifetime_slots  # noqa: F401
from tinyldp_device.boards.repl import ReplLine
from tinyldp_device.entropy import Urandom
from tinyldp_protocol.messages import HARDWARE


class Rng(Urandom):
    quality = HARDWARE


def source():
    return Rng()


def slots():
    return FileSlot("tinyldp/state0"), FileSlot("tinyldp/state1")


def open_line():
    from micropython import kbd_intr  # type: ignore

    return ReplLine(kbd_intr)
