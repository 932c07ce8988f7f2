"""Pictures of a stream and of its displacement, as inline SVG.

matplotlib is imported when the first picture is drawn, never before.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tinyldp.errors import UserError
from tinyldp.figures import counted
from tinyldp.laws import displacement_law, settled
from tinyldp.report.symbols import missing_alone, symbol_name
from tinyldp_protocol.task import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1d2733"
QUIET = "#5c6873"
GRID = "#e4e8ec"
ORIGINAL = "#d9a441"
RELEASED = "#1f5f99"
BARS = "#a9c6e3"
GAP = "#c0392b"

# Steps of the close-up, and points that a full-length line has at most.
ZOOM = 200
_POINTS = 700
# Symbols that get a tick of their own; of more, every second, third...
_TICKS = 9
# Values that get a mark of their own, and of those, a name.
_VALUES = 64
_NAMED = 12
_INTERVAL = ("frequency", "low", "high")
# Share of a law that its picture may leave out on the right.
_UNSEEN = 0.005

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tinyldp",
    "font.family": ["sans-serif"],
    "font.sans-serif": ["Helvetica", "Arial", "Liberation Sans", "DejaVu Sans", "sans-serif"],
    "font.size": 9.5,
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": "#b8c1c9",
    "axes.labelcolor": QUIET,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "legend.frameon": False,
    "path.simplify": True,
}


def mean_steps(steps: int) -> int:
    """Steps of which series_picture shows the mean, in full length; 1: it shows each."""
    return max(1, -(-steps // _POINTS))


def series_picture(
    key: str,
    task: Task,
    symbols: npt.NDArray[Any],
    present: npt.NDArray[np.bool_],
    original: npt.NDArray[Any] | None,
) -> str:
    """The released series over the original one, in full length and close up.

    key: prefix of every id in the SVG. symbols, present: as Store.values gives
    them. original: symbols as they came in, or None. task: theirs; with bins, the
    axis names what its symbols stand for.
    """
    steps = len(symbols)
    close = steps > 1.5 * ZOOM
    alone = missing_alone(task)
    with drawing((9.6, 5.2 if close else 2.7)) as figure:
        axes = figure.subplots(2 if close else 1, 1, squeeze=False)[:, 0]
        _overview(axes[0], symbols, present, original, alone)
        if close:
            start = _busiest(symbols if original is None else original, present)
            axes[0].axvspan(start, start + ZOOM, color="#eef2f5", zorder=0)
            _steps(axes[1], symbols, present, original, start, min(steps, start + ZOOM))
            axes[1].set_title(f"Steps {start:,} to {start + ZOOM - 1:,}, one by one")
            axes[1].set_xlabel("step")
        else:
            axes[0].set_xlabel("step")
        for axis in axes:
            axis.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
            axis.locator_params(axis="both", integer=True)
            if task.bins is not None:
                name_symbols(axis, task)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=3)
        shown = "Released series" + ("" if original is None else " over the original one")
        return svg(figure, key, f"{shown}: {counted(steps, 'step')}.")


def law_picture(key: str, task: Task, moved: npt.NDArray[Any] | None) -> str:
    """The exact law of the displacement as bars, what was measured as dots.

    moved: (n,) displacements in steps, or None.
    """
    law = displacement_law(task)
    first = 1 - task.window
    last = task.window - 1
    if law is not None:
        covered = np.cumsum(law.probabilities)
        last = int(law.offsets[min(np.searchsorted(covered, 1 - _UNSEEN), len(covered) - 1)])
        last = max(last, 1)
    offsets = np.arange(first, last + 1)
    notes = []
    with drawing((9.6, 2.7)) as figure:
        from matplotlib.ticker import MaxNLocator

        axis = figure.subplots()
        if law is not None:
            bars = law.probabilities[: len(offsets)]
            axis.bar(offsets[: len(bars)], bars, width=0.82, color=BARS, label="exact law")
            axis.axvline(0, color=GRID, zorder=0)
            beyond = 1 - float(bars.sum())
            if beyond > 1e-6:
                notes.append(f"later than {counted(last, 'step')}: {100 * beyond:.2f} % by the law")
        inner = None if moved is None else settled(moved, task.window)
        if inner is not None:
            seen = inner[(inner >= first) & (inner <= last)]
            share = np.bincount(seen - first, minlength=len(offsets)) / len(inner)
            axis.plot(offsets, share, "o", ms=4, color=RELEASED, label="measured")
            if notes:
                notes.append(f"{100 * (1 - len(seen) / len(inner)):.2f} % measured")
        axis.set_title("How far values were moved")
        axis.set_xlabel("displacement in steps (left: released early, right: late)")
        axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set_ylim(bottom=0)
        axis.set_xlim(first - 0.8, last + 0.8)
        axis.margins(y=0.1)
        handles, labels = axis.get_legend_handles_labels()
        figure.legend(handles[::-1], labels[::-1], loc="outside upper left", ncols=2)
        if notes:
            axis.annotate(
                ", ".join(notes),
                (1, 0.9),
                xycoords="axes fraction",
                ha="right",
                color=QUIET,
                fontsize=8.5,
            )
        shown = f"Distribution of the displacement, from {first} to {last} steps."
        return svg(figure, key, shown)


def frequency_picture(key: str, task: Task, table: dict[str, Any]) -> str:
    """The frequencies with their intervals; table: one of estimates.frequency_tables."""
    rows = sorted(table["values"], key=lambda row: -row["frequency"])[:_VALUES]
    rows.sort(key=lambda row: row["value"])
    places = np.arange(len(rows))
    raw, low, high = (np.array([row[name] for row in rows]) for name in _INTERVAL)
    with drawing((9.6, 3.0)) as figure:
        axis = figure.subplots()
        # The raw estimate may lie outside 0..1, where no share does.
        axis.vlines(places, low, high, color=BARS, lw=5, label="interval")
        axis.plot(places, raw, "o", ms=4, color=RELEASED, label="estimate, raw")
        if table["postprocessing"] is not None:
            after = [row["postprocessed"] for row in rows]
            label = f"after {table['postprocessing']}"
            axis.plot(places + 0.25, after, "x", ms=5, color=ORIGINAL, label=label)
        axis.axhline(0, color=QUIET, lw=0.8, zorder=0)
        every = -(-len(rows) // _NAMED)
        names = [_value_name(task, row["value"]) for row in rows]
        axis.set_xticks(places[::every], names[::every])
        axis.set_xlim(-0.8, len(rows) - 0.2)
        axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
        shown = "" if len(rows) == len(table["values"]) else f" of the {len(rows)} most frequent"
        axis.set_title(f"Shares{shown}" if shown else "Shares of the values")
        handles, labels = axis.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=3)
        return svg(figure, key, f"Estimated shares of {len(rows)} values with their intervals.")


def over_time_picture(key: str, task: Task, table: dict[str, Any]) -> str:
    """The followed values' frequencies over the steps, each in the band of its intervals."""
    pieces = [piece for piece in table["over_time"]["pieces"] if piece["reports"]]
    middle = np.array([(piece["first"] + piece["last"]) / 2 for piece in pieces])
    with drawing((9.6, 3.2)) as figure:
        import matplotlib

        axis = figure.subplots()
        colors = matplotlib.colormaps["tab10"]
        for i, value in enumerate(table["over_time"]["followed"]):
            lines = ("frequencies", "low", "high")
            raw, low, high = (np.array([piece[name][i] for piece in pieces]) for name in lines)
            color = colors(i)
            axis.fill_between(middle, low, high, color=color, alpha=0.12, lw=0)
            label = _value_name(task, value)
            axis.plot(
                middle, raw, "-" if len(pieces) > 1 else "o", color=color, lw=1.2, label=label
            )
        axis.axhline(0, color=QUIET, lw=0.8, zorder=0)
        axis.set_title("Shares over time")
        axis.set_xlabel("step")
        axis.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
        axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
        handles, labels = axis.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=4)
        return svg(figure, key, f"Estimated shares over time, in {counted(len(pieces), 'piece')}.")


