"""StaSwitch's delta in floats, fast: a guide for the planner; certify has the exact one.

Two neighbouring streams run side by side (see certify.staswitch). Which state
follows which depends on k alone, so the graph is made once; a threshold only puts
weights on its edges. Mass flows through it from the all-fresh buffer, depth by
depth, until it is decided: on a likelihood ratio, or as an output that the other
stream can't give.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tinyldp_protocol.task import SCALE

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# An edge's factor: 0 is a switch (q), 1 + b staying when the current value is b late.
_SWITCH = 0
_UNDECIDED = 2.0**-60
# A state: how late the values in the slots are, here and in the other run; the exchanged pair
# of slots, lower first, or (-1, -1); the ratio so far, as exponents of the factors. Before the
# partner has arrived the pair is (slot of the first value, steps until then + _ALONE).
State = tuple[tuple[int, ...], tuple[int, ...], int, int, tuple[int, ...]]
Ratio = tuple[int, ...]
_ALONE = 1 << 8


@dataclass(frozen=True)
class RatioLaw:
    """Law of the likelihood ratio under one stream. ratios: (r,) falling; masses: (r,)."""

    impossible: float
    ratios: Floats
    masses: Floats

    def delta(self, factor: float) -> float:
        """delta where e^epsilon = factor."""
        return self.impossible + float(self.masses @ np.maximum(0, 1 - factor / self.ratios))

    def factor(self, delta: float) -> float:
        """The least e^epsilon >= 1 at which delta is reached; infinite if it never is."""
        if self.impossible > delta:
            return np.inf
        if self.delta(1.0) <= delta:
            return 1.0
        # Between two ratios delta is linear in the factor: all masses above count.
        slope = np.cumsum(self.masses / self.ratios)
        reached = self.impossible + np.cumsum(self.masses)
        ends = np.append(self.ratios[1:], 0.0)
        at = int(np.argmax(reached - ends * slope > delta))
        return float((reached[at] - delta) / slope[at])


@dataclass(frozen=True)
class CoupledChain:
    """The graph for one k. Nodes 0..n-1 are states, n the impossible, then the ratios.

    source, target, factor: (e,) of the edges, by depth of the source; ends: where
    each depth's edges end; exponents: (r, k+1) of the ratios, in the factors.
    """

    k: int
    nodes: int
    source: Ints
    target: Ints
    factor: Ints
    ends: tuple[int, ...]
    exponents: Ints

    def law(self, threshold: int) -> RatioLaw:
        """The law for threshold = 2^24 q, with 0 < q <= p. Time: some ns for each edge."""
        stay = SCALE - np.arange(self.k - 1, -1, -1) * float(threshold)
        factors = np.append(float(threshold), stay) / SCALE
        weights = factors[self.factor]
        size = self.nodes + 1 + len(self.exponents)
        mass = np.zeros(size)
        mass[0] = 1.0
        while mass[: self.nodes].sum() > _UNDECIDED:
            start = 0
            for end in self.ends:
                source = self.source[start:end]
                moved = np.bincount(self.target[start:end], mass[source] * weights[start:end], size)
                mass[source] = 0.0
                mass += moved
                start = end
        ratios = np.prod(factors**self.exponents, axis=1)
        order = np.argsort(-ratios, kind="stable")
        masses = mass[self.nodes + 1 :]
        return RatioLaw(float(mass[self.nodes]), ratios[order], masses[order])


@lru_cache(maxsize=4)
def coupled_chain(k: int) -> CoupledChain:
    """The graph for k; 2..9 (k = 9: 300,000 states, some seconds)."""
    fresh = (0,) * k
    start: State = (fresh, fresh, k - 1, k - 1 + _ALONE, (0,) * (k + 1))
    known: dict[State, int] = {start: 0}
    ratios: dict[Ratio, int] = {}
    source: list[int] = []
    target: list[int] = []
    factor: list[int] = []
    ends: list[int] = []
    front = [start]
    while front:
        found: list[State] = []
        for state in front:
            number = known[state]
            for used, after in _steps(k, state):
                source.append(number)
                factor.append(used)
                if after is None:
                    target.append(-1)
                elif after[0] == after[1] and after[2] < 0:
                    target.append(-2 - ratios.setdefault(after[4], len(ratios)))
                else:
                    if after not in known:
                        known[after] = len(known)
                        found.append(after)
                    target.append(known[after])
        ends.append(len(source))
        front = found
    targets = np.array(target)
    targets = np.where(targets < 0, len(known) - 1 - targets, targets)
    return CoupledChain(
        k,
        len(known),
        np.array(source),
        targets,
        np.array(factor),
        tuple(ends),
        np.array(list(ratios)),
    )


def _steps(k: int, state: State) -> Iterator[tuple[int, State | None]]:
    """The factor and the state after each draw of the one run; None where the other has none."""
    here, there, a, b, ratio = state
    alone = b >= _ALONE
    for ahead in range(k - here[0]):
        used = _SWITCH if ahead else 1 + here[0]
        other, pair = ahead, (a, b)
        if alone:
            if ahead == a:
                yield used, None
                continue
            pair = (ahead if a == 0 else a, b)
        elif a == 0:
            # The current value is one of the pair: here it leaves, moves, or meets the other.
            other = {0: b, b: 0}.get(ahead, ahead)
            pair = (ahead, b) if ahead not in (0, b) else (-1, -1)
        elif ahead in pair:
            other = a + b - ahead
        if there[0] + other >= k:
            yield used, None
            continue
        yield used, _after(k, here, there, ahead, other, pair, ratio)


def _after(
    k: int,
    here: tuple[int, ...],
    there: tuple[int, ...],
    ahead: int,
    other: int,
    pair: tuple[int, int],
    ratio: Ratio,
) -> State:
    mine, its = (1 + here[0] if not ahead else _SWITCH), (1 + there[0] if not other else _SWITCH)
    if mine != its:
        exponents = list(ratio)
        exponents[mine] += 1
        exponents[its] -= 1
        ratio = tuple(exponents)
    a, b = pair
    if a >= 0:
        if b == 1 + _ALONE:
            # The partner arrives in the last slot.
            a, b = a - 1, k - 1
        else:
            a, b = a - 1, b - 1
            if a > b:
                a, b = b, a
    return _moved(here, ahead), _moved(there, other), a, b, ratio


def _moved(late: tuple[int, ...], ahead: int) -> tuple[int, ...]:
    if ahead:
        late = (*late[:ahead], late[0] + ahead, *late[ahead + 1 :])
    return (*late[1:], 0)
