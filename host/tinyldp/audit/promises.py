"""What else a certificate promises, checked on the same frames; each check can only fail.

A device that keeps its law fails one of the statistical checks once in a million audits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc

from tinyldp.audit import oracles
from tinyldp.audit.pairs import Pair
from tinyldp.audit.streams import numbered, places
from tinyldp.audit.transcripts import Series, Transcripts
from tinyldp.simulate import streams as simulated
from tinyldp_protocol.task import Task

FALSE_ALARM = 1e-6
# Classes expected to hold fewer are put together.
_FEWEST = 8
# Words that suffice for each value of a stream: JitterSort takes two, and the end redraws.
_WORDS_A_STEP = 4


@dataclass(frozen=True)
class Promise:
    """One statement about what the device sends, and whether it held."""

    name: str
    held: bool
    detail: str


def one_length(transcripts: Transcripts) -> Promise:
    """Each kind of message has one length, whatever it carries."""
    sizes = {kind: sorted(found) for kind, found in sorted(transcripts.sizes.items())}
    said = ", ".join(f"{kind} {'/'.join(map(str, found))}" for kind, found in sizes.items())
    return Promise(
        "frame length", all(len(found) == 1 for found in sizes.values()), f"bytes: {said}"
    )


def whole_segments(transcripts: Transcripts) -> Promise:
    """As many values leave as came in."""
    return Promise("whole segments", not transcripts.short, f"{transcripts.short} were not whole")


def same_values(task: Task, series: Series, released: npt.NDArray[np.int64]) -> Promise:
    """The values of a segment are released, each as often as it came; only the order changes."""
    came = np.sort(np.array(series.readings * series.times))
    if task.bins is not None:
        came = np.searchsorted(np.array(task.bins), came, side="right")
    different = int((np.sort(released, axis=1) != came).any(axis=1).sum())
    return Promise("same values", not different, f"{different} of {len(released)} segments differ")


def never_later(task: Task, pair: Pair, found: npt.NDArray[np.int64]) -> Promise:
    """StaSwitch: nothing is released more than k-1 steps after it came. found: (n, 2) places."""
    latest = max(
        int((found[:, column] - pair.at[column]).max())
        for column in (0, 1)
        if (found[:, column] >= 0).all()
    )
    return Promise("delay", latest <= task.k - 1, f"at most {latest} steps, k-1 = {task.k - 1}")


def stream_law(task: Task, pair: Pair, found: npt.NDArray[np.int64]) -> Promise:
    """The two values go where the simulated mechanism takes them: a two-sample chi-square test.

    found: (n, 2) places of the first series, which is simulated as often again.
    """
    n = len(found)
    content = np.array(pair.first.readings * pair.first.times)
    if task.bins is not None:
        content = np.searchsorted(np.array(task.bins), content, side="right")
    shape = (n, _WORDS_A_STEP * len(content))
    words = np.random.default_rng().integers(0, 1 << 24, shape, dtype=np.uint32)
    again = places(pair, simulated.release(task, np.tile(content, (n, 1)), words))
    one, other, kinds = numbered(found, again)
    counts = np.stack([np.bincount(one, minlength=kinds), np.bincount(other, minlength=kinds)])
    statistic, freedom = _two_samples(counts)
    p = float(chdtrc(freedom, statistic)) if freedom else 1.0
    return Promise(f"law, {pair.where}", p >= FALSE_ALARM, f"chi-square p = {p:.3g}, {n} segments")


def oracle_law(task: Task, reports: oracles.Reports, value: int) -> Promise:
    """Reports are as frequent as the Task's integers say: a chi-square test."""
    observed, expected, freedom = oracles.classes(task, reports, value)
    p = float(chdtrc(freedom, ((observed - expected) ** 2 / expected).sum()))
    return Promise(
        f"law of value {value}", p >= FALSE_ALARM, f"chi-square p = {p:.3g}, {len(reports)} reports"
    )


def _two_samples(counts: npt.NDArray[np.int64]) -> tuple[float, int]:
    """Statistic and degrees of freedom of two samples of one size; counts: (2, kinds)."""
    rare = counts.sum(axis=0) < 2 * _FEWEST
    kept = counts[:, ~rare]
    rest = counts[:, rare].sum(axis=1, keepdims=True)
    if rest.sum():
        kept = np.append(kept, rest, axis=1)
    total = kept.sum(axis=0)
    return float(((kept[0] - kept[1]) ** 2 / total).sum()), kept.shape[1] - 1
