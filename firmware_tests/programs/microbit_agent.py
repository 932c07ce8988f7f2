# ruff: noqa: F821
"""A full agent on the micro:bit: reading i is reading(i); at the end, what it cost.

Put before it: READINGS, how many; LOCKED, whether each step runs with the heap locked;
COUNT, from which the counters start; BUSY, ms that every eighth sample takes; and a
line `def reading(i): ...`. When the segment is over it listens until it hears a frame
that is none of this boot, so that all that was sent before has been heard, too.
"""

import gc
import time

from counted import Counted
from micropython import heap_lock, heap_unlock

from tinyldp_device.boards.files import FileSlot
from tinyldp_device.boards.nrf51 import HardwareRng, open_serial
from tinyldp_device.entropy import Entropy
from tinyldp_device.identity import Identity
from tinyldp_device.mechanism import small_pool_words
from tinyldp_device.small import SmallAgent, run
from tinyldp_device.state import State
from tinyldp_protocol.messages import COUNTER_END, RUNNING

# Milliseconds until a step comes all the same, and drops a frame.
_PATIENCE = 5000
# Times that a step sleeps once the segment is over, which are about 6 ms each, however short they
# shall be: with none, answers would be given up before a busy host has sent them, and then come
# all at once. The last three statuses are two beacons apart.
_OVER = 2


class Steps:
    """A clock by which no step is late: each comes as soon as the outbox has room."""

    def __init__(self):
        self.now = 0
        self.waited = 0

    def ticks_ms(self):
        return self.now

    def ticks_add(self, ticks, ms):
        return ticks + ms

    def ticks_diff(self, a, b):
        return a - b

    def sleep_ms(self, ms):
        over = agent.health != RUNNING
        room = agent.outbox.next - agent.outbox.lowest < OUTBOX
        if room and not over or self.waited >= (_OVER if over else _PATIENCE):
            self.now += task.tick
            self.waited = 0
            return
        time.sleep_ms(ms)
        self.waited += 1


def sample():
    return reading(counted())


def counted():
    i = found[0]
    if i == READINGS:
        raise StopIteration
    found[0] = i + 1
    if i & 63 == 63:
        gc.collect()
        found[1] = min(found[1], gc.mem_free())
    if BUSY and i & 7 == 7:
        time.sleep_ms(BUSY)
    return i


def play():
    if LOCKED:
        # As small.run, and as deep in calls as on a flashed board: those take more of the
        # C stack while the heap is locked.
        due = 0
        while not agent.idle():
            while clock.now < due:
                agent.listen()
                clock.sleep_ms(1)
            agent.service()
            value = None
            try:
                value = sample()
            except StopIteration:
                agent.stop()
            heap_lock()
            agent.tick(value)
            heap_unlock()
            due += task.tick
    else:
        run(agent, task.tick, sample, clock)
    before = agent.line.rejected
    print("over")
    while agent.line.rejected == before:
        agent.listen()
    print("end", found[1], before, port.taken, agent.outbox.drops)


task = None
identity = Identity(State(FileSlot("state0"), FileSlot("state1")))
entropy = Entropy(HardwareRng(), small_pool_words(task))
port = Counted(open_serial())
agent = SmallAgent(task, entropy, port, identity.pseudonym)
clock = Steps()
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
