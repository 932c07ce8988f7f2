"""Tasks to certify."""

from __future__ import annotations

from tests.collecting import make_task
from tinyldp_protocol.task import Task


def oracle(mechanism: int, **numbers: int | list[int]) -> Task:
    """A Task of a frequency oracle; its id is known."""
    return make_task(mechanism=mechanism, **{"thresholds": [1_000_000], **numbers})
