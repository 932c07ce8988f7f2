"""Simulated epochs: every device by itself, a change half-way."""

from __future__ import annotations

import time

from tests.epochs_tasks import heavy_task, thresh_task
from tinyldp.simulate.epochs import simulate_epochs


def seconds() -> dict[str, float]:
    """Processor time of a run, estimates and the scan of the dictionary included."""
    times = {}
    for name, devices, task in (
        ("Thresh, 20,000 devices", 20_000, thresh_task(20_000, 2, 4, 2)),
        ("HeavyThresh, 20,000 devices", 20_000, heavy_task(20_000, 4, 2, 2)),
    ):
        start = time.process_time()
        simulate_epochs(task, devices, 1)
        times[name] = time.process_time() - start
    return times
