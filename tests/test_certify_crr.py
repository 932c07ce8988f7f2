"""Certificates of CRR: never below what a sequence really tells, and faults are named."""

import dataclasses
import json
import math
import random
from array import array
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import pytest

from tests.crr_studies import (
    Kernel,
    crr_task,
    kernel,
    of_policy,
    policy_leakage,
    sequence_leakage,
)
from tinyldp.certify import certify, crr, text_certificate
from tinyldp.certify.bounds import exp_bounds, log_upper
from tinyldp.crr.device import DevicePolicy, device_policy
from tinyldp.crr.filters import ExactFilter
from tinyldp.crr.model import PRIOR_SCALE, ROW_SCALE
from tinyldp.crr.steps import Policy, Step, q_of
from tinyldp_device.coupling import Coupling
from tinyldp_protocol.task import Task

# e = q 2^14 of epsilon 0.5, 1, 2.
SHARES = (9938, 6028, 2218)
FREQUENT = crr_task(
    [13107, 11469, 8192], [9830, 3277, 3277, 4915, 6554, 4915, 3277, 4915, 8192], 6028
)
RARE = crr_task([31000, 1500, 268], [15400, 900, 84, 2000, 14000, 384, 500, 500, 15384], 6028)
STICKY = crr_task([16384, 16384], [16220, 164, 164, 16220], 2218)
# Symbol 2 can only follow itself and is never come back to: its belief falls, to zero it may not.
GAPS = crr_task([16384, 8192, 8192], [8192, 8192, 0, 8192, 8192, 0, 0, 8192, 8192], 6028)


@pytest.fixture(autouse=True)
def short_walks(monkeypatch):
    """Depth 4 or 5 in place of 7, and 40 steps of each long history."""
    monkeypatch.setattr(crr, "_MOST_HISTORIES", 400)
    monkeypatch.setattr(crr, "_SAMPLED_WORK", 3_000)


def leakage(task: Task, length: int, policy: Policy | None = None) -> Fraction:
    """ln of what is told, rounded up."""
    return log_upper(policy_leakage(task, policy or device_policy(task), length))


def with_w(task: Task, w: int) -> Task:
    numbers = {name: value for name, value in vars(task).items() if name not in ("width", "id")}
    return Task(numbers | {"w": w})


def sequence_bound(task: Task, w: int) -> Fraction:
    """Of the first w steps, the smaller one of the two that are certified."""
    found = crr.figures(with_w(task, w), device_policy(task), None)
    assert found.sequence is not None
    assert found.opening is not None
    assert found.opening <= found.sequence
    return found.opening


@pytest.mark.parametrize("rule", [1, 2])
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("task", [FREQUENT, RARE, STICKY, GAPS])
def test_whole_sequences_tell_no_more_than_the_certificate(task, share, rule):
    """All of up to 5 steps (3 symbols: 4), exactly."""
    again = crr_task(task.prior, task.transitions, share, rule)
    length = 5 if again.symbols == 2 else 4
    policy = device_policy(again)
    epsilon = log_upper(1 / q_of(again))
    assert leakage(again, 1, policy) <= epsilon
    bound = sequence_bound(again, length)
    # It is the largest of all prefixes, too.
    assert leakage(again, length, policy) <= bound <= 2 * length * epsilon


@pytest.mark.parametrize("rule", [1, 2])
@pytest.mark.parametrize("task", [FREQUENT, RARE, GAPS])
def test_five_steps_of_three_symbols_tell_no_more_than_the_certificate(task, rule):
    again = crr_task(task.prior, task.transitions, 6028, rule)
    assert leakage(again, 5) <= sequence_bound(again, 5)


@pytest.mark.parametrize("task", [RARE, STICKY, GAPS])
def test_two_ways_to_go_through_all_sequences_agree(task):
    policy = device_policy(task)
    kernels = of_policy(policy, task.thresholds[0] >> 10)
    by_pairs = max(sequence_leakage(task, kernels, length) for length in (1, 2, 3))
    assert by_pairs == policy_leakage(task, policy, 3)


def test_a_step_tells_exactly_what_it_may():
    """e^-epsilon is e / 2^14, and is reached."""
    certificate = certify(RARE)
    assert certificate.crr is not None
    assert certificate.crr.reached
    assert certificate.crr.walk.factor == Fraction(1 << 14, 6028)
    assert certificate.epsilon == log_upper(Fraction(1 << 14, 6028))
    assert certificate.delta == 0


