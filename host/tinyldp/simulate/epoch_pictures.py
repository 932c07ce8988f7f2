"""The picture of simulated epochs: what was published, the votes, and what devices have left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tinyldp.figures import counted
from tinyldp.report import epoch_pictures as axes
from tinyldp.report.pictures import GRID, ORIGINAL, RELEASED
from tinyldp.simulate.simulation import EpochSimulation
from tinyldp.study import TITLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 6.4


def draw_epochs(figure: Figure, simulation: EpochSimulation) -> None:
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
    axes.draw_epochs(below, times)
    for axis in (above, middle, below):
        # Room on the right.
        axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)


def _mean(axis: Axes, times: np.ndarray, simulation: EpochSimulation) -> None:
    decisions = simulation.decisions
    names = ("low", "high", "estimate_low", "estimate_high")
    limits = (axes.floats(getattr(d, name) for d in decisions) for name in names)
    axes.draw_intervals(axis, times, *limits)
    axis.step(times, simulation.truth[:, 0], where="mid", color=ORIGINAL, lw=2.4, label="true")
    updated = np.array([d.published for d in decisions])
    axes.draw_published(axis, times, simulation.published[:, 0], updated)
    axis.set_ylabel("mean")


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
    decisions = simulation.decisions
    shares = axes.floats(d.ones / d.votes_n if d.votes_n else None for d in decisions)
    axes.draw_votes(axis, times, shares, axes.floats(d.needed for d in decisions))
    axis.set_ylabel("share")


def _lives(axis: Axes, times: np.ndarray, simulation: EpochSimulation) -> None:
    votes, estimates = simulation.lives.T
    axis.step(times, votes, where="mid", color=RELEASED, label="votes left")
    axis.step(times, estimates, where="mid", color=ORIGINAL, label="estimates left")
    axis.set_ylabel("a device, on average")
    axis.set_ylim(bottom=0)
