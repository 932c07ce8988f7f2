# ruff: noqa: F821
"""One stream of protocol/vectors/streams.json on the micro:bit, with the words given.

Put before it: SEED and STEPS; see programs/streams.py.
"""

from tinyldp_device.boards.nrf51 import open_serial
from tinyldp_device.small import SmallAgent


class Words:
    """x' = (61 x + 7919) mod 2^24, from x = SEED."""

    quality = 0

    def __init__(self):
        self.nonce = b"\x01\x02\x03\x04\x05\x06\x07\x08"
        self.state = SEED

    def word(self):
        self.state = (self.state * 61 + 7919) & 0xFFFFFF
        return self.state

    def refill(self, need):
        pass


def play():
    i = 0
    while i < STEPS + WINDOW + 1:
        if i == STEPS:
            agent.stop()
        agent.tick((i * i + 3) % 2000)
        agent.service()
        i += 1


task = None
agent = SmallAgent(task, Words(), open_serial(), b"somebody")
play()