class Faulty(Coupling):
    """A coupling with one fault, planted in what make() or update() leaves."""

    def __init__(self, task: Task, fault: Callable[[Any], None]) -> None:
        super().__init__(task)
        self._fault = fault

    def make(self) -> None:
        super().make()
        self._fault(self)


def less_noise(c: Coupling) -> None:
    """A unit of what a rare symbol gave away is kept."""
    n = c.symbols
    for x in range(n):
        if 0 < c.belief[x] < c.kappa and c.served[x] > c.joint[x * n + x]:
            y = max(range(n), key=lambda y: c.joint[x * n + y] if y != x else -1)
            c.joint[x * n + y] -= 1
            c.joint[y * n + x] -= 1
            c.joint[x * n + x] += 1
            c.joint[y * n + y] += 1
            return


def paper(c: Coupling) -> None:
    """The closed form: the truth, else a sample of the belief, however rare a symbol is."""
    n = c.symbols
    for x in range(n):
        c.served[x] = c.marginal[x] = c.belief[x]
        for y in range(n):
            c.joint[x * n + y] = c.belief[x] if x == y else 0
    c.total = PRIOR_SCALE


def not_the_law(c: Coupling) -> None:
    largest = max(range(c.symbols), key=lambda y: c.marginal[y])
    c.marginal[largest] -= 1
    c.marginal[largest - 1] += 1


def identity(c: Coupling) -> None:
    """A value of no belief is served, and told for certain."""
    n = c.symbols
    for x in range(n):
        if not c.belief[x]:
            c.joint[x * n + x] = 1


def truncated(c: Coupling) -> None:
    c.belief[0] -= 1


NO_BELIEF = crr_task([16384, 8192, 8192], [8192, 8192, 0, 8192, 8192, 0, 8192, 8192, 0], 6028)


@pytest.mark.parametrize(
    ("task", "fault", "sentence"),
    [
        (RARE, less_noise, "tells too much about value"),
        (RARE, paper, "tells too much about value 1"),
        (FREQUENT, not_the_law, "the output's law is not that of"),
        (NO_BELIEF, identity, "does not add up to its belief"),
        (FREQUENT, truncated, "the belief is none"),
    ],
)
def test_what_a_device_does_wrong_is_named(task, fault, sentence):
    assert crr.walk(task, DevicePolicy(Coupling(task))).fault is None
    found = crr.walk(task, DevicePolicy(Faulty(task, fault)))
    assert found.fault is not None
    assert sentence in found.fault


def test_a_faulty_device_gets_no_certificate(monkeypatch):
    policy = DevicePolicy(Faulty(RARE, less_noise))
    monkeypatch.setattr("tinyldp.certify.issue.device_policy", lambda _: policy)
    certificate = certify(RARE)
    assert not certificate.within_target
    assert certificate.delta == 1
    assert {delta for _, delta in certificate.curve} == {1}
    assert "No figure of this certificate holds" in " ".join(certificate.warnings)
    assert "NOT KEPT" in text_certificate(certificate)


def test_the_papers_form_breaks_its_bound_where_a_symbol_is_rare():
    """A single step of it tells more than epsilon, and more than its certificate allows."""
    epsilon = log_upper(1 / q_of(RARE))
    assert leakage(RARE, 1, DevicePolicy(Faulty(RARE, paper))) > epsilon
    assert leakage(RARE, 1) <= epsilon
    claim = certify(RARE).paper
    assert claim is not None
    assert not claim.holds
    # b = 268 / 2^15: q + (1 - q) / b = 77.6.
    found = certify(RARE).crr
    assert found is not None
    q = Fraction(6028, 1 << 14)
    assert found.closed_form.factor == q + (1 - q) * Fraction(1 << 15, 268)
    assert "would tell epsilon 4.3" in text_certificate(certify(RARE)).replace("\n" + " " * 14, " ")


def test_the_papers_form_keeps_its_bound_where_none_is():
    """Two symbols, hardly correlated: no belief is below 1 / (e^epsilon + 1)."""
    task = crr_task([16384, 16384], [8800, 7584, 7584, 8800], 2218)
    claim = certify(task).paper
    assert claim is not None
    assert claim.holds
    assert crr.walk(task, DevicePolicy(Faulty(task, paper))).fault is None


class NeverUpdated(DevicePolicy):
    def after(self, step: Step, released: int) -> Step:
        return step


