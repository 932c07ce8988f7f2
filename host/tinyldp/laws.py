"""How far the switching mechanisms move a value: the exact law of its displacement.

The displacement of a value is the index at which it was released minus the index
at which it came in, in steps: negative is early, positive late. (On the clock a
value with displacement 0 leaves window-1 steps after it came in.) The laws hold
far from both ends of a segment, and are computed from the Task's integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tinyldp_protocol.task import RANSWITCH, SCALE, Task

# Probability that a law may leave out beyond its last offset.
TAIL = 1e-12
# Largest k for which StaSwitch's chain is solved: Bell(9) = 21,147 states.
STASWITCH_MAX_K = 9


@dataclass(frozen=True)
class Law:
    """Distribution of the displacement.

    offsets: (n,) ascending integers, in steps, without holes.
    probabilities: (n,) floats; probabilities[i] belongs to offsets[i].
    mean_absolute: E|displacement| in steps, of the whole law.
    tail: probability outside the offsets.
    method: how it was obtained, in words.
    """

    offsets: npt.NDArray[np.int64]
    probabilities: npt.NDArray[np.float64]
    mean_absolute: float
    tail: float
    method: str


def displacement_law(task: Task) -> Law | None:
    """The law of the displacement under this Task, or None when no exact one is at hand.

    None only for StaSwitch with k above STASWITCH_MAX_K. The offsets go on until
    less than TAIL is left.
    Source: Stateful Switch, with the tail that the paper's formula lacks.
    """
    if task.mechanism == RANSWITCH:
        return _ranswitch(task.window, task.thresholds[0])
    if task.k <= STASWITCH_MAX_K:
        return _staswitch(task.window, task.thresholds[0])
    return None


def why_no_law(task: Task) -> str:
    """One sentence for the reader when displacement_law gives None."""
    return (
        f"No exact displacement law: StaSwitch's chain is solved for k up to {STASWITCH_MAX_K},"
        f" and here k is {task.k}."
    )


def _law(first: int, probabilities: npt.NDArray[np.float64], tail: float, method: str) -> Law:
    offsets = np.arange(first, first + len(probabilities), dtype=np.int64)
    # Callers share one cached law.
    offsets.setflags(write=False)
    probabilities.setflags(write=False)
    return Law(offsets, probabilities, float(np.abs(offsets) @ probabilities), tail, method)


@lru_cache(maxsize=64)
def _ranswitch(window: int, threshold: int) -> Law:
    """P_j = (1-q)^(W-1) f(j), where f counts from the step at which the value is current.

    f(0) = p, f(j) = q (1-q)^j for 0 < |j| < W, and beyond that the value has been
    current again: f(j) = sum over d in 1..W-1 of q (1-q)^(d-1) f(j-d).
    """
    q = threshold / SCALE
    p = 1 - (window - 1) * q
    near = q * (1 - q) ** np.arange(1 - window, window, dtype=np.float64)
    near[window - 1] = p
    untouched = (1 - q) ** (window - 1)
    # Weight of f(j-W+1), ..., f(j-1) in f(j).
    again = q * (1 - q) ** np.arange(window - 2, -1, -1, dtype=np.float64)
    late = list(near[window:])
    recent = near[window:].copy()
    left = 1 - untouched * float(near.sum())
    while left > TAIL:
        f = float(again @ recent)
        late.append(f)
        recent[:-1] = recent[1:]
        recent[-1] = f
        left -= untouched * f
    probabilities = untouched * np.concatenate([near[:window], late])
    return _law(1 - window, probabilities, max(0.0, left), "closed form and its geometric tail")


@lru_cache(maxsize=64)
def _staswitch(window: int, threshold: int) -> Law:
    """Stationary law of the lateness of the values in the slots, current slot first.

    A slot's lateness is the displacement that its value has if it stays there
    until it is current; the newest slot's is 0.
    """
    q = threshold / SCALE
    p = 1 - (window - 1) * q
    states: list[tuple[int, ...]] = [(0,) * window]
    index = {states[0]: 0}
    source: list[int] = []
    target: list[int] = []
    weight: list[float] = []
    released: list[int] = []
    for state in states:
        age = state[0]
        for ahead in range(window - age):
            after = [*state[1:], 0]
            if ahead:
                after[ahead - 1] = age + ahead
            key = tuple(after)
            if key not in index:
                index[key] = len(states)
                states.append(key)
            source.append(index[state])
            target.append(index[key])
            # Switches that the cap forbids stay.
            weight.append(q if ahead else p + age * q)
            released.append(state[ahead] - ahead)
    sources = np.array(source)
    targets = np.array(target)
    weights = np.array(weight)
    mass = np.zeros(len(states))
    mass[0] = 1.0
    change = 1.0
    while change > 1e-13:
        following = np.bincount(targets, mass[sources] * weights, len(states))
        following /= following.sum()
        change = float(np.abs(following - mass).sum())
        mass = following
    probabilities = np.zeros(2 * window - 1)
    np.add.at(probabilities, np.array(released) + window - 1, mass[sources] * weights)
    return _law(1 - window, probabilities, 0.0, "stationary chain over the ages of the slots")
