"""The frequency oracles' exact loss, from their transition probabilities.

GRR: the truth has N - (d-1) T of N, each lie T. OUE: the two bits in which the
reports of two values differ, 1/2 against T each. OLH: GRR over the hashed values,
given the hash key, which is drawn apart from the value and sent along.
N = 2^24; d (symbols), T (the threshold, of rounds that of one entry) and OLH's
buckets are the Task's.
"""

from __future__ import annotations

from fractions import Fraction

from tinyldp.certify.bounds import exp_bounds
from tinyldp_protocol.task import GRR, OLH, OUE, SCALE, Task


def ratio(task: Task, entry: int = 0) -> Fraction:
    """The largest ratio of one report's probabilities under two values, exactly: e^epsilon."""
    likely, unlikely = _extremes(task, entry)
    return likely / unlikely


def delta(task: Task, epsilon: Fraction, entry: int = 0) -> Fraction:
    """Least delta of one report at epsilon >= 0, rounded up; given the hash key, for OLH.

    Two values differ in the report's law by one event that is likely under the
    first and as unlikely as can be under the second, and its mirror image.
    """
    likely, unlikely = _extremes(task, entry)
    return max(Fraction(0), likely - exp_bounds(epsilon)[0] * unlikely)


def _extremes(task: Task, entry: int) -> tuple[Fraction, Fraction]:
    """Probabilities of the telling event under the value that it tells, and under another."""
    lie = Fraction(task.thresholds[entry], SCALE)
    if task.mechanism == OUE:
        # The first value's bit is set and the second's is not.
        return (1 - lie) / 2, lie / 2
    if task.mechanism not in (GRR, OLH):
        raise ValueError("no frequency oracle")
    truth = 1 - ((task.buckets if task.mechanism == OLH else task.symbols) - 1) * lie
    if truth <= lie:
        raise ValueError("the truth must be more probable than each lie")
    return truth, lie
