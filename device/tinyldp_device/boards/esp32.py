"""ESP32, -S2, -S3, -C3, -C6: generator, storage, line.

Only the radio feeds the generator (Espressif's manual): here it is on and joins no network.
"""

from os import urandom

from tinyldp_device.boards.files import FileSlot, ledger_slots, lifetime_slots  # noqa: F401
from tinyldp_device.boards.repl import ReplLine
from tinyldp_protocol.messages import HARDWARE


class RadioRng:
    quality = HARDWARE

    def __init__(self, radio):
        self._radio = radio
        radio.active(True)

    def fill(self, buf):
        if not self._radio.active():
            raise OSError("the radio is off")
        buf[:] = urandom(len(buf))


def source():
    import network  # type: ignore

    return RadioRng(network.WLAN(network.STA_IF))


def slots():
    return FileSlot("tinyldp/state0"), FileSlot("tinyldp/state1")


def open_line():
    from micropython import kbd_intr  # type: ignore

    return ReplLine(kbd_intr)
