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

    Each once, however many objects of it hold it. The model, losses and table of a Task of CRR,
    which stay in memory with the Task, are among them: of CRR, all this is tables.
    """
    seen: set[int] = set()
    total = _held(make_mechanism(task, _NoWords()), seen)
    for numbers in (task.prior, task.transitions, task.costs, task.table):
        # The mechanism may hold the Task's own.
        if numbers and id(numbers) not in seen:
            total += len(numbers) * _WORD
    return total


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
