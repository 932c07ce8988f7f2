"""The numbers of a report, ready for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tinyldp.laws import displacement_law, why_no_law
from tinyldp_protocol.messages import (
    COUNTER_END,
    ENDED,
    ENTROPY_FAILED,
    HARDWARE,
    OS,
    RUNNING,
    TEST,
)
from tinyldp_protocol.task import RANSWITCH, SCALE, STASWITCH, Task

if TYPE_CHECKING:
    from tinyldp.collect.records import Stream
    from tinyldp.collect.store import Store

Arrays = Mapping[str, npt.NDArray[Any]]

MECHANISMS = {RANSWITCH: "RanSwitch", STASWITCH: "StaSwitch"}
HEALTH = {
    None: "unknown",
    RUNNING: "running",
    ENDED: "ended",
    COUNTER_END: "counter end",
    ENTROPY_FAILED: "entropy failed",
}
QUALITY = {TEST: "test", OS: "OS", HARDWARE: "hardware"}
UNCERTIFIED = "uncertified"
PROTECTION = (
    "Each device released all of its values, in a locally shuffled order. That hides when a"
    " value occurred, within some steps. It does not hide which values occurred, nor how often:"
    " whoever receives a stream may know both."
)
# Windows of which a stream must have so many for its displacements to be measured: the law
# does not hold near the ends, of which two windows each are left out.
MEASURABLE = 8
_ENDS = 2
NO_CERTIFICATE = (
    "These Tasks have no certificate yet (uncertified): nothing here states how much is hidden."
)


def report_data(
    store: Store,
    displacements: Arrays | None = None,
    names: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Everything that a report's tables say, made of dict, list, str, int, float and None.

    displacements: by pseudonym (hexadecimal), what replay.displacements gave, where
    a device's random words are known. names: by pseudonym, what people call the
    devices; streams then come in the order of the names, and have a "name".
    A mean displacement is E|displacement| in steps, and None when the stream is
    too short to measure it. "sent" counts frames that the device made, by its own
    last status; until it has ended ("sent_so_far"), at least those known here.
    """
    streams = store.streams()
    if names is not None:
        places = {pseudonym: place for place, pseudonym in enumerate(names)}
        streams.sort(key=lambda stream: places.get(stream.pseudonym, len(places)))
    boots = Counter(stream.pseudonym for stream in streams)
    tasks = {stream.task_id: store.task(stream.task_id) for stream in streams}
    rows = []
    for stream in streams:
        # With several boots it is unknown which of them was measured.
        known = displacements if boots[stream.pseudonym] == 1 else None
        moved = None if known is None else known.get(stream.pseudonym)
        row = _stream(stream, tasks[stream.task_id], moved)
        if names is not None:
            name = names.get(stream.pseudonym)
            row["name"] = None if name is None else clean(name)
        rows.append(row)
    return {
        "protection": PROTECTION,
        "certificate": NO_CERTIFICATE,
        "warnings": _warnings(rows),
        "streams": rows,
        "tasks": [_task(task_id, task) for task_id, task in tasks.items()],
        "alarms": [
            {"name": clean(a["name"]), "detail": clean(a["detail"]), "at": _time(a["at"])}
            for a in store.alarms()
        ],
        "rejections": [
            {"link": clean(link), "name": clean(name), "count": int(count)}
            for (link, name), count in sorted(store.rejections().items())
        ],
    }


def settled(moved: npt.NDArray[Any], window: int) -> npt.NDArray[Any] | None:
    """The displacements that the law speaks of: (n,) without the ends of the segment.

    None when the segment is shorter than MEASURABLE windows.
    """
    edge = _ENDS * window
    return moved[edge:-edge] if len(moved) >= MEASURABLE * window else None


def clean(text: object) -> str:
    """Text in which no character acts on a terminal or breaks a page."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def counted(n: int, noun: str) -> str:
    """The number with its noun, in the plural if need be."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def mechanism_name(task: Task) -> str:
    return MECHANISMS[task.mechanism]


def _stream(stream: Stream, task: Task, moved: npt.NDArray[Any] | None) -> dict[str, Any]:
    law = displacement_law(task)
    inner = None if moved is None else settled(moved, task.window)
    so_far = False
    if stream.count is None or stream.health == RUNNING:
        # The last status may be older than the last frame.
        so_far = True
        sent = stream.received + stream.lost + stream.missing
    else:
        sent = -(-stream.count // task.batch)
    return {
        "boot": stream.boot,
        "device": clean(stream.pseudonym),
        "nonce": clean(stream.nonce),
        "link": clean(stream.link),
        "software": clean(stream.software),
        "task": clean(stream.task_id),
        "certificate": UNCERTIFIED,
        "mechanism": mechanism_name(task),
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
    threshold = task.thresholds[0]
    return {
        "task": clean(task_id),
        "certificate": UNCERTIFIED,
        "mechanism": mechanism_name(task),
        "k": task.k,
        "window": task.window,
        "threshold": threshold,
        "q": threshold / SCALE,
        "p": (SCALE - (task.window - 1) * threshold) / SCALE,
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


def _time(at: int) -> str:
    """UTC, from ms since 1970."""
    moment = datetime.fromtimestamp(at / 1000, timezone.utc)
    return moment.isoformat(sep=" ", timespec="seconds").replace("+00:00", " UTC")
