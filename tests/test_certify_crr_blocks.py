"""The certificate of blocks: the exact filter, faults, and the count of releases."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import pytest

from tests.crr_blocks import PlainBlocks, batch_task
from tinyldp.certify import crr
from tinyldp.certify.crr import releases_in, step_factor, step_fault, walk
from tinyldp.crr.filters import ExactFilter
from tinyldp.crr.steps import Step, kernel

SHARE = 2218
TWO = batch_task([16384, 16384], [13107, 3277, 3277, 13107], SHARE, 2)
THREE = batch_task(
    [13107, 11469, 8192], [9830, 3277, 3277, 4915, 6554, 4915, 3277, 4915, 8192], SHARE, 2
)
MEMORY = batch_task(
    [12000, 4384, 8192, 8192],
    [12000, 4384, 8192, 8192, 6000, 10384, 3000, 13384],
    SHARE,
    3,
    memory=2,
)


@pytest.fixture(autouse=True)
def short_walks(monkeypatch):
    monkeypatch.setattr(crr, "_MOST_HISTORIES", 100)
    monkeypatch.setattr(crr, "_SAMPLED_WORK", 2_000)


def law_of(task, values: tuple[int, ...]) -> Fraction:
    """Of this many symbols from the first one on."""
    n, memory = task.symbols, task.memory or 1
    state = 0
    for value in values[:memory]:
        state = state * n + value
    chance = Fraction(task.prior[state], 1 << 15)
    for value in values[memory:]:
        chance *= Fraction(task.transitions[state * n + value], 1 << 14)
        state = (state * n + value) % n**memory
    return chance


def digits(block: int, n: int, w: int) -> tuple[int, ...]:
    return tuple(block // n**i % n for i in reversed(range(w)))


@pytest.mark.parametrize("task", [TWO, THREE, MEMORY])
def test_the_filter_of_blocks_is_bayes_rule_over_all_series(task):
    """Two blocks: what the second one's law is, given the first release, by enumeration."""
    n, w = task.symbols, task.block
    policy, exact = PlainBlocks(task), ExactFilter(task)
    first = policy.first()
    rows = kernel(first, SHARE)
    for released in [y for y, m in enumerate(first.marginal) if m]:
        joint = [Fraction(0)] * n**w
        for one in range(n**w):
            for two in range(n**w):
                values = digits(one, n, w) + digits(two, n, w)
                joint[two] += law_of(task, values) * rows[one][released]
        bounds = exact.blocks(exact.after(first, exact.first(), released))
        total, low, high = sum(joint), sum(bounds.low), sum(bounds.high)
        for a, b, law in zip(bounds.low, bounds.high, joint, strict=True):
            assert Fraction(a, high) <= law / total <= Fraction(b, low)
            assert b - a <= max(b >> 100, 1 << 10)
        step = policy.after(first, released)
        second = kernel(step, SHARE)
        worst = Fraction(1)
        for y, marginal in enumerate(step.marginal):
            if marginal:
                law = sum(j * second[x][y] for x, j in enumerate(joint)) / total
                mine = Fraction(marginal, step.total)
                worst = max(worst, law / mine, mine / law)
        found = exact.drift(step, exact.after(first, exact.first(), released))
        assert worst <= found <= worst * (1 + Fraction(1, 1 << 90))


@pytest.mark.parametrize("task", [TWO, THREE, MEMORY])
def test_a_plain_rule_is_walked_without_a_fault(task):
    found = walk(task, PlainBlocks(task))
    assert found.fault is None
    assert found.factor <= Fraction(1 << 14, SHARE)
    assert 1 <= max(found.drift) < 1.01


def moved(step: Step, x: int, y: int, units: int) -> Step:
    """Units of value x are released as y in place of what they were."""
    rows = [dict(row) for row in step.rows]
    old = next(iter(rows[x]))
    rows[x][old] -= units
    rows[x][y] = rows[x].get(y, 0) + units
    marginal = list(step.marginal)
    marginal[old] -= units
    marginal[y] += units
    return dataclasses.replace(step, rows=tuple(rows), marginal=tuple(marginal))


def test_a_unit_of_a_rare_block_that_is_told_is_a_fault():
    step: Any = PlainBlocks(MEMORY).first()
    assert step_fault(step, SHARE) is None
    rare = next(x for x, row in enumerate(step.rows) if x not in row)
    worse = moved(step, rare, rare, 1)
    assert step_fault(worse, SHARE) == f"{rare} tells too much about value {rare}"
    assert step_factor(worse, SHARE) > Fraction(1 << 14, SHARE)


@pytest.mark.parametrize(
    ("w", "releases"), [(1, 1), (2, 2), (3, 2), (4, 2), (5, 3), (7, 3), (8, 4)]
)
def test_steps_tell_by_the_blocks_that_they_touch(w, releases):
    """Of 3 steps: 2 steps may lie in two blocks, 5 in three."""
    assert releases_in(MEMORY, w) == releases
