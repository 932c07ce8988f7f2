"""Couplings of many beliefs at once, bit for bit those of tinyldp_device.crr.Coupling.

A belief is n integers that sum to B = 2^15, a coupling of it n x n integers J with the belief as
its row sums; its column sums P are what the release follows. With q = T / 2^24:

    M(y|x) = q P_y / B + (1 - q) J_xy / b_x        where b_x > 0, else P_y / B

and so q P_y / B <= M(y|x) <= P_y / (B q): every step is -ln q private with respect to the belief
(information leakage of one step: Sequence Information Privacy, definition of IIL).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp_protocol.task import Task

Array = npt.NDArray[Any]

# What a belief sums to, and a row of the transitions.
WHOLE = 1 << 15
ROW = 1 << 14


class Couplings:
    """The rule of one Task (mechanism CRR), for (m, n) beliefs in one go."""

    def __init__(self, task: Task) -> None:
        n = task.symbols
        self.symbols = n
        self._e = task.thresholds[0] >> 10
        self.q = self._e / ROW
        self._transitions = np.array(task.transitions, dtype=np.int64).reshape(n, n)
        self.start = np.array(task.prior, dtype=np.int64)

    def joint(self, beliefs: Array) -> Array:
        """(m, n, n) the coupling of each belief, row by row: values, then symbols."""
        n = self.symbols
        joint = np.zeros((len(beliefs), n, n), dtype=np.int64)
        joint[:, np.arange(n), np.arange(n)] = beliefs
        return joint

    def update(self, beliefs: Array, joint: Array, released: Array) -> Array:
        """(m, n) what is believed about the next value, once symbols (m,) are released."""
        rows = np.arange(len(beliefs))
        column = joint[rows, :, released]
        g = (column << 15) // column.sum(axis=1, keepdims=True)
        after = (self._e * beliefs + (ROW - self._e) * g + ROW // 2) >> 14
        _settle(after)
        exact = after @ self._transitions
        following = (exact + ROW // 2) >> 14
        np.maximum(following, exact > 0, out=following)
        _settle(following)
        return following


def _settle(beliefs: Array) -> None:
    """Give what is wanting to a whole to the largest number of each row, the first of equals."""
    rows = np.arange(len(beliefs))
    beliefs[rows, beliefs.argmax(axis=1)] += WHOLE - beliefs.sum(axis=1)


def kernels(q: float, beliefs: Array, joint: Array) -> Array:
    """(m, n, n) floats: M(y|x) for each belief, value x and symbol y."""
    marginal = joint.sum(axis=1)[:, np.newaxis, :] / WHOLE
    known = beliefs[:, :, np.newaxis] > 0
    told = joint / np.maximum(beliefs, 1)[:, :, np.newaxis]
    return np.where(known, q * marginal + (1 - q) * told, marginal)


def leakages(kernel: Array, joint: Array) -> Array:
    """(m, n) the information leakage of each release: max over x of |ln(M(y|x) / P(y))|, nats.

    0 for a symbol that is never released.
    """
    marginal = joint.sum(axis=1) / WHOLE
    never = marginal == 0
    marginal = np.where(never, 1, marginal)
    high = np.where(never, 1, kernel.max(axis=1) / marginal)
    low = np.where(never, 1, kernel.min(axis=1) / marginal)
    return np.maximum(np.log(high), -np.log(low))
