"""One picture of a simulation. matplotlib is imported when it is drawn, never before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tinyldp.errors import UserError
from tinyldp.figures import counted
from tinyldp.files import PICTURE, keep_kind, replacing
from tinyldp.laws import displacement_law
from tinyldp.report.pictures import BARS, GRID, ORIGINAL, QUIET, RELEASED, drawing
from tinyldp.report.symbols import symbol_name
from tinyldp.simulate import crr_pictures
from tinyldp.simulate.epoch_pictures import HEIGHT, draw_epochs
from tinyldp.simulate.simulation import (
    CrrSimulation,
    EpochSimulation,
    OracleSimulation,
    RoundSimulation,
    Simulation,
    StreamSimulation,
)
from tinyldp.study import METHOD_TITLES, TITLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Share of the displacements that the picture may leave out on each side.
_UNSEEN = 0.001
# Values that get a mark of their own with an interval.
_VALUES = 64
_TICKS = 16
# Values whose releases get an axis of their own.
_SERIES = 5


def write_picture(simulation: Simulation, path: str | Path) -> None:
    """Draw into a file whose name says the format (.svg, .png, .pdf).

    Streams: the displacements against the exact law, and the fleet's mean over time.
    Oracles: the first round's estimates with their intervals, against the truth.
    Rounds: the released frequencies over the true ones, value by value.
    CRR: its loss beside k-RR's, its leakage beside the bound, shares and one device's series.
    Epochs: what was published over the truth, the votes, and what devices have left.
    Raises UserError when the file can't be written or its format is unknown.
    """
    check_picture(path)
    height = 5.2 if isinstance(simulation, StreamSimulation) else 3.4
    if isinstance(simulation, RoundSimulation):
        height = 0.9 + 1.3 * len(_shown(simulation))
    elif isinstance(simulation, EpochSimulation):
        height = HEIGHT
    elif isinstance(simulation, CrrSimulation):
        height = crr_pictures.HEIGHT
    with drawing((9.6, height)) as figure:
        if isinstance(simulation, StreamSimulation):
            above, below = figure.subplots(2, 1)
            _displacements(above, simulation)
            _means(below, simulation)
        elif isinstance(simulation, OracleSimulation):
            _frequencies(figure.subplots(), simulation)
        elif isinstance(simulation, RoundSimulation):
            _releases(figure, simulation)
        elif isinstance(simulation, EpochSimulation):
            draw_epochs(figure, simulation)
        elif isinstance(simulation, CrrSimulation):
            crr_pictures.draw_crr(figure, simulation)
        save(figure, path)


def check_picture(path: str | Path) -> None:
    """Before the work: without one of these, matplotlib would choose, and name the file itself."""
    if Path(path).suffix.lower() not in (".svg", ".png", ".pdf"):
        raise UserError(f"{path} has no ending of a picture: .svg, .png or .pdf.")
    keep_kind(path, PICTURE)


def save(figure: Figure, path: str | Path) -> None:
    """Raises UserError when the file can't be written."""
    with replacing(path, PICTURE) as file:
        figure.savefig(file, format=Path(path).suffix[1:].lower())


def _displacements(axis: Axes, simulation: StreamSimulation) -> None:
    from matplotlib.ticker import MaxNLocator

    inner = simulation.inner if simulation.inner.any() else simulation.counts
    share = inner / inner.sum()
    covered = np.cumsum(share)
    first, last = np.searchsorted(covered, (_UNSEEN, 1 - _UNSEEN))
    shown = slice(int(first), int(last) + 1)
    offsets = simulation.offsets[shown]
    law = displacement_law(simulation.task)
    if law is not None:
        inside = (law.offsets >= offsets[0]) & (law.offsets <= offsets[-1])
        axis.bar(
            law.offsets[inside], law.probabilities[inside], width=0.82, color=BARS,
            label="exact law",
        )  # fmt: skip
    axis.plot(offsets, share[shown], "o", ms=3.5, color=RELEASED, label="simulated")
    axis.set_title(f"How far {TITLES[simulation.task.mechanism]} moved values")
    axis.set_xlabel("displacement in steps (left: released early, right: late)")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    _percent(axis)
    axis.legend()


