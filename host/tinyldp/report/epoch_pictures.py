"""Pictures of epochs: what was published, and the votes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.figures import counted
from tinyldp.report.pictures import BARS, GRID, ORIGINAL, QUIET, RELEASED, drawing, svg

Floats = npt.NDArray[np.float64]

# Epochs up to which each has a mark of its own; items that are named.
_MARKS = 64
_NAMED = 20


def mean_picture(key: str, table: dict[str, Any]) -> str:
    """The published mean with its intervals, epoch by epoch; table: one of epoch_tables."""
    steps = table["steps"]
    t = _column(steps, "t")
    with drawing((9.6, 3.4)) as figure:
        axis = figure.subplots()
        names = ("low", "high", "estimate_low", "estimate_high")
        draw_intervals(axis, t, *(_column(steps, name) for name in names))
        there = np.array([step["published"] for step in steps])
        draw_published(axis, t, _column(steps, "mean"), there)
        axis.set_title("Mean in each epoch")
        draw_epochs(axis, t)
        _legend(figure, axis, 4)
        return svg(figure, key, f"Published means of {counted(len(steps), 'epoch')}.")


# What a mean can be, with room for the marks.
_RANGE = (-0.05, 1.05)


def items_picture(key: str, table: dict[str, Any]) -> str:
    """The items that were found at each update, beside each other."""
    found = table["found"]
    items = [(update, item) for update in found for item in update["items"][:_NAMED]]
    with drawing((9.6, 3.4)) as figure:
        axis = figure.subplots()
        places = np.arange(len(items))
        shares, low, high = (
            np.array([item[name] for _, item in items]) for name in ("frequency", "low", "high")
        )
        axis.vlines(places, low, high, color=BARS, lw=4)
        axis.plot(places, shares, "o", ms=4, color=RELEASED)
        names = [f"{item['item']:,}" for _, item in items]
        axis.set_xticks(places, names, rotation=45, ha="right")
        for i in range(1, len(items)):
            if items[i][0] is not items[i - 1][0]:
                axis.axvline(i - 0.5, color=QUIET, lw=0.8)
        epochs = ", ".join(f"{update['t']:,}" for update in found)
        axis.set_title(f"Items found at the updates of epochs {epochs}")
        axis.set_xlabel("item")
        axis.axhline(0, color=QUIET, lw=0.8, zorder=0)
        axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
        return svg(figure, key, f"Items found at {counted(len(found), 'update')}.")


def votes_picture(key: str, table: dict[str, Any]) -> str:
    """Votes against what an update needs, and devices with votes left where that was asked."""
    steps = table["steps"]
    t = _column(steps, "t")
    polls = [step for step in steps if step["poll"] is not None]
    with drawing((9.6, 2.6)) as figure:
        axis = figure.subplots()
        draw_votes(axis, t, _column(steps, "share"), _column(steps, "needed"))
        if polls:
            at, live, low, high = (
                _column(polls, name) for name in ("t", "poll", "poll_low", "poll_high")
            )
            axis.vlines(at, low, high, color=ORIGINAL, lw=1)
            axis.plot(at, live, "s", ms=4, color=ORIGINAL, label="devices with votes left, 95 %")
        axis.set_title("Votes")
        axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
        draw_epochs(axis, t)
        _legend(figure, axis, 3)
        return svg(figure, key, f"Votes of {counted(len(steps), 'epoch')}.")


# What a simulation's picture has, too: t, and of each epoch a number, nan where there is none.


def draw_intervals(
    axis: Any, t: Floats, low: Floats, high: Floats, estimate_low: Floats, estimate_high: Floats
) -> None:
    # Each epoch is as wide as the next: a step changes between two.
    axis.fill_between(t, low, high, step="mid", color=GRID, label="95 %, of this epoch")
    label = "95 %, of its update"
    axis.fill_between(t, estimate_low, estimate_high, step="mid", color=BARS, label=label)


def draw_published(axis: Any, t: Floats, mean: Floats, updated: npt.NDArray[np.bool_]) -> None:
    axis.step(t, mean, where="mid", color=RELEASED, lw=1.2, label="published")
    axis.plot(t[updated], mean[updated], "o", ms=4.5, color=RELEASED, label="update")
    _mark_beyond(axis, t[updated], mean[updated])


def _mark_beyond(axis: Any, t: Floats, mean: Floats) -> None:
    """Show 0 to 1, and raw estimates that lie beyond as arrows at the edge, with their figures."""
    axis.set_ylim(*_RANGE)
    for beyond, edge, mark, below in ((mean > 1, 1.0, "^", -12), (mean < 0, 0.0, "v", 6)):
        if not beyond.any():
            continue
        axis.plot(
            t[beyond], np.full(beyond.sum(), edge), mark, ms=6, color=RELEASED,
            label="raw estimate beyond",
        )  # fmt: skip
        for at, value in zip(t[beyond], mean[beyond], strict=True):
            axis.annotate(
                f"{value:.3g}", (at, edge), (0, below), textcoords="offset points", ha="center",
                fontsize=8,
            )  # fmt: skip


def draw_votes(axis: Any, t: Floats, share: Floats, needed: Floats) -> None:
    marks = "o" if len(t) <= _MARKS else ""
    axis.plot(t, share, f"{marks}-", ms=3, lw=1, color=RELEASED, label="votes for an update")
    axis.plot(t, needed, "--", lw=1, color=QUIET, label="needed for it")


def draw_epochs(axis: Any, t: Floats) -> None:
    """The axis of the epochs, with room for the marks of the first and the last one."""
    from matplotlib.ticker import MaxNLocator

    axis.set_xlim(t[0] - 0.5, t[-1] + 0.5)
    axis.set_xlabel("epoch")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.xaxis.set_major_formatter(lambda epoch, _: f"{epoch:,.0f}")


def floats(values: Iterable[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], float)


def _column(steps: list[dict[str, Any]], name: str) -> Floats:
    return floats(step[name] for step in steps)


def _legend(figure: Any, axis: Any, columns: int) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=columns)