def test_a_belief_that_is_never_updated_tells_more_than_the_certificate():
    """Its steps are faultless against its own belief: what finds it is the exact one."""
    policy = NeverUpdated(Coupling(STICKY))
    bound = sequence_bound(STICKY, 4)
    assert leakage(STICKY, 4, policy) > bound
    found = crr.figures(with_w(STICKY, 4), policy, None)
    assert found.walk.fault is None
    # The drift that is seen is above any that is promised: no certificate would hide it.
    assert found.drift is not None
    assert log_upper(max(found.walk.drift)) > found.drift


def test_a_belief_updated_with_the_true_value_tells_more_than_the_certificate():
    share = STICKY.thresholds[0] >> 10
    policy = device_policy(STICKY)

    def kernels(values: tuple[int, ...], _: tuple[int, ...]) -> Kernel:
        step = policy.first()
        for value in values[:-1]:
            step = policy.after(step, value)
        return kernel(step, share)

    told = log_upper(sequence_leakage(STICKY, kernels, 3))
    assert told > sequence_bound(STICKY, 3)


def test_a_value_of_no_belief_tells_no_more_than_the_rule_allows():
    """A reading that the model excludes is released all the same: by the law of all others."""
    policy = device_policy(NO_BELIEF)
    step = policy.after(policy.first(), 0)
    assert step.belief[2] == 0
    rows = kernel(step, 6028)
    law = [Fraction(p, step.total) for p in step.marginal]
    assert rows[2] == law
    # Any two values differ by no more than twice epsilon.
    for one in rows:
        for other in rows:
            for a, b in zip(one, other, strict=True):
                assert a * 6028**2 <= b * (1 << 28)


def _sum(parts: Iterable[Fraction]) -> Fraction:
    return sum(parts, Fraction(0))


@pytest.mark.parametrize("task", [FREQUENT, RARE, STICKY, GAPS])
def test_the_filter_between_integers_is_the_exact_one(task):
    """Against Bayes' rule in fractions, along every history of three releases."""
    n, share = task.symbols, task.thresholds[0] >> 10
    policy, exact = device_policy(task), ExactFilter(task)

    def go(step: Step, bounds: Any, belief: list[Fraction], left: int) -> None:
        rows = kernel(step, share)
        total = sum(belief)
        for low, high, b in zip(bounds.low, bounds.high, belief, strict=True):
            # Up to one factor, with relative width below 2^-100.
            assert Fraction(low, sum(bounds.high)) <= b / total <= Fraction(high, sum(bounds.low))
            assert high - low <= max(high >> 100, 64)
        worst = Fraction(1)
        for y, marginal in enumerate(step.marginal):
            if not marginal:
                continue
            law = sum(b * rows[x][y] for x, b in enumerate(belief)) / total
            mine = Fraction(marginal, step.total)
            worst = max(worst, mine / law, law / mine)
            if left:
                after = [
                    _sum(
                        b * rows[x][y] * Fraction(task.transitions[x * n + z], ROW_SCALE)
                        for x, b in enumerate(belief)
                    )
                    for z in range(n)
                ]
                go(policy.after(step, y), exact.after(step, bounds, y), after, left - 1)
        assert worst <= exact.drift(step, bounds) <= worst * (1 + Fraction(1, 1 << 90))

    prior = [Fraction(p, PRIOR_SCALE) for p in task.prior]
    go(policy.first(), exact.first(), prior, 3)


def test_drift_is_bounded_where_the_chain_is_positive_and_only_there():
    for task in (FREQUENT, STICKY):
        found = certify(task).crr
        assert found is not None
        assert found.drift is not None
        seen = max(*found.walk.drift, found.walk.sampled_drift)
        assert 1 < seen <= exp_bounds(found.drift)[1]
        assert found.epsilon < found.step < found.fallback
    found = certify(GAPS)
    assert found.crr is not None
    assert found.crr.drift is None
    assert found.crr.step == found.crr.fallback
    assert "only the line 'wrong model' is proved" in " ".join(found.warnings)


def test_beliefs_that_differ_by_h_have_outputs_that_differ_by_less():
    """Random ones, and the two that the bound is reached by."""
    generator = random.Random(3)
    q = Fraction(3, 8)
    for h in (0.01, 0.3, 2.0):
        bound, reached = crr.of_output(Fraction(h), q), 0.0
        for _ in range(300):
            # Values told apart are two, by whether L = M / P is high: P of mean 1 in q .. 1 / q.
            high = q / (1 + q)
            weights = [1 - float(high), float(high)]
            split = generator.random()
            beliefs = [w * s for w in weights for s in (split, 1 - split)]
            told = [float(q)] * 2 + [1 / float(q)] * 2
            other = [b * math.exp(h * generator.random()) for b in beliefs]
            if split < 0.5:
                other = [b * math.exp(h * (i > 1)) for i, b in enumerate(beliefs)]
            total = sum(other)
            law = sum(b * m for b, m in zip(other, told, strict=True)) / total
            reached = max(reached, abs(math.log(law)))
        assert reached == pytest.approx(float(bound), rel=1e-9)


