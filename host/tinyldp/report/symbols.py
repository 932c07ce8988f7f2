"""Texts as people may see them: what symbols stand for, and what comes from elsewhere."""

from __future__ import annotations

from datetime import datetime, timezone

from tinyldp_protocol.task import Task


def missing_alone(task: Task) -> int | None:
    """The symbol that only missing readings have, or None when a value shares theirs."""
    own = task.bins is not None and len(task.bins) == task.symbols - 2
    return task.missing if own else None


def has_names(task: Task) -> bool:
    """Whether symbols stand for something else than themselves."""
    return task.bins is not None or task.missing is not None


def symbol_name(task: Task, symbol: int) -> str:
    """The readings that become this symbol, such as "25–49"."""  # noqa: RUF002
    if task.bins is None:
        return f"{symbol:,} or missing" if symbol == task.missing else f"{symbol:,}"
    if symbol == missing_alone(task):
        return "missing"
    edges = task.bins
    if symbol == 0:
        name = f"<{edges[0]:,}"
    elif symbol == len(edges):
        name = f"≥{edges[-1]:,}"
    else:
        low, high = edges[symbol - 1], edges[symbol] - 1
        to = " to " if low < 0 else "–"  # noqa: RUF001
        name = f"{low:,}" if low == high else f"{low:,}{to}{high:,}"
    shared = missing_alone(task) is None and symbol == (task.missing or 0)
    return f"{name} or missing" if shared else name


def moment(at: int) -> str:
    """UTC, from ms since 1970."""
    found = datetime.fromtimestamp(at / 1000, timezone.utc)
    return found.isoformat(sep=" ", timespec="seconds").replace("+00:00", " UTC")


def clean(text: object) -> str:
    """Text in which no character acts on a terminal or breaks a page."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))
