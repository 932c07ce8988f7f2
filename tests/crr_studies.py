"""Studies of CRR, and faulty couplings, for the tests of planner and certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

from tinyldp.crr.model import PRIOR_SCALE, ROW_SCALE
from tinyldp.crr.steps import Policy, Step
from tinyldp.study import Study, load_study
from tinyldp_protocol.task import CRR, Task, write_file

# Neither rare nor symmetric, and one with a rare symbol.
ROWS = "[[0.6, 0.2, 0.2], [0.3, 0.4, 0.3], [0.2, 0.3, 0.5]]"
STUDY = f"""
[study]
name = "classes"
[mechanism]
name = "crr"
prior = [0.4, 0.35, 0.25]
transitions = {ROWS}
[privacy]
epsilon = 1
[values]
domain = 3
"""


def write_crr(folder: Path, text: str = STUDY) -> Path:
    path = folder / "crr.toml"
    path.write_text(text)
    return path


def crr_study(folder: Path, text: str = STUDY) -> Study:
    return load_study(write_crr(folder, text))


def crr_task(
    prior: Sequence[int],
    transitions: Sequence[int],
    share: int,
    rule: int = 1,
    loss: int = 1,
    **numbers: int | list[int],
) -> Task:
    """share: e = q 2^14."""
    task = Task(
        {
            "mechanism": CRR, "symbols": len(prior), "thresholds": [share << 10], "tick": 1000,
            "batch": 1, "resend": 5, "beacon": 10, "outbox": 16, "rule": rule, "loss": loss,
            "prior": list(prior), "transitions": list(transitions), **numbers,
        }
    )  # fmt: skip
    write_file(task)
    return task


Kernel = list[list[Fraction]]


def kernel(step: Step, share: int) -> Kernel:
    """M, exactly: (S, S). share: q 2^14."""
    q, total = Fraction(share, ROW_SCALE), step.total
    found = []
    for belief, served in zip(step.belief, step.rows, strict=True):
        row = [Fraction(p, total) for p in step.marginal]
        if served:
            row = [q * m for m in row]
            for y, joint in served.items():
                row[y] += (1 - q) * Fraction(joint, belief)
        found.append(row)
    return found


# What is released at a step, of the values so far and of what was released before.
Kernels = Callable[[tuple[int, ...], tuple[int, ...]], Kernel]


def of_policy(policy: Policy, share: int) -> Kernels:
    """The kernels of a policy, which looks at what was released alone."""
    steps: dict[tuple[int, ...], Step] = {(): policy.first()}

    def kernels(_: tuple[int, ...], released: tuple[int, ...]) -> Kernel:
        for length in range(1, len(released) + 1):
            if released[:length] not in steps:
                before = steps[released[: length - 1]]
                steps[released[:length]] = policy.after(before, released[length - 1])
        return kernel(steps[released], share)

    return kernels


def sequence_leakage(task: Task, kernels: Kernels, length: int) -> Fraction:
    """The largest Pr(y|x) / Pr(y), or its inverse, of whole sequences, by going through all.

    Exactly; values x that can't be do not count, nor what is never released.
    """
    n = task.symbols
    chances: dict[tuple[int, ...], list[tuple[Fraction, Fraction]]] = {}

    def go(
        values: tuple[int, ...], released: tuple[int, ...], likely: Fraction, given: Fraction
    ) -> Iterator[tuple[tuple[int, ...], Fraction, Fraction]]:
        if len(values) == length:
            yield released, likely, given
            return
        for x in range(n):
            if values:
                chance = Fraction(task.transitions[values[-1] * n + x], 1 << 14)
            else:
                chance = Fraction(task.prior[x], PRIOR_SCALE)
            if not chance:
                continue
            row = kernels((*values, x), released)[x]
            for y, m in enumerate(row):
                if not m:
                    continue
                yield from go((*values, x), (*released, y), likely * chance, given * m)

    for released, likely, given in go((), (), Fraction(1), Fraction(1)):
        chances.setdefault(released, []).append((likely, given))
    worst = Fraction(1)
    for pairs in chances.values():
        law = sum((likely * given for likely, given in pairs), Fraction(0))
        if not law:
            continue
        most, least = max(given for _, given in pairs), min(given for _, given in pairs)
        worst = max(worst, most / law, law / least)
    return worst


# Of each last value: Pr(values, released), and the extremes of Pr(released | values).
State = list[tuple[Fraction, Fraction, Fraction] | None]


def policy_leakage(task: Task, policy: Policy, length: int) -> Fraction:
    """The same of a policy, by going through what may be released alone."""
    n, share = task.symbols, task.thresholds[0] >> 10
    rows = [[Fraction(task.transitions[x * n + y], 1 << 14) for y in range(n)] for x in range(n)]
    worst = Fraction(1)

    def go(step: Step, before: State, left: int) -> None:
        nonlocal worst
        law = kernel(step, share)
        for y, marginal in enumerate(step.marginal):
            if not marginal:
                continue
            state: State = [
                None if each is None else _times(each, law[x][y]) for x, each in enumerate(before)
            ]
            there = [each for each in state if each is not None]
            chance = sum(each[0] for each in there)
            worst = max(
                worst,
                max(each[1] for each in there) / chance,
                chance / min(each[2] for each in there),
            )
            if left > 1:
                following: State = []
                for z in range(n):
                    into = [
                        (each[0] * rows[x][z], each[1], each[2])
                        for x, each in enumerate(state)
                        if each is not None and rows[x][z]
                    ]
                    following.append(
                        (
                            sum((part[0] for part in into), Fraction(0)),
                            max(part[1] for part in into),
                            min(part[2] for part in into),
                        )
                        if into
                        else None
                    )
                go(policy.after(step, y), following, left - 1)

    one = Fraction(1)
    go(policy.first(), [(Fraction(p, PRIOR_SCALE), one, one) for p in task.prior], length)
    return worst


def _times(
    each: tuple[Fraction, Fraction, Fraction], m: Fraction
) -> tuple[Fraction, Fraction, Fraction]:
    return each[0] * m, each[1] * m, each[2] * m
