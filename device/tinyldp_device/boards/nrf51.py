"""The BBC micro:bit and other nRF51 boards with its MicroPython: generator and line."""

from tinyldp_protocol.messages import HARDWARE


class HardwareRng:
    """The hardware generator, with its bias correction on; stopped while nobody asks."""

    quality = HARDWARE

    def __init__(self):
        from machine import mem32

        self._registers = mem32
        mem32[0x4000D504] = 1

    def fill(self, buf):
        registers = self._registers
        registers[0x4000D000] = 1
        # Dead after 20 s. A byte takes 0.7 ms at the most (nRF51 reference manual, RNG).
        patience = 1000000
        for i in range(len(buf)):
            registers[0x4000D100] = 0
            while not registers[0x4000D100]:
                patience -= 1
                if not patience:
                    raise OSError("no random byte")
            buf[i] = registers[0x4000D508]
        registers[0x4000D004] = 1


def open_serial():
    """The USB line, 115200 baud; Ctrl-C is a byte like any other."""
    from microbit import uart  # pyright: ignore[reportMissingImports]
    from micropython import kbd_intr

    uart.init(115200)
    kbd_intr(-1)
    return uart
