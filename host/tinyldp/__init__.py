"""tinyldp: local differential privacy on streams, the host's half.

The commands as functions that return plain objects: plan, certify, simulate, audit.
Each is imported when it is first used.
"""

from importlib import import_module
from typing import Any

from tinyldp.errors import UserError

__all__ = ["UserError"]

_COMMANDS = ("audit", "certify", "simulate")


def __getattr__(name: str) -> Any:
    if name == "plan":
        return import_module("tinyldp.planning").plan
    if name in _COMMANDS:
        return import_module(f"tinyldp.{name}")
    raise AttributeError(f"module 'tinyldp' has no attribute {name!r}")
