"""Numbers of a run that are refused before it starts."""

from __future__ import annotations

from tinyldp.errors import UserError
from tinyldp_protocol.task import TABLE, Task

MOST = 1 << 60
# The means of each step are kept.
MOST_STEPS = 1 << 24
# Nanoseconds of a device step by a table, and what each block adds to one of its block's steps:
# a device's law of the next block has a number for each. Measured; a day at that pace.
_STEP, _BLOCK = 110, 30
_DAY = 86_400 * 10**9


def check_number(name: str, n: int, least: int = 1, most: int = MOST) -> None:
    """Raise UserError for what is beyond the range."""
    if not least <= n <= most:
        raise UserError(f"{name} must lie in {least}..{most:,}, but is {n:,}.")


def check_table(task: Task, devices: int, steps: int) -> None:
    """Raise UserError for a table's run of more than a day. Of other Tasks nothing is said."""
    if task.rule != TABLE:
        return
    most = _DAY // (_STEP + _BLOCK * task.symbols**task.block // task.block)
    if devices * steps > most:
        raise UserError(
            f"{devices:,} devices of {steps:,} steps by a table would take more than a day: take"
            f" {most // steps:,} devices or fewer."
        )
