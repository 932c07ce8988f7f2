"""The coordinator that a Task wants."""

from __future__ import annotations

from collections.abc import Sequence

from tinyldp.coordinate.coordinator import Coordinator
from tinyldp.coordinate.epochs import EpochCoordinator, Standing
from tinyldp_protocol.task import Task


def make_coordinator(
    task: Task,
    users: int,
    start: int | None = None,
    *,
    updates: int = 0,
    standing: Standing | None = None,
    cast: Sequence[tuple[int, int]] = (),
) -> Coordinator | EpochCoordinator:
    """From t = start on; None: from the first t of the Task, 1 for epochs and else 0.

    updates, standing, cast: of epochs before (see EpochCoordinator). Raises UserError when devices
    of this Task are not asked for reports.
    """
    if task.epochs is not None:
        first = 1 if start is None else max(1, start)
        return EpochCoordinator(task, users, first, updates=updates, standing=standing, cast=cast)
    return Coordinator(task, users, start or 0)
