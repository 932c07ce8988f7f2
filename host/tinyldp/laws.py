"""How far a stream mechanism moves a value: the exact law of its displacement.

The displacement of a value is the index at which it was released minus the index
at which it came in, in steps: negative is early, positive late. (On the clock a
value with displacement 0 leaves window-1 steps after it came in.) The laws hold
far from both ends of a segment, and are computed from the Task's integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tinyldp_protocol.task import JITTERSORT, RANSWITCH, SCALE, STASWITCH, Task

# Probability that a law may leave out beyond its last offset.
TAIL = 1e-12
# Largest k for which StaSwitch's chain is solved: Bell(9) = 21,147 states.
STASWITCH_MAX_K = 9
# Gauss-Legendre nodes of JitterSort's integral over the tie-break (see jitter_factors).
_NODES = 8
# Windows of which a stream must have so many for its displacements to be measured: the law
# does not hold near the ends, of which two windows each are left out.
MEASURABLE = 8
_ENDS = 2


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

    None for StaSwitch with k above STASWITCH_MAX_K, and for oracles, which move
    nothing. The offsets go on until less than TAIL is left.
    Source: Stateful Switch, with the tail that the paper's formula lacks; JitterSort
    as in _jittersort.
    """
    if task.mechanism == RANSWITCH:
        return _ranswitch(task.window, task.thresholds[0])
    if task.mechanism == JITTERSORT:
        return _jittersort(tuple(task.thresholds))
    if task.mechanism == STASWITCH and task.k <= STASWITCH_MAX_K:
        return _staswitch(task.window, task.thresholds[0])
    return None


def why_no_law(task: Task) -> str:
    """One sentence for the reader when displacement_law gives None."""
    if task.mechanism != STASWITCH:
        return "Each step is answered at once: nothing is moved."
    return (
        f"No exact displacement law: StaSwitch's chain is solved for k up to {STASWITCH_MAX_K},"
        f" and here k is {task.k}."
    )


def settled(moved: npt.NDArray[np.int64], window: int) -> npt.NDArray[np.int64] | None:
    """The displacements that the law speaks of: (n,) without the ends of the segment.

    None when the segment is shorter than MEASURABLE windows.
    """
    edge = _ENDS * window
    return moved[edge:-edge] if len(moved) >= MEASURABLE * window else None


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


@dataclass(frozen=True)
class StaSwitchChain:
    """The chain over the lateness of the values in StaSwitch's slots, current slot first.

    A slot's lateness is the displacement that its value has if it stays there until
    it is current; the newest slot's is 0. State 0 is a buffer of fresh values. One
    entry for each transition: its states, how far ahead the switch went, its
    probability, and the displacement of the value that it released.
    """

    states: int
    sources: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]
    ahead: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float64]
    released: npt.NDArray[np.int64]

    def step(self, mass: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """(states,) probabilities one release later."""
        following = np.bincount(self.targets, mass[self.sources] * self.weights, self.states)
        return following / following.sum()


@lru_cache(maxsize=8)
def staswitch_chain(window: int, threshold: int) -> StaSwitchChain:
    q = threshold / SCALE
    p = 1 - (window - 1) * q
    states: list[tuple[int, ...]] = [(0,) * window]
    index = {states[0]: 0}
    transitions: list[tuple[int, int, int, int]] = []
    weights: list[float] = []
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
            transitions.append((index[state], index[key], ahead, state[ahead] - ahead))
            # Switches that the cap forbids stay.
            weights.append(q if ahead else p + age * q)
    sources, targets, aheads, released = np.array(transitions, dtype=np.int64).T
    return StaSwitchChain(len(states), sources, targets, aheads, np.array(weights), released)


@lru_cache(maxsize=64)
def _staswitch(window: int, threshold: int) -> Law:
    """The stationary law of StaSwitch's chain, of what it releases."""
    chain = staswitch_chain(window, threshold)
    mass = np.zeros(chain.states)
    mass[0] = 1.0
    change = 1.0
    while change > 1e-13:
        following = chain.step(mass)
        change = float(np.abs(following - mass).sum())
        mass = following
    probabilities = np.zeros(2 * window - 1)
    np.add.at(probabilities, chain.released + window - 1, mass[chain.sources] * chain.weights)
    return _law(1 - window, probabilities, 0.0, "stationary chain over the ages of the slots")


@lru_cache(maxsize=64)
def _jittersort(thresholds: tuple[int, ...]) -> Law:
    """The law of the rank in the stream sorted by key, less the rank by arrival.

    What is released is the whole stream sorted by key, equal keys in random order:
    all values of one key have arrived when the first of them is released, and each
    release takes one of them uniformly. So a value's displacement is the number of
    later arrivals that sort before it, less that of earlier ones that sort after it.
    Given its own key and place among equals these are independent events, and the
    characteristic function is a product, summed over the key, integrated over the
    place. Exact but for rounding: probabilities are right to about 1e-16.
    """
    reach = len(thresholds) - 1
    chance = key_offsets(thresholds)
    size = 4 * reach + 1
    transform = np.zeros(size // 2 + 1, dtype=np.complex128)
    for weight, passed_by, passing in jitter_factors(thresholds, size):
        before = np.ones_like(passed_by)
        np.cumprod(passed_by[:-1], axis=0, out=before[1:])
        after = np.ones_like(passing)
        np.cumprod(passing[:0:-1], axis=0, out=after[-2::-1])
        transform += weight * (chance @ (before * after))
    probabilities = np.roll(np.fft.irfft(transform, size), 2 * reach)
    probabilities = np.maximum(probabilities, 0.0)
    return _law(-2 * reach, probabilities, 0.0, "exact transform of the order by key")


def key_offsets(thresholds: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """JitterSort's law of a key less its arrival: (2L+1,) probabilities of 0, ..., 2L."""
    half = np.array(thresholds, dtype=np.float64) / SCALE
    return np.concatenate([half[:0:-1], half])


def jitter_factors(
    thresholds: tuple[int, ...], size: int
) -> Iterator[tuple[float, npt.NDArray[np.complex128], npt.NDArray[np.complex128]]]:
    """What each other value contributes to the transform of JitterSort's displacement.

    A value with key offset z and place v in [0, 1) among equal keys is passed by the
    one that came j steps later if that one's key offset is below z - j, or equal to
    it, with chance v. Gives, for each node v, its weight and two (2L+1, size//2+1)
    arrays, row m = z - j: the factors of a later value (which makes the displacement
    larger by one, when it passes) and of an earlier one (smaller, when it is passed),
    at the frequencies 2 pi f / size.

    The integrand is a polynomial in v whose factors have slopes of at most twice the
    chances of the 2L+1 keys, so its 2n-th derivative is at most 2^2n and the error of
    n nodes at most (n!)^4 2^2n / ((2n+1) (2n)!^3): below 1e-17 for n = 8, whatever L.
    """
    chance = key_offsets(thresholds)
    below = np.concatenate([[0.0], np.cumsum(chance)[:-1]])
    turn = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size) - 1
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        first = (below + node * chance)[:, None]
        yield float(weight), 1 + first * turn, 1 + (1 - first) * np.conj(turn)
