"""Attack the real device code, and bound from below what it gives away."""

from tinyldp.audit.attack import CONFIDENCE, Audit, audit, text_audit
from tinyldp.audit.rounds import RoundAudit, audit_rounds, text_round_audit
from tinyldp.callable import make_callable

__all__ = [
    "CONFIDENCE",
    "Audit",
    "RoundAudit",
    "audit",
    "audit_rounds",
    "text_audit",
    "text_round_audit",
]

make_callable(__name__)
