"""RanSwitch and StaSwitch against all that can happen, weighed exactly: small windows."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction

from tinyldp_device.switch import RanSwitch, StaSwitch
from tinyldp_protocol.task import RANSWITCH, SCALE, STASWITCH, Task

K = 3
T = SCALE // 10
Q = Fraction(T, SCALE)
P = 1 - (K - 1) * Q
# The value whose release is followed: all of its buffer's past is random, too.
FOLLOWED = K - 1
STEPS = FOLLOWED + K + 4


class Draws:
    """Words that mean given switch distances."""

    def __init__(self, distances: tuple[int, ...]) -> None:
        self._distances = iter(distances)

    def word(self) -> int:
        distance = next(self._distances)
        return (distance - 1) * T if distance else (K - 1) * T


def outcomes(mechanism: type[RanSwitch]) -> Iterator[tuple[list[int | None], Fraction]]:
    """Every order in which STEPS releases can leave, with its probability."""
    number = STASWITCH if mechanism is StaSwitch else RANSWITCH
    names = {"mechanism": number, "window": K, "k": K, "symbols": 256, "thresholds": [T]}
    timing = {"tick": 1, "batch": 1, "resend": 1, "beacon": 1, "outbox": 1}
    task = Task({**names, **timing})
    for distances in itertools.product(range(K), repeat=STEPS):
        switch = mechanism(task, Draws(distances))
        released = [switch.step(value) for value in range(STEPS + K - 1)]
        stays = distances.count(0)
        yield released[K - 1 :], P**stays * Q ** (STEPS - stays)


def displacement_law(mechanism: type[RanSwitch]) -> dict[int, Fraction]:
    law: dict[int, Fraction] = defaultdict(Fraction)
    for released, weight in outcomes(mechanism):
        if FOLLOWED in released:
            law[released.index(FOLLOWED) - FOLLOWED] += weight
    return law


def ranswitch_law(j: int, q: Fraction) -> Fraction:
    """P_j, the probability that a RanSwitch with switch probability q delays a value by j."""
    if j == 0:
        return (1 - (K - 1) * q) * (1 - q) ** (K - 1)
    if j < K:
        return q * (1 - q) ** (K - 1 + j)
    return sum((q * (1 - q) ** (d - 1) * ranswitch_law(j - d, q) for d in range(1, K)), Fraction(0))


def test_ranswitch_has_the_exact_displacement_law() -> None:
    law = displacement_law(RanSwitch)
    assert set(law) == set(range(1 - K, STEPS - FOLLOWED))
    for j, weight in law.items():
        assert weight == ranswitch_law(j, Q), j
    # The law of another switch probability is another law.
    for factor in (Fraction(7, 10), Fraction(13, 10)):
        assert all(weight != ranswitch_law(j, factor * Q) for j, weight in law.items())


def test_staswitch_never_delays_beyond_its_window() -> None:
    law = displacement_law(StaSwitch)
    assert set(law) == set(range(1 - K, K))
    assert sum(law.values()) == 1
    # Worked out by hand for the third value of a stream (neither of the first two is late
    # enough to be held back from its place): it leaves two early when the first step says so,
    # one early when the second does after that.
    assert law[-2] == Q
    assert displacement_law(RanSwitch)[-2] == Q
