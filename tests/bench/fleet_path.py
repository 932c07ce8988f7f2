"""Simulated devices, and reports counted, as multiples of what other packages and devices do.

Every ratio is of the shortest of rounds in which both are timed in turn.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from io import BytesIO

import numpy as np

from tests.bench import rivals
from tests.simulating import make_task
from tinyldp.estimate import supports
from tinyldp.simulate import oracles, simulate, streams
from tinyldp.simulate.words import DrawnWords
from tinyldp_device.entropy import Entropy, Replay
from tinyldp_device.mechanism import make_mechanism
from tinyldp_protocol.task import GRR, OLH, OUE, RANSWITCH, SCALE, STASWITCH, Task

NAMES = {GRR: "GRR", OUE: "OUE", OLH: "OLH", RANSWITCH: "RanSwitch", STASWITCH: "StaSwitch"}
SYMBOLS = (16, 128)
ROUNDS = 7
# Reports in a round; the others are some thousand times slower at the slowest.
OURS = 1 << 16
THEIRS = 1000
DEVICES = 10_000
STEPS = 100
DEVICE_STEPS = 5000


def _seconds(works: Mapping[str, tuple[Callable[[], object], int]]) -> dict[str, float]:
    """For each of the works, the shortest time for one of the so many things that it does."""
    for work, _ in works.values():
        # Compiles, where a package does that at the first call.
        work()
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(ROUNDS):
        for name, (work, things) in works.items():
            start = time.process_time()
            work()
            times[name].append((time.process_time() - start) / things)
    return {name: min(all_) for name, all_ in times.items()}


def _oracle(mechanism: int, symbols: int) -> Task:
    e = math.exp(rivals.EPSILON)
    buckets = round(e) + 1
    others = {GRR: symbols - 1, OUE: 1, OLH: buckets - 1}[mechanism]
    more = {"buckets": buckets} if mechanism == OLH else {}
    thresholds = [math.ceil(SCALE / (e + others))]
    return make_task(mechanism, symbols=symbols, thresholds=thresholds, **more)


def _ratio(seconds: dict[str, float]) -> float:
    """How many times faster we are than the better of the others."""
    return min(took for name, took in seconds.items() if name != "tinyldp") / seconds["tinyldp"]


def oracle_ratios() -> dict[tuple[str, str, int], float]:
    """By ("client" or "aggregation", oracle, domain)."""
    rng = np.random.default_rng(1)
    ratios = {}
    for symbols in SYMBOLS:
        for mechanism in (GRR, OUE, OLH):
            task = _oracle(mechanism, symbols)
            mine = rng.integers(0, symbols, OURS)
            theirs = rng.integers(0, symbols, THEIRS).tolist()
            words = DrawnWords(OURS, np.random.SeedSequence(1))
            reports = oracles.draw(task, mine, words)
            for what, ours, others in (
                (
                    "client",
                    lambda task=task, mine=mine, words=words: oracles.draw(task, mine, words),
                    rivals.clients(mechanism, symbols, theirs),
                ),
                (
                    "aggregation",
                    lambda task=task, reports=reports: supports(task, reports),
                    rivals.aggregators(mechanism, symbols, theirs),
                ),
            ):
                works = {name: (work, THEIRS) for name, work in others.items()}
                seconds = _seconds({"tinyldp": (ours, OURS), **works})
                ratios[what, NAMES[mechanism], symbols] = _ratio(seconds)
    return ratios


def stream_ratios() -> dict[str, float]:
    """Steps of 10^4 simulated devices against the device package's under CPython, k = 10.

    The simulator draws its words meanwhile; the device has its own drawn before.
    """
    ratios = {}
    rng = np.random.default_rng(2)
    symbols = rng.integers(0, 16, (STEPS, DEVICES)).astype(np.uint8)
    readings = rng.integers(0, 16, DEVICE_STEPS).tolist()
    # The nonce, a pool for the start-up test, and one for each round.
    words = rng.bytes(8 + 3 * DEVICE_STEPS * (ROUNDS + 2))
    for mechanism in (RANSWITCH, STASWITCH):
        task = make_task(mechanism, window=10, k=10, symbols=16, thresholds=[SCALE // 16])
        fleet = streams.make_fleet(task, DEVICES, DrawnWords(DEVICES, np.random.SeedSequence(2)))
        entropy = Entropy(Replay(BytesIO(words)), DEVICE_STEPS, allow_test=True)
        device = make_mechanism(task, entropy)
        # Both are full before they are timed.
        fleet.feed(symbols[: task.window])
        for reading in readings[: task.window - 1]:
            device.step(reading)
        times: dict[str, list[float]] = defaultdict(list)
        for _ in range(ROUNDS):
            entropy.refill(DEVICE_STEPS)
            start = time.process_time()
            for reading in readings:
                device.step(reading)
            middle = time.process_time()
            fleet.feed(symbols)
            end = time.process_time()
            times["device"].append((middle - start) / DEVICE_STEPS)
            times["fleet"].append((end - middle) / (STEPS * DEVICES))
        ratios[NAMES[mechanism]] = min(times["device"]) / min(times["fleet"])
    return ratios


def aggregate_seconds() -> float:
    """A GRR round of 10^9 devices by the aggregate path, estimates and intervals included."""
    task = _oracle(GRR, 16)
    return min(simulate(task, 10**9, 1, seed, aggregated=True).seconds for seed in range(3))
