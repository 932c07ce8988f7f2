"""Reports in a small heap, each acknowledged; prints the memory in use as they go by.

REPORTS is put before it. It collects at the top level: see the lane wasm.
"""

import gc

from filler import Filler

from tinyldp_device.agent import Agent
from tinyldp_device.entropy import Entropy
from tinyldp_protocol.framing import Encoder
from tinyldp_protocol.messages import put_ack

CHUNK = 50


class Numbers:
    """A Task whose bounds were checked before it came to the board."""

    mechanism = 2
    window = 8
    k = 8
    symbols = 65536
    width = 2
    bins = None
    missing = None
    thresholds = (1 << 20,)
    tick = 1000
    batch = 1
    resend = 9
    beacon = 60
    outbox = 8
    payload = 2
    method = None
    id = b"task-id!"


class Link:
    """A host that acknowledges once a tick all that it was sent."""

    def __init__(self):
        self.inbox = bytearray(13)
        self.sent = 0
        self.waiting = False

    def encoder(self, message, same, counted):
        return Encoder(message, same, counted)

    def write(self, frame):
        self.sent += 1
        self.waiting = True
        return True

    def receive(self):
        if not self.waiting:
            return 0
        self.waiting = False
        return put_ack(self.inbox, 0, NONCE, agent.outbox.unsent, False)


def play(first):
    for i in range(first, first + CHUNK):
        agent.tick(i)
        agent.service()


link = Link()
entropy = Entropy(Filler(), 32)
NONCE = bytes(entropy.nonce[:4])
agent = Agent(Numbers, entropy, link, b"somebody")
for chunk in range(REPORTS // CHUNK):  # noqa: F821
    play(chunk * CHUNK)
    gc.collect()
    if chunk % (REPORTS // CHUNK // 10) == 1:  # noqa: F821
        print(agent.count, agent.outbox.drops, gc.mem_alloc(), gc.mem_free())
print(agent.count, link.sent, agent.rejected)
