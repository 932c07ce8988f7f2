"""Pictures of rounds: estimates over the steps, and what was decided."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyldp.figures import counted
from tinyldp.report.pictures import BARS, ORIGINAL, QUIET, RELEASED, drawing, svg

# Percent of the values at each end that may be cut off, and the room beyond the others: its part
# of their range, and how many times that a value may lie outside and still be shown.
_UNSEEN = 5
_ROOM = 0.15
_FAR = 10


def rounds_picture(key: str, table: dict[str, Any]) -> str:
    """The followed values' estimates, step by step; table: one of rounds.rounds_tables."""
    steps = [step for step in table["steps"] if step["frequencies"] is not None]
    t = np.array([step["t"] for step in steps])
    names = table["names"] or [f"{value:,}" for value in table["followed"]]
    with drawing((9.6, 3.4)) as figure:
        import matplotlib

        axis = figure.subplots()
        colors = matplotlib.colormaps["tab10"]
        for i, name in enumerate(names if steps else []):
            lines = ("frequencies", "low", "high")
            raw, low, high = (np.array([step[line][i] for step in steps]) for line in lines)
            axis.fill_between(t, low, high, step="post", color=colors(i), alpha=0.12, lw=0)
            axis.plot(t, raw, drawstyle="steps-post", color=colors(i), lw=1.1, label=name)
        axis.axhline(0, color=QUIET, lw=0.8, zorder=0)
        axis.set_title("Shares at each step")
        _steps(axis)
        axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
        _legend(figure, 4, axis)
        return svg(figure, key, f"Estimated shares over {counted(len(steps), 'step')}.")


def decisions_picture(key: str, table: dict[str, Any]) -> str:
    """Dissimilarity and error of each step, if there are any, and what publications cost."""
    steps = table["steps"]
    t = np.array([step["t"] for step in steps])
    dis, err = (
        np.array([np.nan if step[name] is None else step[name] for step in steps])
        for name in ("dis", "err")
    )
    spent = np.array([step["epsilon"] for step in steps])
    looking = np.array([step["dissimilarity_epsilon"] or 0.0 for step in steps])
    published = np.array([step["published"] for step in steps])
    adaptive = not np.isnan(dis).all()
    with drawing((9.6, 4.2 if adaptive else 1.8)) as figure:
        if not adaptive:
            above = below = figure.subplots()
        else:
            above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
            _dissimilarity(above, t, dis, err, published)
        below.bar(t, looking, width=1.0, color=QUIET, label="for the dissimilarity")
        below.bar(t, spent, bottom=looking, width=1.0, color=BARS, label="for a publication")
        _legend(figure, 5, *([above] if adaptive else []), *([below] if looking.any() else []))
        above.set_title("What was decided")
        below.set_ylabel("ε spent")
        _steps(below)
        return svg(figure, key, f"Decisions of {counted(len(steps), 'step')}.")


def _dissimilarity(above: Any, t: Any, dis: Any, err: Any, published: Any) -> None:
    above.plot(t, dis, color=RELEASED, lw=1, marker=".", ms=3, label="dissimilarity")
    above.plot(t, err, color=ORIGINAL, lw=1, marker=".", ms=3, label="error")
    there = published & ~np.isnan(dis)
    above.plot(t[there], dis[there], "o", ms=4.5, mfc="none", color=RELEASED, label="published")
    above.axhline(0, color=QUIET, lw=0.8, zorder=0)
    _clip(above, np.concatenate([dis, err]))


def _clip(axis: Any, values: Any) -> None:
    """Show most values: an error that starts 1000 times as high would flatten all others."""
    there = values[~np.isnan(values)]
    low, high = np.percentile(there, (_UNSEEN, 100 - _UNSEEN))
    room = _ROOM * max(high - min(low, 0), 1e-12)
    if there.max() <= high + _FAR * room and there.min() >= low - _FAR * room:
        return
    axis.set_ylim(max(there.min(), min(low, 0)) - room, min(there.max(), high) + room)
    cut = f"not all shown: from {there.min():.3g} to {there.max():.3g}"
    axis.annotate(cut, (1, 0.95), xycoords="axes fraction", ha="right", va="top", color=QUIET)


def _steps(axis: Any) -> None:
    axis.set_xlabel("step")
    axis.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
    axis.xaxis.get_major_locator().set_params(integer=True)


def _legend(figure: Any, columns: int, *axes: Any) -> None:
    handles: list[Any] = []
    labels: list[str] = []
    for axis in axes:
        for all_of_them, own in zip(
            (handles, labels), axis.get_legend_handles_labels(), strict=True
        ):
            all_of_them += own
    figure.legend(handles, labels, loc="outside upper left", ncols=columns)
