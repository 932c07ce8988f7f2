"""Thresh and HeavyThresh of one device: the exact law of each of its messages.

From the rules alone, in fractions: nothing of the device's code, words or state. An
epoch's data are the numbers that a difference and an estimate look at: Thresh's is one
number, its sum of symbols; HeavyThresh's are w, the signed sums of its counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, log2
from typing import Any

from tests.oracle.brute import SCALE

# The law of a message: report -> probability.
Law = dict[bytes, Fraction]
Data = tuple[int, ...]


@dataclass(frozen=True)
class Rules:
    """most: that a sum can be; heavy: that every coordinate lies in -most..most."""

    epochs: int
    votes: int
    estimates: int
    levels: Sequence[int]
    most: int
    thresholds: Sequence[int]
    polls: int = 0
    heavy: bool = False


def votes(rules: Rules, data: Sequence[Data], updates: Sequence[bool]) -> list[bool]:
    """In which epochs a device votes yes, of an update the epoch in which it is found."""
    found: list[bool] = []
    reference = None
    for t, one in enumerate(data, 1):
        yes = False
        if reference is not None and sum(found) < rules.votes:
            difference = max(abs(a - b) for a, b in zip(one, reference, strict=True))
            above = [b for b, level in enumerate(rules.levels) if difference > level]
            yes = bool(above) and t % 2 ** (floor(log2(rules.epochs)) - max(above)) == 0
        found.append(yes)
        if updates[t - 1]:
            reference = one
    return found


def laws(rules: Rules, data: Sequence[Data], updates: Sequence[bool]) -> list[tuple[Law, Law]]:
    """Of each epoch: the law of its vote, and that of its estimate."""
    found = []
    yes = votes(rules, data, updates)
    for t, one in enumerate(data, 1):
        vote = _answer(rules.thresholds[0], int(yes[t - 1]))
        message = {bytes([bit]): chance for bit, chance in vote.items()}
        if rules.polls:
            every = rules.epochs // rules.polls
            if t % every == 0 and t // every <= rules.polls:
                poll = _answer(rules.thresholds[2], int(sum(yes[:t]) < rules.votes))
                message = {
                    bytes([v + 2 * p]): vote[v] * poll[p] for v in range(2) for p in range(2)
                }
        may = updates[t - 1] and sum(updates[: t - 1]) < rules.estimates
        if rules.heavy:
            message = {report + bytes(2): chance for report, chance in message.items()}
        found.append((message, _estimate(rules, one, may)))
    return found


def _estimate(rules: Rules, data: Data, may: bool) -> Law:
    if not rules.heavy:
        p = Fraction(data[0], rules.most) if may else Fraction(0)
        return {bytes([bit]): chance for bit, chance in _answer(rules.thresholds[1], p).items()}
    law: Law = {}
    for j, value in enumerate(data):
        p = Fraction(1, 2) + Fraction(value if may else 0, 2 * rules.most)
        for bit, chance in _answer(rules.thresholds[1], p).items():
            law[bytes([bit, j & 255, j >> 8])] = chance / len(data)
    return law


def _answer(threshold: int, truth: Fraction | int) -> dict[int, Fraction]:
    """Randomized response about something that is true with this probability."""
    lie = Fraction(threshold, SCALE)
    one = truth * (1 - lie) + (1 - truth) * lie
    return {0: 1 - one, 1: one}


def signed_sums(key: bytes, counts: Mapping[int, int], w: int) -> Data:
    """HeavyThresh's data of an epoch in which these items were counted."""

    def sign(j: int, item: int) -> int:
        return 1 if halfsiphash(key, block(j, item)) >> j % 32 & 1 else -1

    return tuple(sum(n * sign(j, item) for item, n in counts.items()) for j in range(w))


def block(j: int, item: int) -> bytes:
    return (j // 32).to_bytes(4, "little") + item.to_bytes(4, "little")


def kept(steps: Iterable[int], items: int) -> dict[int, int]:
    """What a table of so many items counts: a new one takes the place of the oldest."""
    table: dict[int, int] = {}
    for item in steps:
        if item not in table and len(table) == items:
            del table[next(iter(table))]
        table[item] = table.get(item, 0) + 1
    return table


def halfsiphash(key: bytes, message: bytes) -> int:
    """HalfSipHash-2-4 with 32 bits of output, for messages of whole words."""
    k0, k1 = (int.from_bytes(key[i : i + 4], "little") for i in (0, 4))
    v: Any = [k0, k1, 0x6C796765 ^ k0, 0x74656462 ^ k1]

    def turned(n: int, by: int) -> int:
        return (n << by | n >> (32 - by)) & 0xFFFFFFFF

    def mix(times: int) -> None:
        for _ in range(times):
            for a, b, c, d, left, right in ((0, 1, 2, 3, 5, 8), (2, 1, 0, 3, 13, 7)):
                v[a] = (v[a] + v[b]) & 0xFFFFFFFF
                v[b] = turned(v[b], left) ^ v[a]
                v[a] = turned(v[a], 16)
                v[c] = (v[c] + v[d]) & 0xFFFFFFFF
                v[d] = turned(v[d], right) ^ v[c]

    words = [int.from_bytes(message[i : i + 4], "little") for i in range(0, len(message), 4)]
    for word in [*words, len(message) << 24]:
        v[3] ^= word
        mix(2)
        v[0] ^= word
    v[2] ^= 0xFF
    mix(4)
    return v[1] ^ v[3]
