"""What the order of a released stream gives away: where the two exchanged values went.

The most telling event is a set of places with the largest likelihood ratios. It is chosen
twice, by simulated segments, and by one half of the device's, as a device with a fault may
give away something else; its probabilities are bounded on the device's other segments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from tinyldp.audit.intervals import Bounds, delta_at_least, epsilon_at_least
from tinyldp.audit.pairs import Pair
from tinyldp.simulate import streams as simulated
from tinyldp_protocol.task import SCALE, Task

Integers = npt.NDArray[np.int64]

# Values that are simulated together.
_TOGETHER = 500_000
# Words that suffice for each value of a stream, however often the end draws again.
_WORDS_A_STEP = 8


def simulate(task: Task, symbols: Sequence[int], n: int) -> npt.NDArray[np.uint16]:
    """What n simulated devices release of a segment: (n, steps) symbols."""
    steps = len(symbols)
    rng = np.random.default_rng()
    released = np.empty((n, steps), np.uint16)
    size = max(1, _TOGETHER // steps)
    for start in range(0, n, size):
        part = released[start : start + size]
        words = rng.integers(0, SCALE, (len(part), _WORDS_A_STEP * steps), dtype=np.uint32)
        part[:] = simulated.release(task, np.tile(symbols, (len(part), 1)), words)
    return released


def places(
    pair: Pair, released: npt.NDArray[np.integer], steps: Sequence[int] | None = None
) -> Integers:
    """Where each segment released the values of these steps: (n, len(steps)) steps.

    released: (n, all steps). steps: of the first series; absent, the two exchanged ones.
    A value that comes more than once can't be followed: -1.
    """
    steps = pair.at if steps is None else steps
    found = np.full((len(released), len(steps)), -1, np.int64)
    for column, step in enumerate(steps):
        value = pair.symbols[step]
        if pair.symbols.count(value) == 1:
            found[:, column] = np.argmax(released == value, axis=1)
    return found


def numbered(*samples: Integers) -> tuple[list[Integers], int]:
    """The rows of samples, (n, c) each, as numbers: equal rows have equal ones. And how many."""
    _, number = np.unique(np.concatenate(samples), axis=0, return_inverse=True)
    ends = np.cumsum([len(sample) for sample in samples])
    return np.split(number.reshape(-1), ends[:-1]), int(number.max()) + 1


def lower_bounds(
    first: Integers,
    second: Integers,
    simulation: tuple[Integers, Integers],
    epsilon: float,
    delta: float,
    wrong: float,
) -> tuple[float, float]:
    """(an epsilon at this delta, a delta at this epsilon): neither can be smaller.

    first, second: (n, 2) places under two neighbours, n segments each; simulation: of
    simulated segments. wrong: the chance that one of the two figures is wrong, for each
    alone.
    """
    if not len(first):
        return 0.0, 0.0
    (one, other, *again), kinds = numbered(first, second, *simulation)
    half = len(first) // 2
    tried = [
        _bounds(again, [one, other], kinds, epsilon, delta, wrong / 2),
        _bounds(
            [one[:half], other[:half]], [one[half:], other[half:]], kinds, epsilon, delta, wrong / 2
        ),
    ]
    return max(epsilon for epsilon, _ in tried), max(delta for _, delta in tried)


def _bounds(
    chosen_by: list[Integers],
    tested: list[Integers],
    kinds: int,
    epsilon: float,
    delta: float,
    wrong: float,
) -> tuple[float, float]:
    """Bounds by the tested pair of samples of kinds, with the events that the others choose."""
    hits, other_hits = (np.bincount(sample, minlength=kinds) for sample in chosen_by)
    order = np.argsort(-(hits + 0.5) / (other_hits + 0.5), kind="stable")
    rank = np.empty(kinds, np.int64)
    rank[order] = np.arange(kinds)
    n = len(tested[0])
    # As many as would be expected of the tested.
    expected = [
        np.rint(np.cumsum(counts[order]) * (n / len(chosen_by[0]))).astype(np.int64)
        for counts in (hits, other_hits)
    ]

    def bound(at_least: Callable[..., Bounds], parameter: float) -> float:
        last = int(np.argmax(at_least(expected[0], n, expected[1], n, parameter, wrong)))
        found, other_found = (int((rank[sample] <= last).sum()) for sample in tested)
        return float(at_least(found, n, other_found, n, parameter, wrong))

    return bound(epsilon_at_least, delta), bound(delta_at_least, epsilon)
