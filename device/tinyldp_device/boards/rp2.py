"""RP2040 and RP2350 (Raspberry Pi Pico and others): generator, storage, line.

os.urandom mixes the jitter of the ring oscillator in software, so its quality
is OS and not HARDWARE.
"""

from tinyldp_device.boards.files import FileSlot, ledger_slots, lifetime_slots  # noqa: F401
from tinyldp_device.boards.repl import ReplLine
from tinyldp_device.entropy import Urandom


def source():
    return Urandom()


def slots():
    return FileSlot("tinyldp/state0"), FileSlot("tinyldp/state1")


def open_line():
    from micropython import kbd_intr  # type: ignore

    return ReplLine(kbd_intr)
