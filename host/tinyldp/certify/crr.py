"""What CRR gives away: in a step against the device's belief, and from there in a sequence.

The device's integers, with q = e / 2^14 and B = 2^15: it releases y for the value x with

    M(y|x) = q P_y / S + (1 - q) J_xy / b_x      (P_y / S where x is not served)

The rows of J that are served sum to the belief b_x, its columns to P_y, all of it to S <= B: so
P / S is the exact law of the output under the belief. Where each J_xy is at most
b_x P_y (1 + q) / (q B), q P_y / S <= M <= P_y / (q S): the step tells no more than epsilon = -ln q
against that belief. Whatever the belief, no two values differ by more than 1 / q^2: epsilon-LDP
twice over.

Of who knows the model exactly, and so has another belief, a step tells epsilon + ln d, where the
drift d is the largest factor between the law of the output by either belief. Two beliefs that
differ by h in Hilbert's metric differ by tau h after a positive chain, tau = tanh(D / 4), D the
diameter of its rows (Birkhoff 1957), and no more after the same output; rounding adds at most r in
a step, so h <= r / (1 - tau). As the output's laws given the values lie within 1 / q of it,

    d <= (q + e^h) / (1 + q e^h)

(of all Z in z .. z e^h and L in q .. 1 / q with mean 1, E[Z L] is largest when both are high
together, with probability q / (1 + q), and its inverse when they are high apart).

A sequence tells the sum of its steps (Sequence Information Privacy, Theorem 1), and but with
probability delta no more than sqrt(2 sum s^2 ln(2 / delta)) + sum s tanh(s / 2), s what a step
tells: the mean of what it tells is a Kullback-Leibler divergence, and the rest a martingale
(Azuma), for both signs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any

from tinyldp.certify.bounds import ceil_to, exp_bounds, float_up, log_upper
from tinyldp.crr.filters import Exact, ExactFilter
from tinyldp.crr.model import PRIOR_SCALE, ROW_SCALE
from tinyldp.crr.steps import Policy, Step, q_of, share_of
from tinyldp_protocol.task import Task

# Numbers looked at: of histories times what a step of each takes.
_WORK = 400_000
_MOST_HISTORIES = 4_000
_DEEPEST = 64
_SAMPLED_WORK = 400_000
_PATHS = 8
_MOST_STEPS = 16
_LONGEST = 200
_SEED = 7
# Logarithms of drift are rounded up to this.
_UNIT = 1 << 64

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class ClosedForm:
    """The paper's M(y|x) = q b_y, M(x|x) = 1 - q (1 - b_x), for the rarest symbol of a belief.

    belief: over 2^15. factor: M / P, exactly: what it tells; holds: at most 1 / q. where: of the
    belief.
    """

    symbol: int
    belief: int
    factor: Fraction
    holds: bool
    where: str

    def to_json(self) -> dict[str, Any]:
        return {
            "symbol": self.symbol,
            "belief": self.belief / PRIOR_SCALE,
            "epsilon": float_up(log_upper(self.factor)),
            "holds": self.holds,
            "where": self.where,
        }


@dataclass(frozen=True)
class Walk:
    """What was found along histories, exactly.

    depth: every history of fewer releases was followed; histories: how many; sampled: steps of
    longer ones. factor: the largest M / P or P / M; fault: what was not as it must be, or None.
    drift: (depth + 1,) the largest drift after 0, 1, ... releases; sampled_drift: of the longer
    ones. rarest: the step with the least belief that is not 0.
    """

    depth: int
    histories: int
    beliefs: int
    sampled: int
    factor: Fraction
    fault: str | None
    drift: tuple[Fraction, ...]
    sampled_drift: Fraction
    rarest: Step


@dataclass(frozen=True)
class Figures:
    """Of CRR. All losses are upper bounds.

    epsilon: -ln q, of a step against the device's belief. step: of a step against the exact
    belief, None where only `fallback`, 2 epsilon, is known. drift: bound of ln d for any
    number of steps, None likewise. sequence: of any w consecutive steps, which `releases` releases
    tell of; with_delta: of them, but with probability delta; opening: of the first w steps.
    """

    walk: Walk
    epsilon: Fraction
    reached: bool
    drift: Fraction | None
    fallback: Fraction
    w: int | None
    releases: int | None
    sequence: Fraction | None
    opening: Fraction | None
    delta: Fraction | None
    with_delta: Fraction | None
    closed_form: ClosedForm

    @property
    def bounded(self) -> bool:
        """Whether more is known of any step, by who knows the model, than `fallback`."""
        return self.drift is not None and self.epsilon + self.drift < self.fallback

    @property
    def step(self) -> Fraction:
        """Of any step, against who knows the model exactly."""
        if self.drift is None:
            return self.fallback
        return min(self.fallback, self.epsilon + self.drift)

    def to_json(self) -> dict[str, Any]:
        walk = self.walk
        return {
            "belief": {
                "depth": walk.depth,
                "histories": walk.histories,
                "beliefs": walk.beliefs,
                "sampled_steps": walk.sampled,
                "epsilon": float_up(log_upper(walk.factor)),
                "reached": self.reached,
                "fault": walk.fault,
            },
            "drift": {
                "by_depth": [float_up(each) for each in walk.drift],
                "sampled": float_up(walk.sampled_drift),
                "bound": None if self.drift is None else float_up(exp_bounds(self.drift)[1]),
            },
            "step": {"epsilon": float_up(self.step)},
            "wrong_model": {"epsilon": float_up(self.fallback)},
            "sequence": None
            if self.sequence is None
            else {
                "w": self.w,
                "releases": self.releases,
                "epsilon": float_up(self.sequence),
                "first_steps": None if self.opening is None else float_up(self.opening),
                "delta": None if self.delta is None else float_up(self.delta),
                "epsilon_at_delta": None if self.with_delta is None else float_up(self.with_delta),
            },
            "closed_form": self.closed_form.to_json(),
        }


def step_fault(step: Step, share: int) -> str | None:
    """What of a step is not as it must be, in words, or None: exactly, in integers.

    share: q 2^14.
    """
    size, total = len(step.belief), step.total
    rest = ROW_SCALE - share
    if sum(step.belief) != PRIOR_SCALE or min(step.belief) < 0:
        return "the belief is none"
    columns = [0] * size
    for x, row in enumerate(step.rows):
        if not row:
            continue
        if sum(row.values()) != step.belief[x] or min(row.values()) < 0:
            return f"what is made of value {x} does not add up to its belief"
        for y, joint in row.items():
            columns[y] += joint
    # Where nobody is served, any law does.
    if tuple(columns) != tuple(step.marginal) and (any(columns) or min(step.marginal) < 0):
        return "the output's law is not that of what is made of the values"
    for x, row in enumerate(step.rows):
        for y, joint in row.items():
            base = step.marginal[y] * step.belief[x]
            # M <= P / (q S), times what makes it whole.
            if share * (share * base + rest * total * joint) > ROW_SCALE * ROW_SCALE * base:
                return f"{y} tells too much about value {x}"
    return None


def step_factor(step: Step, share: int) -> Fraction:
    """The largest factor, either way, between M(y|x) and P(y) of what can be released."""
    released = [y for y, marginal in enumerate(step.marginal) if marginal]
    rest, total = ROW_SCALE - share, step.total
    best = Fraction(1)
    for x, row in enumerate(step.rows):
        if not row:
            continue
        if any(not row.get(y) for y in released):
            best = max(best, Fraction(ROW_SCALE, share))
        for y, joint in row.items():
            base = step.marginal[y] * step.belief[x]
            # An output of no law is infinitely telling, which step_fault reports.
            if base:
                up = Fraction(share * base + rest * total * joint, ROW_SCALE * base)
                best = max(best, up, 1 / up)
    return best


def walk(task: Task, policy: Policy, progress: Progress | None = None) -> Walk:
    """Follow all short histories, and some long ones, beside the exact belief."""
    cells = _cells(len(policy.first().belief))
    most = max(1, min(_MOST_HISTORIES, _WORK // cells))
    length = min(_LONGEST, max(8, _SAMPLED_WORK // (_PATHS * cells)))

    def report(done: int) -> None:
        if progress is not None:
            progress(done, most + _PATHS * length)

    found = _Found(task, policy, max(1, most // 8))
    drifts, histories = _follow_all(found, most, lambda done: report(min(done, most)))
    sampled, sampled_drift = _follow_some(found, length, lambda done: report(most + done))
    assert found.rarest is not None
    return Walk(
        depth=len(drifts) - 1,
        histories=histories,
        beliefs=len(found.seen),
        sampled=sampled,
        factor=found.factor,
        fault=found.fault,
        drift=tuple(drifts),
        sampled_drift=sampled_drift,
        rarest=found.rarest,
    )


def _follow_all(
    found: _Found, most: int, report: Callable[[int], None]
) -> tuple[list[Fraction], int]:
    """The largest drift after 0, 1, ... releases, and how many histories there were: about `most`.

    Ends at a fault.
    """
    drifts: list[Fraction] = []
    front = [found.first()]
    done = 0
    while front:
        worst = Fraction(1)
        branches = 0
        for step, exact in front:
            worst = max(worst, found.see(step, exact))
            branches += sum(marginal > 0 for marginal in step.marginal)
            done += 1
            report(done)
        drifts.append(worst)
        # All that follows at one depth, or nothing of it; what follows the first release always.
        enough = len(drifts) > _DEEPEST or (len(drifts) > 1 and done + branches > most)
        if found.fault is not None or enough:
            break
        front = [
            found.after(step, exact, y)
            for step, exact in front
            for y, marginal in enumerate(step.marginal)
            if marginal
        ]
    return drifts, done


def _follow_some(found: _Found, length: int, report: Callable[[int], None]) -> tuple[int, Fraction]:
    """How many steps of long histories were looked at, and their largest drift.

    Ends at a fault.
    """
    done, worst = 0, Fraction(1)
    generator = random.Random(_SEED)
    for path in range(_PATHS):
        step, exact = found.first()
        for _ in range(length):
            if found.fault is not None:
                return done, worst
            step, exact = found.after(step, exact, _choose(generator, step, path))
            worst = max(worst, found.see(step, exact))
            done += 1
            report(done)
    return done, worst


class _Found:
    """What was seen of steps so far, each looked at once, and of some of them how they may end."""

    def __init__(self, task: Task, policy: Policy, ends: int) -> None:
        self._share = share_of(task)
        self._policy = policy
        self._filter = ExactFilter(task)
        self._ends = ends
        self.seen: set[Any] = set()
        self.factor = Fraction(1)
        self.fault: str | None = None
        self.rarest: Step | None = None
        self._least = PRIOR_SCALE + 1

    def first(self) -> tuple[Step, Exact]:
        return self._policy.first(), self._filter.first()

    def after(self, step: Step, exact: Exact, released: int) -> tuple[Step, Exact]:
        return self._policy.after(step, released), self._filter.after(step, exact, released)

    def see(self, step: Step, exact: Exact) -> Fraction:
        """The step's drift from the exact belief, which it may come with another time."""
        if step.memory not in self.seen:
            self._see(step)
        return self._filter.drift(step, exact)

    def _see(self, step: Step) -> None:
        self.seen.add(step.memory)
        self._look(step)
        if len(self.seen) <= self._ends:
            for end in self._policy.ends(step):
                self._look(end)
        least = min(belief for belief in step.belief if belief)
        if least < self._least:
            self._least, self.rarest = least, step

    def _look(self, step: Step) -> None:
        fault = step_fault(step, self._share)
        if self.fault is None and fault is not None:
            self.fault = fault
        self.factor = max(self.factor, step_factor(step, self._share))


