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
NO_CERTIFICATE = (
    "These Tasks have no certificate yet (uncertified): nothing here states how much is hidden."
)


def report_data(store: Store, displacements: Arrays | None = None) -> dict[str, Any]:
    """Everything that a report's tables say, made of dict, list, str, int, float and None.

    displacements: by pseudonym (hexadecimal), what replay.displacements gave, where
    a device's words are known. A mean displacement is E|displacement| in steps;
    "sent" counts frames that the device finished, by its own last status.
    """
    streams = store.streams()
    boots = Counter(stream.pseudonym for stream in streams)
    tasks = {stream.task_id: store.task(stream.task_id) for stream in streams}
    rows = []
    for stream in streams:
        # With several boots it is unknown which of them was measured.
        known = displacements if boots[stream.pseudonym] == 1 else None
        moved = None if known is None else known.get(stream.pseudonym)
        rows.append(_stream(stream, tasks[stream.task_id], moved))
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


def settled(moved: npt.NDArray[Any], window: int) -> npt.NDArray[Any]:
    """The displacements that the law speaks of: without the ends of the segment.

    Two windows are left out at each end, if at least as much remains.
    """
    edge = 2 * window
    return moved[edge:-edge] if len(moved) >= 4 * edge else moved


def clean(text: object) -> str:
    """Text in which no character acts on a terminal or breaks a page."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def mechanism_name(task: Task) -> str:
    return MECHANISMS[task.mechanism]


def _stream(stream: Stream, task: Task, moved: npt.NDArray[Any] | None) -> dict[str, Any]:
    law = displacement_law(task)
    measured = None
    if moved is not None and len(moved):
        measured = float(np.abs(settled(moved, task.window)).mean())
    sent = None
    if stream.count is not None:
        whole, rest = divmod(stream.count, task.batch)
        sent = whole + (rest > 0 and stream.health != RUNNING)
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
        "received": stream.received,
        "lost": stream.lost,
        "duplicates": stream.duplicates,
        "missing": stream.missing,
        "drops": stream.drops,
        "health": HEALTH.get(stream.health, f"unknown code {stream.health}"),
        "entropy": QUALITY.get(stream.quality, f"unknown code {stream.quality}"),
        "displacement_exact": None if law is None else law.mean_absolute,
        "displacement_measured": measured,
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
            f"{test} of {len(rows)} streams used TEST randomness: whoever has the words can"
            " undo the shuffling, so these streams are not protected at all."
        )
    failed = sum(row["health"] == HEALTH[ENTROPY_FAILED] for row in rows)
    if failed:
        said.append(
            f"{failed} of {len(rows)} streams stopped because their source of randomness failed"
            " its health test."
        )
    return said


def _time(at: int) -> str:
    """UTC, from ms since 1970."""
    moment = datetime.fromtimestamp(at / 1000, timezone.utc)
    return moment.isoformat(sep=" ", timespec="seconds").replace("+00:00", " UTC")
