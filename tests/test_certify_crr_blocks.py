"""The certificate of blocks: the exact filter, faults, and the count of releases."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import pytest

from tests.crr_blocks import PlainBlocks, batch_task
from tests.crr_studies import kernel
from tinyldp.certify import certify, crr, text_certificate
from tinyldp.certify.bounds import log_upper
from tinyldp.certify.crr import releases_in, step_factor, step_fault, walk
from tinyldp.crr.device import BlockPolicy, device_policy
from tinyldp.crr.filters import ExactFilter
from tinyldp.crr.steps import Policy, Step, q_of
from tinyldp_device.blocks import BlockCoupling
from tinyldp_protocol.task import Task

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


# From here on: the device package's own blocks.

BATCHES = [
    batch_task(task.prior, task.transitions, share, task.block or 1, task.memory or 1)
    for task in (TWO, THREE, MEMORY)
    for share in (6028, 2218)
]


@pytest.mark.parametrize("task", BATCHES)
def test_a_device_taken_back_to_a_step_goes_on_as_one_that_never_left_it(task):
    """Along one history, with other histories in between."""
    policy, coupling = device_policy(task), BlockCoupling(task)
    coupling.make(coupling.block)
    step = policy.first()
    for turn in range(6):
        assert list(step.belief) == list(coupling.belief)
        kept = list(coupling.kept[: coupling.count])
        assert [step.marginal[y] for y in kept] == list(coupling.marginal[: coupling.count])
        for x, row in enumerate(step.rows):
            made = {y: coupling.joint(x, k) for k, y in enumerate(kept) if coupling.joint(x, k)}
            assert row == made
        for y in kept:
            policy.after(step, y)
        policy.ends(step)
        k = turn % coupling.count
        step = policy.after(step, kept[k])
        coupling.update(k)
        coupling.make(coupling.block)


@pytest.mark.parametrize("task", BATCHES)
def test_a_device_is_walked_without_a_fault(task):
    found = walk(task, device_policy(task))
    assert found.fault is None
    assert found.factor <= 1 / q_of(task)
    assert found.depth >= 1


def leakage_of_blocks(task: Task, policy: Policy, last: int | None = None) -> Fraction:
    """What two blocks tell, the second one perhaps of fewer symbols, by going through all."""
    n, w = task.symbols, task.block or 1
    length = last or w
    share = task.thresholds[0] >> 10
    first, worst = policy.first(), Fraction(1)
    rows = kernel(first, share)
    law_of_two = {
        (one, two): law_of(task, digits(one, n, w) + digits(two, n, length))
        for one in range(n**w)
        for two in range(n**length)
    }
    for y, marginal in enumerate(first.marginal):
        if not marginal:
            continue
        step = policy.after(first, y)
        if last is not None:
            step = policy.ends(step)[last - 1]
        second = kernel(step, share)
        for z, other in enumerate(step.marginal):
            if not other:
                continue
            law, given = Fraction(0), []
            for (one, two), chance in law_of_two.items():
                if chance:
                    given.append(rows[one][y] * second[two][z])
                    law += chance * given[-1]
            worst = max(worst, max(given) / law, law / min(given))
    return worst


@pytest.mark.parametrize("task", BATCHES)
def test_blocks_tell_no_more_than_the_certificate(task):
    block = task.block or 1
    again = Task({**numbers_of(task), "w": 1 + block})
    policy = device_policy(task)
    found = crr.figures(again, policy, None)
    bound = found.opening
    assert bound is not None
    assert found.sequence is not None
    assert bound < found.sequence
    # As many steps as may touch two blocks.
    assert releases_in(again, 1 + block) == 2
    assert log_upper(leakage_of_blocks(task, policy)) <= bound
    for last in range(1, block):
        assert log_upper(leakage_of_blocks(task, policy, last)) <= bound


def numbers_of(task: Task) -> dict[str, Any]:
    return {name: value for name, value in vars(task).items() if name not in ("width", "id")}


class NeverUpdated(BlockPolicy):
    def after(self, step: Step, released: int) -> Step:
        return step


def test_blocks_whose_belief_is_never_updated_tell_more_than_the_certificate():
    task = batch_task([16384, 16384], [16220, 164, 164, 16220], 2218, 2)
    again = Task({**numbers_of(task), "w": 3})
    bound = crr.figures(again, device_policy(task), None).opening
    assert bound is not None
    policy = NeverUpdated(BlockCoupling(task))
    assert log_upper(leakage_of_blocks(task, policy)) > bound
    assert log_upper(leakage_of_blocks(task, device_policy(task))) <= bound


class Faulty(BlockCoupling):
    """One unit of a filled block is kept by the likeliest; or a short block is told."""

    def __init__(self, task: Task, short: bool) -> None:
        super().__init__(task)
        self._short = short

    def make(self, length: int) -> None:
        super().make(length)
        if self._short and length < self.block:
            # The truth, whatever is rare.
            self.count = min(self.size, len(self.kept))
            for x in range(self.count):
                self.kept[x] = self.target[x] = x
                self.marginal[x] = self.belief[x]
                self.fill[x] = self.belief[x] if x == 0 else 0
        elif not self._short:
            for k in range(1, self.count):
                if self.marginal[k] == self.kappa:
                    self.marginal[k] -= 1
                    self.marginal[0] += 1
                    return


@pytest.mark.parametrize(
    ("short", "sentence"), [(False, "the output's law is not that of"), (True, "tells too much")]
)
def test_faults_of_whole_and_of_short_blocks_are_named(short, sentence):
    """The short one comes only at the end of a segment."""
    task = batch_task([32000, 768], [14000, 2384, 12000, 4384], 6028, 2)
    if not short:
        rows = [2707, 6928, 6749, 4714, 9839, 1831, 4972, 6461, 4951]
        task = batch_task([7234, 12984, 12550], rows, 2218, 2)
    assert walk(task, device_policy(task)).fault is None
    found = walk(task, BlockPolicy(Faulty(task, short)))
    assert found.fault is not None
    assert sentence in found.fault


def test_a_certificate_of_blocks_says_what_is_not_bounded():
    certificate = certify(MEMORY)
    assert certificate.crr is not None
    assert certificate.crr.step == certificate.crr.fallback
    assert "a block's own belief is rounded" in " ".join(certificate.warnings)
    assert "the 3 values of the block" in certificate.relation
    text = " ".join(text_certificate(certificate).split())
    assert "no bound beyond" in text
    assert "epsilon is of one block" in text
