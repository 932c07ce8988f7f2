"""The population's mean curve from released streams: the shuffling undone on average.

Release r is value i with a known probability A[r, i] (released.release_law), whatever
the values are. So the mean over devices of what was released is, in expectation, A
times the mean over devices of what came in, and a linear estimator undoes it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from tinyldp.errors import UserError
from tinyldp.estimate.frequency import CONFIDENCE
from tinyldp.estimate.released import ReleaseLaw, release_law
from tinyldp.figures import counted
from tinyldp_protocol.task import Task

Floats = npt.NDArray[np.float64]

# Least singular value, relative to the largest, at which the shuffling is still undone.
_SMALLEST = 1e-7
# How much of a change after the last release may reach an estimate that is given.
_UNSEEN = 0.01
# Knots of a curve: the singular value decomposition of so many takes seconds.
_MOST_KNOTS = 2000
# For the choice of their distance: windows of a segment that is long enough to tell.
_TRIAL_WINDOWS = 8


@dataclass(frozen=True)
class Curve:
    """Estimated mean over the devices of what came in, at some steps of a segment.

    steps: (J,) places on the segment's steps, 0-based. means: (J,), in the unit of the
    levels. variances: (J,) of the means, from how the devices differ. low, high: (J,)
    limits, each alone with `confidence` (Student's t, so for many devices). devices:
    independent ones. every: steps between knots; 1: no assumption about the curve.
    noise: median over the steps of the estimate's standard deviation over that of a
    released mean, where those are independent. released: (R,) means over devices.
    """

    steps: Floats
    means: Floats
    variances: Floats
    low: Floats
    high: Floats
    confidence: float
    devices: int
    every: float
    noise: float
    released: Floats


def mean_curve(
    task: Task,
    released: npt.ArrayLike,
    present: npt.ArrayLike | None = None,
    *,
    ended: bool = False,
    every: int | None = 1,
    levels: npt.ArrayLike | None = None,
    excluded: int | None = None,
    devices: npt.ArrayLike | None = None,
    confidence: float = CONFIDENCE,
) -> Curve:
    """Estimate the mean over devices of the values that came in, step by step.

    released: (n, R) symbols, one segment a row, from its first release on. present:
    (n, R) which of them arrived (absent: all); losses must not depend on values.
    ended: whether each segment had R values and its flush is included; otherwise give
    what was released before the flush only, and the segments may differ in length
    (present says where each stops). levels: (symbols,) numbers that the symbols stand
    for (absent: themselves). excluded: a symbol that is no value, such as that of
    missing readings: the mean is then over the others, as a ratio of two curves, whose
    bias falls like 1/n. devices: (n,) whose segment each row is (absent: each its own).

    every: steps between the knots of the curve. With 1 the estimate is raw: unbiased at
    every step, whatever the curve, but for the last steps where a segment goes on (see
    below); where a mechanism moves values far, it may be too noisy to be of use, and
    where it cannot be undone in floats it is refused. Above 1 is a regularisation, asked
    for by name: the curve is taken as straight between knots that many steps apart, and
    the estimate is unbiased where that is so. None takes the least distance (of a rising
    series) at which the estimate is no noisier than the released means are.

    The estimator is least squares, each release weighted by how many devices it has:
    linear, so that each device contributes a vector, and the variance is that of a mean
    of independent vectors: it counts all dependence between steps, and is the variance
    of a sample of devices from a population (for just these devices, it errs upwards).
    Ends: the law of the first and of flushed releases is exact, so that the ends of
    ended segments need no special treatment. Where segments go on, the curve is taken
    as constant after the last release, and steps at which a change there would show
    with more than 1 % are not given.

    Raises UserError for arrays that do not fit, fewer than two devices, segments that
    are too short, and an `every` at which the shuffling cannot be undone.
    """
    symbols, here = _checked(task, released, present)
    whose = np.arange(len(symbols)) if devices is None else np.asarray(devices)
    if whose.shape != (len(symbols),):
        raise UserError("Each segment must belong to one device.")
    _, whose = np.unique(whose, return_inverse=True)
    number = int(whose.max()) + 1
    if number < 2:
        raise UserError("A mean curve needs two devices or more: its error is how they differ.")
    if every is not None and every < 1:
        raise UserError(f"Knots must be 1 or more steps apart, not {every}.")
    heights = np.arange(task.symbols) if levels is None else np.asarray(levels, dtype=np.float64)
    if heights.shape != (task.symbols,):
        raise UserError(f"There must be {task.symbols} levels, one for each symbol.")

    weights = here.sum(axis=0) / len(here)
    if every is None:
        every = _least_noisy(task, symbols.shape[1], ended)
    knots, undo = _undoing(release_law(task, symbols.shape[1], ended), weights, ended, every)
    value = here if excluded is None else here & (symbols != excluded)
    level = np.where(value, heights[symbols], 0.0)
    mean, parts = _contributions(level, here, whose, undo)
    if excluded is not None:
        share, share_parts = _contributions(value.astype(np.float64), here, whose, undo)
        if (share <= 0).any():
            raise UserError("There are too few values beside missing ones for a mean curve.")
        mean = mean / share
        parts = (parts - mean * share_parts) / share
    variances = (parts**2).sum(axis=0) * number / (number - 1)
    half = stdtrit(number - 1, (1 + confidence) / 2) * np.sqrt(variances)
    with np.errstate(invalid="ignore"):
        plain = level.sum(axis=0) / value.sum(axis=0)
    return Curve(
        steps=knots,
        means=mean,
        variances=variances,
        low=mean - half,
        high=mean + half,
        confidence=confidence,
        devices=number,
        every=float(knots[1] - knots[0]) if len(knots) > 1 else float(every),
        noise=_noise(undo),
        released=plain,
    )


def _checked(
    task: Task, released: npt.ArrayLike, present: npt.ArrayLike | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Symbols, 0 where absent, and mask; without releases that no device has."""
    symbols = np.asarray(released)
    if symbols.ndim != 2 or symbols.dtype.kind not in "iu" or 0 in symbols.shape:
        raise UserError("Released symbols must be integers of shape (segments, releases).")
    here = np.ones(symbols.shape, np.bool_) if present is None else np.asarray(present, np.bool_)
    if here.shape != symbols.shape:
        raise UserError("What is present must have the shape of the released symbols.")
    symbols = np.where(here, symbols, 0).astype(np.int64)
    if symbols.min() < 0 or symbols.max() >= task.symbols:
        raise UserError(f"A released symbol lies outside 0..{task.symbols - 1}.")
    return symbols, here


def _contributions(
    level: Floats, here: npt.NDArray[np.bool_], whose: npt.NDArray[np.int64], undo: Floats
) -> tuple[Floats, Floats]:
    """The estimate (J,), and what each device moves it by (devices, J); they add up to 0."""
    present = np.maximum(here.sum(axis=0), 1)
    mean = level.sum(axis=0) / present
    centred = np.where(here, level - mean, 0.0) / present
    number = int(whose.max()) + 1
    if number < len(whose):
        by_device = np.zeros((number, level.shape[1]))
        np.add.at(by_device, whose, centred)
        centred = by_device
    return undo @ mean, centred @ undo.T


def _undoing(law: ReleaseLaw, weights: Floats, ended: bool, every: int) -> tuple[Floats, Floats]:
    """(knots that are given (J,), the matrix (J, R) from released means to them)."""
    releases = len(law.rows)
    number = max(2, round((releases - 1) / every) + 1)
    if number > _MOST_KNOTS:
        apart = -(-releases // _MOST_KNOTS)
        raise UserError(
            f"A curve may have {_MOST_KNOTS} knots: take them at least"
            f" {counted(apart, 'step')} apart."
        )
    knots = np.linspace(0, releases - 1, number)
    design, beyond = _design(law, knots)
    scale = np.sqrt(weights)[:, None]
    left, values, right = np.linalg.svd(design * scale, full_matrices=False)
    if values[-1] < _SMALLEST * values[0]:
        raise UserError(
            f"With knots {counted(every, 'step')} apart the shuffling cannot be undone: what"
            " changes so fast is not in the released means. Take them further apart."
        )
    undo = (right.T / values) @ left.T * scale.T
    if ended:
        return knots, undo
    given = np.abs(undo @ beyond).sum(axis=1) <= _UNSEEN
    if not given.any():
        raise UserError(
            f"With knots {counted(every, 'step')} apart, what came in after the last release"
            " matters everywhere: take longer segments, or another distance."
        )
    return knots[given], undo[given]


def _design(law: ReleaseLaw, knots: Floats) -> tuple[Floats, Floats]:
    """Expected released means for a curve with height 1 at one knot and 0 at the others.

    Gives (R, J), and (R, steps - R) for single values that came in after the last
    release, which in the first matrix have the last knot's height.
    """
    releases, width = law.rows.shape
    apart = knots[1] - knots[0]
    release = np.arange(releases)
    design = np.zeros(releases * len(knots))
    beyond = np.zeros((releases, law.steps - releases))
    for x in range(width):
        chance = law.rows[:, x]
        step = release - law.late + x
        place = np.clip(step / apart, 0, len(knots) - 1)
        before = np.minimum(place.astype(np.int64), len(knots) - 2)
        right = place - before
        at = release * len(knots) + before
        # Each release once: no index comes twice.
        design[at] += chance * (1 - right)
        design[at + 1] += chance * right
        after = (step >= releases) & (step < law.steps)
        beyond[release[after], step[after] - releases] = chance[after]
    return design.reshape(releases, len(knots)), beyond


def _noise(undo: Floats) -> float:
    return float(np.median(np.sqrt((undo**2).sum(axis=1))))


def _least_noisy(task: Task, releases: int, ended: bool) -> int:
    """The least distance of knots, of 1, 2, 3, 5, 8, 12, ..., that does not amplify noise."""
    trial = min(releases, max(_TRIAL_WINDOWS * task.window, 256))
    whole = ended and trial == releases
    law = release_law(task, trial, whole)
    distances = [1]
    while 2 * distances[-1] < trial:
        distances.append(distances[-1] + max(1, distances[-1] // 2))
    # From the cheap end: the fine ones cost most, and are rarely reached.
    best = None
    for every in reversed(distances):
        if releases > every * _MOST_KNOTS:
            break
        try:
            _, undo = _undoing(law, np.ones(trial), whole, every)
        except UserError:
            # Finer than what the mechanism leaves, or too coarse for so short a segment.
            if best is None:
                continue
            break
        if _noise(undo) > 1:
            break
        best = every
    return best or distances[-1]
