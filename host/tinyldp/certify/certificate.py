"""A certificate: what it says, exactly, and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tinyldp.certify.bounds import float_up
from tinyldp.certify.crr import Figures
from tinyldp.certify.crr_table import TableFigures
from tinyldp.certify.epochs import Disclosure
from tinyldp.certify.paper import Claim, WindowClaim
from tinyldp.certify.rounds import Entry


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What a Task gives away, and to whom that applies.

    epsilon, delta: the certified point, upper bounds. curve: (epsilon, delta), by
    rising epsilon. target: epsilon and delta that the Task states, or None where it
    states none. per_window: loss within w steps, for an oracle whose Task names w.
    oracle, entries: of rounds, whose certified point is that of any w steps. disclosures: of
    epochs, whose certified point is that of a device's whole life. crr: of CRR, whose certified
    point is that of a step, or a block, against the device's own belief. table: of CRR by a table,
    whose certified point is that of a block against the exact belief.
    within_target: whether the certified point meets every target stated.
    """

    task_id: str
    mechanism: str
    relation: str
    definition: str
    epsilon: Fraction
    delta: Fraction
    curve: tuple[tuple[Fraction, Fraction], ...]
    method: str
    paper: Claim | WindowClaim | None
    w: int | None
    per_window: Fraction | None
    lifetime: str
    target_epsilon: Fraction | None
    target_delta: Fraction | None
    within_target: bool
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
    oracle: str | None = None
    entries: tuple[Entry, ...] | None = None
    disclosures: tuple[Disclosure, ...] | None = None
    crr: Figures | None = None
    table: TableFigures | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, lists and strings; epsilon and delta as floats, rounded up."""
        target = None
        if self.target_epsilon is not None or self.target_delta is not None:
            target = {
                "epsilon": _float(self.target_epsilon),
                "delta": _float(self.target_delta),
            }
        rounds = {}
        if self.entries is not None:
            rounds = {
                "oracle": self.oracle,
                "entries": [entry.to_json() for entry in self.entries],
            }
        if self.disclosures is not None:
            rounds = {each.name: each.to_json() for each in self.disclosures}
        if self.crr is not None:
            rounds = {"crr": self.crr.to_json()}
        if self.table is not None:
            rounds = {"crr": self.table.to_json()}
        return {
            "task_id": self.task_id,
            "mechanism": self.mechanism,
            "relation": self.relation,
            "definition": self.definition,
            "epsilon": float_up(self.epsilon),
            "delta": float_up(self.delta),
            "curve": [[float_up(epsilon), float_up(delta)] for epsilon, delta in self.curve],
            "method": self.method,
            "paper": None if self.paper is None else self.paper.to_json(),
            "lifetime": {
                "w": self.w,
                "per_window": None if self.per_window is None else float_up(self.per_window),
                "statement": self.lifetime,
            },
            "target": target,
            "within_target": self.within_target,
            "assumptions": list(self.assumptions),
            "warnings": list(self.warnings),
            **rounds,
        }


def _float(x: Fraction | None) -> float | None:
    """Targets have at most 46 bits: nothing is rounded."""
    return None if x is None else float(x)
