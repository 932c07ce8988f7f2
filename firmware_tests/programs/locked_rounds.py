"""Steps of a device with a ledger with the heap locked: locked_rounds.py BLOCK STEPS.

What allocates raises MemoryError. One argument more plants an allocation.
"""

import sys

import micropython
from helpers import FakeLink, Filler, MemorySlot, round_task

from tinyldp_device.entropy import Entropy
from tinyldp_device.ledger import Ledger, provision
from tinyldp_device.mechanism import pool_words
from tinyldp_device.oraclerounds import OracleRounds
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


task = round_task(w=20, epsilon=1 << 20, spends=[1 << 15, 1 << 19])
slots = (MemorySlot(), MemorySlot())
provision(State(slots[0], slots[1]), 20, int(sys.argv[1]))
ledger = Ledger(State(slots[0], slots[1]), task, task.epsilon, 20)
link = FakeLink()
entropy = Entropy(Filler(), pool_words(task))
agent = RoundAgent(task, entropy, link, b"somebody", OracleRounds(task, entropy, ledger))
if len(sys.argv) > 3:
    agent._quantizer = Planted()
for t in range(int(sys.argv[2]) // CHUNK):
    ticks(agent)
    query = bytearray(put_query(None, 0, task.id, t, 0, 0, 0, GROUPS))
    put_query(query, 0, task.id, t, 0, 0, 0, GROUPS)
    link.incoming.append(query)
    agent.service()
print(ledger.now, agent.count)