def _cells(size: int) -> int:
    return size * min(size, 64)


def _choose(generator: random.Random, step: Step, path: int) -> int:
    """As the model has it, or on every other path as rare as can be as often as not."""
    released = [y for y, marginal in enumerate(step.marginal) if marginal]
    if path % 2:
        return generator.choice(released)
    return generator.choices(released, [step.marginal[y] for y in released])[0]


def drift_bound(task: Task) -> Fraction | None:
    """A bound of ln d for any number of steps, or None where there is none.

    k steps contract by tanh(D / 4) with D = D(C^k) + 4 (k - 1) epsilon, for what a step makes of
    a belief lies within e^epsilon, either way, of what it was; h <= k r / (1 - tau), least over k.
    There is none for a chain that is not positive, or too near to zero for beliefs over 2^15.
    """
    transitions, n = list(task.transitions), task.symbols
    if task.block is not None or min(transitions) == 0:
        return None
    q = q_of(task)
    added = rounding(transitions, n, q)
    if added is None:
        return None
    rows = [
        [Fraction(share, ROW_SCALE) for share in transitions[x * n : (x + 1) * n]] for x in range(n)
    ]
    power: list[list[Fraction]] = rows
    best: Fraction | None = None
    for k in range(1, _MOST_STEPS + 1):
        # s = e^(D / 2), rounded up: tanh(D / 4) = (s - 1) / (s + 1).
        s = _root_up(_spread(power)) / q ** (2 * (k - 1))
        bound = k * added * (s + 1) / 2
        if best is not None and bound > 2 * best:
            break
        best = bound if best is None else min(best, bound)
        power = [
            [_short(sum(row[m] * rows[m][y] for m in range(n))) for y in range(n)] for row in power
        ]
    assert best is not None
    # Larger ones say nothing, and their exponentials are long.
    return of_output(min(best, Fraction(64)), q)


