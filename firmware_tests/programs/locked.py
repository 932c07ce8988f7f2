"""Samples through step, encode and frame with the heap locked: locked.py MECHANISM BATCH SAMPLES.

What allocates raises MemoryError. One argument more plants an allocation.
"""

import sys

import micropython
from helpers import Filler, make_task

from tinyldp_device.agent import Agent
from tinyldp_device.entropy import Entropy
from tinyldp_protocol.framing import Encoder

CHUNK = 1000


class Quiet:
    inbox = None

    def encoder(self, message, same, counted):
        return Encoder(message, same, counted)

    def write(self, frame):
        return True

    def receive(self):
        return 0


class Planted:
    def symbol(self, reading):
        return [reading][0]


def ticks(agent):
    """A thousand samples, which draw new words on their way when the pool is used up."""
    tick = agent.tick
    micropython.heap_lock()
    for i in range(CHUNK):
        tick(i)
    micropython.heap_unlock()


mechanism = int(sys.argv[1])
batch = int(sys.argv[2])
symbols = 256 if batch == 1 else 1000
task = make_task(mechanism=mechanism, window=8, k=8, batch=batch, symbols=symbols, outbox=16)
agent = Agent(task, Entropy(Filler(), 64), Quiet(), b"somebody")
if len(sys.argv) > 4:
    agent._quantizer = Planted()
for _ in range(int(sys.argv[3]) // CHUNK):
    ticks(agent)
    agent.service()
print(agent.count, agent.outbox.next)
