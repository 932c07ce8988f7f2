"""JitterSort by enumeration of keys and ties.

Weights c_0..c_L over `scale` = c_0 + 2(c_1 + .. + c_L): an arrival at step t gets the key t + Z,
Z = L+j or L-j with probability c_j/scale each. The heap holds up to 2L+1 values. A value arrives;
once 2L+1 are held, one with the least key is released in the same step, equal keys by a fresh
uniform choice; at the end of the stream the rest is released likewise.

Fault, planted to see that the checks can fail: "ties by arrival" releases the earliest arrival
among equal keys.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import lcm

from tests.oracle.brute import SCALE
from tests.oracle.brute.switching import neighbours

Held = tuple[tuple[int, int], ...]


def jitter(weights: Sequence[int], scale: int = SCALE) -> dict[int, int]:
    """Law of Z, in units of 1/scale."""
    reach = len(weights) - 1
    assert reach >= 1
    assert min(weights) >= 1
    law = {reach: weights[0]}
    for j in range(1, reach + 1):
        law[reach - j] = law[reach + j] = weights[j]
    assert sum(law.values()) == scale
    return law


@lru_cache(maxsize=64)
def arrival_orders(
    weights: tuple[int, ...], n: int, scale: int = SCALE, fault: str | None = None
) -> tuple[dict[tuple[int, ...], int], int]:
    """Law of the released order of the arrivals 0..n-1: (integer for each order, their sum).

    A choice among c equal keys would divide by c; every release multiplies by unit/c instead,
    unit = lcm(1..2L+1), so all numbers stay integers. n <= 7 for L = 2.
    """
    assert fault in (None, "ties by arrival")
    law = jitter(weights, scale)
    size = len(law)
    unit = lcm(*range(1, size + 1))
    # released -> held (key, arrival) pairs -> weight
    table: dict[tuple[int, ...], dict[Held, int]] = {(): {(): 1}}

    def arrive(now: int) -> None:
        for released, heaps in table.items():
            following: dict[Held, int] = {}
            for held, weight in heaps.items():
                for z, chance in law.items():
                    following[(*held, (now + z, now))] = weight * chance
            table[released] = following

    def release() -> None:
        nonlocal table
        following: dict[tuple[int, ...], dict[Held, int]] = {}
        for released, heaps in table.items():
            for held, weight in heaps.items():
                least = min(held)[0]
                candidates = [pair for pair in held if pair[0] == least]
                if fault == "ties by arrival":
                    candidates = candidates[:1]
                share = weight * (unit // len(candidates))
                for pair in candidates:
                    left = tuple(other for other in held if other is not pair)
                    heaps_after = following.setdefault((*released, pair[1]), {})
                    heaps_after[left] = heaps_after.get(left, 0) + share
        table = following

    for now in range(n):
        arrive(now)
        if now + 1 >= size:
            release()
    for _ in range(min(n, size - 1)):
        release()
    orders = {released: heaps[()] for released, heaps in table.items()}
    total = scale**n * unit**n
    assert sum(orders.values()) == total
    return orders, total


def distribution(
    weights: Sequence[int], stream: Sequence, scale: int = SCALE, fault: str | None = None
) -> dict[tuple, Fraction]:
    """Law of everything released for the whole `stream`, whose values may repeat."""
    orders, total = arrival_orders(tuple(weights), len(stream), scale, fault)
    law: dict[tuple, int] = {}
    for order, weight in orders.items():
        released = tuple(stream[arrival] for arrival in order)
        law[released] = law.get(released, 0) + weight
    return {released: Fraction(weight, total) for released, weight in law.items()}


def order_delta(
    weights: Sequence[int],
    n: int,
    i: int,
    j: int,
    exp_eps: Fraction,
    scale: int = SCALE,
    fault: str | None = None,
) -> Fraction:
    """Delta of the released order alone, for 0..n-1 and the same with i and j exchanged.

    The second stream releases R exactly when the first releases R with i and j exchanged. So
    exchanging them in all outputs turns one order of the two streams into the other: one delta.
    """
    orders, total = arrival_orders(tuple(weights), n, scale, fault)
    names = list(range(n))
    names[i], names[j] = j, i
    up, down = exp_eps.numerator, exp_eps.denominator
    excess = 0
    for order, weight in orders.items():
        other = orders.get(tuple(names[arrival] for arrival in order), 0)
        excess += max(0, down * weight - up * other)
    return Fraction(excess, down * total)


def worst_order_delta(
    weights: Sequence[int],
    k: int,
    exp_eps: Fraction,
    n: int,
    scale: int = SCALE,
    fault: str | None = None,
) -> Fraction:
    """Largest delta of the order alone over all neighbours (0 < j-i < k) of n distinct values.

    It grows with n, slowly, towards that of the endless stream, which is at most the delta of the
    pairs: the order is a function of the pairs and fresh words.
    """
    return max(order_delta(weights, n, i, j, exp_eps, scale, fault) for i, j in neighbours(n, k))


def pairs_delta(
    weights: Sequence[int], distance: int, exp_eps: Fraction, scale: int = SCALE
) -> Fraction:
    """Delta of the set of (value, key) pairs when values `distance` apart are exchanged.

    All other keys have the same law in both streams and are independent of these two. With
    the values at 0 and m: the first has the key x, the second y; in the other stream the first
    arrives at m and the second at 0.
    """
    law = jitter(weights, scale)
    zero = Fraction(0)
    total = zero
    keys = range(len(law) + distance)
    for x, y in product(keys, keys):
        here = law.get(x, 0) * law.get(y - distance, 0)
        there = law.get(x - distance, 0) * law.get(y, 0)
        total += max(zero, here - exp_eps * there)
    return total / scale**2


def worst_pairs_delta(
    weights: Sequence[int], k: int, exp_eps: Fraction, scale: int = SCALE
) -> Fraction:
    """Largest delta of the pairs over the distances 1..k-1; the same in both orders.

    (Reflecting all keys exchanges the two streams, since Z is symmetric.) It is the delta of
    any stream in which the two keep their keys: start-up and flush play no part.
    """
    return max(pairs_delta(weights, distance, exp_eps, scale) for distance in range(1, k))
