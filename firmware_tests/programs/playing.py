"""What devices that are asked share, on the unix port: their files and a recording to play."""

from array import array
from time import sleep_ms, ticks_add, ticks_diff, ticks_ms

from tinyldp_device.boards.files import FileSlot
from tinyldp_device.state import State


def state(folder, name):
    return State(FileSlot("%s/%s0" % (folder, name)), FileSlot("%s/%s1" % (folder, name)))


def recording(path):
    """A sample() that gives readings from a file: 4-byte integers, -2^31 for a missing one."""
    readings = open(path, "rb")
    reading = array("i", [0])

    def sample():
        if not readings.readinto(reading):
            raise StopIteration
        return None if reading[0] == -(1 << 31) else reading[0]

    return sample


def play(agent, tick, sample, looks):
    """As agent.run, but that a busy computer makes a step late, and no reading missing.

    looks: how often a step it looks for queries.
    """
    due = ticks_ms()
    while not agent.idle():
        try:
            agent.tick(sample())
        except StopIteration:
            agent.stop()
            agent.tick(None)
        due = ticks_add(due, tick)
        while True:
            agent.service()
            left = ticks_diff(due, ticks_ms())
            if left <= 0:
                break
            sleep_ms(min(left, tick // looks))
        if left < -10 * tick:
            due = ticks_ms()
