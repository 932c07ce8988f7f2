"""Tasks to certify."""

from __future__ import annotations

from tinyldp_protocol.task import Task, write_file


def oracle(mechanism: int, **numbers: int | list[int]) -> Task:
    """A Task of a frequency oracle; its id is known."""
    common: dict[str, int | list[int]] = {
        "mechanism": mechanism,
        "symbols": 8,
        "thresholds": [1_000_000],
        "tick": 10,
        "batch": 2,
        "resend": 20,
        "beacon": 10,
        "outbox": 255,
    }
    task = Task(common | numbers)
    write_file(task)
    return task
