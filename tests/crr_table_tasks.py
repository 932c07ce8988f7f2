"""Tasks of CRR in blocks by a table, and what their certificate says, in another way."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tests.crr_tasks import rows, shares, threshold
from tests.simulating import make_task
from tinyldp.crr.model import PRIOR_SCALE, ROW_SCALE
from tinyldp.crr.tables import TABLE_SCALE
from tinyldp.crr_study import stand_in_table
from tinyldp.planning.crr_tables import make_table
from tinyldp_protocol.task import CRR_BATCH, TABLE, Task

# (prior, transitions): two states, of which one is rare; that stay; that hardly follow each other.
RARE = ([31000, 1768], [15000, 1384, 9000, 7384])
STICKY = ([16384, 16384], [16220, 164, 164, 16220])
MILD = ([16384, 16384], [12000, 4384, 5000, 11384])
CHAINS = [RARE, STICKY, MILD]
# Three values, one of which never follows another one.
GAPS = ([12000, 12000, 8768], [8000, 8384, 0, 4000, 8000, 4384, 2000, 6000, 8384])


def with_table(task: Task, table: Sequence[int], **others: Any) -> Task:
    """The Task with this table, and other numbers."""
    kept = {name: value for name, value in vars(task).items() if name not in ("width", "id")}
    return Task({**kept, "table": list(table), **others})


def table_task(
    prior: Sequence[int],
    transitions: Sequence[int],
    epsilon: float,
    block: int = 2,
    /,
    table: Sequence[int] | None = None,
    **others: Any,
) -> Task:
    """table: absent, the planner's."""
    memory = others.get("memory", 1)
    symbols = len(transitions) // len(prior)
    assert symbols**memory == len(prior)
    numbers: dict[str, Any] = {
        "symbols": symbols,
        "rule": TABLE,
        "loss": 1,
        "thresholds": [threshold(epsilon)],
        "prior": list(prior),
        "transitions": list(transitions),
        "block": block,
        "table": list(stand_in_table(symbols**block) if table is None else table),
    }
    task = make_task(CRR_BATCH, **{**numbers, **others})
    return task if table is not None else with_table(task, make_table(task).table)


def random_table(rng: np.random.Generator) -> Task:
    """Any Task whose table keeps to its columns' bound, whatever it is under its model."""
    n, block = [(2, 2), (2, 3), (3, 2), (2, 5), (6, 2), (3, 3)][int(rng.integers(6))]
    size = n**block
    # Any row that is within e^epsilon of another one, either way.
    base = rng.dirichlet(np.full(size, 0.7))
    base[rng.random(size) < 0.3] = 0
    base[int(rng.integers(size))] += 0.1
    lifted = base * rng.uniform(1, 1.8, (size, size))
    table = np.floor(lifted / lifted.sum(axis=1, keepdims=True) * TABLE_SCALE).astype(int)
    # Few units are off by much.
    table[:, table.min(axis=0) < 40] = 0
    table[np.arange(size), table.argmax(axis=1)] += TABLE_SCALE - table.sum(axis=1)
    memory = int(rng.integers(1, 3))
    return table_task(
        shares(rng, n**memory, PRIOR_SCALE, 1, 1.0),
        rows(rng, n**memory, n, bool(rng.integers(2))),
        2.0,
        block,
        table=table.ravel().tolist(),
        memory=memory,
    )


def kernel_of(task: Task) -> list[list[Fraction]]:
    assert task.table is not None
    size = task.symbols**task.block
    return [
        [Fraction(t, TABLE_SCALE) for t in task.table[x * size : (x + 1) * size]]
        for x in range(size)
    ]


def series_chance(task: Task, values: Sequence[int]) -> Fraction:
    """Of values from the first one on, of a Task with memory 1."""
    chance = Fraction(task.prior[values[0]], PRIOR_SCALE)
    for before, value in itertools.pairwise(values):
        chance *= Fraction(task.transitions[before * task.symbols + value], ROW_SCALE)
    return chance


def series_leakage(task: Task, blocks: int) -> Fraction:
    """The largest Pr(y|x) / Pr(y), or its inverse, of so many blocks, by going through all."""
    n, w = task.symbols, task.block
    kernel = kernel_of(task)
    numbers = list(itertools.product(range(n), repeat=w))
    possible = []
    for xs in itertools.product(range(n**w), repeat=blocks):
        chance = series_chance(task, [value for x in xs for value in numbers[x]])
        if chance:
            possible.append((xs, chance))
    worst = Fraction(1)
    for ys in itertools.product(range(n**w), repeat=blocks):
        law, given = Fraction(0), []
        for xs, chance in possible:
            told = Fraction(1)
            for x, y in zip(xs, ys, strict=True):
                told *= kernel[x][y]
            given.append(told)
            law += chance * told
        if law:
            assert min(given)
            worst = max(worst, max(given) / law, law / min(given))
    return worst
