"""The least expected loss of any mechanism with epsilon, as a linear program: the reference.

M(y|x) gives a symbol y for the value x, b is the belief about x and P(y) = sum b(x) M(y|x):

    minimise sum b(x) M(y|x) loss(x, y)   subject to   q P(y) <= M(y|x) <= P(y) / q

with q = e^-epsilon and rows that sum to 1: linear, since P is linear in M. With `preserve` P is
b itself. Values that the belief excludes have no say in the loss and are left out; they can
always be given the row P. Solved in floats by HiGHS (through SciPy): a yardstick, no guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp_protocol.task import Task

Array = npt.NDArray[Any]

# Of the values times the symbols: some seconds.
MOST_CELLS = 4096


@dataclass(frozen=True)
class Optimum:
    """cost: the least expected loss. kernel: (n, m), its M; rows of excluded values are P."""

    cost: float
    kernel: Array


def loss_matrix(loss: int, symbols: int, costs: Array | None = None) -> Array:
    """(n, n) floats: 1 Hamming, 2 absolute, 3 squared, 4 the table `costs`, as in a Task."""
    distance = np.abs(np.subtract.outer(np.arange(symbols), np.arange(symbols))).astype(float)
    if loss == 1:
        return (distance > 0).astype(float)
    if loss == 2:
        return distance
    if loss == 3:
        return distance**2
    if costs is None:
        raise ValueError("a loss by a table needs its costs")
    return np.asarray(costs, dtype=float).reshape(symbols, symbols)


def losses_of(task: Task) -> Array:
    """(n, n) floats: the loss of a Task, of each symbol and what is released for it."""
    costs = None if task.costs is None else np.array(task.costs)
    return loss_matrix(task.loss, task.symbols, costs)


def block_loss(losses: Array, block: int) -> Array:
    """(n^w, n^w): the sum over the positions of two blocks, first symbol most significant."""
    total = np.zeros((1, 1))
    for _ in range(block):
        size = len(total) * len(losses)
        total = (total[:, None, :, None] + losses[None, :, None, :]).reshape(size, size)
    return total


def least_loss(belief: Array, q: float, losses: Array, preserve: bool = False) -> Optimum:
    """The optimum for a belief (n,) that sums to 1, and losses (n, m).

    q: e^-epsilon, 0 < q < 1. preserve: the output has the belief as its law, and m = n.
    Raises RuntimeError when the solver gives up, ValueError when the program is too large.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix, eye, hstack, kron, vstack

    belief = np.asarray(belief, dtype=float)
    known = np.flatnonzero(belief > 0)
    n, m = len(known), losses.shape[1]
    if n * m > MOST_CELLS:
        raise ValueError("the linear program is too large")
    weight = belief[known]
    cost = (weight[:, None] * losses[known]).ravel()
    cells = np.arange(n * m)
    rows = csr_matrix((np.ones(n * m), (cells // m, cells)), shape=(n, n * m))
    right = np.ones(n)
    if preserve:
        marginal = csr_matrix((np.repeat(weight, m), (cells % m, cells)), shape=(m, n * m))
        low = np.tile(q * belief, n)
        high = np.tile(np.minimum(belief / q, 1.0), n)
        found = linprog(
            cost, A_eq=vstack([rows, marginal]), b_eq=np.concatenate([right, belief]),
            bounds=np.stack([low, high], 1), method="highs",
        )  # fmt: skip
    else:
        # P has variables of its own, after the cells: so each row has few.
        itself = eye(n * m, format="csr")
        its_law = kron(np.ones((n, 1)), eye(m), format="csr")
        law = hstack([kron(weight[None, :], eye(m)), -eye(m)], format="csr")
        found = linprog(
            np.concatenate([cost, np.zeros(m)]),
            A_ub=vstack([hstack([q * itself, -its_law]), hstack([-itself, q * its_law])]),
            b_ub=np.zeros(2 * n * m),
            A_eq=vstack([hstack([rows, csr_matrix((n, m))]), law]),
            b_eq=np.concatenate([right, np.zeros(m)]), bounds=(0, 1), method="highs",
        )  # fmt: skip
    if found.status != 0:
        raise RuntimeError(f"the linear program was not solved: {found.message}")
    chosen = found.x[: n * m].reshape(n, m)
    kernel = np.tile(weight @ chosen, (len(belief), 1))
    kernel[known] = chosen
    return Optimum(float(found.fun), kernel)