def of_output(h: Fraction, q: Fraction) -> Fraction:
    """ln d, at most, of beliefs that differ by h in Hilbert's metric."""
    factor = exp_bounds(ceil_to(h, _UNIT))[1]
    return log_upper((q + factor) / (1 + q * factor))


def rounding(transitions: list[int], n: int, q: Fraction) -> Fraction | None:
    """Of one step, in Hilbert's metric: the device's next belief and the exact one of its own.

    The posterior is short of it by less than 3/2 - q for each symbol, or above it by no more than
    1/2, or 1 - q where it is raised to 1; the largest takes what this makes together, n times 3/2
    at most. What a symbol has of it in the next belief is off by as much of it as follows, and by
    1/2 for its own rounding; there are B min C at least to be off from. The largest takes the
    difference, n at most, of B / n at least.
    """
    above = below = Fraction(0)
    settled = Fraction(3 * n, 2) / (Fraction(PRIOR_SCALE, n) - 3 * n)
    largest = Fraction(5 * n, 2) + 1
    for y in range(n):
        column = [Fraction(transitions[x * n + y], ROW_SCALE) for x in range(n)]
        least = PRIOR_SCALE * min(column)
        # Fewer may be rounded to none, and raised to 1.
        if least < 4:
            return None
        half = Fraction(1, 2)
        above = max(above, (max(half, 1 - q) * sum(column) + half) / least + settled)
        below = max(below, ((half + 1 - q) * sum(column) + half) / least + settled)
    off = largest / (Fraction(PRIOR_SCALE, n) - largest)
    above, below = max(above, off), max(below, off)
    return None if below >= 1 else log_upper((1 + above) / (1 - below))


