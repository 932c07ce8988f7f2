"""The entries of a round-based Task, each as the plain oracle's Task that it is."""

from __future__ import annotations

from tinyldp_protocol.task import Task


def entry_task(task: Task, entry: int) -> Task:
    """The oracle with the threshold of this entry: all of estimate/ and simulate/ works on it.

    Its timing is of no use: nothing is released under it. Raises IndexError when there is
    no such entry.
    """
    if not 0 <= entry < len(task.thresholds):
        raise IndexError("the Task has no such entry")
    return Task(
        {
            "mechanism": task.mechanism,
            "symbols": task.symbols,
            "bins": task.bins,
            "missing": task.missing,
            "thresholds": [task.thresholds[entry]],
            "buckets": task.buckets,
            "tick": task.tick,
            "batch": 1,
            "resend": 1,
            "beacon": 1,
            "outbox": 1,
        }
    )
