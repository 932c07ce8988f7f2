"""Couplings of many beliefs at once, bit for bit those of tinyldp_device.coupling.

A belief b is n integers that sum to B = 2^15, a coupling of it n x n integers J; its rows sum to
b_x, or to 0 for values that are not served, and its columns to the marginal P, in sum S. With
q = T / 2^24, the release y of a value x has the probability

    M(y|x) = q P_y / S + (1 - q) J_xy / b_x        where x is served, else P_y / S

which lies between q P_y / S and P_y / (S q): every step is -ln q private with respect to the
belief (information leakage of one step: Sequence Information Privacy, definition of IIL).

The rules, and the order of their steps, are those of tinyldp_device.coupling and minerror.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.crr.lp import losses_of
from tinyldp.crr.model import PRIOR_SCALE, ROW_SCALE
from tinyldp.crr.steps import share_of
from tinyldp_device.coupling import planned
from tinyldp_protocol.task import MIN_ERROR, Task

Array = npt.NDArray[Any]

_LARGE = 0x3FFFFFFF
# Of floats, in a leakage: more than this above -ln q is no rounding.
_ROUNDING = 1e-9
# And less than this is nothing: shares are of 2^15 units.
_NOTHING = 1e-12


@dataclass(frozen=True)
class Coupled:
    """Couplings of m beliefs: joint (m, n, n), values before symbols; marginal (m, n)."""

    joint: Array
    marginal: Array

    def kernel(self, q: float) -> Array:
        """(m, n, n) floats: M(y|x)."""
        marginal = (self.marginal / self.marginal.sum(axis=1, keepdims=True))[:, np.newaxis]
        served = self.joint.sum(axis=2, keepdims=True)
        told = self.joint / np.maximum(served, 1)
        return mixed(q, marginal, told, served > 0)

    def leakage(self, beliefs: Array, q: float) -> tuple[Array, Array]:
        """What each release tells, nats, and what is learned from it: (m, n) each.

        The first is the most that any value became likelier or less likely by, max over x of
        |ln(M(y|x) S / P_y)|; the second the divergence of the belief after it from that before
        (Kullback-Leibler), the mean of ln(M(y|x) S / P_y) over the x behind y. beliefs: (m, n).
        0 for a symbol that is never released.
        """
        share = self.marginal / self.marginal.sum(axis=1, keepdims=True)
        ratio = self.kernel(q) / np.where(share > 0, share, 1)[:, np.newaxis]
        ratio = np.where((share > 0)[:, np.newaxis], ratio, 1)
        told = np.maximum(np.log(ratio.max(axis=1)), -np.log(ratio.min(axis=1)))
        learned = np.einsum("mx,mxy->my", beliefs / PRIOR_SCALE, ratio * np.log(ratio))
        return told, learned


def mixed(q: float, marginal: Array, share: Array, served: Array) -> Array:
    """M(y|x), of P_y / S, and of J_xy / b_x where x is served."""
    return np.where(served, q * marginal + (1 - q) * share, marginal)


def stored(leakage: Array, q: float) -> Array:
    """Leakages in 32 bits: what reaches -ln q is not above it for their rounding.

    Nor is anything above 0 that is only rounding.
    """
    epsilon = -np.log(q)
    most = np.float32(epsilon)
    if most > epsilon:
        most = np.nextafter(most, np.float32(0))
    rounded = np.where(leakage < _NOTHING, 0, leakage).astype(np.float32)
    return np.where(leakage < epsilon + _ROUNDING, np.minimum(rounded, most), rounded)


class Couplings:
    """The rule of one Task (mechanism CRR), for (m, n) beliefs in one go."""

    def __init__(self, task: Task) -> None:
        n = task.symbols
        self.symbols = n
        self._fresh = share_of(task)
        self.q = self._fresh / ROW_SCALE
        self._kappa = -(-PRIOR_SCALE * self._fresh // (ROW_SCALE + self._fresh))
        self._transitions = np.array(task.transitions, dtype=np.int64).reshape(n, n)
        self.start = np.array(task.prior, dtype=np.int64)
        self._plan = [(step >> 10 & 31, step >> 5 & 31, step & 31) for step in planned(task)]
        self._least = _Least(task, self._fresh, self._kappa) if task.rule == MIN_ERROR else None

    def make(self, beliefs: Array) -> Coupled:
        """The coupling of each belief (m, n)."""
        # Inside, beliefs are the last axis: each number is a vector of all of them.
        held = np.ascontiguousarray(beliefs.T, dtype=np.int64)
        joint = self._preserve(held)
        served = joint.sum(axis=1)
        marginal = np.where(served.any(axis=0), served, held)
        if self._least is not None:
            joint, marginal = self._least.make(held, joint, marginal)
        return Coupled(joint.transpose(2, 0, 1), marginal.T)

    def _preserve(self, belief: Array) -> Array:
        """(n, n, m) by rule 1, of beliefs (n, m)."""
        n, m = belief.shape
        joint = np.zeros((n, n, m), dtype=np.int64)
        joint[np.arange(n), np.arange(n)] = belief
        rows = np.flatnonzero(((belief > 0) & (belief < self._kappa)).any(axis=0))
        served = belief[:, rows]
        while len(rows):
            fitted, excess = self._fit(served)
            joint[:, :, rows] = fitted
            again = np.flatnonzero(excess >= 0)
            rows, served = rows[again], served[:, again]
            served[excess[again], np.arange(len(again))] = 0
        return joint

    def _fit(self, served: Array) -> tuple[Array, Array]:
        """(n, n, m) couplings of what is served (n, m), and who can't be: (m,), -1 for nobody."""
        n, m = served.shape
        kappa = self._kappa
        joint = np.zeros((n, n, m), dtype=np.int64)
        diagonal = np.arange(n)
        joint[diagonal, diagonal] = served
        own = np.where(served < kappa, served * served // kappa, served)
        room = served[:, np.newaxis] * served // kappa
        for x, y, z in self._plan:
            units = joint[x, x] - own[x]
            if z == x:
                np.maximum(units, joint[y, y] - own[y], out=units)
                np.minimum(units, joint[x, x], out=units)
                np.minimum(units, joint[y, y], out=units)
            elif z == y:
                np.minimum(units, joint[y, y] - own[y], out=units)
            else:
                units >>= 1
                np.minimum(units, joint[y, z], out=units)
                np.minimum(units, room[x, z] - joint[x, z], out=units)
            np.minimum(units, room[x, y] - joint[x, y], out=units)
            if units.max() <= 0:
                continue
            np.maximum(units, 0, out=units)
            _move(joint, x, y, units)
            if z not in (x, y):
                _move(joint, x, z, units)
                _move(joint, y, z, -units)
        much = joint[diagonal, diagonal] > own
        excess = np.where(much, served, _LARGE).argmin(axis=0)
        return joint, np.where(much.any(axis=0), excess, -1)

    def update(self, beliefs: Array, coupled: Coupled, released: Array) -> Array:
        """(m, n) what is believed about the next value, once symbols (m,) are released."""
        rows = np.arange(len(beliefs))
        column = coupled.joint[rows, :, released]
        total = coupled.marginal.sum(axis=1)
        of_it = coupled.marginal[rows, released]
        served = coupled.joint.sum(axis=2) > 0
        share = np.where(served, column * total[:, np.newaxis] // of_it[:, np.newaxis], beliefs)
        share = self._fresh * beliefs + (ROW_SCALE - self._fresh) * share
        posterior = np.where(beliefs > 0, np.maximum((share + ROW_SCALE // 2) >> 14, 1), 0)
        _complete(posterior)
        exact = posterior @ self._transitions
        following = np.maximum((exact + ROW_SCALE // 2) >> 14, exact > 0)
        _complete(following)
        return following


class _Least:
    """Rule 2: of rule 1's coupling and those that keep 1, 2, ... symbols, the least loss."""

    def __init__(self, task: Task, fresh: int, kappa: int) -> None:
        n = task.symbols
        self._fresh = fresh
        self._kappa = kappa
        loss = losses_of(task).astype(np.int64)
        pairs = sorted((int(loss[x, y]), x, y) for x in range(n) for y in range(x + 1, n))
        self._pairs = [(x, y) for _, x, y in pairs]
        self._loss = loss * (1023 // max(1, int(loss.max())))

    def make(self, belief: Array, joint: Array, marginal: Array) -> tuple[Array, Array]:
        """(n, n, m) and (n, m); joint, marginal: rule 1's."""
        n, m = belief.shape
        sampled = np.einsum("xm,xy->ym", belief, self._loss)
        cost = (ROW_SCALE - self._fresh) * self._loss[:, :, np.newaxis]
        cost = cost + (self._fresh * (sampled >> 10) >> 5)
        least = np.where(marginal.sum(axis=0) == PRIOR_SCALE, _cost(joint, cost), _LARGE)
        kept = np.zeros((n, m), dtype=bool)
        columns = np.arange(m)
        for count in range(n):
            if count and (count + 1) * self._kappa > PRIOR_SCALE:
                break
            free = (belief > 0) & ~kept
            if count:
                more = np.where(free, belief, -1).argmax(axis=0)
            else:
                more = np.where(free, sampled, np.iinfo(np.int64).max).argmin(axis=0)
            possible = free.any(axis=0)
            if not possible.any():
                break
            kept[more[possible], columns[possible]] = True
            filled, shares = self._fill(belief, kept, cost)
            price = np.where(possible, _cost(filled, cost), _LARGE)
            better = price < least
            if better.any():
                least = np.where(better, price, least)
                joint = np.where(better, filled, joint)
                marginal = np.where(better, shares, marginal)
        return joint, marginal

    def _fill(self, belief: Array, kept: Array, cost: Array) -> tuple[Array, Array]:
        """The coupling in which some are kept, (n, n, m), and its marginal."""
        n, m = belief.shape
        joint = np.zeros((n, n, m), dtype=np.int64)
        joint[np.arange(n), np.arange(n)] = np.where(kept, belief, 0)
        marginal = belief.copy()
        for x, y in self._pairs:
            self._raise(joint, marginal, x, y, ~kept[x] & kept[y], None)
            self._raise(joint, marginal, y, x, kept[x] & ~kept[y], None)
        target = np.where(kept, cost, np.iinfo(np.int64).max).argmin(axis=1)
        left = np.where(kept, 0, marginal)
        marginal -= left
        columns = np.arange(m)
        for x in range(n):
            joint[x, target[x], columns] += left[x]
            marginal[target[x], columns] += left[x]
        if (kept & (marginal < self._kappa)).any():
            for x, y in self._pairs:
                both = kept[x] & kept[y]
                down = marginal[x] < marginal[y]
                self._raise(joint, marginal, x, y, both & ~down, joint[x, x])
                self._raise(joint, marginal, y, x, both & down, joint[y, y])
        return joint, marginal

    def _raise(
        self, joint: Array, marginal: Array, x: int, y: int, where: Array, own: Array | None
    ) -> None:
        """Fill up y from x, or where there is one from x's own share."""
        units = np.minimum(marginal[x], self._kappa - marginal[y])
        if own is not None:
            np.minimum(units, own, out=units)
            np.minimum(units, marginal[x] - self._kappa, out=units)
        units *= where
        np.maximum(units, 0, out=units)
        marginal[x] -= units
        marginal[y] += units
        joint[x, y] += units
        if own is not None:
            joint[x, x] -= units


def _cost(joint: Array, cost: Array) -> Array:
    return np.einsum("xym,xym->m", joint, cost >> 9)


def _move(joint: Array, x: int, y: int, units: Array) -> None:
    joint[x, y] += units
    joint[y, x] += units
    joint[x, x] -= units
    joint[y, y] -= units


def _complete(beliefs: Array) -> None:
    """Give what is wanting to a whole to the largest number of each row, the first of equals."""
    rows = np.arange(len(beliefs))
    beliefs[rows, beliefs.argmax(axis=1)] += PRIOR_SCALE - beliefs.sum(axis=1)
