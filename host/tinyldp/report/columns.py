"""Which columns the tables have, on the page as in the terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinyldp.report.data import HEALTH, QUALITY
from tinyldp_protocol.messages import ENDED, RUNNING, TEST

Row = dict[str, Any]
_FINE = (HEALTH[None], HEALTH[RUNNING], HEALTH[ENDED])
_NONE = "–"  # noqa: RUF001


def _plain(value: Any) -> str:
    if value is None:
        return _NONE
    if isinstance(value, float):
        return f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _never(value: Any) -> bool:
    return False


@dataclass(frozen=True)
class Column:
    """A column: `key` of the row, its heading in full and in short.

    alarm: whether a value of it must not be overlooked.
    """

    key: str
    title: str
    short: str
    number: bool = False
    code: bool = False
    alarm: Callable[[Any], bool] = _never
    show: Callable[[Any], str] = _plain

    def cell(self, row: Row) -> str:
        return self.show(row[self.key])

    def alarming(self, row: Row) -> bool:
        return self.alarm(row[self.key])


def _shouted(quality: str) -> str:
    return "TEST" if quality == QUALITY[TEST] else quality


STREAMS = [
    Column("device", "Device", "device", code=True),
    Column("mechanism", "Mechanism", "mechanism"),
    Column("k", "k", "k", True),
    Column("sent", "Sent", "sent", True),
    Column("received", "Received", "recv", True),
    Column("lost", "Lost", "lost", True, alarm=lambda n: n > 0),
    Column("duplicates", "Duplicate", "dup", True),
    Column("missing", "Missing", "miss", True),
    Column("drops", "Dropped", "drop", True, alarm=lambda n: bool(n)),
    Column("health", "Health", "health", alarm=lambda name: name not in _FINE),
    Column(
        "entropy",
        "Entropy",
        "entropy",
        alarm=lambda name: name == QUALITY[TEST],
        show=_shouted,
    ),
    Column("displacement_exact", "Mean displacement, exact", "moved, exact", True),
    Column("displacement_measured", "Mean displacement, measured", "measured", True),
]
TASKS = [
    Column("task", "Task", "task", code=True),
    Column("mechanism", "Mechanism", "mechanism"),
    Column("k", "k", "k", True),
    Column("window", "Window", "window", True),
    Column("q", "Chance of each switch distance", "q", True, show=lambda q: f"{q:.6f}"),
    Column("p", "Chance to stay", "p", True, show=lambda p: f"{p:.6f}"),
    Column("symbols", "Symbols", "symbols", True),
    Column("batch", "Values a frame", "batch", True),
    Column("tick_ms", "Step, ms", "step, ms", True),
    Column("certificate", "Certificate", "certificate"),
]
ALARMS = [
    Column("at", "First seen", "first seen"),
    Column("name", "Alarm", "alarm"),
    Column("detail", "What happened", "what happened"),
]
REJECTIONS = [
    Column("link", "Link", "link"),
    Column("name", "Reason", "reason"),
    Column("count", "Messages", "messages", True),
]
