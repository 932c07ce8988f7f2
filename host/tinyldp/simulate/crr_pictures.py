"""The picture of a simulation of CRR: its loss, what it gave away, and the shares behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tinyldp.report.pictures import GAP, ORIGINAL, QUIET, RELEASED
from tinyldp.report.symbols import symbol_name
from tinyldp.simulate.simulation import CrrSimulation
from tinyldp.study import TITLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 8.4
# Values whose shares are drawn, and steps of the one device's series.
_VALUES = 4
_STEPS = 120


def draw_crr(figure: Figure, simulation: CrrSimulation) -> None:
    """Loss, leakage and its sum, shares with their intervals, and the first device's series."""
    loss, told, shares, series = figure.subplots(4, 1)
    _loss(loss, simulation)
    _leakage(told, simulation)
    _shares(shares, simulation)
    _series(series, simulation)
    shares.set_xlabel("step")
    series.set_xlabel("step")


def _loss(axis: Axes, simulation: CrrSimulation) -> None:
    steps = np.arange(simulation.steps)
    axis.plot(steps, simulation.losses, color=RELEASED, lw=1, label="mean loss")
    each = simulation.epsilon / (simulation.task.block or 1)
    for factor, style in ((1, "--"), (2, ":")):
        name = f"k-RR with epsilon = {factor * each:.3g}"
        axis.axhline(simulation.response_loss(factor * each), color=QUIET, ls=style, label=name)
    axis.set_title(
        f"Loss of {TITLES[simulation.task.mechanism]}, {simulation.devices:,} devices,"
        f" {simulation.source}"
    )
    axis.set_ylim(bottom=0)
    axis.legend(ncols=3)


def _leakage(axis: Axes, simulation: CrrSimulation) -> None:
    steps = np.arange(1, simulation.steps + 1)
    bound = simulation.epsilon * -(-steps // (simulation.task.block or 1))
    axis.plot(steps, bound, color=GAP, lw=1.2, label="allowed: at most")
    axis.plot(steps, simulation.most, color=ORIGINAL, lw=1.4, label="largest of a device")
    axis.plot(steps, np.cumsum(simulation.leakage), color=RELEASED, lw=1.4, label="mean")
    if simulation.shares is not None:
        shares = simulation.shares
        axis.plot(
            shares.steps + 1, shares.learned, color=QUIET, ls="--",
            label=f"learned on average, {len(simulation.original):,} devices",
        )  # fmt: skip
    axis.set_title("Information leakage of all releases so far, nats")
    axis.set_ylim(bottom=0)
    axis.legend(ncols=4)


def _shares(axis: Axes, simulation: CrrSimulation) -> None:
    import matplotlib

    colors = matplotlib.colormaps["tab10"]
    task, found = simulation.task, simulation.shares
    if found is None:
        return
    shown = range(1, 2) if task.symbols == 2 else range(min(task.symbols, _VALUES))
    for value in shown:
        color = colors(value)
        axis.fill_between(
            found.steps, found.smoothed_low[:, value], found.smoothed_high[:, value],
            color=color, alpha=0.25, lw=0,
        )  # fmt: skip
        truth = (simulation.original[:, found.steps] == value).mean(axis=0)
        name = str(value) if task.bins is None else symbol_name(task, value)
        axis.plot(found.steps, truth, color=color, lw=1, label=name)
    axis.set_title(
        f"Shares of values among {len(simulation.original):,} devices: true, and"
        f" {100 * found.confidence:g} % intervals, smoothed"
    )
    axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
    axis.set_ylim(bottom=0)
    axis.legend(ncols=_VALUES)


def _series(axis: Axes, simulation: CrrSimulation) -> None:
    shown = min(simulation.steps, _STEPS)
    edges = np.arange(shown + 1)
    axis.stairs(
        simulation.original[0, :shown], edges, fill=True, color=ORIGINAL, alpha=0.45,
        label="original",
    )  # fmt: skip
    for name, row, style in (
        ("released", simulation.released, "-"),
        ("smoothed", simulation.guessed, "--"),
    ):
        if row is None:
            continue
        color = RELEASED if style == "-" else GAP
        axis.stairs(
            row[0, :shown], edges, color=color, lw=1.2, ls=style, label=name, baseline=None
        )  # fmt: skip
    axis.set_title("The first device")
    axis.legend(ncols=3)
