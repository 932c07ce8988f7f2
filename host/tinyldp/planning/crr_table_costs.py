"""What a table of CRR in blocks costs: its loss beside other rules', exactly for its chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyldp.certify.bounds import float_up, log_upper
from tinyldp.certify.crr import releases_in
from tinyldp.crr.device import device_policy
from tinyldp.crr.lp import block_loss, losses_of
from tinyldp.crr.steps import q_of
from tinyldp.crr.tables import TABLE_SCALE, long_run, table_of
from tinyldp.planning.board_memory import mechanism_bytes
from tinyldp.planning.crr_costs import beyond, of_model, rule_loss, value_shares
from tinyldp.planning.krr import krr_kernel, krr_loss
from tinyldp.study import Study
from tinyldp_protocol.task import FIELDS, MIN_ERROR, Task


@dataclass(frozen=True)
class TableCosts:
    """Losses are expected ones of a step, in the long run, of series that follow the Task's chain.

    loss: the table's. optimum: the least of any table with this epsilon, in floats: what is
    above it is lost to rounding. min_error, spread: of the rule of this name, and its standard
    error from a sampled history. krr: k-RR's of steps, each with its part of epsilon; krr_block:
    k-RR's of whole blocks. released: how many of `blocks` the table releases.
    """

    epsilon: float
    fallback: float
    w: int | None
    sequence_epsilon: float | None
    loss: float
    optimum: float
    min_error: float
    spread: float
    krr: float
    krr_block: float
    released: int
    blocks: int
    table_bytes: int
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "expected_loss": self.loss,
            "optimum": self.optimum,
            "rounding": max(0.0, self.loss - self.optimum),
            "min_error": {"expected_loss": self.min_error, "standard_error": self.spread},
            "krr": {"same_epsilon": self.krr, "blocks": self.krr_block},
            "blocks": self.blocks,
            "released": self.released,
            "leakage": {
                "epsilon": self.epsilon,
                "wrong_model": self.fallback,
                "w": self.w,
                "sequence": self.sequence_epsilon,
            },
            "table_bytes": self.table_bytes,
            "warnings": list(self.warnings),
        }


def table_costs(study: Study, task: Task, optimum: float) -> TableCosts:
    """Of a study's Task. optimum: the least expected loss of a block (crr_tables.Made)."""
    block = task.block or 1
    losses = losses_of(task)
    together = block_loss(losses, block)
    weights = long_run(task)
    table = table_of(task)
    epsilon = log_upper(1 / q_of(task))
    beside = min_error_task(task)
    min_error, spread = rule_loss(beside, device_policy(beside))
    blocks = len(table)
    released = int(table.any(axis=0).sum())
    warnings = of_model(study) + beyond(task, epsilon)
    if released == 1:
        warnings += (
            "The table releases the same block whatever is measured: with this epsilon nothing "
            "else has less loss on average; a larger epsilon, or min_error, tells more.",
        )
    return TableCosts(
        epsilon=float_up(epsilon),
        fallback=float_up(2 * epsilon),
        w=task.w,
        sequence_epsilon=None
        if task.w is None
        else float_up(releases_in(task, task.w) * epsilon),
        loss=float((weights[:, np.newaxis] * table * together).sum()) / TABLE_SCALE / block,
        optimum=optimum / block,
        min_error=min_error,
        spread=spread,
        krr=krr_loss(value_shares(weights, task), float(epsilon) / block, losses),
        krr_block=float((weights @ (krr_kernel(blocks, float(epsilon)) * together)).sum()) / block,
        released=released,
        blocks=blocks,
        table_bytes=mechanism_bytes(task),
        warnings=warnings,
    )  # fmt: skip


def min_error_task(task: Task) -> Task:
    """The same Task with the rule min_error."""
    numbers = {name: getattr(task, name) for name in FIELDS}
    return Task({**numbers, "rule": MIN_ERROR, "table": None})
