"""Pictures of what releases of CRR say: shares over time, what was told, and smoothed series."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tinyldp.figures import counted
from tinyldp.report.crr import alone, releases
from tinyldp.report.pictures import GAP, ORIGINAL, QUIET, RELEASED, drawing, name_symbols, svg
from tinyldp.report.symbols import has_names
from tinyldp_protocol.task import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Steps of a series that are drawn one by one, and of a table that are drawn.
_ZOOM = 200
_DRAWN = 200
# Columns of a legend.
_LEGEND = 4


def shares_picture(key: str, table: dict[str, Any]) -> str:
    """The followed values' smoothed shares, each in the band of its intervals; dotted: released.

    Of one segment the probabilities of its values, one upon the other.
    """
    rows = _spread(table["steps"])
    steps = [row["step"] for row in rows]
    names = table["names"] or [f"{value:,}" for value in table["followed"]]
    with drawing((9.6, 3.2)) as figure:
        import matplotlib

        axis = figure.subplots()
        colors = matplotlib.colormaps["tab10"]
        of_one = alone(table)
        if of_one and len(steps) > 1:
            axis.stackplot(
                steps, np.array([row["smoothed"] for row in rows]).T, labels=names, alpha=0.75,
                colors=[colors(i) for i in range(len(names))], step="mid", lw=0,
            )  # fmt: skip
            axis.set_ylim(0, 1)
        for i, name in enumerate([] if of_one and len(steps) > 1 else names):
            smoothed, low, high, released = (
                [row[what][i] for row in rows] for what in ("smoothed", "low", "high", "released")
            )
            color = colors(i)
            if not of_one:
                axis.fill_between(steps, low, high, color=color, alpha=0.2, lw=0)
            line = "-" if len(steps) > 1 else "o"
            axis.plot(steps, smoothed, line, color=color, lw=1.3, label=name)
            if not of_one:
                shares = np.array(released, dtype=float)
                axis.plot(steps, shares, ":", color=color, lw=0.8)
        axis.set_title(
            "Probability of each value of the one device, smoothed"
            if of_one
            else "Shares over time: smoothed, and dotted as released"
        )
        axis.set_xlabel("step")
        axis.set_ylim(bottom=0)
        axis.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
        axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
        handles, labels = axis.get_legend_handles_labels()
        figure.legend(_by_row(handles), _by_row(labels), loc="outside upper left", ncols=_LEGEND)
        return svg(figure, key, f"Estimated shares of {len(names)} values over time.")


def _spread(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Not more than can be seen, evenly spread from the first to the last."""
    return [rows[i] for i in np.unique(np.linspace(0, len(rows) - 1, _DRAWN).astype(np.int64))]


def _by_row(entries: list[Any]) -> list[Any]:
    """In the order in which a legend, which is filled column by column, shows them row by row."""
    return [entry for column in range(_LEGEND) for entry in entries[column::_LEGEND]]


def leakage_picture(key: str, table: dict[str, Any]) -> str:
    """What each release told, and all so far, beside what is allowed."""
    rows = _spread(releases(table))
    unit = "release" if table["block"] is None else "block"
    steps = [row["step"] for row in rows]
    # What a block told stays what it is to its end.
    style = "default" if table["block"] is None else "steps-post"
    if table["block"] is not None:
        # The last one has an end, too.
        rows = [*rows, rows[-1]]
        steps.append(table["steps"][-1]["step"] + 1)
    with drawing((9.6, 3.0)) as figure:
        each, total = figure.subplots(1, 2)
        each_allowed = [table["epsilon"]] * len(rows)
        for axis, names, allowed in (
            (each, ("largest", "leakage", "gain"), each_allowed),
            (total, ("most", "total", "learned"), [row["allowed"] for row in rows]),
        ):
            most, mean, learned = ([row[name] for row in rows] for name in names)
            # One upon the other they are all seen where they are the same.
            for numbers, color, line, width, label in (
                (allowed, "#e3a49d", "-", 3.6, "allowed at most"),
                (most, ORIGINAL, "-", 2, "most of a device"),
                (mean, RELEASED, "-", 0.9, "mean"),
                (learned, QUIET, "--", 1.2, "learned on average"),
            ):
                axis.plot(
                    steps, numbers, color=color, ls=line, lw=width, drawstyle=style, label=label
                )
            axis.set_ylim(bottom=0)
            axis.set_xlabel("step")
            axis.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
        each.set_title(f"Told by a {unit}, nats")
        total.set_title(f"Told by all {unit}s so far, nats")
        handles, labels = each.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=4)
        over = counted(table["steps_in_all"], "step")
        return svg(figure, key, f"Information leakage over {over}, and what is allowed.")


def smoothed_picture(
    key: str,
    task: Task,
    symbols: npt.NDArray[Any],
    known: npt.NDArray[np.bool_],
    posterior: npt.NDArray[Any],
    leakage: npt.NDArray[Any],
    original: npt.NDArray[Any] | None,
) -> str:
    """The busiest steps of one series: released, the most probable values, and what was told.

    symbols: (T,), NaN where none arrived. known: (T,) the first of them, which are smoothed.
    posterior: (T, d).
    """
    last = int(known.sum())
    change = np.concatenate([[0], np.cumsum(np.abs(np.diff(symbols[:last])) > 0)])
    width = min(_ZOOM, last)
    start = int(np.argmax(change[width - 1 :] - change[: last - width + 1]))
    part = slice(start, start + width)
    edges = np.arange(start, start + width + 1)
    with drawing((9.6, 4.2)) as figure:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        if original is not None and len(original) >= part.stop:
            above.stairs(
                original[part], edges, fill=True, color=ORIGINAL, alpha=0.55, lw=0, label="original"
            )
        above.stairs(symbols[part], edges, color=RELEASED, lw=1.1, baseline=None, label="released")
        above.stairs(
            posterior[part].argmax(axis=1), edges, color=GAP, lw=1.1, ls="--", baseline=None,
            label="smoothed: most probable",
        )  # fmt: skip
        above.set_ylim(bottom=0)
        above.locator_params(axis="y", integer=True)
        above.set_title(f"Steps {start:,} to {start + width - 1:,}, one by one")
        if has_names(task):
            name_symbols(above, task)
        block = task.block or 1
        _told(below, leakage[np.arange(start, start + width) // block * block], edges, task.block)
        handles, labels = above.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=3)
        return svg(figure, key, f"Released and smoothed series of {width} steps.")


def _told(
    axis: Axes, leakage: npt.NDArray[Any], edges: npt.NDArray[Any], block: int | None
) -> None:
    axis.stairs(leakage, edges, color=QUIET, lw=1, fill=True, alpha=0.5)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("told, nats" if block is None else "a block told, nats")
    axis.set_xlabel("step")
