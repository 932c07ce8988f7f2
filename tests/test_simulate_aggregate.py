"""Counts drawn directly have the law of counts from single reports.

Two samples of rounds, one each way, with a false alarm of 1e-6; the same test tells
rounds apart whose threshold is 0.7 or 1.3 times as large.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulating import FALSE_ALARM, make_task, two_samples
from tinyldp.errors import UserError
from tinyldp.estimate import expected_variance, support_chances, supports
from tinyldp.simulate import aggregate, oracles
from tinyldp.simulate.words import DrawnWords
from tinyldp_protocol.task import GRR, OLH, OUE, RANSWITCH, SCALE, Task

ROUNDS = 6000
Vectors = list[tuple[int, ...]]


def oracle(mechanism: int, symbols: int, factor: float = 1.0) -> Task:
    share = {GRR: 0.1, OUE: 0.2, OLH: 0.12}[mechanism]
    thresholds = [round(factor * share * SCALE)]
    more = {"buckets": 3} if mechanism == OLH else {}
    return make_task(mechanism, symbols=symbols, thresholds=thresholds, **more)


def directly(task: Task, counts: list[int], seed: int) -> Vectors:
    rng = np.random.default_rng(seed)
    drawn = (aggregate.supports(task, np.array(counts), rng) for _ in range(ROUNDS))
    return [tuple(support.tolist()) for support in drawn]


def one_by_one(task: Task, counts: list[int], seed: int) -> Vectors:
    values = np.repeat(np.arange(len(counts)), counts)
    n = len(values)
    words = DrawnWords(n * ROUNDS, np.random.SeedSequence(seed))
    reports = oracles.draw(task, np.tile(values, ROUNDS), words)
    return [
        tuple(supports(task, np.ascontiguousarray(reports[at : at + n])).tolist())
        for at in range(0, n * ROUNDS, n)
    ]


@pytest.mark.parametrize(
    # OLH's joint law is exact for two values; for more, its hash is taken to be ideal.
    ("mechanism", "counts"),
    [(GRR, [4, 0, 2]), (GRR, [9, 3]), (OUE, [3, 0, 2]), (OLH, [6, 2])],
)
def test_joint_law_of_a_round(mechanism: int, counts: list[int]) -> None:
    mine = directly(oracle(mechanism, len(counts)), counts, 1)
    theirs = one_by_one(oracle(mechanism, len(counts)), counts, 2)
    assert two_samples(mine, theirs) > FALSE_ALARM
    for factor in (0.7, 1.3):
        wrong = directly(oracle(mechanism, len(counts), factor), counts, 3)
        assert two_samples(wrong, theirs) < FALSE_ALARM
    # GRR's counts are no independent binomials: shuffled against one another, they differ.
    if mechanism == GRR:
        rng = np.random.default_rng(4)
        parts = [rng.permutation(column).tolist() for column in np.array(mine).T]
        assert two_samples(zip(*parts, strict=True), theirs) < FALSE_ALARM


@pytest.mark.parametrize("mechanism", [GRR, OUE, OLH])
def test_law_of_each_count_of_more_values(mechanism: int) -> None:
    counts = [40, 0, 10, 25, 0, 5]
    mine = np.array(directly(oracle(mechanism, 6), counts, 5))
    theirs = np.array(one_by_one(oracle(mechanism, 6), counts, 6))
    wrong = [np.array(directly(oracle(mechanism, 6, f), counts, 7)) for f in (0.7, 1.3)]
    for value in range(6):
        column = theirs[:, value].tolist()
        assert two_samples(mine[:, value].tolist(), column) > FALSE_ALARM / 6
        # A third of OLH's reports support a value that others hold, whatever the threshold.
        if counts[value] >= 10 or mechanism != OLH:
            for other in wrong:
                assert two_samples(other[:, value].tolist(), column) < FALSE_ALARM


@pytest.mark.parametrize("mechanism", [GRR, OUE, OLH])
def test_a_thousand_million_devices_are_estimated_as_expected(mechanism: int) -> None:
    task = oracle(mechanism, 8)
    counts = np.array([500_000_000, 0, 250_000_000, 1, 99_999_999, 150_000_000, 0, 0])
    n = int(counts.sum())
    rng = np.random.default_rng(8)
    p, q = map(float, support_chances(task))
    squares = []
    for _ in range(4000):
        estimates = (aggregate.supports(task, counts, rng) / n - q) / (p - q)
        squares.append(np.square(estimates - counts / n).mean())
    # 4,000 rounds of eight squares of normals: a deviation of less than 1 %.
    assert np.mean(squares) == pytest.approx(expected_variance(task, n), rel=0.06)


def test_what_does_not_fit_is_refused() -> None:
    rng = np.random.default_rng(9)
    with pytest.raises(ValueError, match="one number for each symbol"):
        aggregate.supports(oracle(GRR, 8), np.ones(7, dtype=int), rng)
    stream = make_task(RANSWITCH, window=4, k=4, symbols=8, thresholds=[1 << 20])
    with pytest.raises(UserError):
        aggregate.supports(stream, np.ones(8, dtype=int), rng)
