"""Neighbouring inputs on which a mechanism gives away most, as readings for a device.

A stream's two series differ by exchanging two values k-1 steps apart (the farthest that
the certificate covers), at the start, inside and at the end of a segment. All values are
different where the alphabet suffices, which gives away most and shows where each goes;
in a smaller one all others are one filler. An oracle's differ in the one value.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinyldp.audit.transcripts import Series
from tinyldp_protocol.task import Task


@dataclass(frozen=True)
class Pair:
    """Two neighbouring series. symbols: of the first, whose steps `at` are exchanged."""

    where: str
    first: Series
    second: Series
    symbols: tuple[int, ...]
    at: tuple[int, int] = (0, 0)

    @property
    def exchanged(self) -> tuple[int, ...]:
        """The symbols of the second series."""
        symbols = list(self.symbols)
        i, j = self.at
        symbols[i], symbols[j] = symbols[j], symbols[i]
        return tuple(symbols)

    @property
    def values(self) -> tuple[int, int]:
        return self.symbols[self.at[0]], self.symbols[self.at[1]]


def reading(task: Task, symbol: int) -> int:
    """A reading that the Task's quantizer makes this symbol."""
    if task.bins is None:
        return symbol
    return task.bins[symbol - 1] if symbol else task.bins[0] - 1


def alphabet(task: Task) -> int:
    """How many symbols readings can have: not the one that only a missing reading has."""
    return task.symbols if task.bins is None else len(task.bins) + 1


def stream_pairs(task: Task) -> list[Pair]:
    """The pairs for RanSwitch, StaSwitch and JitterSort."""
    window, apart = task.window, task.k - 1
    # Far enough from both ends that neither is felt.
    inside = window + task.k
    steps = inside + apart + 2 * window
    size = alphabet(task)
    pairs = []
    for where, i in (("start", 0), ("inside", inside), ("end", steps - 1 - apart)):
        j = i + apart
        symbols = list(range(steps)) if size >= steps else [0] * steps
        if size < steps:
            symbols[i], symbols[j] = size - 1, min(1, size - 2)
        content = [reading(task, symbol) for symbol in symbols]
        first = Series(tuple(content))
        content[i], content[j] = content[j], content[i]
        pairs.append(Pair(where, first, Series(tuple(content)), tuple(symbols), (i, j)))
    return pairs


def oracle_pair(task: Task, times: int) -> Pair:
    """The pair for GRR, OUE and OLH: each value so many times in a segment."""
    symbols = (0, alphabet(task) - 1)
    first, second = (Series((reading(task, symbol),), times) for symbol in symbols)
    return Pair("anywhere", first, second, symbols, (0, 1))


def every_value(task: Task, times: int) -> tuple[Series, tuple[int, ...]]:
    """A segment with about as many values as `times`: all, a missing one too, or a part of them.

    Second, the symbol of each of its readings.
    """
    size = alphabet(task)
    some = min(size, max(2, times))
    symbols = [i * (size - 1) // (some - 1) for i in range(some)]
    readings = (*(reading(task, symbol) for symbol in symbols), None)
    return Series(readings, max(1, times // len(readings))), (*symbols, task.missing or 0)
