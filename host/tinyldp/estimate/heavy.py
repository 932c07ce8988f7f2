"""HeavyThresh's reports to frequencies of items, and to the frequent ones among all.

A device with the histogram p (n items of a dictionary, counts that add up to at most 1)
names a coordinate j, uniform among w, and the sign of z_j = +-c sqrt(w), c = N / (N - 2T) with
the Task's threshold T over N = 2^24, so that the mean of z is Phi p (Bassily and Smith 2015).
The frequency of item v is estimated as <Phi e_v, mean z>: the mean of c * (sign that was
sent) * sign(j, v), each of them +-c.

Two errors are independent and subgaussian: the reports', with proxy variance c^2/n, and that
of the hash, sum over other items u of p_u <Phi e_u, Phi e_v>, with |p|^2/w at most (over keys of
the hash, for items that do not depend on the key). So the frequency lies within
sqrt(2 ln(2 m / (1 - confidence)) (c^2/n + |p|^2/w)) for m items at a time. |p|^2 is bounded from
the reports themselves (_square), and is 1 at most. Where devices have dropped items for lack
of room, it is the frequency of what they kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tinyldp.errors import UserError
from tinyldp.estimate.phi import signs
from tinyldp_protocol.task import SCALE, Task

Floats = npt.NDArray[np.float64]
# Called with the items of the dictionary that are done, and their total.
Told = Callable[[int, int], None]

CONFIDENCE = 0.95
# Items whose signs are held at a time, and coordinates from which |p|^2 is bounded.
_ITEMS = 2048
_LEAST = 128
# Deviations that the bound of |p|^2 allows for.
_DEVIATIONS = 4


@dataclass(frozen=True)
class Frequencies:
    """Of `items`: (m,), raw and unbiased, each within low and high alone, or all together.

    error: half the width of each interval before it is cut to 0..1; together: whether all
    items of the dictionary are in theirs at once with `confidence`.
    """

    items: npt.NDArray[np.int64]
    frequencies: Floats
    low: Floats
    high: Floats
    error: float
    n: int
    confidence: float
    together: bool


class FrequencyOracle:
    """The estimate of an update, for any item. means: (w,) means of z over n answers.

    Raises UserError when n is 0, ValueError for means of another length.
    """

    def __init__(self, task: Task, means: npt.ArrayLike, n: int) -> None:
        if n < 1:
            raise UserError("There are no reports, so no frequency can be estimated.")
        self._task = task
        self._w = task.coordinates
        self._means = np.asarray(means, dtype=np.float64)
        if self._means.shape != (self._w,):
            raise ValueError("there must be one mean for each coordinate")
        self._n = n
        self._noise = scale(task) ** 2 / n
        self.square = self._square()

    def frequency(self, items: npt.ArrayLike, confidence: float = CONFIDENCE) -> Frequencies:
        """Of these items (integers in 0..symbols-1), each with an interval of its own."""
        return self._found(np.asarray(items, dtype=np.int64), confidence, 1, False)

    def heavy_hitters(
        self, confidence: float = CONFIDENCE, progress: Told | None = None
    ) -> Frequencies:
        """The items whose frequency is above 0 beyond doubt, the most frequent first.

        With `confidence` all intervals of the dictionary hold at once, so that no item is
        among them that nobody has, and none is missing of 2 `error` or more. A large dictionary
        takes minutes.
        """
        error = self.error(confidence, self._task.symbols)
        found = []
        for start, end in self._parts():
            found.append(start + np.flatnonzero(self._estimates(np.arange(start, end)) > error))
            if progress is not None:
                progress(end, self._task.symbols)
        result = self._found(np.concatenate(found), confidence, self._task.symbols, True)
        order = np.argsort(-result.frequencies, kind="stable")
        return replace(
            result,
            items=result.items[order],
            frequencies=result.frequencies[order],
            low=result.low[order],
            high=result.high[order],
        )

    def error(self, confidence: float = CONFIDENCE, items: int = 1) -> float:
        """Half the width of the intervals of so many items, all together."""
        return half_width(self._noise, self.square, self._w, confidence, items)

    def _parts(self) -> list[tuple[int, int]]:
        symbols = self._task.symbols
        return [(at, min(at + _ITEMS, symbols)) for at in range(0, symbols, _ITEMS)]

    def _estimates(self, items: npt.NDArray[np.int64]) -> Floats:
        # As floats first: products of mixed types are slow.
        return signs(self._task, items).astype(np.float64) @ (self._means / math.sqrt(self._w))

    def _found(
        self, items: npt.NDArray[np.int64], confidence: float, together: int, all_of_them: bool
    ) -> Frequencies:
        error = self.error(confidence, together)
        found = self._estimates(items)
        return Frequencies(
            items,
            found,
            np.clip(found - error, 0, 1),
            np.clip(found + error, 0, 1),
            error,
            self._n,
            confidence,
            all_of_them,
        )

    def _square(self) -> float:
        """A bound of |p|^2, p the mean histogram: beyond four deviations of its estimate.

        |mean z|^2 less its noise, (n - 1)/n (|Phi p|^2) + c^2 w/n, estimates |Phi p|^2, which
        differs from |p|^2 by a factor with a deviation of at most sqrt(2/w).
        """
        if self._n < 2:
            return 1.0
        raw = float(self._means @ self._means) - self._noise * self._w
        raw = max(0.0, raw * self._n / (self._n - 1))
        return square_bound(raw, self._noise, self._w)


def square_bound(square: float, noise: float, w: int) -> float:
    """What |p|^2 is bounded by where it is estimated to be `square`; noise: c^2/n."""
    if w < _LEAST:
        return 1.0
    spread = math.sqrt(2 * w * noise**2 + 4 * noise * square)
    bound = (square + _DEVIATIONS * spread) / (1 - _DEVIATIONS * math.sqrt(2 / w))
    return min(1.0, bound)


def half_width(noise: float, square: float, w: int, confidence: float, items: int) -> float:
    """Of the intervals of so many items together; noise: c^2/n, square: a bound of |p|^2."""
    return math.sqrt(2 * math.log(2 * items / (1 - confidence)) * (noise + square / w))


def scale(task: Task) -> float:
    """c = N / (N - 2T): (e^b + 1) / (e^b - 1) for the loss b of an estimate."""
    return scale_of(task.thresholds[1])


def scale_of(threshold: int) -> float:
    """scale() for the threshold of an estimate."""
    return SCALE / (SCALE - 2 * threshold)


def means_of(task: Task, counts: npt.NDArray[np.int64], n: int) -> Floats:
    """(w,) means of z from signs + less signs - of each coordinate, of n answers; n >= 1."""
    return counts.astype(np.float64) * (scale(task) * math.sqrt(task.coordinates) / n)