def _spread(rows: list[list[Fraction]]) -> Fraction:
    """e^D: the largest C_ij C_kl / (C_il C_kj)."""
    worst = Fraction(1)
    for i, one in enumerate(rows):
        for other in rows[:i]:
            ratios = [a / b for a, b in zip(one, other, strict=True)]
            worst = max(worst, max(ratios) / min(ratios))
    # The powers of C are rounded.
    return worst * (1 + Fraction(1, 1 << 100))


def _short(x: Fraction | int) -> Fraction:
    return Fraction(int(x * (1 << 160)), 1 << 160)


def _root_up(x: Fraction) -> Fraction:
    return Fraction(isqrt((x.numerator << 128) // x.denominator + 1) + 1, 1 << 64)


def closed_form(step: Step, share: int, where: str) -> ClosedForm:
    """What the paper's formula would tell of the rarest symbol of a belief."""
    belief, symbol = min((b, x) for x, b in enumerate(step.belief) if b)
    q = Fraction(share, ROW_SCALE)
    factor = q + (1 - q) * Fraction(PRIOR_SCALE, belief)
    return ClosedForm(symbol, belief, factor, factor <= 1 / q, where)


def releases_in(task: Task, w: int) -> int:
    """Of which any w consecutive steps tell: blocks that they touch."""
    block = task.block or 1
    return (w + block - 2) // block + 1


def with_delta(each: Fraction, count: int, delta: Fraction) -> Fraction:
    """What `count` releases that tell `each` tell together but with probability delta: a bound."""
    radicand = 2 * count * each * each * log_upper(2 / delta)
    root = Fraction(isqrt(int(radicand * (1 << 128)) + 1) + 1, 1 << 64)
    high = exp_bounds(each)[1]
    means = count * each * (high - 1) / (high + 1)
    return min(count * each, ceil_to(root + means, _UNIT))


def figures(
    task: Task, policy: Policy, delta: Fraction | None, progress: Progress | None = None
) -> Figures:
    """All of a Task's, with the device's own policy, or a faulty one."""
    q, share = q_of(task), share_of(task)
    walked = walk(task, policy, progress)
    epsilon = log_upper(1 / q)
    bound = drift_bound(task)
    fallback = 2 * epsilon
    first = policy.first()
    rarest = closed_form(first, share, "the prior")
    if rarest.holds:
        rarest = closed_form(walked.rarest, share, "a belief that follows from it")
    releases = sequence = opening = tailed = None
    if task.w is not None:
        # The factor is never above 1 / q, nor its logarithm above epsilon.
        each = fallback if bound is None else min(fallback, epsilon + bound)
        releases = releases_in(task, task.w)
        sequence = releases * each
        drifts = [log_upper(drift) for drift in walked.drift]
        count = -(-task.w // (task.block or 1))
        first_ones = [min(each, epsilon + drift) for drift in drifts[:count]]
        opening = sum(first_ones, (count - len(first_ones)) * each)
        if delta:
            tailed = with_delta(each, releases, delta)
    return Figures(
        walk=walked,
        epsilon=epsilon,
        reached=walked.factor == 1 / q,
        drift=bound,
        fallback=fallback,
        w=task.w,
        releases=releases,
        sequence=sequence,
        opening=opening,
        delta=delta or None,
        with_delta=tailed,
        closed_form=rarest,
    )


def within(task: Task, target: Fraction) -> bool:
    """Whether -ln q is at most the target, decided exactly."""
    return 1 / q_of(task) <= exp_bounds(target)[0]
