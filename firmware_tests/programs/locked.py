"""Samples through step, encode and frame with the heap locked: locked.py MECHANISM BATCH SAMPLES.

What allocates raises MemoryError. One argument more plants an allocation.
"""

import sys

import micropython
from helpers import Filler, crr_task, table_task, task_of

from tinyldp_device.agent import Agent
from tinyldp_device.entropy import Entropy
from tinyldp_device.mechanism import pool_words
from tinyldp_protocol.framing import Encoder
from tinyldp_protocol.task import SCALE

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
changes = {"batch": batch, "outbox": 16}
if mechanism < 3:
    changes.update(window=8, k=8)
if mechanism != 4:
    changes["symbols"] = 256 if batch == 1 or mechanism == 5 else 1000
if mechanism == 3:
    changes.update(window=93, thresholds=[SCALE - 92 * 170000] + [170000] * 46)
if mechanism == 4 and batch > 1:
    changes.update(symbols=1000, thresholds=[SCALE // 1001])
if mechanism == 6 and batch > 1:
    changes.update(buckets=1000, thresholds=[SCALE // 1001])
if mechanism > 8:
    # With one symbol in a frame CRR keeps the frequencies, else it errs least; blocks are released
    # by beliefs, else by a table.
    rule = 1 if batch == 1 and mechanism == 9 else 2
    task = crr_task(mechanism, batch=batch, outbox=16, rule=rule)
    if batch > 1 and mechanism == 10:
        task = table_task(batch=batch, outbox=16)
else:
    task = task_of(mechanism, **changes)
agent = Agent(task, Entropy(Filler(), pool_words(task)), Quiet(), b"somebody")
if len(sys.argv) > 4:
    agent._quantizer = Planted()
for _ in range(int(sys.argv[3]) // CHUNK):
    ticks(agent)
    agent.service()
print(agent.count, agent.outbox.next)
