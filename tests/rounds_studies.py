"""Tasks of the seven methods, as the planner makes them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.planning_studies import make_study
from tinyldp.planning import choose
from tinyldp.study import EPSILON_UNIT, METHODS, Study
from tinyldp_protocol.task import FIELDS, GRR, OLH, OUE, SCALE, Task, write_file

NAMES = tuple(METHODS)
ADAPTIVE = ("lbd", "lba", "lpd", "lpa")
GROUPS = ("lpu", "lpd", "lpa")


@cache
def rounds_study(
    method: str,
    domain: int = 5,
    epsilon: float = 1.0,
    w: int = 20,
    oracle: str = "grr",
    rest: str = "",
) -> Study:
    """A study of rounds; rest: further sections."""
    with TemporaryDirectory() as folder:
        study = make_study(
            Path(folder), method, f"epsilon = 1.0\nw = {w}", f'oracle = "{oracle}"', domain, rest
        )
    return replace(study, epsilon=int(Fraction(epsilon) * EPSILON_UNIT))


@cache
def rounds_task(*arguments: Any, **named: Any) -> Task:
    """Its Task."""
    return choose(rounds_study(*arguments, **named))


def with_losses(task: Task, factor: float) -> Task:
    """The same Task but for its thresholds: each answer really loses so many times its epsilon."""
    choices = {GRR: task.symbols, OUE: 2, OLH: task.buckets}[task.mechanism]
    numbers = {name: getattr(task, name) for name in FIELDS}
    numbers["thresholds"] = [
        round(SCALE / ((SCALE / lie - choices + 1) ** factor + choices - 1))
        for lie in task.thresholds
    ]
    changed = Task(numbers)
    write_file(changed)
    return changed