def curve_picture(key: str, task: Task, table: dict[str, Any]) -> str:
    """The mean curve in the band of its intervals, and the released means."""
    released = np.array([np.nan if x is None else x for x in table["released"]])
    size = mean_steps(len(released))
    starts = np.arange(0, len(released), size)
    known = ~np.isnan(released)
    total = np.add.reduceat(np.where(known, released, 0), starts)
    number = np.add.reduceat(known.astype(float), starts)
    with drawing((9.6, 3.2)) as figure:
        axis = figure.subplots()
        with np.errstate(invalid="ignore"):
            means = total / np.where(number > 0, number, np.nan)
        axis.plot(starts + (size - 1) / 2, means, color=BARS, lw=1, label="released mean")
        axis.fill_between(
            table["steps"], table["low"], table["high"], color=RELEASED, alpha=0.2, lw=0,
            label="interval",
        )  # fmt: skip
        axis.plot(table["steps"], table["means"], color=RELEASED, lw=1.4, label="estimated mean")
        axis.set_title(f"Mean over {counted(table['devices'], 'device')} of what came in")
        if task.bins is not None:
            name_symbols(axis, task)
        axis.set_xlabel("step")
        axis.set_ylabel("mean value")
        axis.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
        handles, labels = axis.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=3)
        return svg(figure, key, f"Estimated mean curve over {counted(len(released), 'step')}.")


