# ruff: noqa: F821
"""The deepest paths on the micro:bit: flushes that empty the pool within a step, and the end.

Put before it: FAIL, whether the generator dies in such a flush; LOCKED, whether each step
runs with the heap locked: what calls take from the heap otherwise is on the C stack then.
Unless locked, run() is called by one function more than on a flashed board, so that a
call fits that is not needed there. Prints the most bytes of C stack that were used after
the start, the agent's health, and how many of 12 pools were left to be drawn in the last
flush.
"""

import time

from machine import mem32
from micropython import heap_lock, heap_unlock

from tinyldp_device.boards.files import FileSlot
from tinyldp_device.boards.nrf51 import open_serial
from tinyldp_device.entropy import Entropy
from tinyldp_device.identity import Identity
from tinyldp_device.mechanism import small_pool_words
from tinyldp_device.small import SmallAgent, run
from tinyldp_device.state import State
from tinyldp_protocol.messages import COUNTER_END, HARDWARE

# The stack grows down from the end of the memory, into what is free.
_END = 0x20004000
_SIZE = 2688
_PAINTED = 1240
_PAINT = 0x1234567


class HardwareRng:
    """As nrf51's, but of the last values none is switched, and the very last drawn again."""

    quality = HARDWARE

    def __init__(self):
        mem32[0x4000D504] = 1
        mem32[0x4000D000] = 1

    def fill(self, buf):
        for i in range(len(buf)):
            mem32[0x4000D100] = 0
            while not mem32[0x4000D100]:
                pass
            buf[i] = mem32[0x4000D508]
        if found[0] < 40 or not found[1]:
            return
        for i in range(2, len(buf), 3):
            if agent._mechanism._held > 5 or not agent._stopping:
                buf[i] |= 128
            else:
                buf[i] &= 7
        if agent._mechanism._held == 1:
            found[1] -= 1
            if FAIL and found[1] < 5:
                raise OSError


def sample():
    if not found[0]:
        for i in range(0, _PAINTED, 4):
            mem32[_END - _SIZE + i] = _PAINT
    found[0] += 1
    if found[0] > 70:
        raise StopIteration
    return found[0]


def play():
    if LOCKED:
        while not agent.idle():
            agent.service()
            value = None
            try:
                value = sample()
            except StopIteration:
                agent.stop()
            heap_lock()
            agent.tick(value)
            heap_unlock()
            time.sleep_ms(5)
    else:
        run(agent, task.tick, sample, time)
        i = 0
        while mem32[_END - _SIZE + i] == _PAINT:
            i += 4
        print("stack", _SIZE - i)
    print("end", agent.health, found[1])


# Readings taken; pools to go whose words are drawn again.
found = [0, 12]
task = None
identity = Identity(State(FileSlot("state0"), FileSlot("state1")))
entropy = Entropy(HardwareRng(), small_pool_words(task))
agent = SmallAgent(task, entropy, open_serial(), identity.pseudonym)
if identity.ended:
    agent.health = COUNTER_END
play()
