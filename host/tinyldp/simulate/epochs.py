"""Thresh and HeavyThresh on a simulated fleet: one EpochCoordinator, every device its reports.

Only what devices measure is drawn directly, as an epoch's sums or counts (epoch_sources);
each device has counters and words of its own (epoch_devices). For simulation alone: no data of
people is randomized here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.coordinate.epochs import EpochCoordinator
from tinyldp.epoch_study import EpochStream
from tinyldp.errors import UserError
from tinyldp.estimate.heavy import FrequencyOracle
from tinyldp.estimate.phi import signs
from tinyldp.simulate.epoch_devices import HeavyDevices, ThreshDevices
from tinyldp.simulate.epoch_sources import Heavy, Means, default_stream
from tinyldp.simulate.simulation import EpochSimulation
from tinyldp.simulate.words import DrawnWords
from tinyldp_protocol.task import THRESH, Task

Array = npt.NDArray[Any]
Told = Callable[[int, int], None]

# Counts, or sums, of all devices that are held.
_MOST = 1 << 28


def simulate_epochs(
    task: Task,
    devices: int,
    seed: int,
    progress: Told | None = None,
    *,
    stream: EpochStream | None = None,
    stream_seed: int = 0,
    epochs: int | None = None,
) -> EpochSimulation:
    """Run the Task's first `epochs` epochs, all if None, on what `devices` devices measure.

    stream: what that is, one change half-way if None (epoch_sources). seed: of all randomizers;
    stream_seed: of what is measured. Of HeavyThresh, every update's dictionary is scanned for
    heavy hitters. Raises UserError for what is too much.
    """
    started = time.perf_counter()
    epochs = task.epochs if epochs is None else min(epochs, task.epochs)
    stream = stream or default_stream(task)
    _few(devices * max(1, stream.support))
    rng = np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(stream_seed)))
    words = DrawnWords(devices, np.random.SeedSequence(seed))
    items = None
    if task.mechanism == THRESH:
        data = Means(task, devices, stream)
        fleet = ThreshDevices(task, devices, words)
    else:
        data = Heavy(task, devices, stream, rng)
        items = data.items
        fleet = HeavyDevices(task, signs(task, items), devices, words)
    coordinator = EpochCoordinator(task, devices)
    each = task.rounds * devices

    def scanned(done: int, of: int) -> None:
        # A large dictionary takes longer than all the rest of its epoch.
        if progress is not None:
            progress((t - 1) * each + each * done // of, epochs * each)

    decisions, truth, published, lives, found = [], [], [], [], []
    for t in range(1, epochs + 1):
        values, shares = data.draw(t, rng)
        ask = coordinator.begin()
        ask = coordinator.heard(coordinator.tally(ask, fleet.vote(t, values)), devices)
        assert ask is not None
        coordinator.heard(coordinator.tally(ask, fleet.estimate(ask.entry == 1)), devices)
        decision = coordinator.decision
        assert decision is not None
        decisions.append(decision)
        truth.append(shares)
        if items is None:
            published.append(decision.release)
        elif decision.published:
            oracle = FrequencyOracle(task, decision.release, decision.n)
            published.append(oracle.frequency(items).frequencies)
            found.append(oracle.heavy_hitters(progress=scanned))
        else:
            published.append(published[-1])
        lives.append(_lives(task, fleet))
        if progress is not None:
            progress(t * each, epochs * each)
    return EpochSimulation(
        task,
        devices,
        epochs * task.rounds,
        seed,
        time.perf_counter() - started,
        tuple(decisions),
        np.array(truth),
        np.array(published),
        np.array(lives),
        items,
        tuple(found),
    )


def _lives(task: Task, fleet: ThreshDevices | HeavyDevices) -> tuple[float, float]:
    """Votes and estimates that a device has left, on average."""
    return (
        task.votes - float(fleet.votes.mean()),
        task.estimates - float(fleet.estimates.mean()),
    )


def _few(numbers: int) -> None:
    if numbers > _MOST:
        raise UserError(f"{numbers:,} counts are too many to be held: take fewer devices.")
