"""HeavyThresh with a full table in a small heap; prints answers and memory.

LINK and ITEMS are put before it.
"""

import gc
import os

from filler import Filler

from tinyldp_device.boards.files import FileSlot
from tinyldp_device.entropy import Entropy
from tinyldp_device.epochs import Epochs
from tinyldp_device.heavythresh import HeavyThresh
from tinyldp_device.lifetime import Lifetime, provision
from tinyldp_device.rounds import RoundAgent
from tinyldp_device.state import State
from tinyldp_protocol.framing import Encoder
from tinyldp_protocol.hashing import GROUPS
from tinyldp_protocol.messages import ANSWER, put_query

# Used, so that it comes along.
assert HeavyThresh


class Numbers:
    """A Task whose bounds were checked before it came to the board."""

    mechanism = 8
    symbols = 100000
    width = 3
    payload = 3
    bins = None
    missing = None
    thresholds = (1 << 21, 1 << 20)
    levels = (0, 10, 20, 30)
    epsilon = 1000
    epochs = 8
    rounds = 4096
    votes = 2
    estimates = 2
    polls = None
    coordinates = 1024
    items = 256
    beacon = 1000
    method = None
    id = b"task-id!"


class Link:
    inbox = b""
    answers = 0

    def encoder(self, message, same, counted):
        return Encoder(message, same, counted)

    def write(self, frame):
        if frame[3] == ANSWER:
            self.answers += 1
        return True

    def receive(self):
        n = len(self.inbox) if self.waiting else 0
        self.waiting = False
        return n


def asked(t, phase):
    link.inbox = bytearray(put_query(None, 0, Numbers.id, t, phase, phase, 0, GROUPS))
    put_query(link.inbox, 0, Numbers.id, t, phase, phase, 0, GROUPS)
    link.waiting = True
    agent.service()


def play(steps, t):
    for i in range(steps):
        agent.tick((i * 7919 + t) % ITEMS * 300)  # noqa: F821


slots = FileSlot("slot0"), FileSlot("slot1")
if "slot0" not in os.listdir():
    provision(State(slots[0], slots[1]), 1000)
entropy = Entropy(Filler(), 64)
link = Link()
link.waiting = False
lifetime = Lifetime(State(slots[0], slots[1]), Numbers, 1000)
agent = RoundAgent(Numbers, entropy, link, b"somebody", Epochs(Numbers, entropy, lifetime))
first = lifetime.t + 1
# Each epoch is asked for when it was compared.
play(Numbers.rounds // 16, first)
for t in range(first, first + 4):
    play(Numbers.rounds, t)
    asked(t, 0)
    asked(t, 1)
    gc.collect()
    print(agent.count, gc.mem_alloc(), gc.mem_free(), os.stat("slot0")[6])
