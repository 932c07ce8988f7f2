"""Neighbouring inputs on which a mechanism gives away most, as readings for a device.

A stream's two series differ by exchanging two values k-1 steps apart (the farthest that
the certificate covers), at the start, inside and at the end of a segment; all other
values are one filler, so that both can be followed in what is released. An oracle's
differ in the one value.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinyldp.audit.transcripts import Series
from tinyldp_protocol.task import Task


@dataclass(frozen=True)
class Pair:
    """Two neighbouring series. values: what they exchange; of a stream at steps `at`."""

    where: str
    first: Series
    second: Series
    values: tuple[int, int]
    at: tuple[int, int] = (0, 0)


def reading(task: Task, symbol: int) -> int:
    """A reading that the Task's quantizer makes this symbol."""
    if task.bins is None:
        return symbol
    return task.bins[symbol - 1] if symbol else task.bins[0] - 1


def symbols(task: Task) -> int:
    """How many symbols readings can have: not the one that only a missing reading has."""
    return task.symbols if task.bins is None else len(task.bins) + 1


def stream_pairs(task: Task) -> list[Pair]:
    """The pairs for RanSwitch, StaSwitch and JitterSort."""
    window, apart = task.window, task.k - 1
    # Far enough from both ends that neither is felt.
    inside = window + task.k
    steps = inside + apart + 2 * window
    values = (symbols(task) - 1, min(1, symbols(task) - 2))
    pairs = []
    for where, i in (("start", 0), ("inside", inside), ("end", steps - 1 - apart)):
        both = []
        for one, other in (values, values[::-1]):
            content = [reading(task, 0)] * steps
            content[i] = reading(task, one)
            content[i + apart] = reading(task, other)
            both.append(Series(tuple(content)))
        pairs.append(Pair(where, both[0], both[1], values, (i, i + apart)))
    return pairs


def oracle_pair(task: Task, reports: int) -> Pair:
    """The pair for GRR, OUE and OLH: each value for so many steps of a segment."""
    values = (0, symbols(task) - 1)
    first, second = (Series((reading(task, value),), reports) for value in values)
    return Pair("anywhere", first, second, values)
