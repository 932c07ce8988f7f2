"""Couplings of given beliefs, made by the device's code, and an exact check of them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from tinyldp_device.coupling import BELIEF, MODEL, Coupling
from tinyldp_protocol.task import CRR, Task

HAMMING, ABSOLUTE, SQUARED = LOSSES = (1, 2, 3)
# e^-epsilon in 2^-14, rounded up, for epsilon = .1, .5, 1, 2, 4.
FRESH = {0.1: 14825, 0.5: 9938, 1: 6028, 2: 2218, 4: 301}


def crr_task(symbols: int, **changed: Any) -> Task:
    """A Task of CRR over so many symbols, whose model is uniform unless changed."""
    given = {"mechanism": CRR, "symbols": symbols, "thresholds": [FRESH[1] << 10]}
    given |= {"tick": 1000, "batch": 1, "resend": 5, "beacon": 100, "outbox": 4}
    given |= {"rule": 1, "loss": HAMMING, "prior": shares(symbols, BELIEF)}
    given |= {"transitions": shares(symbols, MODEL) * symbols}
    return Task(given | changed)


def shares(n: int, whole: int) -> list[int]:
    """n numbers, as equal as they can be, in sum `whole`."""
    return [(whole * (i + 1)) // n - whole * i // n for i in range(n)]


@lru_cache(None)
def _coupling(kind: type[Coupling], symbols: int, rule: int, loss: int, fresh: int) -> Coupling:
    return kind(crr_task(symbols, rule=rule, loss=loss, thresholds=[fresh << 10]))


def coupled(
    belief: Sequence[int],
    rule: int = 1,
    loss: int = HAMMING,
    fresh: int = FRESH[1],
    kind: type[Coupling] = Coupling,
) -> Coupling:
    """The coupling of a belief, which is overwritten by the next one of the same kind."""
    coupling = _coupling(kind, len(belief), rule, loss, fresh)
    for x, units in enumerate(belief):
        coupling.belief[x] = int(units)
    coupling.make()
    return coupling


def rows(coupling: Coupling) -> list[list[int]]:
    n = coupling.symbols
    return [list(coupling.joint[x * n : x * n + n]) for x in range(n)]


def least_kappa(fresh: int) -> int:
    """K: the least integer that is at least B q / (1 + q)."""
    q = Fraction(fresh, MODEL)
    exact = BELIEF * q / (1 + q)
    return -(-exact.numerator // exact.denominator)


def wrong(coupling: Coupling) -> str:
    """What is wrong with a coupling as the device holds it, or nothing."""
    n = coupling.symbols
    belief = list(coupling.belief)
    served = list(coupling.served)
    joint = rows(coupling)
    marginal = [sum(row[y] for row in joint) for y in range(n)]
    kappa = least_kappa(coupling.fresh)
    if sum(served) and marginal != list(coupling.marginal):
        return "marginal"
    if sum(coupling.marginal) != coupling.total or not 0 < coupling.total <= BELIEF:
        return "total"
    for x in range(n):
        if sum(joint[x]) != served[x] or served[x] not in (0, belief[x]):
            return "rows"
        for y in range(n):
            most = belief[x] * kappa if marginal[y] >= kappa else belief[x] * marginal[y]
            if joint[x][y] * kappa > most:
                return "caps"
    return ""


def kernel(coupling: Coupling) -> list[list[Fraction]]:
    """M(y|x) by the formula at the head of coupling.py."""
    n = coupling.symbols
    q = Fraction(coupling.fresh, MODEL)
    total = coupling.total
    marginal = [Fraction(units, total) for units in coupling.marginal]
    result = []
    for x, row in enumerate(rows(coupling)):
        own = marginal
        if coupling.served[x]:
            own = [Fraction(units, coupling.served[x]) for units in row]
        result.append([q * marginal[y] + (1 - q) * own[y] for y in range(n)])
    return result


def exceeding(chances: list[list[Fraction]], coupling: Coupling) -> bool:
    """Whether M leaves [q P, P / q] somewhere, or P is not exactly its marginal."""
    q = Fraction(coupling.fresh, MODEL)
    for y in range(coupling.symbols):
        p = Fraction(coupling.marginal[y], coupling.total)
        if any(not q * p <= row[y] <= p / q for row in chances):
            return True
        held = sum(
            (Fraction(b, BELIEF) * row[y] for b, row in zip(coupling.belief, chances, strict=True)),
            Fraction(0),
        )
        if held != p:
            return True
    return any(sum(row) != 1 for row in chances)


def random_belief(rng: np.random.Generator, most: int, least: int = 2) -> list[int]:
    """About `least` to `most` symbols: flat or steep; some hold zeros, or a few units of some."""
    symbols = int(rng.integers(least, most + 1))
    while True:
        shape = rng.choice([0.05, 0.2, 0.5, 1, 3])
        found = np.floor(rng.dirichlet(np.full(symbols, shape)) * BELIEF).astype(int)
        if rng.random() < 6 / 7:
            found = np.maximum(found, 1)
        if rng.random() < 0.2:
            tiny = rng.random(symbols) < 0.4
            found[tiny] = rng.integers(1, 7, tiny.sum())
        found[np.argmax(found)] += BELIEF - found.sum()
        if found.min() >= 0 and found.max() < BELIEF:
            return found.tolist()


def loss_matrix(symbols: int, loss: int) -> np.ndarray:
    difference = np.abs(np.subtract.outer(np.arange(symbols), np.arange(symbols)))
    return np.minimum(difference, 1) if loss == HAMMING else difference ** (loss - 1)


def cost_of(coupling: Coupling, loss: int) -> float:
    """The expected loss of the mechanism, over the largest one."""
    n = coupling.symbols
    table = loss_matrix(n, loss)
    belief = np.array(coupling.belief) / BELIEF
    chances = np.array(kernel(coupling), dtype=float)
    return float((belief[:, None] * chances * table).sum()) / table.max()
