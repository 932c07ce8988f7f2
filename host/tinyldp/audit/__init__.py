"""Attack the real device code, and bound from below what it gives away."""

from tinyldp.audit.attack import Audit, audit, text_audit

__all__ = ["Audit", "audit", "text_audit"]
