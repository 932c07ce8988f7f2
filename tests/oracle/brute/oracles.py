"""Frequency oracles: exact transition matrices, likelihood ratios and variances.

A row is the law of the report of one true value: dict report -> Fraction.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from tests.oracle.brute import SCALE

Row = dict[Any, Fraction]
PRIME = 32749


def grr(d: int, threshold: int, scale: int = SCALE) -> list[Row]:
    """Randomized response over d values: each lie threshold/scale, the rest for the truth."""
    lie = Fraction(threshold, scale)
    assert 0 < lie * d < 1
    return [{y: 1 - (d - 1) * lie if y == x else lie for y in range(d)} for x in range(d)]


def oue(d: int, threshold: int, scale: int = SCALE) -> list[Row]:
    """Unary encoding: d bits, the true one kept with 1/2, each other on by lie. d <= 8."""
    lie = Fraction(threshold, scale)
    assert 0 < lie < Fraction(1, 2)
    matrix = []
    for x in range(d):
        row = {}
        for bits in product((0, 1), repeat=d):
            chance = Fraction(1)
            for i, bit in enumerate(bits):
                on = Fraction(1, 2) if i == x else lie
                chance *= on if bit else 1 - on
            row[bits] = chance
        matrix.append(row)
    return matrix


def olh_hash(value: int, g: int, key: tuple[int, int], prime: int = PRIME) -> int:
    """Hash of a value into 0..g-1 under the public key (a, b)."""
    a, b = key
    return (a + b * value) % prime % g


def olh(
    d: int,
    g: int,
    threshold: int,
    key: tuple[int, int],
    scale: int = SCALE,
    prime: int = PRIME,
) -> list[Row]:
    """Local hashing with a given hash key: randomized response over the g hashed values."""
    response = grr(g, threshold, scale)
    return [response[olh_hash(x, g, key, prime)] for x in range(d)]


def olh_keyed(d: int, g: int, threshold: int, prime: int, scale: int = SCALE) -> list[Row]:
    """Local hashing with its key: reports (a, b, value), a and b uniform. Only small primes."""
    matrix: list[Row] = [{} for _ in range(d)]
    for a, b in product(range(prime), range(prime)):
        for x, row in enumerate(olh(d, g, threshold, (a, b), scale, prime)):
            for y, chance in row.items():
                matrix[x][a, b, y] = chance / prime**2
    return matrix


def largest_ratio(matrix: Sequence[Row]) -> Fraction | None:
    """Largest likelihood ratio of one report under two true values; None if it is infinite."""
    largest = Fraction(1)
    for row, other in product(matrix, matrix):
        for report, chance in row.items():
            if chance == 0:
                continue
            if other.get(report, 0) == 0:
                return None
            largest = max(largest, chance / other[report])
    return largest


def grr_supports(d: int, report: int) -> tuple[int, ...]:
    """Which values a report speaks for: 1 or 0 for each."""
    return tuple(int(v == report) for v in range(d))


def oue_supports(d: int, report: tuple[int, ...]) -> tuple[int, ...]:
    """Which values a report speaks for: its bits."""
    assert len(report) == d
    return report


def olh_supports(
    d: int, g: int, report: tuple[int, int, int], prime: int = PRIME
) -> tuple[int, ...]:
    """Which values a report (a, b, value) speaks for: those that hash to its value."""
    a, b, y = report
    return tuple(int(olh_hash(v, g, (a, b), prime) == y) for v in range(d))


def collision_probability(g: int, prime: int = PRIME) -> Fraction:
    """Probability that two distinct values (< prime) have the same hash under a uniform key.

    For v != w the map (a, b) -> (a + bv, a + bw) modulo the prime is one to one on all pairs, so
    the two residues are independent and uniform: sum the squared share of each hash value.
    """
    sizes = [0] * g
    for residue in range(prime):
        sizes[residue % g] += 1
    return sum((Fraction(size, prime) ** 2 for size in sizes), Fraction(0))


Supports = Callable[[Any], tuple[int, ...]]
Laws = list[dict[tuple[int, ...], Fraction]]


def support_laws(matrix: Sequence[Row], supports: Supports) -> Laws:
    """For each true value the law of the values its report speaks for (d bits)."""
    laws = []
    for row in matrix:
        law: dict[tuple[int, ...], Fraction] = {}
        for report, chance in row.items():
            bits = supports(report)
            law[bits] = law.get(bits, Fraction(0)) + chance
        laws.append(law)
    return laws


def support_probability(laws: Laws, x: int, v: int) -> Fraction:
    """Probability that the report of a true x speaks for v: the p (x = v) and q of an oracle."""
    return sum((chance for bits, chance in laws[x].items() if bits[v]), Fraction(0))


def estimate_moments(
    laws: Laws, users: Sequence[int], p: Fraction, q: Fraction
) -> tuple[list[Fraction], list[Fraction]]:
    """Mean and variance, for each value, of (support/n - q)/(p - q) over all reports of `users`.

    `users` are the true values of n devices. Every combination of reports is enumerated, those
    with equal support counts as one: n <= 4, d <= 4.
    """
    d, n = len(laws), len(users)
    counts: dict[tuple[int, ...], Fraction] = {(0,) * d: Fraction(1)}
    for x in users:
        following: dict[tuple[int, ...], Fraction] = {}
        for so_far, mass in counts.items():
            for bits, chance in laws[x].items():
                total = tuple(a + b for a, b in zip(so_far, bits, strict=True))
                following[total] = following.get(total, Fraction(0)) + mass * chance
        counts = following
    means, variances = [], []
    for v in range(d):
        estimates = [((Fraction(c[v], n) - q) / (p - q), mass) for c, mass in counts.items()]
        mean = sum((e * mass for e, mass in estimates), Fraction(0))
        means.append(mean)
        variances.append(sum(((e - mean) ** 2 * mass for e, mass in estimates), Fraction(0)))
    return means, variances
