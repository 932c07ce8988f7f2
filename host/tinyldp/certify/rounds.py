"""What rounds give away: each entry's exact loss, and what the device's ledger makes of it.

The ledger charges an answer its entry's spend and lets no w of the device's own steps
exceed the Task's epsilon, whoever asks and whatever for. Losses of answers add up, also
when what is asked depends on what was answered (sequential composition), so when no entry
loses more than its spend, no window loses more than epsilon; else no more than epsilon
times the largest loss for a unit of spend.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tinyldp.certify import oracles
from tinyldp.certify.bounds import exp_bounds, float_up, log_upper
from tinyldp.study import EPSILON_UNIT
from tinyldp_protocol.task import Task


@dataclass(frozen=True)
class Entry:
    """What an answer costs (ledger units, 2^-16 of an epsilon), and what it loses.

    loss: an upper bound; holds: whether the exact loss is at most the spend.
    """

    spend: int
    threshold: int
    loss: Fraction
    holds: bool

    @property
    def charged(self) -> Fraction:
        """The spend as an epsilon."""
        return Fraction(self.spend, EPSILON_UNIT)

    def to_json(self) -> dict[str, Any]:
        return {
            "spend": self.spend,
            "threshold": self.threshold,
            "epsilon": float_up(self.loss),
            "holds": self.holds,
        }


def entries(task: Task) -> tuple[Entry, ...]:
    """Each entry of a Task with a method, checked with rationals."""
    found = []
    for i, spend in enumerate(task.spends):
        ratio = oracles.ratio(task, i)
        holds = ratio <= exp_bounds(Fraction(spend, EPSILON_UNIT))[0]
        found.append(Entry(spend, task.thresholds[i], log_upper(ratio), holds))
    return tuple(found)


def window_loss(task: Task, checked: tuple[Entry, ...]) -> Fraction:
    """An upper bound of what any w steps lose, against any server."""
    assert task.epsilon is not None
    worst = max((entry.loss / entry.charged for entry in checked if not entry.holds), default=1)
    return Fraction(task.epsilon, EPSILON_UNIT) * max(Fraction(1), Fraction(worst))


def delta(loss: Fraction, epsilon: Fraction) -> Fraction:
    """An upper bound of delta at epsilon >= 0 of whatever is (loss, 0)-private.

    (e^loss - e^epsilon) / (e^loss + 1): randomized response gives away the most (Kairouz,
    Oh and Viswanath 2015, the composition theorem).
    """
    if epsilon >= loss:
        return Fraction(0)
    high = exp_bounds(loss)[1]
    return max(Fraction(0), (high - exp_bounds(epsilon)[0]) / (high + 1))
