"""The picture of simulated epochs: what was published, the votes, and what devices have left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tinyldp.figures import counted
from tinyldp.report.epoch_pictures import mark_beyond
from tinyldp.report.pictures import BARS, GRID, ORIGINAL, QUIET, RELEASED
from tinyldp.simulate.simulation import EpochSimulation
from tinyldp.study import TITLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 6.4
# Epochs up to which each has a mark of its own.
_MARKS = 64


def draw_epochs(figure: Figure, simulation: EpochSimulation) -> None:
    from matplotlib.ticker import MaxNLocator

    above, middle, below = figure.subplots(3, 1, sharex=True, height_ratios=(2.2, 1, 1))
    times = np.array([decision.t for decision in simulation.decisions])
    if simulation.items is None:
        _mean(above, times, simulation)
    else:
        _items(above, times, simulation)
    _votes(middle, times, simulation)
    _lives(below, times, simulation)
    above.set_title(
        f"{TITLES[simulation.task.mechanism]}, {counted(simulation.devices, 'device')}, "
        f"epochs of {simulation.task.rounds:,} steps"
    )
    below.set_xlabel("epoch")
    below.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axis in (above, middle, below):
        # Room for the marks of the first and the last epoch, and for the legends on the right.
        axis.set_xlim(times[0] - 0.5, times[-1] + 0.5)
        axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)


def _mean(axis: Axes, times: np.ndarray, simulation: EpochSimulation) -> None:
    # Each epoch is as wide as the next: a step changes between two.
    decisions = simulation.decisions
    low, high = ([_number(getattr(d, name)) for d in decisions] for name in ("low", "high"))
    axis.fill_between(times, low, high, step="mid", color=GRID, label="95 %, if it moved unseen")
    low, high = (
        [_number(getattr(d, f"estimate_{name}")) for d in decisions] for name in ("low", "high")
    )
    axis.fill_between(times, low, high, step="mid", color=BARS, label="95 %, as of its update")
    axis.step(times, simulation.truth[:, 0], where="mid", color=ORIGINAL, lw=2.4, label="true")
    axis.step(times, simulation.published[:, 0], where="mid", color=RELEASED, label="published")
    at = np.array(simulation.updates, dtype=int)
    shown = simulation.published[np.searchsorted(times, at), 0]
    axis.plot(at, shown, "o", ms=4, color=RELEASED, label="update")
    axis.set_ylabel("mean")
    mark_beyond(axis, at, shown)


def _items(axis: Axes, times: np.ndarray, simulation: EpochSimulation) -> None:
    """The items that were ever found to be heavy, all in two colours."""
    items = simulation.items
    assert items is not None
    heavy = np.unique(np.concatenate([np.empty(0, int), *(f.items for f in simulation.found)]))
    name = "true"
    for item in np.flatnonzero(np.isin(items, heavy)):
        axis.step(
            times, simulation.truth[:, item], where="mid", color=ORIGINAL, lw=2.4, label=name
        )  # fmt: skip
        name = "_"
    name = "published"
    for item in np.flatnonzero(np.isin(items, heavy)):
        axis.step(
            times, simulation.published[:, item], where="mid", color=RELEASED, lw=1, label=name
        )  # fmt: skip
        name = "_"
    name = "found, 95 % together"
    for t, found in zip(simulation.updates, simulation.found, strict=True):
        # Beside each other.
        places = t + np.linspace(-0.3, 0.3, len(found.items)) if len(found.items) > 1 else t
        axis.errorbar(
            np.broadcast_to(places, found.items.shape), found.frequencies, found.error,
            fmt="o", ms=3.5, lw=1, color=RELEASED, label=name,
        )  # fmt: skip
        name = "_"
    axis.set_ylabel("frequency of heavy items")
    axis.axhline(0, color=GRID, zorder=0)


def _votes(axis: Axes, times: np.ndarray, simulation: EpochSimulation) -> None:
    shares = [d.ones / d.votes_n if d.votes_n else np.nan for d in simulation.decisions]
    needed = [_number(d.needed) for d in simulation.decisions]
    marks = "o" if len(times) <= _MARKS else ""
    axis.plot(times, shares, marks + "-", ms=3, lw=1, color=RELEASED, label="votes in favour")
    axis.plot(times, needed, "--", lw=1, color=QUIET, label="needed for an update")
    axis.set_ylabel("share")


def _lives(axis: Axes, times: np.ndarray, simulation: EpochSimulation) -> None:
    votes, estimates = simulation.lives.T
    axis.step(times, votes, where="mid", color=RELEASED, label="votes left")
    axis.step(times, estimates, where="mid", color=ORIGINAL, label="estimates left")
    axis.set_ylabel("a device, on average")
    axis.set_ylim(bottom=0)


def _number(value: float | None) -> float:
    return np.nan if value is None else value
