# ruff: noqa: F821
"""Steps a second on the micro:bit: STEPS of them, nothing sent, after WINDOW that fill it."""

import gc
from time import ticks_diff, ticks_ms

from tinyldp_device.boards.nrf51 import HardwareRng, open_serial
from tinyldp_device.entropy import Entropy
from tinyldp_device.mechanism import small_pool_words
from tinyldp_device.small import SmallAgent


def play():
    i = 0
    while i < WINDOW:
        agent.tick(i)
        i += 1
    start = ticks_ms()
    i = 0
    while i < STEPS:
        agent.tick(i)
        i += 1
    took = ticks_diff(ticks_ms(), start)
    gc.collect()
    print("steps", STEPS * 1000 // took, gc.mem_free())


task = None
entropy = Entropy(HardwareRng(), small_pool_words(task))
agent = SmallAgent(task, entropy, open_serial(), b"somebody")
play()
