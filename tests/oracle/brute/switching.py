"""RanSwitch and StaSwitch by enumeration of their draws.

The ring buffer is written as seen from the current slot: a tuple whose entry 0 is the current
slot and whose entry d is the slot d ahead. Releasing the current slot and filling it with the
arriving value is then "drop entry 0, append the arrival". An entry is (value, late): late is how
many steps after its own the value will be released if its slot comes up and it stays there.

The first release happens when the window is full, so release t sees the arrivals up to t+W-1;
draws that point past the end of the stream are drawn again.

Faults, planted to see that the checks can fail:
- "flush stays": a draw past the end of the stream means d = 0;
- "age stays": a value moved d slots on adds d to the age of the slot it comes to, not to its own.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from tests.oracle.brute import SCALE

Entry = tuple[Any, int]
Buffer = tuple[Entry, ...]
Law = dict[tuple, Fraction]
Pairs = list[tuple[Fraction, Fraction]]


class Switch(NamedTuple):
    """A mechanism: kind "ranswitch" or "staswitch", W slots, d = 1..W-1 each threshold/scale."""

    kind: str
    window: int
    threshold: int
    scale: int = SCALE
    fault: str | None = None


def make_switch(
    kind: str, W: int, k: int, threshold: int, scale: int = SCALE, fault: str | None = None
) -> Switch:
    """Check the arguments of the public functions."""
    assert kind in ("ranswitch", "staswitch")
    assert k >= 2
    spare = W - k
    assert spare >= 0 if kind == "ranswitch" else spare == 0
    assert 0 < threshold * (W - 1) < scale
    assert fault in (None, "flush stays", "age stays")
    return Switch(kind, W, threshold, scale, fault)


@lru_cache(maxsize=4096)
def draws(switch: Switch, late: int, ahead: int) -> dict[int, Fraction]:
    """Law of d: `late` of the value in the current slot, `ahead` slots of the stream follow it."""
    kind, window, threshold, scale, fault = switch
    weights = {d: threshold for d in range(1, window)}
    weights[0] = scale - threshold * (window - 1)
    if kind == "staswitch":
        for d in range(1, window):
            if d > window - 1 - late:
                weights[0] += weights.pop(d)
    for d in range(1, window):
        if d > ahead and d in weights:
            lost = weights.pop(d)
            if fault == "flush stays":
                weights[0] += lost
    total = sum(weights.values())
    return {d: Fraction(weight, total) for d, weight in sorted(weights.items())}


def swap(switch: Switch, buffer: Buffer, d: int) -> tuple[Any, Buffer]:
    """Exchange entry 0 with entry d and release it: (released value, the entries left)."""
    value, late = buffer[0]
    if d == 0:
        return value, buffer[1:]
    released, late_ahead = buffer[d]
    if switch.kind == "ranswitch":
        moved = (value, 0)
    elif switch.fault == "age stays":
        moved = (value, late_ahead + d)
    else:
        moved = (value, late + d)
    return released, (*buffer[1:d], moved, *buffer[d + 1 :])


def distribution(
    kind: str,
    W: int,
    k: int,
    threshold: int,
    stream: Sequence,
    scale: int = SCALE,
    fault: str | None = None,
) -> Law:
    """Law of everything released for the whole `stream`: every path of draws, one by one.

    There are up to W^n paths: keep n <= 8 for W = 4.
    """
    switch = make_switch(kind, W, k, threshold, scale, fault)
    law: Law = {}
    n = len(stream)

    def follow(t: int, buffer: Buffer, released: tuple, probability: Fraction) -> None:
        if t == n:
            law[released] = law.get(released, Fraction(0)) + probability
            return
        for d, chance in draws(switch, buffer[0][1], n - 1 - t).items():
            value, left = swap(switch, buffer, d)
            if t + W < n:
                left = (*left, (stream[t + W], 0))
            follow(t + 1, left, (*released, value), probability * chance)

    follow(0, tuple((value, 0) for value in stream[:W]), (), Fraction(1))
    return law


def delta(law: Law, other: Law, exp_eps: Fraction) -> Fraction:
    """Largest P(O) - e^epsilon P'(O) over sets O of outputs."""
    zero = Fraction(0)
    return sum((max(zero, p - exp_eps * other.get(out, zero)) for out, p in law.items()), zero)


def neighbours(n: int, k: int) -> Iterator[tuple[int, int]]:
    """All 0 <= i < j < n with j - i < k."""
    return ((i, j) for i in range(n) for j in range(i + 1, min(n, i + k)))


def _rename(first: Buffer, second: Buffer, kept: tuple[int, int]) -> tuple[Buffer, Buffer]:
    """Give the values, but for the kept ones, names by their order in the first buffer.

    Any other value arrives at the same step in both runs and leaves at the same step, so it is
    in both buffers; what it is called does not matter to what comes. (Arrivals are >= 0.)
    """
    names: dict[int, int] = {value: value for value in kept}
    for value, _ in first:
        if value not in names:
            names[value] = -len(names)
    return (
        tuple((names[value], late) for value, late in first),
        tuple((names[value], late) for value, late in second),
    )


