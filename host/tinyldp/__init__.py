"""tinyldp: local differential privacy on streams, the host's half.

The commands as functions that return plain objects: plan, certify, simulate, audit.
Each is imported when it is first used.
"""

from __future__ import annotations

from tinyldp.errors import UserError

# As typing has it, which would take longer to load than all that a command needs to be stopped.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["UserError"]

_COMMANDS = ("audit", "certify", "simulate")


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "plan":
        return import_module("tinyldp.planning").plan
    if name in _COMMANDS:
        return import_module(f"tinyldp.{name}")
    raise AttributeError(f"module 'tinyldp' has no attribute {name!r}")