def _means(axis: Axes, simulation: StreamSimulation) -> None:
    steps = np.arange(simulation.steps)
    axis.plot(steps, simulation.arrived, color=ORIGINAL, lw=2.4, label="as it came in")
    axis.plot(steps, simulation.released, color=RELEASED, lw=1, label="released")
    axis.set_title(f"Mean symbol of {counted(simulation.devices, 'device')}")
    axis.set_xlabel("step")
    axis.set_ylim(bottom=0)
    axis.legend()


def _frequencies(axis: Axes, simulation: OracleSimulation) -> None:
    shown = min(simulation.task.symbols, _VALUES)
    values = np.arange(shown)
    estimates = simulation.estimates[:shown]
    axis.bar(values, simulation.truth[:shown], width=0.82, color=BARS, label="true")
    low, high = simulation.low[:shown], simulation.high[:shown]
    # An interval that is cut at 0 or 1 may leave its estimate outside.
    reach = np.maximum([estimates - low, high - estimates], 0)
    axis.errorbar(
        values, estimates, reach, fmt="o", ms=3.5, lw=1, color=RELEASED,
        label=f"estimated, {100 * simulation.confidence:g} % intervals",
    )  # fmt: skip
    axis.axhline(0, color=GRID, zorder=0)
    ticks = values[:: -(-shown // _TICKS)]
    if simulation.task.bins is None:
        axis.set_xticks(ticks)
        axis.set_xlabel("value")
    else:
        axis.set_xticks(ticks, [symbol_name(simulation.task, int(tick)) for tick in ticks])
    axis.set_title(
        f"One round of {TITLES[simulation.task.mechanism]} from "
        f"{counted(simulation.devices, 'device')}"
    )
    if shown < simulation.task.symbols:
        axis.annotate(
            f"the first {shown} of {simulation.task.symbols:,} values", (1, 0.9),
            xycoords="axes fraction", ha="right", color=QUIET, fontsize=8.5,
        )  # fmt: skip
    _percent(axis)
    axis.legend()


def _shown(simulation: RoundSimulation) -> range:
    """The values that get an axis: the first ones, of two the second, which mirrors the first."""
    symbols = simulation.task.symbols
    return range(1, 2) if symbols == 2 else range(min(symbols, _SERIES))


def _releases(figure: Figure, simulation: RoundSimulation) -> None:
    shown = _shown(simulation)
    axes = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    steps = np.arange(simulation.steps)
    published = [step.t for step in simulation.decisions if step.published]
    estimates = simulation.estimates
    task = simulation.task
    for axis, value in zip(axes, shown, strict=True):
        axis.plot(steps, simulation.truth[:, value], color=ORIGINAL, lw=2.4, label="true")
        axis.step(
            steps, estimates[:, value], where="post", color=RELEASED, lw=1, label="released"
        )  # fmt: skip
        axis.plot(
            published, estimates[published, value], "o", ms=2.2, color=RELEASED,
            label="new release",
        )  # fmt: skip
        name = str(value) if task.bins is None else symbol_name(task, value)
        axis.set_ylabel(f"value {name}" if task.bins is None else name)
        _percent(axis)
    assert task.method is not None
    part = 2 < task.symbols > len(shown)
    more = f", the first {len(shown)} of {task.symbols:,} values" if part else ""
    axes[0].set_title(
        f"{METHOD_TITLES[task.method]} over {TITLES[task.mechanism]},"
        f" {counted(simulation.devices, 'device')}{more}"
    )
    axes[-1].set_xlabel("step")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=3)


def _percent(axis: Axes) -> None:
    axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
