"""The server's half of round-based methods: whom to ask for what, and what to make of it.

Pure: no link, no clock, no randomness. `collect` runs it on live devices, `simulate` on
fleets in memory.
"""

from tinyldp.coordinate.coordinator import (
    NULLIFIED,
    OUTCOMES,
    PUBLISHED,
    SIMILAR,
    SKIPPED,
    SPENT,
    UNANSWERED,
    Ask,
    Coordinator,
    Decision,
)
from tinyldp.coordinate.entries import entry_task
from tinyldp.coordinate.epochs import (
    EPOCH_OUTCOMES,
    EXHAUSTED,
    HELD,
    EpochCoordinator,
    EpochDecision,
    Standing,
)
from tinyldp.coordinate.groups import Circle, meant
from tinyldp.coordinate.make import make_coordinator

__all__ = [
    "EPOCH_OUTCOMES",
    "EXHAUSTED",
    "HELD",
    "NULLIFIED",
    "OUTCOMES",
    "PUBLISHED",
    "SIMILAR",
    "SKIPPED",
    "SPENT",
    "UNANSWERED",
    "Ask",
    "Circle",
    "Coordinator",
    "Decision",
    "EpochCoordinator",
    "EpochDecision",
    "Standing",
    "entry_task",
    "make_coordinator",
    "meant",
]
