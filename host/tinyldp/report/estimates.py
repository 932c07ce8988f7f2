"""What the collected reports say about the people: frequencies, and mean curves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tinyldp.errors import UserError
from tinyldp.estimate import check_reports, frequencies, support_chances, supports
from tinyldp.estimate.curves import mean_curve
from tinyldp.estimate.frequency import Estimate
from tinyldp.estimate.postprocess import check_name
from tinyldp.estimate.postprocess import postprocess as process
from tinyldp.report.symbols import clean, missing_alone, symbol_name
from tinyldp.study import ORACLES, STREAMS, TITLES
from tinyldp_protocol.messages import ENDED, RUNNING
from tinyldp_protocol.task import Task

if TYPE_CHECKING:
    from tinyldp.collect.records import Stream
    from tinyldp.collect.store import Store

# Values that are followed over time: all, or of many the most frequent ones.
FOLLOWED = 8
# Pieces of time, of equally many steps.
PIECES = 40


def frequency_tables(
    store: Store,
    streams: Sequence[Stream],
    tasks: Mapping[str, Task],
    postprocess: str | None,
    confidence: float,
) -> list[dict[str, Any]]:
    """For each oracle's Task the frequencies of all its reports, and over time.

    All reports that came count once, whichever device and step they are from: a device
    that sent twice as many weighs twice as much. Time is the step of a device's segment
    (one boot), from 0. "values": one entry for each value: "value" (the symbol), "name"
    (what it stands for, or None), "support", "frequency" (raw), "variance", "low",
    "high", and "postprocessed" or None. "over_time": "followed" (values: all, or of
    more than FOLLOWED the most frequent by the estimate), and "pieces" with "first",
    "last" (step), "reports" and, for those values, "frequencies", "variances", "low",
    "high" (None where no report came). "problem": why there is no estimate, or None;
    "left_out": sentences about streams that claim the impossible.
    """
    if postprocess is not None:
        check_name(postprocess)
    tables = []
    for task_id, task in tasks.items():
        if task.mechanism not in ORACLES:
            continue
        mine = [stream for stream in streams if stream.task_id == task_id]
        pieces, senders, left_out = _gathered(store, mine, task)
        p, q = support_chances(task)
        table: dict[str, Any] = {
            "task": clean(task_id),
            "mechanism": TITLES[task.mechanism],
            "reports": sum(n for _, _, _, n in pieces),
            "devices": len(senders),
            "p": float(p),
            "q": float(q),
            "confidence": confidence,
            "postprocessing": postprocess,
            "values": [],
            "over_time": {"followed": [], "pieces": []},
            "left_out": left_out,
            "problem": None,
        }
        tables.append(table)
        total = sum((counts for _, _, counts, _ in pieces), np.zeros(task.symbols, np.int64))
        try:
            whole = frequencies(task, total, table["reports"], confidence)
        except UserError as error:
            table["problem"] = str(error)
            continue
        table["values"] = _values(task, total, whole, postprocess)
        followed = np.sort(np.argsort(-whole.frequencies, kind="stable")[:FOLLOWED])
        table["over_time"] = {
            "followed": followed.tolist(),
            "pieces": [_piece(task, piece, followed, confidence) for piece in pieces],
        }
    return tables


Piece = tuple[int, int, npt.NDArray[np.int64], int]


def _gathered(
    store: Store, streams: Sequence[Stream], task: Task
) -> tuple[list[Piece], set[str], list[str]]:
    """((first step, last step, support counts, reports) of each piece, senders, left out)."""
    kept = []
    senders = set()
    left_out = []
    for stream in streams:
        try:
            reports, present = store.values(stream.boot)
            # Whoever sends what no device can send is left out as a whole.
            check_reports(task, reports[present])
        except UserError as error:
            left_out.append(f"Boot {clean(stream.nonce)}: {clean(error)}")
            continue
        if present.any():
            kept.append((reports, present))
            senders.add(stream.pseudonym)
    steps = max((len(present) for _, present in kept), default=0)
    size = max(1, -(-steps // PIECES))
    pieces = []
    for first in range(0, steps, size):
        part = slice(first, first + size)
        together = np.concatenate([reports[part][present[part]] for reports, present in kept])
        last = min(steps, first + size) - 1
        pieces.append((first, last, supports(task, together), len(together)))
    return pieces, senders, left_out


def _values(
    task: Task, counts: npt.NDArray[np.int64], estimate: Estimate, postprocess: str | None
) -> list[dict[str, Any]]:
    after: list[float | None] = [None] * task.symbols
    if postprocess is not None:
        after = list(process(postprocess, estimate.frequencies).tolist())
    columns = zip(
        range(task.symbols),
        counts.tolist(),
        estimate.frequencies.tolist(),
        estimate.variances.tolist(),
        estimate.low.tolist(),
        estimate.high.tolist(),
        after,
        strict=True,
    )
    return [
        {
            "value": value,
            "name": None if task.bins is None else symbol_name(task, value),
            "support": support,
            "frequency": frequency,
            "variance": variance,
            "low": low,
            "high": high,
            "postprocessed": post,
        }
        for value, support, frequency, variance, low, high, post in columns
    ]


def _piece(
    task: Task, piece: Piece, followed: npt.NDArray[np.int64], confidence: float
) -> dict[str, Any]:
    first, last, counts, reports = piece
    row: dict[str, Any] = {"first": first, "last": last, "reports": reports}
    columns = ("frequencies", "variances", "low", "high")
    if not reports:
        return row | dict.fromkeys(columns)
    estimate = frequencies(task, counts, reports, confidence)
    return row | {name: getattr(estimate, name)[followed].tolist() for name in columns}


def mean_curves(
    store: Store,
    streams: Sequence[Stream],
    tasks: Mapping[str, Task],
    every: int,
    confidence: float,
) -> list[dict[str, Any]]:
    """For each stream mechanism's Task the mean over devices of what came in, by step.

    every: steps between the curve's knots; 1: raw; 0: as few as keep its noise down
    (curves.mean_curve). Values are symbols; readings with a missing symbol of their own
    are in no mean. Where all segments ended with equally many values, the flush is
    used; else what was released before it. "steps", "means", "variances", "low",
    "high": one entry for each knot. "released": the released means, None where no
    device has one. "problem": why there is no curve, or None.
    """
    tables = []
    for task_id, task in tasks.items():
        if task.mechanism not in STREAMS:
            continue
        table: dict[str, Any] = {
            "task": clean(task_id),
            "mechanism": TITLES[task.mechanism],
            "segments": 0,
            "devices": 0,
            "every": None,
            "noise": None,
            "confidence": confidence,
            **{name: [] for name in ("steps", "means", "variances", "low", "high", "released")},
            "problem": None,
        }
        tables.append(table)
        mine = [stream for stream in streams if stream.task_id == task_id]
        try:
            symbols, present, whose, ended = _segments(store, mine, task)
            curve = mean_curve(
                task,
                symbols,
                present,
                ended=ended,
                every=every or None,
                excluded=missing_alone(task),
                devices=whose,
                confidence=confidence,
            )
        except UserError as error:
            table["problem"] = clean(error)
            continue
        table |= {"segments": len(symbols), "devices": curve.devices}
        table |= {"every": curve.every, "noise": curve.noise}
        for name in ("steps", "means", "variances", "low", "high"):
            table[name] = getattr(curve, name).tolist()
        table["released"] = [None if np.isnan(x) else x for x in curve.released.tolist()]
    return tables


def _segments(
    store: Store, streams: Sequence[Stream], task: Task
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_], npt.NDArray[Any], bool]:
    """(symbols, which are present, whose they are, whether flushes are among them)."""
    kept = []
    for stream in streams:
        try:
            symbols, present = store.values(stream.boot)
        except UserError:
            # It claims the impossible; its own row says so.
            continue
        if present.any():
            kept.append((stream, symbols, present))
    lengths = Counter(len(symbols) for _, symbols, _ in kept)
    ended = len(lengths) == 1 and all(stream.health == ENDED for stream, _, _ in kept)
    ended = ended and min(lengths) >= 2 * task.window
    cut = []
    for stream, symbols, present in kept:
        flushed = 0 if ended or stream.health in (None, RUNNING) else task.window - 1
        length = max(0, len(symbols) - flushed)
        if present[:length].any():
            cut.append((stream.pseudonym, symbols[:length], present[:length]))
    if not cut:
        raise UserError("Too little has arrived for a mean curve.")
    longest = max(len(symbols) for _, symbols, _ in cut)
    together = np.zeros((len(cut), longest), np.int64)
    here = np.zeros((len(cut), longest), np.bool_)
    for row, (_, symbols, present) in enumerate(cut):
        together[row, : len(symbols)] = symbols
        here[row, : len(symbols)] = present
    return together, here, np.array([pseudonym for pseudonym, _, _ in cut]), ended
