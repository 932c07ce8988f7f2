"""Steps of a device with epochs with the heap locked: locked_epochs.py MECHANISM STEPS.

What allocates raises MemoryError. One argument more plants an allocation.
"""

import sys

import micropython
from helpers import FakeLink, Filler, MemorySlot, epoch_task

from tinyldp_device.entropy import Entropy
from tinyldp_device.epochs import Epochs
from tinyldp_device.lifetime import Lifetime, provision
from tinyldp_device.mechanism import pool_words
from tinyldp_device.rounds import RoundAgent
from tinyldp_device.state import State
from tinyldp_protocol.hashing import GROUPS
from tinyldp_protocol.messages import put_query

CHUNK = 1000


class Planted:
    def symbol(self, reading):
        return [reading][0]


def ticks(agent):
    tick = agent.tick
    micropython.heap_lock()
    for i in range(CHUNK):
        tick(i)
    micropython.heap_unlock()


# So that no epoch is being compared when it is asked for.
changed = {"rounds": 280, "symbols": 1000}
if sys.argv[1] == "heavythresh":
    # More items than there is room for.
    changed.update(coordinates=40, items=200, levels=[1, 2, 3, 4])
task = epoch_task(**changed)
slots = (MemorySlot(), MemorySlot())
provision(State(slots[0], slots[1]), task.epsilon)
entropy = Entropy(Filler(), pool_words(task))
epochs = Epochs(task, entropy, Lifetime(State(slots[0], slots[1]), task, task.epsilon))
link = FakeLink()
agent = RoundAgent(task, entropy, link, b"somebody", epochs)
if len(sys.argv) > 3:
    agent._quantizer = Planted()
for t in range(int(sys.argv[2]) // CHUNK):
    ticks(agent)
    query = bytearray(put_query(None, 0, task.id, t + 1, 0, 0, 0, GROUPS))
    put_query(query, 0, task.id, t + 1, 0, 0, 0, GROUPS)
    link.incoming.append(query)
    agent.service()
print(agent.count)
