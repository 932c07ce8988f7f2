"""What a mechanism takes of a board's memory, measured on the device package's own objects."""

from __future__ import annotations

from array import array
from typing import Any

from tinyldp_device.mechanism import make_mechanism
from tinyldp_protocol.task import Task

_WORD = 4


class _NoWords:
    """For a mechanism that is measured and never run."""

    def word(self) -> int:
        raise NotImplementedError


def mechanism_bytes(task: Task) -> int:
    """What the arrays and lists of a Task's mechanism take, on a 32-bit board.

    Each once, however many objects of it hold it. The Task's own lists are not counted.
    """
    return _held(make_mechanism(task, _NoWords()), set())


def table_bytes(task: Task) -> int:
    """Of a mechanism of CRR and its Task's lists, on a 32-bit board."""
    return mechanism_bytes(task) + _WORD * sum(
        len(numbers)
        for numbers in (task.prior, task.transitions, task.costs, task.table)
        if numbers
    )


def _held(thing: Any, seen: set[int]) -> int:
    total = 0
    for held in vars(thing).values():
        if id(held) in seen:
            continue
        seen.add(id(held))
        if isinstance(held, array):
            total += len(held) * held.itemsize
        elif isinstance(held, bytearray):
            total += len(held)
        elif isinstance(held, list | tuple):
            total += len(held) * _WORD
        elif type(held).__module__.startswith("tinyldp_device"):
            total += _held(held, seen)
    return total
