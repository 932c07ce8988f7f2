"""What CRR costs: expected loss beside the least there is and beside k-RR, and memory.

The loss is averaged over beliefs along one long history, drawn as the model has it: of each
belief exactly, so that only how often it comes about is sampled.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.certify.bounds import digits_up, exp_bounds, float_up, log_upper
from tinyldp.certify.crr import drift_bound, releases_in
from tinyldp.crr.device import device_policy
from tinyldp.crr.lp import MOST_CELLS, block_loss, least_loss, losses_of
from tinyldp.crr.model import PRIOR_SCALE, ROW_SCALE, stationary
from tinyldp.crr.steps import Policy, Step, expected_loss, q_of, share_of
from tinyldp.crr.training import PUBLIC
from tinyldp.figures import stated
from tinyldp.planning.board_memory import mechanism_bytes
from tinyldp.planning.krr import SequenceMatch, krr_loss, match_sequence
from tinyldp.study import EPSILON_UNIT, Study
from tinyldp_protocol.task import Task

Array = npt.NDArray[Any]

_SEED = 11
# Releases of the history, and the beliefs of it that the linear program is solved for.
_HISTORY = 1000
_WORK = 4_000_000
_COMPARED = 40
_COMPARED_LARGE = 10
_LARGE = 1024
_BATCHES = 20
# Steps of a sequence, where the study names none.
_STEPS = 10

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class CrrCosts:
    """What a release costs and tells.

    loss: expected, of a step; spread: its standard error from the sampled history. optimum: the
    least of any mechanism with this epsilon (with the same marginal, for preserve) over `compared`
    of the `beliefs` met; gap and largest_gap: what the rule has above it for the same, on average
    and at most; None where the linear program is too large. rarest: the least belief met that is
    not 0, over kappa = 1 / (e^epsilon + 1): where it is 1 or more the rule is the optimum. krr:
    k-RR's loss at the same epsilon a step, krr_double at twice that; sequence, krr_sequence: at
    the same loss of privacy of a sequence, and its loss then (None with memory above 1). drift:
    bound of the factor, None without one.
    """

    epsilon: float
    fallback: float
    drift: float | None
    w: int | None
    sequence_epsilon: float | None
    loss: float
    spread: float
    optimum: float | None
    gap: float | None
    largest_gap: float | None
    compared: int
    beliefs: int
    rarest: float
    krr: float
    krr_double: float
    sequence: SequenceMatch | None
    krr_sequence: float | None
    table_bytes: int
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        matched = self.sequence
        return {
            "expected_loss": self.loss,
            "standard_error": self.spread,
            "optimum": self.optimum,
            "gap": self.gap,
            "largest_gap": self.largest_gap,
            "compared": self.compared,
            "beliefs": self.beliefs,
            "rarest_over_kappa": self.rarest,
            "krr": {
                "same_epsilon": self.krr,
                "double_epsilon": self.krr_double,
                "same_sequence": self.krr_sequence,
                "sequence_steps": None if matched is None else matched.steps,
                "sequence_epsilon": None if matched is None else matched.budget,
                "krr_epsilon": None if matched is None else matched.epsilon,
            },
            "leakage": {
                "epsilon": self.epsilon,
                "wrong_model": self.fallback,
                "drift_bound": self.drift,
                "w": self.w,
                "sequence": self.sequence_epsilon,
            },
            "table_bytes": self.table_bytes,
            "warnings": list(self.warnings),
        }


def crr_costs(study: Study, task: Task, progress: Progress | None = None) -> CrrCosts:
    costs = costs_of(task, device_policy(task), progress)
    return replace(costs, warnings=(*of_model(study), *costs.warnings))


def of_model(study: Study) -> tuple[str, ...]:
    """Sentences about where the model is from, and what was made of it."""
    settings = study.crr
    if settings is None:
        return ()
    if settings.train:
        return (PUBLIC,)
    return () if settings.model is None else settings.model.notes


def costs_of(task: Task, policy: Policy, progress: Progress | None = None) -> CrrCosts:
    """Of a Task under a policy, which is its device's."""
    block = task.block or 1
    losses = losses_of(task)
    together = block_loss(losses, block)
    steps = _history(policy, len(together))
    share = share_of(task)
    exact, costs = _losses(steps, share, together, block)
    optimum = gap = largest = None
    compared = 0
    if together.size <= MOST_CELLS:
        compared = min(len(steps), _COMPARED if together.size <= _LARGE else _COMPARED_LARGE)
        optimum, gap, largest = _gaps(task, steps, costs, together, compared, progress)
    epsilon = log_upper(1 / q_of(task))
    drift = drift_bound(task)
    bound = epsilon if drift is None else min(epsilon, drift)
    sequence = None if task.w is None else releases_in(task, task.w) * (epsilon + bound)
    matched, krr_sequence = None, None
    rows = np.array(task.transitions, dtype=float).reshape(-1, task.symbols) / ROW_SCALE
    prior = np.array(task.prior, dtype=float) / PRIOR_SCALE
    shares = _long_run(task, steps)
    if (task.memory or 1) == 1:
        matched = match_sequence(prior, rows, float(epsilon) / block, task.w or _STEPS)
        krr_sequence = krr_loss(shares, matched.epsilon, losses)
    rarest = min(min(b for b in step.belief if b) for step in steps)
    kappa = float(q_of(task) / (1 + q_of(task)))
    return CrrCosts(
        epsilon=float_up(epsilon),
        fallback=float_up(2 * epsilon),
        drift=None if drift is None or drift >= epsilon else float_up(exp_bounds(drift)[1]),
        w=task.w,
        sequence_epsilon=None if sequence is None else float_up(sequence),
        loss=exact,
        spread=_spread(costs),
        optimum=optimum,
        gap=gap,
        largest_gap=largest,
        compared=compared,
        beliefs=len(steps),
        rarest=rarest / PRIOR_SCALE / kappa,
        krr=krr_loss(shares, float(epsilon) / block, losses),
        krr_double=krr_loss(shares, 2 * float(epsilon) / block, losses),
        sequence=matched,
        krr_sequence=krr_sequence,
        table_bytes=mechanism_bytes(task),
        warnings=beyond(task, epsilon),
    )


