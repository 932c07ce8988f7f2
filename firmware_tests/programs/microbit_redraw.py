# ruff: noqa: F821
"""The deepest path of JitterSort and OLH on the micro:bit: a step that draws every word again.

Put before it: WINDOW; FAIL, whether the randomness fails in that step; LOCKED, whether each
step runs with the heap locked: what calls take from the heap otherwise is on the C stack
then. Unless locked, run() is called by one function more than on a flashed board, so that a
call fits that is not needed there. Prints the agent's health, and how many pools were drawn
in that step and after it.
"""

import time

from micropython import heap_lock, heap_unlock

from tinyldp_device.boards.files import FileSlot
from tinyldp_device.boards.nrf51 import HardwareRng, open_serial
from tinyldp_device.entropy import Entropy
from tinyldp_device.identity import Identity
from tinyldp_device.mechanism import small_pool_words
from tinyldp_device.small import SmallAgent, run
from tinyldp_device.state import State
from tinyldp_protocol.messages import COUNTER_END

# The buffer is full then.
_STEP = WINDOW + 9


def sample():
    found[0] += 1
    if found[0] == _STEP:
        spoil()
    if found[0] == _STEP + 1 and not FAIL:
        found[1] += entropy._pools
    if found[0] > _STEP + 9:
        raise StopIteration
    return found[0]


def spoil():
    """Words that are too high for a part of a key, and to choose one of 11: 2^24 % 11 is 5."""
    pool = entropy._pool
    entropy._at = 0
    for i in range(len(pool)):
        pool[i] = 255 if i % 3 else 252
    if WINDOW:
        keys = agent._mechanism._keys
        for i in range(11):
            keys[i] = agent._mechanism._now + 1 - WINDOW & 0xFFFF
    if FAIL:
        entropy._failed = "stuck"
    else:
        found[1] = -entropy._pools


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
    print("end", agent.health, found[1])


# Readings taken, pools drawn.
found = [0, 0]
task = None
identity = Identity(State(FileSlot("state0"), FileSlot("state1")))
entropy = Entropy(HardwareRng(), small_pool_words(task))
agent = SmallAgent(task, entropy, open_serial(), identity.pseudonym)
if identity.ended:
    agent.health = COUNTER_END
play()
