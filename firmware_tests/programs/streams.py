"""Print the bytes of every frame of some streams, in hexadecimal: one line a stream.

Each line of input is JSON: the numbers of a Task, which helpers generator gives the words
and from which seed, how many steps, and how the reading of step i is made ("square", or
"third" with every 50th missing).
"""

import json
import sys
from binascii import hexlify

from helpers import FakeLink, Generator, Mixed, make_task

from tinyldp_device.agent import Agent


def reading(kind, i, symbols):
    if kind == "square":
        return (i * i + 3) % 2000
    return None if i % 50 == 49 else i * i // 3 % symbols


for line in sys.stdin:
    stream = json.loads(line)
    numbers = {"window": None, "k": None}
    numbers.update(stream["task"])
    task = make_task(**numbers)
    link = FakeLink()
    words = Mixed(stream["seed"]) if stream["words"] == "mixed" else Generator(stream["seed"])
    agent = Agent(task, words, link, b"somebody")
    steps = stream["steps"]
    for i in range(steps + (task.window or 2 * (task.block or 0)) + 1):
        if i == steps:
            agent.stop()
        agent.tick(reading(stream["readings"], i, task.symbols))
        agent.service()
    for frame in link.written:
        print(hexlify(frame).decode(), end="")
    print()