def _value_name(task: Task, value: int) -> str:
    return f"{value:,}" if task.bins is None else symbol_name(task, value)


def _overview(
    axis: Axes,
    symbols: npt.NDArray[Any],
    present: npt.NDArray[np.bool_],
    original: npt.NDArray[Any] | None,
    alone: int | None,
) -> None:
    """alone: the symbol of missing readings, when it is no value's: no mean contains it."""
    steps = len(symbols)
    size = mean_steps(steps)
    if size == 1:
        _steps(axis, symbols, present, original, 0, steps)
    else:
        if original is not None:
            axis.fill_between(
                *_means(original, original != alone, size), color=ORIGINAL, alpha=0.55, lw=0,
                label="original",
            )  # fmt: skip
        values = present & (symbols != alone)
        axis.plot(*_means(symbols, values, size), color=RELEASED, lw=1, label="released")
        axis.set_ylabel("mean value")
        axis.set_xlim(0, max(steps, 1))
        axis.set_ylim(bottom=0)
    if not present.all():
        gone = np.unique(np.flatnonzero(~present) // size) * size
        axis.plot(
            gone, np.zeros(len(gone)), "|", color=GAP, ms=9, mew=1.4, clip_on=False,
            label="lost or missing",
        )  # fmt: skip
    title = f"All {counted(steps, 'step')}"
    axis.set_title(title if size == 1 else f"{title}, means of {size}")


def _means(
    symbols: npt.NDArray[Any], present: npt.NDArray[np.bool_], size: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Middle step and mean of each run of `size` symbols; NaN where none is present."""
    starts = np.arange(0, len(symbols), size)
    total = np.add.reduceat(np.where(present, symbols, 0).astype(float), starts)
    number = np.add.reduceat(present.astype(float), starts)
    with np.errstate(invalid="ignore"):
        return starts + size / 2, total / np.where(number > 0, number, np.nan)


def _steps(
    axis: Axes,
    symbols: npt.NDArray[Any],
    present: npt.NDArray[np.bool_],
    original: npt.NDArray[Any] | None,
    start: int,
    end: int,
) -> None:
    edges = np.arange(start, end + 1)
    if original is not None:
        part = original[start:end].astype(float)
        part = np.append(part, np.full(end - start - len(part), np.nan))
        axis.stairs(part, edges, fill=True, color=ORIGINAL, alpha=0.55, lw=0, label="original")
    part = np.where(present[start:end], symbols[start:end].astype(float), np.nan)
    axis.stairs(part, edges, color=RELEASED, lw=1.2, label="released", baseline=None)
    axis.set_ylabel("value")
    axis.set_xlim(start, max(end, start + 1))
    axis.set_ylim(bottom=0)


def name_symbols(axis: Axes, task: Task) -> None:
    """Ticks at symbols, up to the highest one in sight, with what they stand for."""
    highest = min(int(axis.get_ylim()[1]), task.symbols - 1)
    ticks = list(range(0, highest + 1, -(-(highest + 1) // _TICKS)))
    alone = missing_alone(task)
    if alone is not None and alone == highest and alone not in ticks:
        # In place of a close neighbour, for which there is no room.
        ticks = [tick for tick in ticks if tick < alone - 1] + [alone]
    axis.set_yticks(ticks, [symbol_name(task, tick) for tick in ticks])


def _busiest(symbols: npt.NDArray[Any], present: npt.NDArray[np.bool_]) -> int:
    """Start of the close-up: where the series changes most among what is present."""
    n = min(len(symbols), len(present))
    if n <= ZOOM:
        return 0
    change = np.abs(np.diff(symbols[:n].astype(float))) - 1e3 * ~present[1:n]
    total = np.concatenate([[0.0], np.cumsum(change)])
    return int(np.argmax(total[ZOOM - 1 :] - total[: -(ZOOM - 1)]))


@contextmanager
def drawing(size: tuple[float, float]) -> Iterator[Figure]:
    """A figure of this size in inches, drawn in the report's style."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("The pictures need matplotlib: run `pip install matplotlib`.") from None
    with matplotlib.rc_context(_STYLE):
        yield Figure(figsize=size, layout="constrained")


def svg(figure: Figure, key: str, description: str) -> str:
    """The figure as an SVG element whose ids begin with key."""
    out = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(out, format="svg", metadata=nothing)
    text = out.getvalue()
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{key}-', text)
    text = re.sub(r"url\(#", f"url(#{key}-", text)
    text = re.sub(r'href="#', f'href="#{key}-', text)
    head, body = text.split(">", 1)
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)
    title = f'<title id="{key}-title">{escape(description)}</title>'
    return f'{head} role="img" aria-labelledby="{key}-title">{title}{body}'
