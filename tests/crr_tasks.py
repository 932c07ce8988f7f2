"""Random Tasks of conditional randomized response."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.simulating import make_task
from tinyldp_protocol.task import CRR, CRR_BATCH, Task


def shares(rng: np.random.Generator, n: int, whole: int, least: int, spread: float) -> list[int]:
    """n integers of `least` or more that sum to `whole`; a small spread makes some of them rare."""
    found = least + np.floor(rng.dirichlet(np.full(n, spread)) * (whole - n * least)).astype(int)
    found[found.argmax()] += whole - found.sum()
    return found.tolist()


def rows(rng: np.random.Generator, number: int, n: int, zeros: bool) -> list[int]:
    """`number` rows of transitions, one after the other; zeros: some are."""
    flat: list[int] = []
    for _ in range(number):
        row = np.array(shares(rng, n, 1 << 14, 1, float(rng.choice([0.2, 1.0, 5.0]))))
        if zeros and n > 2:
            gone = int(rng.integers(n))
            if row[gone] < row.max():
                row[row.argmax()] += row[gone]
                row[gone] = 0
        flat += row.tolist()
    return flat


def threshold(epsilon: float) -> int:
    return min((1 << 14) - 1, math.ceil(math.exp(-epsilon) * (1 << 14))) << 10


def random_crr(
    rng: np.random.Generator, n: int | None = None, rule: int | None = None, **more: Any
) -> Task:
    """Any Task of CRR (of blocks with block=), with rare symbols and zeros among transitions."""
    n = int(rng.choice([2, 3, 4, 5, 8])) if n is None else n
    batch = "block" in more
    rule = int(rng.integers(1, 3)) if rule is None else rule
    size = n ** more.get("memory", 1)
    loss = int(rng.integers(1, 5))
    numbers: dict[str, Any] = {
        "symbols": n,
        "rule": 2 if batch else rule,
        "loss": loss,
        "thresholds": [threshold(float(rng.choice([0.05, 0.3, 1, 2, 4, 8])))],
        "prior": shares(rng, size, 1 << 15, 1, float(rng.choice([0.2, 1.0, 5.0]))),
        "transitions": rows(rng, size, n, bool(rng.integers(2))),
    }
    if loss == 4:
        costs = np.triu(rng.integers(0, 1024, (n, n)), 1)
        numbers["costs"] = (costs + costs.T).ravel().tolist()
    return make_task(CRR_BATCH if batch else CRR, **{**numbers, **more})


def sticky(n: int, epsilon: float, stay: float, /, **more: Any) -> Task:
    """On a chain of n states that stays where it is with this probability, else goes anywhere."""
    away = round((1 - stay) / (n - 1) * (1 << 14))
    matrix = np.full((n, n), away)
    np.fill_diagonal(matrix, (1 << 14) - (n - 1) * away)
    prior = [(1 << 15) // n] * n
    prior[0] += (1 << 15) - sum(prior)
    numbers: dict[str, Any] = {
        "symbols": n,
        "rule": 1,
        "loss": 1,
        "thresholds": [threshold(epsilon)],
        "prior": prior,
        "transitions": matrix.ravel().tolist(),
    }
    return make_task(CRR, **{**numbers, **more})
