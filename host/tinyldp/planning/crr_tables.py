"""The table of CRR in blocks whose expected loss is least: a linear program, and its integers.

With M(y|x) the kernel, b the laws of a block that beliefs are mixtures of (the vertices of
crr.tables), and b* the law in the long run:

    minimise sum b*(x) M(y|x) loss(x, y)   subject to   lo_y <= M(y|x) <= hi_y,
    q hi_y <= P_b(y), q P_b(y) <= lo_y, P_b(y) = sum b(x) M(y|x), and rows that sum to 1

in floats, by HiGHS (through SciPy). A table of integers over 2^15 is off from M by less than a
unit, and P_b by as much: so bounds are narrowed by as little as makes the rounded table private,
which is decided exactly (certify.crr_table); then units are moved to where they cost less. k-RR of
whole blocks keeps to these constraints, and a table that always says the same does: there always
is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.certify.crr_table import table_fault
from tinyldp.crr.lp import block_loss, losses_of
from tinyldp.crr.model import ROW_SCALE
from tinyldp.crr.steps import share_of
from tinyldp.crr.tables import TABLE_SCALE, long_run, vertices
from tinyldp.errors import UserError
from tinyldp.planning.crr_table_rounding import improved, rounded
from tinyldp_protocol.task import Task

Array = npt.NDArray[Any]
Progress = Callable[[int, int], None]

# How many units bounds are narrowed by, tried in turn: with the last one any rounding holds.
_MARGINS = (0.2, 0.4, 0.7, 1.05)
# Columns that rise to no more units are left out, for their rounding would cost more.
_LEAST_UNITS = (1.5, 12.0)
_SOLVED = 1 + len(_MARGINS) * len(_LEAST_UNITS)


@dataclass(frozen=True)
class Made:
    """table: (S * S,) integers, row by row. optimum: the least expected loss of a block that any
    table has, in floats; loss: this table's.
    """

    table: tuple[int, ...]
    optimum: float
    loss: float


def make_table(task: Task, progress: Progress | None = None) -> Made:
    """For the threshold, model and loss of a Task, whose own table means nothing.

    progress: told the programs that are solved, of at most so many.
    Raises UserError, one sentence, where the solver fails.
    """
    done = 0

    def told(count: int = 1) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(min(done, _SOLVED), _SOLVED)

    costs = _costs(task)
    program = _Program(task, costs)
    best = program.best()
    told()
    optimum = float((costs * best).sum())
    found = [_constant(costs), _response(task, len(costs))]
    highest = best.max(axis=0) * TABLE_SCALE
    for least in _LEAST_UNITS:
        for at, margin in enumerate(_MARGINS):
            kernel = program.solve(margin / TABLE_SCALE, highest > least)
            told()
            table = None if kernel is None else rounded(kernel)
            if table is not None and _private(task, table):
                found.append(table)
                told(len(_MARGINS) - at - 1)
                break
    chosen = min(found, key=lambda table: float((costs * table).sum()))
    better = improved(chosen, costs, program.vertices, program.q)
    if _private(task, better):
        chosen = better
    loss = float((costs * chosen).sum()) / TABLE_SCALE
    return Made(tuple(chosen.ravel().tolist()), optimum, loss)


def _private(task: Task, table: Array) -> bool:
    return table_fault(task, table.ravel().tolist()) is None


def _costs(task: Task) -> Array:
    """(S, S) what each release adds to the expected loss, by its probability."""
    return long_run(task)[:, np.newaxis] * block_loss(losses_of(task), task.block or 1)


class _Program:
    """The linear program of a Task and its costs (S, S), which is solved for several margins."""

    def __init__(self, task: Task, costs: Array) -> None:
        self.vertices = np.array([vertex.law for vertex in vertices(task)])
        self.q = share_of(task) / ROW_SCALE
        self._costs = costs

    def best(self) -> Array:
        """(S, S) the kernel of least loss, with nothing to spare."""
        found = self.solve(0.0, None)
        if found is None:
            raise UserError(
                "The linear program of the table was not solved: its figures are too far apart; "
                "a larger epsilon, or transitions that are less near to 0, would help."
            )
        return found

    def solve(self, margin: float, columns: Array | None) -> Array | None:
        """(S, S) the kernel, or None where there is none.

        margin: by which every entry, and every P, may be off. columns: (S,) flags of those that
        may be released (None: all).
        """
        from scipy.optimize import linprog
        from scipy.sparse import bmat, csr_matrix, eye, kron

        size = len(self._costs)
        used = np.arange(size) if columns is None else np.flatnonzero(columns)
        m, k = len(used), len(self.vertices)
        if not m:
            return None
        q = self.q
        one, each = eye(m, format="csr"), eye(size * m, format="csr")
        rows, laws_ = np.ones((size, 1)), np.ones((k, 1))
        # Variables: M, row by row; lo; hi; P of each vertex.
        program = linprog(
            np.concatenate([self._costs[:, used].ravel(), np.zeros((2 + k) * m)]),
            A_ub=bmat(
                [
                    [-each, kron(rows, one), None, None],
                    [each, None, -kron(rows, one), None],
                    [None, None, q * kron(laws_, one), -eye(k * m)],
                    [None, -kron(laws_, one), None, q * eye(k * m)],
                ],
                format="csr",
            ),
            # q (hi + margin) <= P - margin, q (P + margin) <= lo - margin.
            b_ub=np.concatenate(
                [np.zeros(2 * size * m), np.full(2 * k * m, -(1 + q) * margin)]
            ),
            A_eq=bmat(
                [
                    [kron(eye(size), np.ones((1, m))), csr_matrix((size, (2 + k) * m))],
                    [
                        kron(csr_matrix(self.vertices), one),
                        bmat([[csr_matrix((k * m, 2 * m)), -eye(k * m)]]),
                    ],
                ],
                format="csr",
            ),
            b_eq=np.concatenate([np.ones(size), np.zeros(k * m)]),
            bounds=(0, 1),
            method="highs",
        )  # fmt: skip
        if program.status != 0:
            return None
        kernel = np.zeros((size, size))
        kernel[:, used] = program.x[: size * m].reshape(size, m)
        return kernel


def _constant(costs: Array) -> Array:
    """The table that always says the block of least loss: it tells nothing."""
    table = np.zeros(costs.shape, dtype=np.int64)
    table[:, costs.sum(axis=0).argmin()] = TABLE_SCALE
    return table


def _response(task: Task, blocks: int) -> Array:
    """k-RR of whole blocks, its lies rounded up: private whatever the chain."""
    share = share_of(task)
    lie = -(-TABLE_SCALE * share // (ROW_SCALE + (blocks - 1) * share))
    truth = TABLE_SCALE - (blocks - 1) * lie
    return np.full((blocks, blocks), lie) + np.eye(blocks, dtype=np.int64) * (truth - lie)
