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
from tinyldp.simulate.sources import make_stream, shared
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
    notes = () if stream is None else shared(stream, devices)
    rest = steps % task.block if task.rule == TABLE else 0
    if rest:
        steps -= rest
        if not steps:
            raise UserError(f"A table releases blocks of {task.block} steps: simulate more steps.")
        last = "last step is" if rest == 1 else f"last {rest} steps are"
        notes += (
            f"The {last} left out: by a table only whole blocks, here of {task.block} steps, are"
            " released.",
        )
    sums = _Sums(task, devices, steps)
    beliefs = make_beliefs(task)
    done = 0
    for block, start in enumerate(range(0, devices, DEVICES)):
        part = slice(start, min(devices, start + DEVICES))
        size = part.stop - start
        chain = Chain(task, size, DrawnWords(size, _seed(stream_seed, block, 0)))
        fleet = make_fleet(task, size, DrawnWords(size, _seed(seed, block, 1)), beliefs)
        sums.begin(part)
        for first in range(0, steps, task.block or 1):
            rows = range(first, min(steps, first + (task.block or 1)))
            together = np.array(
                [chain.next() if stream is None else stream.values(step)[part] for step in rows]
            )
            released, leakage = fleet.release(together)
            for at, step in enumerate(rows):
                sums.add(step, together[at], released[at], leakage[at])
            done += size * len(rows)
            if progress is not None:
                progress(done, devices * steps)
    seconds = time.perf_counter() - started
    guessed, shares = _smooth(task, sums.released, beliefs) if smoothed else (None, None)
    return CrrSimulation(
        task,
        devices,
        steps,
        seed,
        seconds,
        source,
        sums.pairs.reshape(steps, n, n) / devices,
        sums.leakage / devices,
        sums.largest,
        sums.most,
        sums.original,
        sums.released,
        guessed,
        shares,
        notes=notes,
    )


class _Sums:
    """What is kept of all devices together, by steps, and of the first ones each.

    pairs: (T, n^2) how many had each value and release. leakage, largest: (T,) nats of a release,
    in sum and at most; most: of all that a device released so far. original, released: (some, T)
    values and releases of the first devices.
    """

    def __init__(self, task: Task, devices: int, steps: int) -> None:
        self._symbols = task.symbols
        sample = min(devices, max(1, _SMOOTHED // steps))
        self.original, self.released = np.zeros((2, sample, steps), dtype=np.uint16)
        self.pairs = np.zeros((steps, self._symbols**2), dtype=np.int64)
        self.leakage, self.largest, self.most = np.zeros((3, steps))
        self.begin(slice(0, 0))

    def begin(self, part: slice) -> None:
        """What is added next is of these devices, from their start on."""
        self._told = np.zeros(part.stop - part.start)
        # Rows of those among them who are kept, or none.
        self._original, self._released = self.original[part], self.released[part]

    def add(self, step: int, values: Array, released: Array, nats: Array) -> None:
        """A step of the present devices: (m,) each."""
        n = self._symbols
        self.pairs[step] += np.bincount(values * n + released, minlength=n * n)
        self._told += nats
        self.leakage[step] += nats.sum(dtype=np.float64)
        self.largest[step] = max(self.largest[step], nats.max())
        self.most[step] = max(self.most[step], self._told.max())
        self._original[:, step] = values[: len(self._original)]
        self._released[:, step] = released[: len(self._released)]


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
