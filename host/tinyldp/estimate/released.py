"""Which value of a segment each release is likely to be: the exact law, ends included.

Far from both ends it is the displacement law. At the start the buffer holds fresh
values only; at the end of a segment the flush draws among those that are left.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tinyldp.errors import UserError
from tinyldp.figures import counted
from tinyldp.laws import (
    Law,
    displacement_law,
    jitter_factors,
    key_offsets,
    staswitch_chain,
    why_no_law,
)
from tinyldp_protocol.task import JITTERSORT, SCALE, STASWITCH, Task

Floats = npt.NDArray[np.float64]

# Entries of a table that still fits comfortably into memory.
_LARGEST = 50_000_000


@dataclass(frozen=True)
class ReleaseLaw:
    """rows[r, x] is the probability that release r is the value that came in r - late + x.

    rows: (releases, late + 1 + early); each row adds up to 1, but for a tail below
    1e-9. steps: values that came in; places outside 0..steps-1 have probability 0.
    """

    rows: Floats
    late: int
    steps: int


def release_law(task: Task, releases: int, ended: bool) -> ReleaseLaw:
    """The law of the first releases of a segment, or, when it ended, of all of them.

    ended: whether the segment had as many values and its flush is included; else
    task.window - 1 more values are in the buffer. Exact for each mechanism, to the
    rounding of floats: RanSwitch in closed form, the flush by recursion over its
    steps; StaSwitch by its chain, from the buffer of fresh values; JitterSort by the
    transform of the order by key, in which the ends lack neighbours.
    Raises UserError where no law is known, or a segment is too short or too long.
    """
    law = displacement_law(task)
    if law is None:
        raise UserError(why_no_law(task))
    least = 2 * task.window if ended else 1
    if releases < least:
        raise UserError(
            f"The law of what was released takes {least} values, but there are {releases}."
        )
    late = int(law.offsets[-1])
    early = task.window - 1
    if releases * (late + 1 + early) > _LARGEST:
        raise UserError(
            f"{releases} values are too many at once for a displacement of up to"
            f" {counted(late, 'step')}."
        )
    rows = np.zeros((releases, late + 1 + early))
    steps = releases if ended else releases + early
    if task.mechanism == JITTERSORT:
        _jittersort(rows, law, tuple(task.thresholds), ended)
    elif task.mechanism == STASWITCH:
        _staswitch(rows, task.window, task.thresholds[0], ended)
    else:
        _ranswitch(rows, law, task.window, task.thresholds[0], ended)
    return ReleaseLaw(rows, late, steps)


def _ranswitch(rows: Floats, law: Law, window: int, threshold: int, ended: bool) -> None:
    """One that waits is released early with q a step; from being current on, law f holds.

    The one that came in as i < W-1 had only i steps in which it could be early.
    """
    q = threshold / SCALE
    late = rows.shape[1] - window
    releases = len(rows) - (window - 1 if ended else 0)
    release = np.arange(releases)
    f = law.probabilities[window - 1 :] / (1 - q) ** (window - 1)
    for x in range(rows.shape[1]):
        value = release - late + x
        if x <= late:
            waited = np.minimum(value, window - 1)
            rows[:releases, x] = np.where(value >= 0, (1 - q) ** waited * f[late - x], 0)
        else:
            rows[:releases, x] = q * (1 - q) ** (release - np.maximum(value - window + 1, 0))
    if ended:
        waiting = _ranswitch_waiting(len(rows), releases, late, window, q)
        flushed = _ranswitch_flush(window, q) @ waiting
        first = len(rows) - waiting.shape[1]
        for i, row in enumerate(flushed):
            # Release `releases + i` is at most `late` after its value.
            start = releases + i - late
            into = max(0, first - start)
            part = row[max(0, start - first) :]
            rows[releases + i, into : into + len(part)] = part


def _ranswitch_waiting(steps: int, releases: int, late: int, window: int, q: float) -> Floats:
    """[a, i]: that value first + i is a ahead of the current slot when the flush starts.

    It came in last and waited, or was current at step s, was sent a further on than
    the flush is from s, and was not released since.
    """
    first = max(0, releases - late)
    values = np.arange(first, steps)
    table = np.zeros((window - 1, len(values)))
    survived = (1 - q) ** np.minimum(values, window - 1)
    # current[j]: that it is current again j steps after it was so.
    again = q * (1 - q) ** np.arange(window - 1)
    current = np.zeros(releases - first + 1)
    current[0] = 1.0
    for j in range(1, len(current)):
        reach = min(j, window - 1)
        current[j] = again[:reach] @ current[j - reach : j][::-1]
    # The latest s come first: those more than W-1-a before the flush cannot reach a.
    for s in range(max(first, releases - window + 1), releases):
        came = values <= s
        sent = np.where(came, survived * current[np.where(came, s - values, 0)], 0.0)
        sent *= q * (1 - q) ** (releases - 1 - s)
        table[: window - (releases - s)] += sent
    for i, value in enumerate(values.tolist()):
        if value >= releases:
            table[value - releases, i] += (1 - q) ** (releases - max(0, value - window + 1))
    return table


def _ranswitch_flush(window: int, q: float) -> Floats:
    """[t, a]: that what is a ahead when the flush starts is the flush's release t.

    With h left, staying and the h - 1 switches inside the stream share all chances.
    """
    p = 1 - (window - 1) * q
    table = np.zeros((window - 1, window - 1))
    for held in range(1, window):
        t = window - 1 - held
        total = p + (held - 1) * q
        switch = q / total
        following = table[:, : held - 1].copy()
        table[:, 1:held] = (1 - switch) * following
        table[:, 0] = switch * following.sum(axis=1)
        table[t, 1:held] = switch
        table[t, 0] = p / total
    return table


def _staswitch(rows: Floats, window: int, threshold: int, ended: bool) -> None:
    chain = staswitch_chain(window, threshold)
    # A displacement of d is the place late - d, and late is W-1.
    place = window - 1 - chain.released
    mass = np.zeros(chain.states)
    mass[0] = 1.0
    releases = len(rows) - (window - 1 if ended else 0)
    settled = False
    for r in range(releases):
        if settled:
            rows[r] = rows[r - 1]
            continue
        rows[r] = np.bincount(place, mass[chain.sources] * chain.weights, rows.shape[1])
        following = chain.step(mass)
        settled = float(np.abs(following - mass).sum()) < 1e-14
        mass = following
    for r in range(releases, len(rows)):
        # Switches beyond the stream are drawn again.
        weights = np.where(chain.ahead < len(rows) - r, chain.weights, 0.0)
        weights /= np.bincount(chain.sources, weights, chain.states)[chain.sources]
        flow = mass[chain.sources] * weights
        rows[r] = np.bincount(place, flow, rows.shape[1])
        mass = np.bincount(chain.targets, flow, chain.states)


def _jittersort(rows: Floats, law: Law, thresholds: tuple[int, ...], ended: bool) -> None:
    """By value: displacement d is row value + d, place late - d."""
    late = 2 * (len(thresholds) - 1)
    rows[:] = law.probabilities[::-1]
    ends = _jittersort_start(thresholds)
    d = np.arange(-late, late + 1)
    last = len(rows) - 1
    for i, chances in enumerate(ends):
        inside = (i + d >= 0) & (i + d <= last)
        rows[i + d[inside], late - d[inside]] = chances[inside]
        if ended:
            # Seen from the end, keys fall and early is late.
            rows[last - i - d[inside], late + d[inside]] = chances[inside]
    # Places before the first value.
    for r in range(min(late, len(rows))):
        rows[r, : late - r] = 0
    if ended:
        for r in range(min(late, len(rows))):
            rows[last - r, late + r + 1 :] = 0


@lru_cache(maxsize=8)
def _jittersort_start(thresholds: tuple[int, ...]) -> Floats:
    """(2L, 4L+1): the law of -2L..2L for the values 0..2L-1, with as many before them.

    As laws.displacement_law, where value i is passed over by i earlier ones at most.
    """
    reach = len(thresholds) - 1
    chance = key_offsets(thresholds)[:, None]
    size = 4 * reach + 1
    transform = np.zeros((2 * reach, size // 2 + 1), dtype=np.complex128)
    for weight, passed_by, passing in jitter_factors(thresholds, size):
        product = np.empty_like(passed_by)
        product[0] = 1
        np.cumprod(passed_by[:-1], axis=0, out=product[1:])
        product *= weight * chance
        for i in range(2 * reach):
            transform[i] += product.sum(axis=0)
            # The earlier one of i + 1 steps before can only share keys so much above.
            product[: 2 * reach - i] *= passing[i + 1 :]
    law = np.roll(np.fft.irfft(transform, size, axis=1), 2 * reach, axis=1)
    law = np.maximum(law, 0.0)
    law.setflags(write=False)
    return law
