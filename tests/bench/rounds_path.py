"""Simulated rounds, every method over every oracle, by the aggregate path."""

from __future__ import annotations

import time

from tests.rounds_studies import NAMES, rounds_task
from tinyldp.simulate.rounds import simulate_rounds

DEVICES = 10**6
STEPS = 800
DOMAIN = 5


def seconds() -> dict[tuple[str, str], float]:
    """Processor time of a run, stream and decisions included, by (method, oracle)."""
    times = {}
    for name in NAMES:
        for oracle in ("grr", "oue", "olh"):
            task = rounds_task(name, DOMAIN, oracle=oracle)
            start = time.process_time()
            simulate_rounds(task, DEVICES, STEPS, 1, aggregated=True)
            times[name, oracle] = time.process_time() - start
    return times
