"""Where a simulated fleet's values come from: generators, the sample recordings, a CSV file.

lns, sin, log  The streams that the LDP-IDS literature measures on: a share p_t of the devices
               is active at step t, p_t clipped to [0, 1]:
                   lns  p_t = p_(t-1) + N(0, 0.0025^2), p_0 = 0.05
                   sin  p_t = 0.05 sin(0.01 t) + 0.075
                   log  p_t = 0.25 / (1 + exp(-0.01 t))
               t = 0, 1, ... A device that is not active has value 0; the active ones have values
               1, 2, ..., d-1 in proportion d-1, d-2, ..., 1. Each device's value is drawn anew
               at each step, so that any group of them is like any other.
recordings     Activity of the wearers in recordings.sample_recordings, in epochs of a minute:
               each whole day (1,440 steps) of each wearer is one series. The Task's bins make
               classes of the counts; without bins, class 0 is no activity, and the others part
               the counts above zero into equal shares. A missing epoch is the Task's missing.
a CSV file     One row for each step, one column for each series, or the one named `value` (see
               tinyldp.recordings). With bins in the Task these are readings, without them
               symbols 0..d-1; a missing one is the Task's missing.

Device i plays series i modulo their number, from the first step on. A run is no longer than the
shortest of the series that are played: nothing stands for what a series does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tinyldp.errors import UserError
from tinyldp.figures import counted
from tinyldp.recordings import Recording, load_recording, load_table, sample_recordings
from tinyldp.study import SOURCES, Study, load_study
from tinyldp_protocol.task import Task

Array = npt.NDArray[Any]
Readings = list[list[int | None]]

DAY = 1440
_MINUTE = 60


def study_at(path: str | Path) -> Study:
    """The study of this file; a CSV file that it names is looked for beside it."""
    study = load_study(path)
    if study.source is None or study.source in SOURCES:
        return study
    return replace(study, source=str(Path(path).parent / study.source))


class Stream(Protocol):
    """What all devices of a fleet measure.

    counts: (steps, d) how many devices have each value. series: how many there are to play, None
    where each device has its own. longest: steps of the longest series that is played, where
    the run had to end before, with the shortest one; else None.
    """

    counts: Array
    series: int | None
    longest: int | None

    def values(self, step: int) -> Array:
        """(devices,) the value of each device at this step; the same whenever it is asked."""
        ...


def make_stream(source: str, task: Task, devices: int, steps: int, seed: int) -> Stream:
    """`steps` steps of a source by its name, fewer where a recording or file ends before.

    seed: of the generators and of who has which of their values.
    Raises UserError, one sentence, for a name that is none and a file that can't be played.
    """
    if source in _SHARES:
        rng = np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(seed)))
        shares = _spread(np.clip(_SHARES[source](steps, rng), 0, 1), task.symbols)
        return Drawn(rng.multinomial(devices, shares), devices, seed)
    if source == "recordings":
        table = _classes(task, _days([load_recording(path) for path in sample_recordings()]))
        return Played(table[:steps], devices, task.symbols)
    table, lengths = _file(task, Path(source))
    played = lengths[:devices]
    shortest, longest = min(played), max(played)
    unequal = longest if shortest < min(longest, steps) else None
    return Played(table[: min(steps, shortest)], devices, task.symbols, unequal)


def shared(stream: Stream, devices: int) -> tuple[str, ...]:
    """A sentence where the series are fewer than the devices, or more, or of unequal length."""
    sentences = _players(stream, devices)
    if stream.longest is not None:
        sentences += (
            f"The run ends with its shortest series, after {counted(len(stream.counts), 'step')};"
            f" the longest has {stream.longest:,}.",
        )
    return sentences


def _players(stream: Stream, devices: int) -> tuple[str, ...]:
    series = stream.series
    if series is None or series == devices:
        return ()
    if series > devices:
        which = "first alone is" if devices == 1 else f"first {devices:,} alone are"
        return (f"Of the stream's {series:,} series the {which} played.",)
    if series == 1:
        return (f"The stream's one series is played by all {devices:,} devices.",)
    most = -(-devices // series)
    return (
        f"The stream's {series:,} series are played by up to {most:,} devices each, for there are "
        f"{devices:,} devices.",
    )


def _lns(steps: int, rng: np.random.Generator) -> Array:
    # Clipped as it walks: it comes back from a bound at once.
    walk = np.empty(steps)
    p = 0.05
    for t, move in enumerate(rng.normal(0, 0.0025, steps).tolist()):
        p = min(1.0, max(0.0, p + move)) if t else p
        walk[t] = p
    return walk


def _sin(steps: int, rng: np.random.Generator) -> Array:
    return 0.05 * np.sin(0.01 * np.arange(steps)) + 0.075


def _log(steps: int, rng: np.random.Generator) -> Array:
    return 0.25 / (1 + np.exp(-0.01 * np.arange(steps)))


_SHARES: dict[str, Callable[[int, np.random.Generator], Array]] = {
    "lns": _lns,
    "sin": _sin,
    "log": _log,
}


def _spread(active: Array, symbols: int) -> Array:
    """(steps, d) shares of all values, from those of all but 0 together."""
    weights = np.arange(symbols - 1, 0, -1.0)
    shares = np.empty((len(active), symbols))
    shares[:, 0] = 1 - active
    shares[:, 1:] = active[:, np.newaxis] * (weights / weights.sum())
    return shares


class Drawn:
    """Values dealt to the devices anew at each step, in these numbers."""

    def __init__(self, counts: Array, devices: int, seed: int) -> None:
        self.counts = counts
        self.series: int | None = None
        self.longest: int | None = None
        self._devices = devices
        self._seed = seed

    def values(self, step: int) -> Array:
        seed = np.random.SeedSequence(self._seed, spawn_key=(step,))
        values = np.repeat(np.arange(self.counts.shape[1], dtype=np.uint16), self.counts[step])
        np.random.Generator(np.random.PCG64DXSM(seed)).shuffle(values)
        return values


class Played:
    """Series of symbols that devices play; table: (steps, series)."""

    def __init__(
        self, table: Array, devices: int, symbols: int, longest: int | None = None
    ) -> None:
        self.longest = longest
        self._table = table
        self._devices = devices
        series = table.shape[1]
        self.series: int | None = series
        players = devices // series + (np.arange(series) < devices % series)
        self.counts = np.zeros((len(table), symbols), dtype=np.int64)
        for counts, row in zip(self.counts, table, strict=True):
            np.add.at(counts, row, players)

    def values(self, step: int) -> Array:
        return np.resize(self._table[step], self._devices)


@dataclass(frozen=True)
class _Series:
    """readings: (steps, series) integers; absent: where there is none."""

    readings: Array
    absent: Array


def _series(rows: Readings) -> _Series:
    absent = np.array([[reading is None for reading in row] for row in rows])
    return _Series(np.array([[reading or 0 for reading in row] for row in rows]), absent)


def _days(recordings: list[Recording]) -> _Series:
    days: Readings = []
    for recording in recordings:
        minutes = _minutes(recording)
        days += [minutes[at : at + DAY] for at in range(0, len(minutes) - DAY + 1, DAY)]
    if not days:
        raise UserError("No sample recording holds a whole day.")
    by_day = _series(days)
    return _Series(by_day.readings.T, by_day.absent.T)


def _minutes(recording: Recording) -> list[int | None]:
    """Counts of whole minutes; one of which a part is missing is missing."""
    size = _MINUTE // (recording.epoch_seconds or _MINUTE)
    readings = recording.readings
    minutes: list[int | None] = []
    for at in range(0, len(readings) - size + 1, size):
        present = [reading for reading in readings[at : at + size] if reading is not None]
        minutes.append(sum(present) if len(present) == size else None)
    return minutes


def _classes(task: Task, series: _Series) -> Array:
    bins = task.bins
    if bins is None:
        some = series.readings[(series.readings > 0) & ~series.absent]
        classes = task.symbols - 1
        edges = np.quantile(some, np.arange(1, classes) / classes, method="lower")
        bins = [1, *(edges.astype(np.int64) + 1).tolist()]
        if len(set(bins)) < classes:
            raise UserError(
                f"The recordings' counts can't be parted into {task.symbols} classes;"
                " state the classes as [values] bins."
            )
    return _binned(task, series, np.array(bins))


def _binned(task: Task, series: _Series, bins: Array) -> Array:
    """As the device's quantizer: the number of edges that are not above the reading."""
    symbols = np.searchsorted(bins, series.readings, side="right")
    return np.where(series.absent, task.missing or 0, symbols)


def _file(task: Task, path: Path) -> tuple[Array, tuple[int, ...]]:
    """(steps, series) symbols, as many steps as the longest has, and the steps of each."""
    table = load_table(path)
    series = _series(table.rows)
    if task.bins is not None:
        return _binned(task, series, np.array(task.bins)), table.lengths
    wrong = ~series.absent & ((series.readings < 0) | (series.readings >= task.symbols))
    if wrong.any():
        step, column = np.argwhere(wrong)[0]
        raise UserError(
            f"{path}, {table.place(step, column)}: {series.readings[step, column]} is no symbol of"
            f" the study, which has 0..{task.symbols - 1} and no bins."
        )
    return np.where(series.absent, task.missing or 0, series.readings), table.lengths
