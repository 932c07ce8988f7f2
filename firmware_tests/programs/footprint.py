"""Heap that modules and instances take: arguments are modules' names, or `instances`, or `speed`.

Prints a line for each: a name and a number of bytes, or steps a second.
"""

import gc
import sys
import time

gc.disable()


def heap():
    # Without collecting, which is not safe at any depth on wasm: what is garbage counts, too.
    return gc.mem_alloc()


def modules(names):
    for name in names:
        before = heap()
        __import__(name)
        print(name, heap() - before)


def instances():
    from helpers import Generator, make_task

    from tinyldp_device.switch import RanSwitch, StaSwitch

    words = Generator(1)
    for name, cls, mechanism in (("RanSwitch", RanSwitch, 1), ("StaSwitch", StaSwitch, 2)):
        for k in (8, 24, 64, 255):
            task = make_task(
                mechanism=mechanism, window=k, k=k, symbols=65536, thresholds=[(1 << 24) // 512]
            )
            before = heap()
            kept = cls(task, words)
            print(name + "-" + str(k), heap() - before)
            del kept


def now():
    """Microseconds."""
    try:
        return time.ticks_us()
    except AttributeError:
        return time.perf_counter_ns() // 1000


def speed():
    from helpers import FakeLink, Generator, make_task

    from tinyldp_device.agent import Agent

    for mechanism in (1, 2):
        task = make_task(
            mechanism=mechanism,
            window=24,
            k=24,
            symbols=65536,
            beacon=1 << 20,
            thresholds=[(1 << 24) // 48],
        )
        agent = Agent(task, Generator(1), FakeLink(), b"somebody")
        steps = 5000
        # Others use the processor, too: the shortest of five.
        best = 1 << 30
        for _ in range(5):
            start = now()
            for i in range(steps):
                agent.tick(i)
            best = min(best, now() - start)
        print("mechanism" + str(mechanism), steps * 1000 // (best // 1000))


if sys.argv[1] == "instances":
    instances()
elif sys.argv[1] == "speed":
    speed()
else:
    modules(sys.argv[1:])
