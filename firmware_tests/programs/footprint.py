"""Heap that modules and instances take: arguments are modules' names, or `instances`, or `speed`.

`speed` reads a line of JSON: what differs in its Task from STREAM.
Prints a line for each: a name and a number of bytes, or steps a second.
"""

import gc
import json
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

    from tinyldp_device.mechanism import make_mechanism

    words = Generator(1)
    for name, mechanism, sizes in (
        ("RanSwitch", 1, (8, 24, 64, 255)),
        ("StaSwitch", 2, (8, 24, 64, 255)),
        ("JitterSort", 3, (9, 43, 93, 255)),
        ("GRR", 4, (16,)),
        ("OUE", 5, (16, 256)),
        ("OLH", 6, (16,)),
    ):
        for size in sizes:
            numbers = {"window": size, "k": size, "symbols": 65536, "thresholds": [32768]}
            if mechanism == 3:
                numbers["thresholds"] = [(1 << 24) - size + 1] + [1] * (size // 2)
            elif mechanism > 3:
                numbers.update(window=None, k=None, symbols=size)
                numbers["buckets"] = 4 if mechanism == 6 else None
            task = make_task(mechanism=mechanism, **numbers)
            # Its module is there before.
            make_mechanism(task, words)
            before = heap()
            kept = make_mechanism(task, words)
            print(name + "-" + str(size), heap() - before)
            del kept
    from helpers import crr_task, krr_table

    for name, mechanism, rule, symbols, block in (
        ("CRR-preserve", 9, 1, 4, None),
        ("CRR-preserve", 9, 1, 8, None),
        ("CRR-preserve", 9, 1, 16, None),
        ("CRR-min_error", 9, 2, 4, None),
        ("CRR-min_error", 9, 2, 16, None),
        ("CRR_BATCH-3x", 10, 2, 2, 3),
        ("CRR_BATCH-3x", 10, 2, 4, 3),
        ("CRR_BATCH-10x", 10, 2, 2, 10),
        ("CRR_BATCH-table-2x", 10, 3, 4, 2),
        ("CRR_BATCH-table-3x", 10, 3, 3, 3),
        ("CRR_BATCH-table-2x", 10, 3, 6, 2),
    ):
        prior = [32768 // symbols] * symbols
        prior[0] += 32768 % symbols
        chances = [16384 // symbols] * symbols
        chances[0] += 16384 % symbols
        chances *= symbols
        changes = {"rule": rule, "symbols": symbols, "prior": prior, "transitions": chances}
        if rule == 3:
            # As far as the threshold allows: up to 16 times as likely.
            changes["table"] = krr_table(symbols**block, 32768 // (symbols**block + 15) + 1)
        task = crr_task(mechanism, block=block, **changes)
        make_mechanism(task, words)
        before = heap()
        kept = make_mechanism(task, words)
        print(name + "-" + str(symbols), heap() - before)
        del kept


def now():
    """Microseconds."""
    try:
        return time.ticks_us()
    except AttributeError:
        return time.perf_counter_ns() // 1000


# As firmware_tests.microbit.make_task.
STREAM = {
    "mechanism": 2,
    "window": 8,
    "k": 8,
    "symbols": 65536,
    "thresholds": [1 << 20],
    "batch": 4,
}


def speed():
    from helpers import FakeLink, Generator, make_task

    from tinyldp_device.agent import Agent

    task = make_task(**dict(STREAM, **json.loads(sys.stdin.readline())))
    agent = Agent(task, Generator(1), FakeLink(), b"somebody")
    steps = 2000
    # Others use the processor, too: the shortest of five.
    best = 1 << 30
    for _ in range(5):
        start = now()
        for i in range(steps):
            agent.tick(i)
        best = min(best, now() - start)
    print("steps", steps * 1000000 // best)


if sys.argv[1] == "instances":
    instances()
elif sys.argv[1] == "speed":
    speed()
else:
    modules(sys.argv[1:])
