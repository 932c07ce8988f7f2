"""CRR: simulated steps beside the device package's, and a large fleet in seconds.

The chain of four states stays with 0.9, at epsilon = 1, where some beliefs are always rare ones:
more work than most.
"""

from __future__ import annotations

import time
from collections import defaultdict
from io import BytesIO

import numpy as np

from tests.crr_tasks import sticky
from tests.simulating import make_task
from tinyldp.crr.blocks import make_beliefs
from tinyldp.simulate.chains import Chain
from tinyldp.simulate.crr import make_fleet
from tinyldp.simulate.crr_runs import simulate_crr
from tinyldp.simulate.words import DrawnWords
from tinyldp_device.entropy import Entropy, Replay
from tinyldp_device.mechanism import make_mechanism
from tinyldp_protocol.task import CRR_BATCH, MIN_ERROR, PRESERVE, Task

RULES = {"preserve": PRESERVE, "min_error": MIN_ERROR}
# Symbols and steps of blocks, of which there are few beliefs; more symbols have thousands.
BLOCKS = ((2, 3),)
ROUNDS = 5
DEVICES = 20_000
STEPS = 20
DEVICE_STEPS = 1000
SYMBOLS, EPSILON, STAY = 4, 1, 0.9


def ratios() -> dict[str, float]:
    """How many times as long a step takes the device package under CPython, by rule."""
    return {name: _ratio(sticky(SYMBOLS, EPSILON, STAY, rule=rule)) for name, rule in RULES.items()}


def block_ratios() -> dict[tuple[int, int], float]:
    """The same in blocks, by the symbols and the block.

    Each belief is worked out by the device package itself, once for all devices that have it:
    the more beliefs there are, the less the simulator is ahead.
    """
    found = {}
    for symbols, block in BLOCKS:
        steps = sticky(symbols, EPSILON, STAY)
        names = ("symbols", "loss", "thresholds", "prior", "transitions")
        numbers = {name: getattr(steps, name) for name in names}
        found[symbols, block] = _ratio(make_task(CRR_BATCH, rule=MIN_ERROR, block=block, **numbers))
    return found


def _ratio(task: Task) -> float:
    """Both in turn in one run, the shortest of the rounds.

    The simulator draws its words and values meanwhile and meets beliefs that it has not met
    before; the device has its words before.
    """
    block = task.block or 1
    chain = Chain(task, DEVICES, DrawnWords(DEVICES, np.random.SeedSequence(1)))
    words = DrawnWords(DEVICES, np.random.SeedSequence(2))
    fleet = make_fleet(task, DEVICES, words, make_beliefs(task))
    single = Chain(task, 1, DrawnWords(1, np.random.SeedSequence(3)))
    values = [int(single.next()[0]) for _ in range(DEVICE_STEPS)]
    drawn = np.random.default_rng(4).bytes(8 + 9 * DEVICE_STEPS * (ROUNDS + 3))
    entropy = Entropy(Replay(BytesIO(drawn)), 3 * DEVICE_STEPS, allow_test=True)
    device = make_mechanism(task, entropy)
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(ROUNDS):
        entropy.refill(3 * DEVICE_STEPS)
        start = time.process_time()
        for value in values:
            device.step(value)
        middle = time.process_time()
        for _ in range(0, STEPS, block):
            fleet.release(np.array([chain.next() for _ in range(block)]))
        end = time.process_time()
        times["device"].append((middle - start) / DEVICE_STEPS)
        times["fleet"].append((end - middle) / (-(-STEPS // block) * block * DEVICES))
    return min(times["device"]) / min(times["fleet"])


def seconds(devices: int = 100_000, steps: int = 1000) -> float:
    """Of one core's time: a whole simulation with its counts, n = 4."""
    task = sticky(SYMBOLS, EPSILON, STAY)
    start = time.process_time()
    simulate_crr(task, devices, steps, 1)
    return time.process_time() - start
