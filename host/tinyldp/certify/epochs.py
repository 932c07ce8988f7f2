"""What Thresh and HeavyThresh give away in a device's whole life, from the Task's integers.

With N = 2^24 and a threshold T, a bit is 1 with probability T/N where nothing is said, and
between T/N and (N - T)/N where something is: its two laws differ by a factor of at most
(N - T) / T, whose logarithm is a for a vote, b for an estimate (HeavyThresh: given the
coordinate, which is drawn apart from the data) and c for a poll. Two series of data differ in
the votes that are cast: at most N_V epochs of either, so in 2 N_V of them; and in at most the
first N_E updates, and in every poll:

    2 N_V a + N_E b + polls c

Nobody has anything to vote at t = 1, so this is reached with 2 N_V + 1 epochs or more.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tinyldp.certify.bounds import exp_bounds, float_up, log_upper
from tinyldp_protocol.task import SCALE, Task


@dataclass(frozen=True)
class Disclosure:
    """One kind of what a device says: how often in its life, and the loss each time (a bound).

    factor: how often the loss can count, 2 for each vote.
    """

    name: str
    threshold: int
    times: int
    factor: int
    loss: Fraction

    @property
    def total(self) -> Fraction:
        return self.factor * self.times * self.loss

    def to_json(self) -> dict[str, Any]:
        return {
            "threshold": self.threshold,
            "times": self.times,
            "epsilon": float_up(self.loss),
            "total": float_up(self.total),
        }


def ratio(threshold: int) -> Fraction:
    """(N - T) / T, e to the loss of a bit."""
    return Fraction(SCALE - threshold, threshold)


def disclosures(task: Task) -> tuple[Disclosure, ...]:
    """Votes, estimates, and polls where the Task has them."""
    counts = (("votes", task.votes, 2), ("estimates", task.estimates, 1), ("polls", task.polls, 1))
    return tuple(
        Disclosure(name, threshold, times, factor, log_upper(ratio(threshold)))
        for (name, times, factor), threshold in zip(counts, task.thresholds, strict=False)
        if times is not None
    )


def lifetime_loss(task: Task) -> Fraction:
    """An upper bound of what a device's whole life loses, against any server."""
    return sum((each.total for each in disclosures(task)), Fraction(0))


def within(task: Task, target: Fraction) -> bool:
    """Whether the exact loss is at most the target.

    By the product of the ratios where that is small enough to be exact, else by the bound.
    """
    powers = [(ratio(each.threshold), each.factor * each.times) for each in disclosures(task)]
    if sum(power for _, power in powers) > 64:
        return lifetime_loss(task) <= target
    product = Fraction(1)
    for base, power in powers:
        product *= base**power
    return product <= exp_bounds(target)[0]
