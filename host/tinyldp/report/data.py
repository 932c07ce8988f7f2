"""The numbers of a report, ready for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tinyldp.errors import UserError
from tinyldp.estimate.frequency import CONFIDENCE
from tinyldp.estimate.heavy import Told
from tinyldp.figures import counted
from tinyldp.laws import displacement_law, settled, why_no_law
from tinyldp.report.crr import crr_tables
from tinyldp.report.epochs import epoch_tables
from tinyldp.report.estimates import frequency_tables, mean_curves
from tinyldp.report.rounds import rounds_tables, rounds_title
from tinyldp.report.symbols import clean, moment
from tinyldp.study import CRRS, ORACLES, STREAMS, TITLES
from tinyldp_protocol.messages import (
    COUNTER_END,
    ENDED,
    ENTROPY_FAILED,
    HARDWARE,
    OS,
    RUNNING,
    TEST,
)
from tinyldp_protocol.task import JITTERSORT, SCALE, Task

if TYPE_CHECKING:
    from tinyldp.collect.records import Stream
    from tinyldp.collect.store import Store

Arrays = Mapping[str, npt.NDArray[Any]]
HEALTH = {
    None: "unknown",
    RUNNING: "running",
    ENDED: "ended",
    COUNTER_END: "counter end",
    ENTROPY_FAILED: "entropy failed",
}
QUALITY = {TEST: "test", OS: "OS", HARDWARE: "hardware"}
UNCERTIFIED = "uncertified"
SHUFFLED = (
    "Each device released all of its values, in a locally shuffled order. That hides when a"
    " value occurred, within some steps. It does not hide which values occurred, nor how often:"
    " whoever receives a stream may know both."
)
RANDOMIZED = (
    "Each report was randomized on its device before it was sent. One report says little about"
    " a value, and each further report of the same device says a little more."
)
PREDICTED = (
    "Each device released a symbol for every value, drawn on the device so that, to someone who"
    " knows how values follow each other as its Task has it, no value became likelier or less"
    " likely than by the certified amount; to anyone else by twice that at most. What many steps"
    " tell adds up."
)
ANSWERED = (
    "Each answer was randomized on its device before it was sent. In any w of its own steps a"
    " device spends no more than its Task allows, whatever it is asked, and refuses the rest;"
    " over longer times what its answers say adds up without end."
)
FOR_LIFE = (
    "Each answer was randomized on its device before it was sent, and all have one form. In all"
    " its life under its Task a device says something of its data in a fixed number of them"
    " at most, whatever it is asked; the others are noise."
)
UNHEARD = "No device was heard yet, and nothing was released."
_ONCE = "What is so once one is heard:"
_KINDS = (SHUFFLED, RANDOMIZED, PREDICTED, ANSWERED, FOR_LIFE)
CERTIFIED = "Each Task has a certificate, which states exactly what its devices give away at most."
NO_CERTIFICATE = (
    "Tasks marked “uncertified” have no certificate: nothing here states how much they hide."
)


def report_data(
    store: Store,
    displacements: Arrays | None = None,
    names: Mapping[str, str] | None = None,
    *,
    postprocess: str | None = None,
    curve: int | None = None,
    confidence: float = CONFIDENCE,
    progress: Told | None = None,
) -> dict[str, Any]:
    """Everything that a report's tables say, made of dict, list, str, int, float and None.

    displacements: by pseudonym (hexadecimal), what replay.displacements gave, where
    a device's random words are known. names: by pseudonym, what people call the
    devices; streams then come in the order of the names, and have a "name".
    A mean displacement is E|displacement| in steps, and None when the stream is
    too short to measure it. "sent" counts frames that the device made, by its own
    last status; until it has ended ("sent_so_far"), at least those known here.

    Where a Task was collected without a certificate, every table says "uncertified".
    Frequencies are estimated for each oracle's Task (estimates.frequency_tables): raw,
    and beside that as `postprocess` makes them, if it is named ("norm-sub", "simplex").
    curve: for each stream mechanism's Task, estimate the mean curve with knots that many
    steps apart, 0 for the least distance that keeps its noise down (estimates.mean_curves);
    None: do not. confidence: of all intervals. "crr": for each Task of CRR shares over time and
    what was told (crr.crr_tables). "rounds": for each Task with a method what
    its rounds came to (rounds.rounds_tables); "epochs": the same of Thresh and HeavyThresh
    (epochs.epoch_tables). Of the devices of both, whose "rounds" is true, "sent", "received"
    and "duplicates" count answers, and none is lost or missing.
    progress: told of the items of a dictionary that were looked at, which takes long.
    Raises UserError for an unknown name of a post-processing, and for a post-processing or a
    curve where no Task has what it is made of.
    """
    streams = store.streams()
    if names is not None:
        places = {pseudonym: place for place, pseudonym in enumerate(names)}
        streams.sort(key=lambda stream: places.get(stream.pseudonym, len(places)))
    boots = Counter(stream.pseudonym for stream in streams)
    tasks = {stream.task_id: store.task(stream.task_id) for stream in streams}
    # While nobody was heard, it is about the Tasks that somebody waits for.
    meant = tasks or {task_id: store.task(task_id) for task_id in store.task_ids()}
    _refuse_idle(meant.values(), postprocess, curve)
    said = {task_id: certificate_said(store.certificate(task_id)) for task_id in meant}
    rows = []
    for stream in streams:
        # With several boots it is unknown which of them was measured.
        known = displacements if boots[stream.pseudonym] == 1 else None
        moved = None if known is None else known.get(stream.pseudonym)
        row = _stream(stream, tasks[stream.task_id], moved)
        row["certificate"] = said[stream.task_id]
        if names is not None:
            name = names.get(stream.pseudonym)
            row["name"] = None if name is None else clean(name)
        rows.append(row)
    # What follows is about frames, or about rounds: no Task has both.
    framed = {task_id: task for task_id, task in tasks.items() if task.batch is not None}
    uncertified = not said or UNCERTIFIED in said.values()
    return {
        "protection": _protection(meant.values(), bool(streams)),
        "certificate": NO_CERTIFICATE if uncertified else CERTIFIED,
        "uncertified": uncertified,
        "warnings": _warnings(rows),
        "estimates": [
            {**table, "certificate": said[table["task"]]}
            for table in frequency_tables(store, streams, framed, postprocess, confidence)
        ],
        "curves": []
        if curve is None
        else [
            {**table, "certificate": said[table["task"]]}
            for table in mean_curves(store, streams, framed, curve, confidence)
        ],
        "crr": [
            {**table, "certificate": said[table["task"]]}
            for table in crr_tables(store, streams, framed, confidence)
        ],
        "rounds": [
            {**table, "certificate": said[table["task"]]}
            for table in rounds_tables(store, tasks, confidence)
        ],
        "epochs": [
            {**table, "certificate": said[table["task"]]}
            for table in epoch_tables(store, tasks, progress)
        ],
        "streams": rows,
        "tasks": [
            {**_task(task_id, task), "certificate": said[task_id]}
            for task_id, task in tasks.items()
        ],
        "alarms": [
            {"name": clean(a["name"]), "detail": clean(a["detail"]), "at": moment(a["at"])}
            for a in store.alarms()
        ],
        "rejections": [
            {"link": clean(link), "name": clean(name), "count": int(count)}
            for (link, name), count in sorted(store.rejections().items())
        ],
    }


def _refuse_idle(tasks: Iterable[Task], postprocess: str | None, curve: int | None) -> None:
    """Raise UserError for what would change nothing."""
    framed = [task for task in tasks if task.batch is not None]
    if curve is not None and not any(map(is_stream, framed)):
        raise UserError("A curve (--curve) is of shuffled streams, and none was collected here.")
    if postprocess is not None and not any(task.mechanism in ORACLES for task in framed):
        raise UserError(
            "A post-processing (--postprocess) is of frequencies of GRR, OUE or OLH, and no Task"
            " here releases their reports as a stream."
        )


def certificate_said(certificate: Mapping[str, Any] | None) -> str:
    """What a certificate states, in a few characters; that there is none, otherwise."""
    epsilon, delta = ((certificate or {}).get(name) for name in ("epsilon", "delta"))
    if not isinstance(epsilon, int | float) or not isinstance(delta, int | float):
        # There is none, or a store from elsewhere holds something else in its place.
        return UNCERTIFIED
    return f"ε {_rounded_up(epsilon)}" + (f", δ {_rounded_up(delta)}" if delta else "")


def _rounded_up(x: float) -> str:
    return f"{Context(prec=4, rounding=ROUND_CEILING).plus(Decimal(x)):g}"


def mechanism_name(task: Task) -> str:
    return TITLES[task.mechanism] if task.method is None else rounds_title(task)


def is_stream(task: Task) -> bool:
    """Whether it releases the values themselves, in another order."""
    return task.mechanism in STREAMS


def is_drawn(task: Task) -> bool:
    """Whether its releases are series of values: in another order, or with noise."""
    return is_stream(task) or task.mechanism in CRRS


def _protection(tasks: Iterable[Task], heard: bool) -> str:
    kinds = {_kind(task) for task in tasks}
    said = [kind for kind in _KINDS if kind in kinds]
    if not heard:
        said = [UNHEARD, _ONCE, *said] if said else [UNHEARD]
    return " ".join(said)


def _kind(task: Task) -> str:
    if is_stream(task):
        return SHUFFLED
    if task.mechanism in CRRS:
        return PREDICTED
    if task.epochs is not None:
        return FOR_LIFE
    return RANDOMIZED if task.method is None else ANSWERED


def _stream(stream: Stream, task: Task, moved: npt.NDArray[Any] | None) -> dict[str, Any]:
    law = displacement_law(task)
    inner = None if moved is None else settled(moved, task.window)
    so_far = False
    if stream.count is None or stream.health == RUNNING:
        # The last status may be older than the last frame.
        so_far = True
        sent = stream.received + stream.lost + stream.missing
        if task.batch is None:
            # Of answers those that did not count have no number.
            sent = max(sent, stream.count or 0)
    elif task.batch is None:
        sent = stream.count
    else:
        sent = -(-stream.count // task.batch)
    return {
        "boot": stream.boot,
        "device": clean(stream.pseudonym),
        "nonce": clean(stream.nonce),
        "link": clean(stream.link),
        "software": clean(stream.software),
        "task": clean(stream.task_id),
        "mechanism": mechanism_name(task),
        "rounds": task.batch is None,
        "k": task.k,
        "window": task.window,
        "values": stream.count,
        "sent": sent,
        "sent_so_far": so_far,
        "received": stream.received,
        "lost": stream.lost,
        "duplicates": stream.duplicates,
        "missing": stream.missing,
        "drops": stream.drops,
        "health": HEALTH.get(stream.health, f"unknown code {stream.health}"),
        "entropy": QUALITY.get(stream.quality, f"unknown code {stream.quality}"),
        "displacement_exact": None if law is None else law.mean_absolute,
        "displacement_measured": None if inner is None else float(np.abs(inner).mean()),
        "too_short": moved is not None and inner is None,
        "displacement_law": why_no_law(task) if law is None else law.method,
    }


def _task(task_id: str, task: Task) -> dict[str, Any]:
    # Of one switch distance, and of none; the other mechanisms have other chances.
    chance = task.thresholds[0] if task.mechanism < JITTERSORT else None
    return {
        "task": clean(task_id),
        "mechanism": mechanism_name(task),
        "k": task.k,
        "window": task.window,
        "thresholds": list(task.thresholds),
        "buckets": task.buckets,
        "w": task.w,
        "epochs": task.epochs,
        "rounds": task.rounds,
        "q": None if chance is None else chance / SCALE,
        "p": None if chance is None else (SCALE - (task.window - 1) * chance) / SCALE,
        "symbols": task.symbols,
        "bins": task.bins,
        "missing": task.missing,
        "tick_ms": task.tick,
        "batch": task.batch,
    }


def _warnings(rows: list[dict[str, Any]]) -> list[str]:
    said = []
    test = sum(row["entropy"] == QUALITY[TEST] for row in rows)
    if test:
        said.append(
            f"{test} of {counted(len(rows), 'stream')} used TEST randomness: whoever has the"
            " random words can undo the shuffling, which then protects nothing at all."
        )
    failed = sum(row["health"] == HEALTH[ENTROPY_FAILED] for row in rows)
    if failed:
        said.append(
            f"{failed} of {counted(len(rows), 'stream')} stopped because a source of randomness"
            " failed its health test."
        )
    return said
