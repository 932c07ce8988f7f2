# ruff: noqa: F821
"""One stream of protocol/vectors/streams.json on the micro:bit, with the words given.

Put before it: SEED, STEPS and WINDOW; MIXED, whether it is one of `mechanisms`; see
programs/streams.py.
"""

from tinyldp_device.boards.nrf51 import open_serial
from tinyldp_device.small import SmallAgent


class Words:
    """x' = (61 x + 7919) mod 2^24, from x = SEED; if MIXED x xor (x >> 12) is the word."""

    quality = 0

    def __init__(self):
        self.nonce = b"\x01\x02\x03\x04\x05\x06\x07\x08"
        self.state = SEED

    def word(self):
        self.state = (self.state * 61 + 7919) & 0xFFFFFF
        if MIXED:
            return self.state ^ self.state >> 12
        return self.state

    def refill(self, need):
        pass


def reading(i):
    if not MIXED:
        return (i * i + 3) % 2000
    if i % 50 == 49:
        return None
    return i * i // 3 % task.symbols


def play():
    i = 0
    while i < STEPS + WINDOW + 1:
        if i == STEPS:
            agent.stop()
        agent.tick(reading(i))
        agent.service()
        i += 1


task = None
agent = SmallAgent(task, Words(), open_serial(), b"somebody")
play()
