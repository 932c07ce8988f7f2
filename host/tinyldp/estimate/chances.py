"""With which probability a report supports a value, from the Task's integers.

A report supports the values that it speaks for: GRR the one it names, OUE those
whose bits are set, OLH those that its hash sends to its bucket.
"""

from __future__ import annotations

from fractions import Fraction

from tinyldp.errors import UserError
from tinyldp.study import ORACLES
from tinyldp_protocol.hashing import PRIME
from tinyldp_protocol.task import GRR, OUE, SCALE, Task


def support_chances(task: Task) -> tuple[Fraction, Fraction]:
    """(p, q), exact: that a report supports its device's own value, and any other one.

    OLH: two different values share a bucket with probability sum (n_b / P)^2, where
    n_b of the P residues fall into bucket b, which is a little more than 1/g. The
    hash is pairwise independent, so this is exact for every pair of values.
    Raises UserError when the Task names no oracle, ValueError for a Task of rounds: each
    of its entries has chances of its own.
    """
    if task.mechanism not in ORACLES:
        raise UserError("Frequencies are estimated for GRR, OUE and OLH only.")
    if task.method is not None:
        raise ValueError("take one entry of a Task of rounds: see coordinate.entry_task")
    lie = Fraction(task.thresholds[0], SCALE)
    if task.mechanism == GRR:
        return 1 - (task.symbols - 1) * lie, lie
    if task.mechanism == OUE:
        return Fraction(1, 2), lie
    truth = 1 - (task.buckets - 1) * lie
    collision = collision_chance(task.buckets)
    return truth, collision * truth + (1 - collision) * lie


def collision_chance(buckets: int) -> Fraction:
    """That two different values have one bucket under a random key of OLH's hash."""
    size, larger = divmod(PRIME, buckets)
    pairs = larger * (size + 1) ** 2 + (buckets - larger) * size**2
    return Fraction(pairs, PRIME**2)
