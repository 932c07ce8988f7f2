"""Runs on MicroPython: the per-sample path as a multiple of an empty method call.

Prints one JSON object: for "mechanism batch" the ratio of the shortest times of
many short rounds in which both are timed in turn, each with its loop. (The
shortest, because another program can only make a round longer.)
"""

import json
from time import ticks_diff, ticks_us

from tinyldp_device.agent import Agent
from tinyldp_device.entropy import Entropy, Urandom
from tinyldp_device.links.serial import SerialLink
from tinyldp_protocol.task import SCALE, Task

ROUNDS = 400
STEPS = 250
# As many times more calls than steps, so that the clock's microsecond is as small in both.
CALLS = 20


class Empty:
    def method(self, argument):
        pass


class Port:
    def write(self, buf):
        return len(buf)

    def readinto(self, buf):
        return 0


def make(mechanism, k, batch):
    task = Task(
        {
            "mechanism": mechanism,
            "window": k,
            "k": k,
            "symbols": 16,
            "bins": list(range(1, 16)),
            "thresholds": [SCALE // 30],
            "tick": 1,
            "batch": batch,
            "resend": 100,
            "beacon": 1000,
            "outbox": 255,
        }
    )
    entropy = Entropy(Urandom(), STEPS)
    agent = Agent(task, entropy, SerialLink(Port()), bytes(8))
    for i in range(k - 1):
        agent.tick(i)
    for _ in range(STEPS):
        entropy.word()
    return agent, entropy


def measure(mechanism, k, batch):
    agent, entropy = make(mechanism, k, batch)
    empty = Empty()
    base = []
    path = []
    refill = []
    for _ in range(ROUNDS):
        agent.outbox.free(agent.outbox.next)
        t0 = ticks_us()
        entropy.refill()
        t1 = ticks_us()
        for i in range(CALLS * STEPS):
            empty.method(i)
        t2 = ticks_us()
        for i in range(STEPS):
            agent.tick(i & 15)
        t3 = ticks_us()
        refill.append(ticks_diff(t1, t0))
        base.append(ticks_diff(t2, t1))
        path.append(ticks_diff(t3, t2))
    return {"path": CALLS * min(path) / min(base), "refill": CALLS * min(refill) / min(base)}


print(
    json.dumps(
        {
            name + " batch " + str(batch): measure(number, k, batch)
            for number, name, k in ((1, "RanSwitch k=10", 10), (2, "StaSwitch k=8", 8))
            for batch in (1, 16)
        }
    )
)
