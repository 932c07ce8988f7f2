"""On a lane: TASK INPUTS ROUNDS. Plays each series of INPUTS as a segment, ROUNDS times in turn.

What is printed is what a serial line would have carried: the agent's own frames. Its
host acknowledges each as soon as it was sent. A line of INPUTS is `TIMES READING ...`:
the readings, so many times over, - for one that is missing.
"""

import sys

from tinyldp_device.agent import Agent
from tinyldp_device.entropy import Entropy, Urandom
from tinyldp_device.links.serial import SerialLink
from tinyldp_protocol.messages import RUNNING
from tinyldp_protocol.task import read_file

_WORDS = 2048


class Port:
    """Standard output as a port on which nothing comes in."""

    def write(self, frame):
        return sys.stdout.buffer.write(frame)

    def readinto(self, buf):
        return 0


def step(agent, reading):
    agent.tick(reading)
    agent.service()
    agent.outbox.free(agent.outbox.unsent)


def play(task, entropy, times, series):
    """One segment, from the agent's start to the status that says it is over."""
    agent = Agent(task, entropy, SerialLink(Port()), b"auditing")
    for _ in range(times):
        for reading in series:
            step(agent, reading)
    agent.stop()
    while agent.health == RUNNING or agent.outbox.unsent < agent.outbox.next:
        step(agent, None)


def main(path, inputs, rounds):
    with open(path, "rb") as file:
        task = read_file(file.read())
    with open(inputs) as file:
        lines = [[None if word == "-" else int(word) for word in line.split()] for line in file]
    entropy = Entropy(Urandom(), _WORDS)
    for _ in range(rounds):
        for line in lines:
            play(task, entropy, line[0], line[1:])


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
