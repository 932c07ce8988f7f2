"""Conditional randomized response of a fleet on a stream: its loss, and what it gives away."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.crr.blocks import AllBeliefs, make_beliefs
from tinyldp.crr.lp import losses_of
from tinyldp.errors import UserError
from tinyldp.estimate.crr import Population, decode, population
from tinyldp.simulate.chains import Chain
from tinyldp.simulate.crr import DEVICES, make_fleet
from tinyldp.simulate.simulation import MODEL, CrrSimulation
from tinyldp.simulate.sources import make_stream
from tinyldp.simulate.words import DrawnWords
from tinyldp_protocol.task import TABLE, Task

Array = npt.NDArray[Any]

# Device steps that are smoothed, too, and steps at which their shares are estimated.
_SMOOTHED = 200_000
_SHOWN = 200
# Counts that are held, of each step, value and release; device steps of some days.
_MOST_PAIRS = 1 << 26
_MOST_STEPS = 1 << 40


def simulate_crr(
    task: Task,
    devices: int,
    steps: int,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
    *,
    source: str = MODEL,
    stream_seed: int = 0,
    smoothed: bool = True,
) -> CrrSimulation:
    """Run a fleet for `steps` steps on a source (MODEL: the Task's own chain; else see sources).

    smoothed: the first devices, 200,000 of their steps, are also smoothed (estimate.crr).
    Raises UserError for a source that can't be played, for numbers beyond all patience, and with a
    table for less than a block.
    """
    started = time.perf_counter()
    n = task.symbols
    _few(task, devices, steps)
    stream = None
    if source != MODEL:
        stream = make_stream(source, task, devices, steps, stream_seed)
        steps = min(steps, len(stream.counts))
    if task.rule == TABLE:
        # An incomplete block is never released.
        steps -= steps % task.block
        if not steps:
            raise UserError(f"A table releases blocks of {task.block} steps: simulate more steps.")
    sample = min(devices, max(1, _SMOOTHED // steps))
    original, released = np.zeros((2, sample, steps), dtype=np.uint16)
    pairs = np.zeros((steps, n * n), dtype=np.int64)
    leakage, largest, most = np.zeros((3, steps))
    beliefs = make_beliefs(task)
    done = 0
    for block, start in enumerate(range(0, devices, DEVICES)):
        part = slice(start, min(devices, start + DEVICES))
        size = part.stop - start
        chain = Chain(task, size, DrawnWords(size, _seed(stream_seed, block, 0)))
        fleet = make_fleet(task, size, DrawnWords(size, _seed(seed, block, 1)), beliefs)
        told = np.zeros(size)
        kept = slice(start, min(sample, part.stop))
        for first in range(0, steps, task.block or 1):
            rows = range(first, min(steps, first + (task.block or 1)))
            together = np.array(
                [chain.next() if stream is None else stream.values(step)[part] for step in rows]
            )
            for step, values, symbols, nats in zip(
                rows, together, *fleet.release(together), strict=True
            ):
                pairs[step] += np.bincount(values * n + symbols, minlength=n * n)
                told += nats
                leakage[step] += nats.sum(dtype=np.float64)
                largest[step] = max(largest[step], nats.max())
                most[step] = max(most[step], told.max())
                if start < sample:
                    original[kept, step] = values[: sample - start]
                    released[kept, step] = symbols[: sample - start]
            done += size * len(rows)
            if progress is not None:
                progress(done, devices * steps)
    seconds = time.perf_counter() - started
    guessed, shares = _smooth(task, released, beliefs) if smoothed else (None, None)
    return CrrSimulation(
        task,
        devices,
        steps,
        seed,
        seconds,
        source,
        pairs.reshape(steps, n, n) / devices,
        leakage / devices,
        largest,
        most,
        original,
        released,
        guessed,
        shares,
    )


def _few(task: Task, devices: int, steps: int) -> None:
    if steps * task.symbols**2 > _MOST_PAIRS:
        raise UserError(
            f"{steps:,} steps of {task.symbols:,} values and releases are too many to be held: take"
            f" {_MOST_PAIRS // task.symbols**2:,} or fewer."
        )
    if devices * steps > _MOST_STEPS:
        raise UserError(
            f"{devices:,} devices of {steps:,} steps would take more than a day: take"
            f" {_MOST_STEPS // steps:,} devices or fewer."
        )


def _smooth(task: Task, released: Array, beliefs: AllBeliefs) -> tuple[Array, Population]:
    """(devices, steps) the values of least expected loss, and estimated shares."""
    steps = released.shape[1]
    shown = np.unique(np.linspace(0, steps - 1, _SHOWN).astype(np.int64))
    losses = losses_of(task)
    decoded = decode(task, released, ended=True, beliefs=beliefs)
    guessed = (decoded.posterior @ losses).argmin(axis=2)
    return guessed, population(task, released, steps=shown, ended=True, beliefs=beliefs)


def _seed(seed: int, *path: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=path)
