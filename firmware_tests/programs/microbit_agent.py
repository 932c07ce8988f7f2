# ruff: noqa: F821
"""A full agent on the micro:bit: reading i is READING(i); at the end, what it cost.

Put before it: READINGS, how many; LOCKED, whether each step runs with the heap locked;
COUNT, from which the counters start; and a line `def reading(i): ...`.
"""

import gc
import time

from micropython import heap_lock, heap_unlock

from tinyldp_device.boards.files import FileSlot
from tinyldp_device.boards.nrf51 import HardwareRng, open_serial
from tinyldp_device.entropy import Entropy
from tinyldp_device.identity import Identity
from tinyldp_device.small import SmallAgent, run
from tinyldp_device.state import State
from tinyldp_protocol.messages import COUNTER_END


def sample():
    i = found[0]
    if i == READINGS:
        raise StopIteration
    found[0] = i + 1
    if i & 63 == 63:
        gc.collect()
        found[1] = min(found[1], gc.mem_free())
    return reading(i)


def locked():
    """As small.run, each step with the heap locked."""
    due = time.ticks_ms()
    while not agent.idle():
        while time.ticks_diff(time.ticks_ms(), due) < 0:
            agent.listen()
        value = None
        try:
            value = sample()
        except StopIteration:
            agent.stop()
        heap_lock()
        agent.tick(value)
        heap_unlock()
        agent.service()
        due = time.ticks_add(due, task.tick)


def play():
    if LOCKED:
        locked()
    else:
        run(agent, task.tick, sample, time)
    print("end", found[1], agent.line.rejected)


task = None
identity = Identity(State(FileSlot("state0"), FileSlot("state1")))
entropy = Entropy(HardwareRng(), 4)
agent = SmallAgent(task, entropy, open_serial(), identity.pseudonym)
if identity.ended:
    agent.health = COUNTER_END
if COUNT:
    agent.count = COUNT
    agent.outbox.next = COUNT
    agent.outbox.lowest = COUNT
    agent.outbox.unsent = COUNT
# Readings taken; the least free heap after a collection.
found = [0, 9999]
play()
