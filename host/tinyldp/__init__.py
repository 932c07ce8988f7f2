"""tinyldp: local differential privacy on streams, the host's half."""

from tinyldp.errors import UserError
from tinyldp.planning import plan

__all__ = ["UserError", "plan"]
