"""Print the bytes of every frame of some streams, in hexadecimal: one line a stream.

Each line of input: mechanism, window, k, symbols, batch, threshold, steps. The words are
those of helpers.Generator(window); reading number i is (i * i + 3) % 2000.
"""

import sys
from binascii import hexlify

from helpers import FakeLink, Generator, make_task

from tinyldp_device.agent import Agent

for line in sys.stdin:
    mechanism, window, k, symbols, batch, threshold, steps = [int(n) for n in line.split()]
    task = make_task(
        mechanism=mechanism,
        window=window,
        k=k,
        symbols=symbols,
        batch=batch,
        thresholds=[threshold],
        outbox=3,
        beacon=50,
        resend=7,
    )
    link = FakeLink()
    agent = Agent(task, Generator(window), link, b"somebody")
    for i in range(steps + window + 1):
        if i == steps:
            agent.stop()
        agent.tick((i * i + 3) % 2000)
        agent.service()
    for frame in link.written:
        print(hexlify(frame).decode(), end="")
    print()