def test_rounding_is_not_underestimated():
    """Of a step, against the exact next belief of the device's own: Hilbert's metric."""
    for task in (FREQUENT, RARE, STICKY):
        bound = crr.rounding(list(task.transitions), task.symbols, q_of(task))
        assert bound is not None
        n, share = task.symbols, task.thresholds[0] >> 10
        policy = device_policy(task)
        steps = [policy.first()]
        worst = Fraction(1)
        for step in steps:
            rows = kernel(step, share)
            for y, marginal in enumerate(step.marginal):
                if not marginal:
                    continue
                exact = [
                    _sum(
                        step.belief[x] * rows[x][y] * task.transitions[x * n + z] for x in range(n)
                    )
                    for z in range(n)
                ]
                following = policy.after(step, y)
                ratios = [Fraction(b) / e for b, e in zip(following.belief, exact, strict=True)]
                worst = max(worst, max(ratios) / min(ratios))
                if len(steps) < 400:
                    steps.append(following)
        # And by no more than an order of magnitude.
        assert bound / 16 < log_upper(worst) <= bound


def test_a_sequence_with_delta_tells_less_when_it_is_long():
    task = crr_task([16384, 16384], [9000, 7384, 7384, 9000], 14825, w=400, delta=1 << 20)
    found = certify(task)
    assert found.crr is not None
    assert found.crr.with_delta is not None
    assert found.crr.sequence is not None
    # The formula of the module, in floats, with what each step tells.
    each = [float(found.crr.sequence) / 400] * 400
    delta = 2**20 / 2**30
    formula = math.sqrt(2 * sum(s * s for s in each) * math.log(2 / delta)) + sum(
        s * math.tanh(s / 2) for s in each
    )
    assert float(found.crr.with_delta) == pytest.approx(formula, rel=1e-3)
    assert found.crr.with_delta < found.crr.sequence / 2
    assert f"in 400 steps epsilon {formula:.3g}"[:24] in text_certificate(found)


def test_a_target_is_compared_exactly():
    """epsilon 1 is met by ceil(2^14 / e) = 6028, not by 6027."""
    base = {"w": 3, "epsilon": 1 << 16}
    met = crr_task(FREQUENT.prior, FREQUENT.transitions, 6028, **base)
    assert certify(met).within_target
    certificate = certify(crr_task(FREQUENT.prior, FREQUENT.transitions, 6027, **base))
    assert not certificate.within_target
    assert "exceeds the Task's target" in certificate.warnings[0]


def test_the_curve_is_that_of_two_laws_within_epsilon():
    certificate = certify(FREQUENT)
    assert certificate.curve[0][1] == (
        (exp_bounds(certificate.epsilon)[1] - 1) / (exp_bounds(certificate.epsilon)[1] + 1)
    )
    assert certificate.curve[-1][1] == 0


def test_json_has_every_figure_as_a_plain_number():
    certificate = certify(with_w(FREQUENT, 10))
    content = json.loads(json.dumps(certificate.to_json()))
    found = content["crr"]
    assert found["belief"]["reached"]
    assert found["belief"]["fault"] is None
    assert found["wrong_model"]["epsilon"] == pytest.approx(2 * content["epsilon"])
    assert content["lifetime"]["per_window"] == found["sequence"]["epsilon"]
    assert found["drift"]["by_depth"][0] == 1
    assert len(found["drift"]["by_depth"]) == found["belief"]["depth"] + 1
    text = text_certificate(certificate)
    for line in (
        *("own belief", "drift", "exact belief", "wrong model", "in 10 steps", "first 10"),
        "the paper",
    ):
        assert line in text


def test_figures_are_frozen():
    found = certify(FREQUENT).crr
    assert found is not None
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.epsilon = Fraction(0)  # pyright: ignore[reportAttributeAccessIssue]
    assert array("H").itemsize == 2


def test_histories_that_never_branch_end():
    """The likelier of two is released always, where the other one is rare and may be dropped."""
    task = crr_task([31000, 1768], [15900, 484, 15900, 484], 14825, 2)
    found = certify(task).crr
    assert found is not None
    assert found.walk.depth == found.walk.histories - 1 == 64
    assert not found.reached
    # Nothing is told at all.
    assert found.walk.factor == 1
