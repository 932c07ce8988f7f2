"""A bare StaSwitch device for the micro:bit: reading i is i * 7 & 255, one report each.

WORDS and VALUES are put before it: a file of words to replay, or None
for the board's own generator.
"""

import gc

import machine
import micropython
from microbit import uart

from tinyldp_device.switch import StaSwitch
from tinyldp_protocol.framing import HEAD, TAIL, Encoder
from tinyldp_protocol.messages import RELEASE_VALUES_AT, SEQUENCE_AT, put_release, set_word


class Hardware:
    """The nRF51's generator, with its bias correction (nRF51 reference manual, RNG)."""

    def __init__(self):
        machine.mem32[0x4000D504] = 1
        machine.mem32[0x4000D000] = 1

    def word(self):
        word = 0
        for _ in range(3):
            machine.mem32[0x4000D100] = 0
            while not machine.mem32[0x4000D100]:
                pass
            word = word << 8 | machine.mem32[0x4000D508]
        return word


class Replay:
    """Words from a file."""

    def __init__(self, name):
        self.file = open(name, "rb")  # noqa: SIM115

    def word(self):
        data = self.file.read(3)
        return data[0] | data[1] << 8 | data[2] << 16


class Numbers:
    window = 8
    symbols = 256
    thresholds = (1 << 20,)


def main():
    uart.init(115200)
    micropython.kbd_intr(-1)
    entropy = Hardware() if WORDS is None else Replay(WORDS)  # noqa: F821
    message = bytearray(HEAD + RELEASE_VALUES_AT + 2 + TAIL)
    nonce = bytearray(4)
    set_word(nonce, 0, entropy.word())
    put_release(message, HEAD, nonce, 0, b"\0")
    encoder = Encoder(message, HEAD + SEQUENCE_AT)
    frame = encoder.slot()
    switch = StaSwitch(Numbers, entropy)
    gc.collect()
    sequence = 0
    for i in range(VALUES + 7):  # noqa: F821
        released = switch.step(i * 7 & 255) if i < VALUES else switch.flush()  # noqa: F821
        if released is not None:
            message[HEAD + RELEASE_VALUES_AT + 1] = released
            set_word(message, HEAD + SEQUENCE_AT, sequence)
            encoder.frame(frame)
            uart.write(frame)
            sequence += 1
    print("free", gc.mem_free())
