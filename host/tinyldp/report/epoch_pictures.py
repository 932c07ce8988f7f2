"""Pictures of epochs: what was published, and the votes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.figures import counted
from tinyldp.report.pictures import BARS, GRID, ORIGINAL, QUIET, RELEASED, drawing, svg

# Epochs up to which each has a mark of its own; items that are named.
_MARKS = 64
_NAMED = 20


def mean_picture(key: str, table: dict[str, Any]) -> str:
    """The published mean with its intervals, epoch by epoch; table: one of epoch_tables."""
    steps = table["steps"]
    t = _column(steps, "t")
    with drawing((9.6, 3.4)) as figure:
        axis = figure.subplots()
        low, high = _column(steps, "low"), _column(steps, "high")
        axis.fill_between(t, low, high, step="mid", color=GRID, label="95 %, of this epoch")
        low, high = _column(steps, "estimate_low"), _column(steps, "estimate_high")
        axis.fill_between(t, low, high, step="mid", color=BARS, label="95 %, of its update")
        mean = _column(steps, "mean")
        axis.step(t, mean, where="mid", color=RELEASED, lw=1.2, label="published")
        there = np.array([step["published"] for step in steps])
        axis.plot(t[there], mean[there], "o", ms=4.5, color=RELEASED, label="update")
        mark_beyond(axis, t[there], mean[there])
        axis.set_title("Mean in each epoch")
        _epochs(axis, t)
        _legend(figure, axis, 4)
        return svg(figure, key, f"Published means of {counted(len(steps), 'epoch')}.")


# What a mean can be, with room for the marks.
_RANGE = (-0.05, 1.05)


def mark_beyond(axis: Any, t: npt.NDArray[np.float64], mean: npt.NDArray[np.float64]) -> None:
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
        marks = "o" if len(steps) <= _MARKS else ""
        share, needed = _column(steps, "share"), _column(steps, "needed")
        axis.plot(t, share, f"{marks}-", ms=3, lw=1, color=RELEASED, label="votes for an update")
        axis.plot(t, needed, "--", lw=1, color=QUIET, label="needed for it")
        if polls:
            at, live, low, high = (
                _column(polls, name) for name in ("t", "poll", "poll_low", "poll_high")
            )
            axis.vlines(at, low, high, color=ORIGINAL, lw=1)
            axis.plot(at, live, "s", ms=4, color=ORIGINAL, label="devices with votes left, 95 %")
        axis.set_title("Votes")
        axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
        _epochs(axis, t)
        _legend(figure, axis, 3)
        return svg(figure, key, f"Votes of {counted(len(steps), 'epoch')}.")


def _column(steps: list[dict[str, Any]], name: str) -> npt.NDArray[np.float64]:
    return np.array([np.nan if step[name] is None else step[name] for step in steps], float)


def _epochs(axis: Any, t: npt.NDArray[np.float64]) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_xlim(t[0] - 0.5, t[-1] + 0.5)
    axis.set_xlabel("epoch")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.xaxis.set_major_formatter(lambda epoch, _: f"{epoch:,.0f}")


def _legend(figure: Any, axis: Any, columns: int) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=columns)