def beyond(task: Task, epsilon: Fraction) -> tuple[str, ...]:
    """A sentence about a target that is above all that CRR can be certified with."""
    target = Fraction(task.epsilon or 0, EPSILON_UNIT)
    if share_of(task) > 1 or target <= epsilon:
        return ()
    return (
        f"[privacy] epsilon {stated(target, EPSILON_UNIT)} is above what a threshold of CRR can"
        f" express: {digits_up(epsilon)} is the largest, and what is planned and certified.",
    )


def rule_loss(task: Task, policy: Policy) -> tuple[float, float]:
    """(expected loss of a step, its standard error) of a Task under a policy."""
    block = task.block or 1
    together = block_loss(losses_of(task), block)
    mean, costs = _losses(_history(policy, len(together)), share_of(task), together, block)
    return mean, _spread(costs)


def _history(policy: Policy, size: int) -> list[Step]:
    generator = random.Random(_SEED)
    step, found = policy.first(), []
    for _ in range(max(40, min(_HISTORY, _WORK // (size * min(size, 64) * 8)))):
        found.append(step)
        released = [y for y, marginal in enumerate(step.marginal) if marginal]
        weights = [step.marginal[y] for y in released]
        step = policy.after(step, generator.choices(released, weights)[0])
    return found


def _losses(steps: list[Step], share: int, losses: Array, block: int) -> tuple[float, Array]:
    """(mean, of each belief): expected loss of a step, exact but for floats."""
    known: dict[Any, float] = {}
    found = []
    for step in steps:
        cost = known.get(step.memory)
        if cost is None:
            cost = expected_loss(step, share, losses) / block
            known[step.memory] = cost
        found.append(cost)
    return float(np.mean(found)), np.array(found)


def _gaps(
    task: Task,
    steps: list[Step],
    costs: Array,
    losses: Array,
    compared: int,
    progress: Progress | None,
) -> tuple[float, float, float]:
    q, block = float(q_of(task)), task.block or 1
    chosen = np.linspace(0, len(steps) - 1, compared).astype(int)
    known: dict[Any, float] = {}
    gaps = []
    for done, at in enumerate(chosen):
        step = steps[at]
        if step.memory not in known:
            belief = np.array(step.belief) / PRIOR_SCALE
            known[step.memory] = least_loss(belief, q, losses, task.rule == 1).cost / block
        # The solver's own tolerance, and the integers', may put the rule below it by a hair.
        gaps.append(max(0.0, float(costs[at]) - known[step.memory]))
        if progress is not None:
            progress(done + 1, len(chosen))
    least = [known[steps[at].memory] for at in chosen]
    return float(np.mean(least)), float(np.mean(gaps)), float(max(gaps))


def _spread(costs: Array) -> float:
    """Standard error of the mean, from means of batches: neighbours are alike."""
    size = len(costs) // _BATCHES
    means = costs[: size * _BATCHES].reshape(_BATCHES, size).mean(axis=1)
    return float(means.std(ddof=1) / math.sqrt(_BATCHES))


def _long_run(task: Task, steps: list[Step]) -> Array:
    """(n,) shares of the values in the long run; of a chain that leaves some, along the history."""
    found = stationary(task.transitions, task.symbols, task.memory or 1)
    if found is not None:
        return np.array([float(share) for share in found]).reshape(-1, task.symbols).sum(axis=0)
    belief = np.mean([step.belief for step in steps], axis=0) / PRIOR_SCALE
    return value_shares(belief, task)


def value_shares(law: Array, task: Task) -> Array:
    """(n,) shares of the values in blocks of this law (n^w,), on average over their places."""
    block = task.block or 1
    cube = law.reshape((task.symbols,) * block)
    places = [cube.sum(axis=tuple(i for i in range(block) if i != at)) for at in range(block)]
    return np.mean(places, axis=0)
