"""A whole fleet, as a study states it, on this computer.

Everything random comes from generators that are seeded with `seed`: one for each
block of devices, so that the result depends neither on how much is held in memory at
a time nor on the order of the blocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.errors import UserError
from tinyldp.estimate import expected_variance, frequencies, support_chances, supports
from tinyldp.laws import displacement_law, settled
from tinyldp.planning import choose
from tinyldp.simulate import aggregate, oracles
from tinyldp.simulate.crr_runs import simulate_crr
from tinyldp.simulate.epochs import simulate_epochs
from tinyldp.simulate.limits import MOST, MOST_STEPS, check_number, check_table
from tinyldp.simulate.rounds import SOURCE, simulate_rounds
from tinyldp.simulate.simulation import (
    AGGREGATE,
    MODEL,
    ONE_BY_ONE,
    OracleSimulation,
    Simulation,
    StreamSimulation,
)
from tinyldp.simulate.sources import study_at
from tinyldp.simulate.streams import DEVICES, make_fleet, origins_of, symbols_of
from tinyldp.simulate.words import DrawnWords
from tinyldp.study import CRRS, STREAMS, Study, load_task
from tinyldp_device.mechanism import step_words
from tinyldp_protocol.task import Task

Array = npt.NDArray[Any]
# Called with the device steps that are done, and their total.
Told = Callable[[int, int], None]

CONFIDENCE = 0.95
# Of each device, where nothing is said.
STEPS = 1000
# Steps that a block of devices takes at a time.
_STEPS = 64
# Devices whose reports are drawn at a time.
_REPORTS = 65536
# Words up to which oracles are simulated device by device: a few seconds.
_WORDS = 200_000_000
_DAY = 86_400_000
_WRAP = 1 << 16


def simulate(
    study: Study | Task | str | Path,
    devices: int | None = None,
    steps: int | None = None,
    seed: int = 0,
    progress: Told | None = None,
    *,
    aggregated: bool | None = None,
    steps_at_once: int = _STEPS,
) -> Simulation:
    """Run `devices` devices of a study for `steps` steps each.

    study: a study, its file, or a Task. devices: the study's fleet if None. steps: 1,000 if
    None, of epochs all that the Task has.

    Streams: each device gets a series of its own, uniform on 0..h(t) at step t, where
    h rises from a tenth of the alphabet at night to all of it at noon; a day is that of
    the study's tick, but at most the whole run. What is measured, the displacements,
    does not depend on it.

    Rounds: the study's method on the stream that it names ([stream] source and seed; "lns"
    and 0 for a Task or a study that names none), until that ends (rounds.simulate_rounds).

    Epochs: what the study's [stream] says, or one change half-way (epochs.simulate_epochs);
    whole epochs only.

    CRR: the stream that the study names, or the Task's own chain (crr_runs.simulate_crr).

    Oracles: one population, in which value v is held in proportion to 1 / (v + 1);
    every device reports in each of the steps.

    aggregated: of oracles and rounds, draw the counts directly (aggregate.supports; with
    more devices than memory or patience allows), not device by device; None chooses.
    steps_at_once: only memory depends on it.

    Raises UserError when the study is wrong, or the numbers are.
    """
    beside = None
    if isinstance(study, str | Path):
        path, study = study, study_at(study)
        beside = Path(path).with_suffix(".task")
        try:
            task = choose(study)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
    else:
        task = study if isinstance(study, Task) else choose(study)
    fleet = None if isinstance(study, Task) else study.devices
    devices = fleet if devices is None else devices
    if devices is None:
        raise UserError("How many devices? The study's [fleet] does not say.")
    check_number("devices", devices)
    if steps is not None:
        check_number("steps", steps, most=MOST_STEPS if task.epochs is None else MOST)
    check_number("seed", seed, 0)
    found = _run(study, task, devices, steps, seed, progress, aggregated, steps_at_once)
    return replace(found, notes=(*found.notes, *_other_task(beside, task)))


def _other_task(path: Path | None, task: Task) -> tuple[str, ...]:
    """A sentence where a planned Task lies beside the study, and is not the simulated one."""
    if path is None or not path.is_file():
        return ()
    try:
        other = load_task(path)
    except UserError:
        # Whoever needs it says what is wrong with it.
        return ()
    if other.id == task.id:
        return ()
    model = (
        ""
        if other.prior == task.prior and other.transitions == task.transitions
        else (" with another model")
    )
    return (
        f"Simulated is Task {task.id.hex()}, which the study amounts to now; {path} is another, "
        f"{other.id.hex()}{model}: tinyldp plan makes it anew.",
    )


def _run(
    study: Study | Task,
    task: Task,
    devices: int,
    steps: int | None,
    seed: int,
    progress: Told | None,
    aggregated: bool | None,
    steps_at_once: int,
) -> Simulation:
    if task.epochs is not None:
        return _epochs(study, task, devices, steps, seed, progress)
    steps = STEPS if steps is None else steps
    source, stream_seed = (study.source, study.seed) if isinstance(study, Study) else (None, None)
    if task.method is not None:
        return simulate_rounds(
            task,
            devices,
            steps,
            seed,
            progress,
            source=source or SOURCE,
            stream_seed=stream_seed or 0,
            aggregated=aggregated,
        )
    if task.mechanism in CRRS:
        check_table(task, devices, steps)
        return simulate_crr(
            task,
            devices,
            steps,
            seed,
            progress,
            source=source or MODEL,
            stream_seed=stream_seed or 0,
        )
    if task.mechanism in STREAMS:
        return _streams(task, devices, steps, seed, progress, steps_at_once)
    return _oracles(task, devices, steps, seed, progress, aggregated)


def _epochs(
    study: Study | Task,
    task: Task,
    devices: int,
    steps: int | None,
    seed: int,
    progress: Told | None,
) -> Simulation:
    if steps is not None and steps < task.rounds:
        raise UserError(f"steps must be {task.rounds:,} or more, an epoch, but is {steps:,}.")
    return simulate_epochs(
        task,
        devices,
        seed,
        progress,
        stream=study.stream if isinstance(study, Study) else None,
        stream_seed=(isinstance(study, Study) and study.seed) or 0,
        epochs=None if steps is None else steps // task.rounds,
    )


def _seed(seed: int, *path: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=path)


def _streams(
    task: Task, devices: int, steps: int, seed: int, progress: Told | None, steps_at_once: int
) -> StreamSimulation:
    started = time.perf_counter()
    law = displacement_law(task)
    measured = _Measured(task, steps)
    highest = _day(task, steps)
    done = 0
    for block, start in enumerate(range(0, devices, DEVICES)):
        n = min(DEVICES, devices - start)
        inputs = DrawnWords(n, _seed(seed, block, 0))
        fleet = make_fleet(task, n, DrawnWords(n, _seed(seed, block, 1)))
        out = 0
        for step in range(0, steps, steps_at_once):
            symbols = _series(inputs, n, highest[step : step + steps_at_once])
            measured.arrive(step, symbols)
            tokens = fleet.feed(symbols)
            measured.release(out, tokens)
            out += len(tokens)
            done += symbols.size
            if progress is not None:
                progress(done, devices * steps)
        measured.release(out, fleet.finish())
    return StreamSimulation(
        task,
        devices,
        steps,
        seed,
        time.perf_counter() - started,
        *measured.histograms(),
        None if law is None else law.mean_absolute,
        measured.arrived / devices,
        measured.released / devices,
    )


def _day(task: Task, steps: int) -> Array:
    """(steps,) number of symbols that occur at each step: a tenth at night, all at noon."""
    day = min(steps, max(2, _DAY // task.tick))
    light = (1 - np.cos(2 * np.pi * np.arange(steps) / day)) / 2
    return np.maximum(1, np.rint(task.symbols * (0.1 + 0.9 * light))).astype(np.uint32)


def _series(inputs: DrawnWords, n: int, highest: Array) -> Array:
    """(steps, n) symbols, uniform below each step's number."""
    symbols = np.empty((len(highest), n), dtype=np.uint16)
    for row, number in zip(symbols, highest, strict=True):
        # 16 bits of a word, so that the product fits 32.
        row[:] = (inputs.row() >> 8) * number >> 16
    return symbols


