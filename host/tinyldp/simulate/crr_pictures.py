"""The picture of a simulation of CRR: its loss, what it gave away, and the shares behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tinyldp.figures import counted
from tinyldp.report.pictures import GAP, ORIGINAL, QUIET, RELEASED, name_symbols
from tinyldp.report.symbols import has_names, symbol_name
from tinyldp.simulate.simulation import MODEL, CrrSimulation
from tinyldp.study import TITLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 10.4
# Values whose shares are drawn: all, or of more the most frequent ones; steps of one series.
_VALUES = 6
_STEPS = 120
_TWO = 2


def draw_crr(figure: Figure, simulation: CrrSimulation) -> None:
    """Loss, leakage and its sum, shares with their intervals, and the first device's series."""
    loss, told, shares, series = figure.subplots(4, 1)
    _loss(loss, simulation)
    _leakage(told, simulation)
    _shares(shares, simulation)
    _series(series, simulation)
    for axis in (loss, told, shares, series):
        axis.set_xlabel("step")
        axis.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")


def _head(axis: Axes, title: str) -> None:
    """The title, and under it the legend, where no line is."""
    handles, labels = axis.get_legend_handles_labels()
    axis.set_title(title, pad=24)
    if handles:
        axis.legend(
            handles, labels, ncols=len(handles), loc="lower left", bbox_to_anchor=(0, 1),
            borderaxespad=0.2, columnspacing=1.4,
        )  # fmt: skip


def _loss(axis: Axes, simulation: CrrSimulation) -> None:
    steps = np.arange(simulation.steps)
    axis.plot(steps, simulation.losses, color=RELEASED, lw=1, label="mean loss")
    each = simulation.epsilon / (simulation.task.block or 1)
    for factor, style in ((1, "--"), (2, ":")):
        name = f"k-RR with epsilon = {factor * each:.3g}"
        axis.axhline(simulation.response_loss(factor * each), color=QUIET, ls=style, label=name)
    follow = (
        "with values drawn by the Task's chain"
        if simulation.source == MODEL
        else f"with the values of {simulation.source}"
    )
    axis.set_ylim(bottom=0)
    axis.set_ylabel("loss a step")
    name = TITLES[simulation.task.mechanism]
    _head(axis, f"Loss of {name}, {counted(simulation.devices, 'device')} {follow}")


def _leakage(axis: Axes, simulation: CrrSimulation) -> None:
    steps = np.arange(1, simulation.steps + 1)
    bound = simulation.epsilon * -(-steps // (simulation.task.block or 1))
    axis.plot(steps, bound, color=GAP, lw=3.6, alpha=0.5, label="allowed at most")
    axis.plot(steps, simulation.most, color=ORIGINAL, lw=2, label="most of a device")
    axis.plot(steps, np.cumsum(simulation.leakage), color=RELEASED, lw=0.9, label="mean")
    if simulation.shares is not None:
        shares = simulation.shares
        axis.plot(
            shares.steps + 1, shares.learned, color=QUIET, ls="--",
            label=f"learned on average, {counted(len(simulation.original), 'device')}",
        )  # fmt: skip
    axis.set_ylim(bottom=0)
    axis.set_ylabel("nats")
    _head(axis, "Information leakage of all releases so far")


def _shares(axis: Axes, simulation: CrrSimulation) -> None:
    import matplotlib

    colors = matplotlib.colormaps["tab10"]
    task, found = simulation.task, simulation.shares
    if found is None:
        return
    often = np.argsort(-simulation.truth.mean(axis=0), kind="stable")[:_VALUES]
    shown = [1] if task.symbols == _TWO else np.sort(often).tolist()
    for i, value in enumerate(shown):
        color = colors(i)
        axis.fill_between(
            found.steps, found.smoothed_low[:, value], found.smoothed_high[:, value],
            color=color, alpha=0.25, lw=0,
        )  # fmt: skip
        truth = (simulation.original[:, found.steps] == value).mean(axis=0)
        axis.plot(found.steps, truth, color=color, lw=1, label=symbol_name(task, value))
    some = (
        ""
        if task.symbols == _TWO or len(shown) == task.symbols
        else (f" ({len(shown)} of {task.symbols}, the most frequent ones)")
    )
    what = "Share of the second value" if task.symbols == _TWO else f"Shares of values{some}"
    axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
    axis.set_ylim(bottom=0)
    axis.set_ylabel("share")
    _head(
        axis,
        f"{what} among {counted(len(simulation.original), 'device')}: true, and"
        f" {100 * found.confidence:g} % intervals, smoothed",
    )


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
    axis.set_ylim(bottom=0)
    axis.locator_params(axis="y", integer=True)
    if has_names(simulation.task):
        name_symbols(axis, simulation.task)
    axis.set_ylabel("symbol")
    cut = f", its first {shown} steps" if shown < simulation.steps else ""
    _head(axis, f"The first device{cut}")