@lru_cache(maxsize=256)
def pair_law(switch: Switch, n: int, i: int, j: int) -> Pairs:
    """Likelihood pairs (P, P') of the streams 0..n-1 and the same with i and j exchanged.

    Outputs of one likelihood ratio are summed into one pair; the sum of max(0, P - e^epsilon P')
    is the same as over single outputs. All values are distinct, so what has been released
    determines both buffers, and prefixes that lead to the same two buffers with the same ratio
    go on as one. A prefix is settled when one run cannot produce it, or when the buffers agree.
    """
    window = switch.window
    first = list(range(n))
    second = list(first)
    second[i], second[j] = j, i
    one, zero = Fraction(1), Fraction(0)
    settled: dict[Fraction, Fraction] = {}
    only_first = only_second = zero
    start = (
        tuple((value, 0) for value in first[:window]),
        tuple((value, 0) for value in second[:window]),
    )
    # (buffer, other buffer, P'/P) -> P
    states: dict[tuple[Buffer, Buffer, Fraction], Fraction] = {(*start, one): one}
    for t in range(n):
        arriving = t + window
        following: dict[tuple[Buffer, Buffer, Fraction], Fraction] = {}
        for (buffer, other, ratio), mass in states.items():
            if t > 0 and buffer == other and arriving > j:
                settled[ratio] = settled.get(ratio, zero) + mass
                continue
            law = draws(switch, buffer[0][1], n - 1 - t)
            other_law = draws(switch, other[0][1], n - 1 - t)
            other_draw = {other[d][0]: d for d in other_law}
            for d, chance in law.items():
                value, left = swap(switch, buffer, d)
                if value not in other_draw:
                    only_first += mass * chance
                    continue
                other_d = other_draw.pop(value)
                other_chance = other_law[other_d]
                other_left = swap(switch, other, other_d)[1]
                if arriving < n:
                    left = (*left, (first[arriving], 0))
                    other_left = (*other_left, (second[arriving], 0))
                new_ratio = ratio if chance == other_chance else ratio * other_chance / chance
                key = (*_rename(left, other_left, (i, j)), new_ratio)
                following[key] = following.get(key, zero) + mass * chance
            for d in other_draw.values():
                only_second += mass * ratio * other_law[d]
        states = following
    for (_, _, ratio), mass in states.items():
        settled[ratio] = settled.get(ratio, zero) + mass
    pairs = [(mass, mass * ratio) for ratio, mass in settled.items()]
    pairs += [(only_first, zero), (zero, only_second)]
    assert sum(p for p, _ in pairs) == sum(p for _, p in pairs) == 1
    return pairs


def pairs_delta(pairs: Pairs, exp_eps: Fraction) -> Fraction:
    """Hockey stick of a list of likelihood pairs, the larger of both orders."""
    zero = Fraction(0)
    return max(
        sum((max(zero, p - exp_eps * other) for p, other in pairs), zero),
        sum((max(zero, other - exp_eps * p) for p, other in pairs), zero),
    )


def worst_delta(
    kind: str,
    W: int,
    k: int,
    threshold: int,
    exp_eps: Fraction,
    n: int,
    scale: int = SCALE,
    fault: str | None = None,
) -> Fraction:
    """Largest delta over all neighbours (0 < j-i < k, both orders) of a stream of n values.

    Take n >= long_enough(kind, W, k): from there on the value is that of the endless stream.
    """
    switch = make_switch(kind, W, k, threshold, scale, fault)
    return max(pairs_delta(pair_law(switch, n, i, j), exp_eps) for i, j in neighbours(n, k))


def long_enough(kind: str, W: int, k: int) -> int:
    """Length from which `worst_delta` no longer depends on n; nothing is cut off.

    RanSwitch: W+k-1, exactly. What tells two streams apart outright is a step at which one of the
    two slots is inside the window and the other is not; there are j-i of them, all in the stream
    when i >= W-1 and j = i+k-1. All else has the ratio p/q or its inverse, in the flush too.

    StaSwitch: 3k-2, for k <= 4. The worst pair is (k-1, 2k-2): its first step is the first of
    the stream, all ages zero. Its pairs of likelihoods are the same, exactly, for every longer
    stream: all is settled before the flush. (For shorter streams it is not, and delta is smaller
    at a large loss.) A longer stream also adds pairs that start from other ages; that they are
    not worse is enumerated (up to n = 3k+4), not proved.
    """
    return W + k - 1 if kind == "ranswitch" else 3 * k - 2


def displacement_law(
    kind: str, W: int, k: int, threshold: int, n: int, at: int, scale: int = SCALE
) -> dict[int, Fraction]:
    """Law of (release step - arrival step) of arrival `at` of n; negative is early."""
    switch = make_switch(kind, W, k, threshold, scale)
    law: dict[int, Fraction] = {}
    zero = Fraction(0)
    states: dict[Buffer, Fraction] = {
        tuple((value == at, 0) for value in range(min(W, n))): Fraction(1)
    }
    for t in range(n):
        following: dict[Buffer, Fraction] = {}
        for buffer, mass in states.items():
            for d, chance in draws(switch, buffer[0][1], n - 1 - t).items():
                tagged, left = swap(switch, buffer, d)
                if tagged:
                    law[t - at] = law.get(t - at, zero) + mass * chance
                    continue
                if t + W < n:
                    left = (*left, (t + W == at, 0))
                following[left] = following.get(left, zero) + mass * chance
        states = following
    return law
