"""What the simulator's tests share: random Tasks, and the device package on given words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from tinyldp_device.mechanism import make_mechanism
from tinyldp_protocol.task import GRR, JITTERSORT, OLH, OUE, SCALE, STASWITCH, Task, write_file

Array = npt.NDArray[Any]

# Each test of a true law fails once in a million.
FALSE_ALARM = 1e-6
# Classes with fewer in both samples together are put into one.
_FEWEST = 16


def make_task(mechanism: int, **numbers: Any) -> Task:
    """A Task of this mechanism, with an id; what the simulator does not use is filled in."""
    filled = {"tick": 1000, "batch": 1, "resend": 5, "beacon": 5, "outbox": 16}
    task = Task({"mechanism": mechanism, **filled, **numbers})
    write_file(task)
    return task


def weights(rng: np.random.Generator, middle: int) -> list[int]:
    """Random weights [c_0, ..., c_L] of JitterSort, L = middle."""
    shares = rng.dirichlet(np.full(middle + 1, 0.7)) * (SCALE - 2 * middle - 2) / 2
    chosen = [1 + int(share) for share in shares]
    return [SCALE - 2 * sum(chosen[1:]), *chosen[1:]]


def random_task(rng: np.random.Generator, mechanism: int) -> Task:
    """Any Task of this mechanism, small enough to be played through quickly."""
    symbols = int(rng.choice([2, 3, 16, 17, 256, 257, 1500]))
    if mechanism <= JITTERSORT:
        window = int(rng.integers(2, 14))
        k = window if mechanism == STASWITCH else int(rng.integers(2, window + 1))
        thresholds = [int(rng.integers(1, SCALE // window + 1))]
        if mechanism == JITTERSORT:
            window = 2 * (window // 2) + 1
            thresholds = weights(rng, window // 2)
        return make_task(mechanism, window=window, k=k, symbols=symbols, thresholds=thresholds)
    if mechanism == OLH:
        buckets = int(rng.choice([2, 3, 7, 256, 257, 4096]))
        threshold = int(rng.integers(1, (SCALE - 1) // buckets + 1))
        return make_task(mechanism, symbols=symbols, buckets=buckets, thresholds=[threshold])
    largest = (SCALE - 1) // symbols if mechanism == GRR else SCALE // 2 - 1
    return make_task(mechanism, symbols=symbols, thresholds=[int(rng.integers(1, largest + 1))])


def random_words(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Words of which many lie at the ends of the range, where draws are refused."""
    words = rng.integers(0, SCALE, shape)
    ends = rng.random(shape)
    words[ends < 0.1] = SCALE - 1
    words[ends > 0.95] = 0
    return words


class GivenEntropy:
    """The words that a device takes; `used` of them so far."""

    quality = 0

    def __init__(self, words: Iterable[int]) -> None:
        self._words = [int(word) for word in words]
        self.used = 0

    def word(self) -> int:
        self.used += 1
        return self._words[self.used - 1]

    def refill(self, need: int = 1) -> None:
        pass


def played(task: Task, symbols: Iterable[int], words: Iterable[int]) -> tuple[list[Any], int]:
    """What the device package gives for these symbols, flush included; words it took."""
    entropy = GivenEntropy(words)
    mechanism = make_mechanism(task, entropy)  # type: ignore[arg-type]
    out: list[Any] = []
    for symbol in symbols:
        given = mechanism.step(int(symbol))
        if given is not None:
            out.append(given if isinstance(given, int) else list(given))
    while (given := mechanism.flush()) is not None:
        out.append(given)
    return out, entropy.used


def per_round(task: Task) -> int:
    """Words that suffice for one report under random_words, but for a chance of 1e-15 a device."""
    return {GRR: 1, OUE: task.symbols, OLH: 40}[task.mechanism]


def two_samples(one: Iterable[Hashable], other: Iterable[Hashable]) -> float:
    """p-value of a chi-square test that two samples have the same law."""
    a, b = Counter(one), Counter(other)
    rows: list[tuple[int, int]] = []
    rare = [0, 0]
    for outcome in a.keys() | b.keys():
        if a[outcome] + b[outcome] < _FEWEST:
            rare[0] += a[outcome]
            rare[1] += b[outcome]
        else:
            rows.append((a[outcome], b[outcome]))
    if sum(rare):
        rows.append((rare[0], rare[1]))
    table = np.array(rows, dtype=float)
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    return float(chi2.sf(((table - expected) ** 2 / expected).sum(), len(rows) - 1))