class _Measured:
    """What is counted while the fleet runs.

    arrived, released: (steps,) sums of the symbols over the devices.
    """

    def __init__(self, task: Task, steps: int) -> None:
        self.arrived = np.zeros(steps, dtype=np.int64)
        self.released = np.zeros(steps, dtype=np.int64)
        # By displacement modulo 2^16: at the ends of the segment, and between them.
        self._counts = np.zeros((2, _WRAP), dtype=np.int64)
        self._between = np.zeros(steps, dtype=np.intp)
        inside = settled(np.arange(steps), task.window)
        if inside is not None:
            self._between[inside] = 1

    def arrive(self, step: int, symbols: Array) -> None:
        self.arrived[step : step + len(symbols)] += symbols.sum(axis=1, dtype=np.int64)

    def release(self, at: int, tokens: Array) -> None:
        """Tokens (rows, n) that are released from index `at` on."""
        end = at + len(tokens)
        self.released[at:end] += symbols_of(tokens).sum(axis=1, dtype=np.int64)
        moved = np.arange(at, end).astype(np.uint16)[:, np.newaxis] - origins_of(tokens)
        for where in (0, 1):
            rows = moved[self._between[at:end] == where]
            if rows.size:
                self._counts[where] += np.bincount(rows.reshape(-1), minlength=_WRAP)

    def histograms(self) -> tuple[Array, Array, Array]:
        """Offsets, counts of all values, counts without the ends: (m,) each."""
        counts = np.roll(self._counts, _WRAP // 2, axis=1)
        total = counts.sum(axis=0)
        seen = np.flatnonzero(total)
        part = slice(seen[0], seen[-1] + 1)
        return np.arange(_WRAP)[part] - _WRAP // 2, total[part], counts[1, part]


def _oracles(
    task: Task,
    devices: int,
    steps: int,
    seed: int,
    progress: Told | None,
    aggregated: bool | None,
) -> OracleSimulation:
    started = time.perf_counter()
    population = 1 / np.arange(1, task.symbols + 1)
    population /= population.sum()
    rng = np.random.Generator(np.random.PCG64DXSM(_seed(seed, 0)))
    counts = rng.multinomial(devices, population)
    truth = counts / devices
    if aggregated is None:
        aggregated = devices * steps * step_words(task) > _WORDS
    first = None
    squares = 0.0
    own, other = map(float, support_chances(task))
    for step in range(steps):
        if aggregated:
            support = aggregate.supports(task, counts, rng)
        else:
            support = _one_by_one(task, counts, seed, step)
        # Intervals take longer than all the rest: only the picture's round has them.
        first = first or frequencies(task, support, devices, CONFIDENCE)
        estimates = (support / devices - other) / (own - other)
        squares += float(np.square(estimates - truth).mean())
        if progress is not None:
            progress((step + 1) * devices, steps * devices)
    assert first is not None
    return OracleSimulation(
        task,
        devices,
        steps,
        seed,
        time.perf_counter() - started,
        truth,
        first.frequencies,
        first.low,
        first.high,
        CONFIDENCE,
        squares / steps,
        expected_variance(task, devices),
        AGGREGATE if aggregated else ONE_BY_ONE,
    )


def _one_by_one(task: Task, counts: Array, seed: int, step: int) -> Array:
    """(d,) supports of one round in which every device draws its own report."""
    # Devices are in the order of their values, which no estimate depends on.
    ends = np.concatenate([[0], np.cumsum(counts)])
    support = np.zeros(task.symbols, dtype=np.int64)
    for block, start in enumerate(range(0, int(ends[-1]), _REPORTS)):
        here = np.diff(np.clip(ends, start, start + _REPORTS))
        values = np.repeat(np.arange(task.symbols), here)
        words = DrawnWords(len(values), _seed(seed, 1, step, block))
        support += supports(task, oracles.draw(task, values, words))
    return support
