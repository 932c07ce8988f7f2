"""Conditional randomized response: what the released series say about those that were measured.

A device's belief follows from what it released, so that whoever has its releases from its start
on knows with which M_t(y|x) each of them was drawn. Two estimates, of two kinds:

raw       (M_t^-1)[y, x] has the expectation 1 if the value is x and 0 if not, whatever the series
          are: its mean over the devices is an unbiased estimate of the share of x at t. Devices
          whose M_t tells x from nothing, or hardly, are not counted for it: crr_raw.
smoothed  the probability of x given all releases, earlier and later (forward-backward smoothing of
          a hidden Markov chain, Rabiner 1989, with M_t in place of fixed emissions). Much less
          noise, and right on average where the series follow the Task's chain; where they do
          not, it leans towards the chain.

What is released is drawn from the marginal P_t if the series follow the chain, so that sums of
1[y] - P_t(y), also of those steps alone whose release before was a certain one, are a martingale
then: far from 0, they show that smoothed estimates lean. How far is measured with a third of the
sum added to its variance, for rare releases are no normal numbers: beyond z it is with at most
exp(-z^2 / 2), either way (Freedman 1975, for a variance that is known).

Losses must not depend on values, and from a device's first lost release on its belief is unknown:
only what comes before is used. Whole blocks (CRR_BATCH) are smoothed alike, with a block in the
place of a value; what one tells stands at its first step, and there is no raw estimate. What is
released is compared whole block by whole block, after each block, with what is expected of the
chain and all that arrived before. With a table there is no belief, and M is known after a loss,
too: of steps that did not arrive nothing is said but by the chain and the releases before and
after, of a block of which a part arrived, that it was one of those with these symbols, with M
summed up over them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from tinyldp.crr.beliefs import Beliefs
from tinyldp.crr.blocks import AllBeliefs, make_beliefs
from tinyldp.errors import UserError
from tinyldp.estimate.crr_blocks import smoothed_blocks
from tinyldp.estimate.crr_raw import half_width
from tinyldp.estimate.crr_steps import Wanted, smoothed_steps
from tinyldp.estimate.frequency import CONFIDENCE
from tinyldp_protocol.task import CRR, CRR_BATCH, TABLE, Task

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# Steps that may be lost before one that is used, in all and for each that arrived: whoever claims
# more makes more work than sense.
_MOST_LOST = 1 << 14
_LOST_EACH = 4
# Numbers that are held at a time, of all devices, steps and symbols.
_HELD = 1 << 24


@dataclass(frozen=True)
class Decoded:
    """What n devices' releases say of each of their steps.

    posterior: (n, T, d) probability of each value given all the device's releases; NaN where
    nothing is known. known: (n, T) whether everything up to this step is there; with a table,
    whether this step's block or a later one is there. leakage: (n, T) nats by which this release
    made some value likelier or less likely, at most -ln q; 0 where it did not arrive, NaN where
    nothing is known. Its sum over steps is what the whole series tells of some series of values.
    gain: (n, T) nats that were learned of the value, on average if the series follow the Task's
    chain.
    """

    posterior: Floats
    known: Flags
    leakage: Floats
    gain: Floats


@dataclass(frozen=True)
class Population:
    """What is known of all devices together at J steps, of those that are known there (Decoded).

    steps: (J,) from 0. devices: (J,). counted: (J, d) the share of these that raw rests on, who
    depend on earlier releases alone. raw: (J, d) shares of the values among these, unbiased given
    the earlier releases, NaN where nobody is counted; variances: (J, d) of it, estimated from the
    releases or as the beliefs expect it, whichever is more. low, high: (J, d) limits of the share
    among all devices, whatever those have who are not counted.
    smoothed: (J, d); spreads: (J, d) its variance if the series follow the Task's chain;
    smoothed_low, smoothed_high: (J, d). Limits lie in 0..1, each alone with `confidence`:
    those of raw for 20 devices or more (half_width), of smoothed for some tens (normal).
    leakage, largest: (J,) nats of a device's release, on average and at most; total, most: (J,)
    the same of all that it released so far. gain, learned: (J,) what was learned of a value on
    average, and of all so far, if the series follow the chain. released: (J, d) shares of the
    symbols that arrived, NaN where none did. excess: (d, d) of all steps after the first, how much
    more often than the chain has it a symbol (columns) followed another one (rows), of its
    followers; surprise: (d, d) the same in standard deviations, fewer for a rare one: beyond z with
    at most 2 exp(-z^2 / 2) each. Of blocks both are (d^w, d^w), of whole blocks by their numbers.
    """

    steps: Integers
    devices: Integers
    counted: Floats
    raw: Floats
    variances: Floats
    low: Floats
    high: Floats
    smoothed: Floats
    spreads: Floats
    smoothed_low: Floats
    smoothed_high: Floats
    leakage: Floats
    largest: Floats
    total: Floats
    most: Floats
    gain: Floats
    learned: Floats
    released: Floats
    excess: Floats
    surprise: Floats
    confidence: float


def decode(
    task: Task,
    released: npt.ArrayLike,
    present: npt.ArrayLike | None = None,
    *,
    ended: npt.ArrayLike = False,
    beliefs: AllBeliefs | None = None,
) -> Decoded:
    """Smooth n series of releases, each from its device's start on.

    released: (n, T) symbols. present: (n, T) which of them are there (absent: all). ended: of
    blocks, whether what came last is the end of a segment, for all or each: (n,); then it may be
    a short block, otherwise it is left out. beliefs: the Task's, to be used again and again, which
    is faster (absent: found anew).
    Raises UserError for arrays that do not fit, and for releases that no device can have made.
    """
    symbols, here, known = _checked(task, released, present, ended)
    none = np.zeros(0, dtype=np.int64)
    found = make_beliefs(task) if beliefs is None else beliefs
    wanted = Wanted(none, none, 0.0)
    parts = [
        _any(task, symbols[part], here[part], known[part], wanted, found)
        for part in _parts(task, symbols)
    ]
    return Decoded(
        np.concatenate([part.posterior for part in parts]),
        known,
        np.concatenate([part.leakage for part in parts]),
        np.concatenate([part.gain for part in parts]),
    )


def population(
    task: Task,
    released: npt.ArrayLike,
    present: npt.ArrayLike | None = None,
    steps: npt.ArrayLike | None = None,
    confidence: float = CONFIDENCE,
    *,
    ended: npt.ArrayLike = False,
    beliefs: AllBeliefs | None = None,
) -> Population:
    """Estimate the shares of the values at some steps (absent: all), and what was given away.

    released, present, ended, beliefs: as decode takes them.
    Raises UserError as decode does, and for a step at which no device is known.
    """
    symbols, arrived, known = _checked(task, released, present, ended)
    asked = _asked(steps, symbols.shape[1])
    z = float(ndtri((1 + confidence) / 2))
    wanted = Wanted(asked, _numbers(task, known, asked), z)
    found = make_beliefs(task) if beliefs is None else beliefs
    sums = _Sums(len(asked), task)
    for part in _parts(task, symbols):
        said = _any(task, symbols[part], arrived[part], known[part], wanted, found)
        sums.add(said, known[part], asked)
    number = wanted.devices
    n = number[:, np.newaxis]
    smoothed, spreads = sums.values[0] / n, sums.values[1] / n**2
    return Population(
        asked,
        number,
        *_raw(sums.unmixed, n, confidence),
        smoothed,
        spreads,
        *_limits(smoothed, z * np.sqrt(spreads)),
        sums.nats[0] / number,
        sums.nats[1],
        sums.nats[2] / number,
        sums.nats[3],
        sums.nats[4] / number,
        sums.nats[6] / number,
        _shares(task, symbols, arrived, asked),
        sums.drawn[0] / np.maximum(sums.drawn[2], 1),
        sums.drawn[0] / np.sqrt(np.maximum(sums.drawn[1] + np.abs(sums.drawn[0]) / 3, 1e-9)),
        confidence,
    )


def _asked(steps: npt.ArrayLike | None, length: int) -> Integers:
    """(J,) the steps that are asked for."""
    asked = np.arange(length) if steps is None else np.asarray(steps, dtype=np.int64)
    if not asked.size or asked.min() < 0 or asked.max() >= length:
        raise UserError(f"The steps must lie in 0..{length - 1}.")
    return asked


def _numbers(task: Task, known: Flags, asked: Integers) -> Integers:
    """(J,) how many devices are known at each of these steps: at least one."""
    number = known[:, asked].sum(axis=0)
    if not number.all():
        step = asked[number == 0][0]
        raise UserError(
            f"Of no device anything is there from step {step} on."
            if task.rule == TABLE
            else f"Of no device everything is there up to step {step}."
        )
    return number


class _Sums:
    """Of all devices, at J steps, what is said of a part of them after the other.

    values: (2, J, d) sums of the posteriors, and of their variances. unmixed, drawn: as of _Said.
    nats: (8, J) in sum and at most, of a release and of all so far: leakages, then gains.
    """

    def __init__(self, steps: int, task: Task) -> None:
        self.values = np.zeros((2, steps, task.symbols))
        self.unmixed = np.zeros((4, steps, task.symbols))
        released = task.symbols ** (task.block or 1)
        self.drawn = np.zeros((3, released, released))
        self.nats = np.zeros((8, steps))

    def add(self, said: _Said, known: Flags, asked: Integers) -> None:
        """What is said of m devices, where they are known (m, T), at these steps (J,)."""
        self.drawn += said.drawn
        self.unmixed += said.unmixed
        here = known[:, asked]
        chosen = np.where(here[:, :, np.newaxis], said.posterior[:, asked], 0.0)
        self.values[0] += chosen.sum(axis=0)
        self.values[1] += (chosen * (1 - chosen)).sum(axis=0)
        kinds = said.leakage, said.leakage.cumsum(1), said.gain, said.gain.cumsum(1)
        for at, each in enumerate(kinds):
            there = np.where(here, each[:, asked], 0.0)
            self.nats[2 * at] += there.sum(axis=0)
            np.maximum(self.nats[2 * at + 1], there.max(axis=0), out=self.nats[2 * at + 1])


def _raw(
    unmixed: Floats, n: Integers, confidence: float
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """(J, d) of n (J, 1) devices: counted, raw, variances, low and high of Population."""
    those = np.where(unmixed[0] > 0, unmixed[0], np.nan)
    raw = unmixed[1] / those
    # A large h that is seldom may not have come up: then the first of these is far too small.
    spread = np.maximum(unmixed[2], unmixed[3])
    share = those / n
    # Each of the others may have the value, or none of them.
    half = half_width(spread, confidence) / n + (1 - share) / 2
    limits = _limits(share * raw + (1 - share) / 2, half)
    return unmixed[0] / n, raw, spread / those**2, *limits


def _shares(task: Task, symbols: Integers, here: Flags, wanted: Integers) -> Floats:
    """(J, d) how often each symbol was released, of those that are here."""
    counts = np.zeros((len(wanted), task.symbols))
    for row, step in zip(counts, wanted, strict=True):
        row += np.bincount(symbols[here[:, step], step], minlength=task.symbols)
    number = counts.sum(axis=1, keepdims=True)
    return counts / np.where(number > 0, number, np.nan)


def _limits(middle: Floats, half: Floats) -> tuple[Floats, Floats]:
    return np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)


def _checked(
    task: Task,
    released: npt.ArrayLike,
    present: npt.ArrayLike | None,
    ended: npt.ArrayLike,
) -> tuple[Integers, Flags, Flags]:
    """Symbols, which of them are there and of use, and the steps that are known (known_steps)."""
    if task.mechanism not in (CRR, CRR_BATCH):
        raise UserError("Only releases of CRR can be smoothed.")
    symbols = np.asarray(released)
    if symbols.ndim != 2 or symbols.dtype.kind not in "iu" or 0 in symbols.shape:
        raise UserError("Released symbols must be integers of shape (devices, steps).")
    here = np.ones(symbols.shape, np.bool_) if present is None else np.asarray(present, np.bool_)
    if here.shape != symbols.shape:
        raise UserError("What is present must have the shape of the released symbols.")
    known = known_steps(task, here, ended)
    here = here & known
    symbols = np.where(here, symbols, 0).astype(np.int64)
    if symbols.min() < 0 or symbols.max() >= task.symbols:
        raise UserError(f"A released symbol lies outside 0..{task.symbols - 1}.")
    return symbols, here, known


def known_steps(task: Task, present: Flags, ended: npt.ArrayLike) -> Flags:
    """(n, T) which steps are there with all before them and, of blocks, with their whole block.

    With a table: all up to the last block that is whole, but for one that claims far more losses
    than arrived.
    """
    steps = np.arange(present.shape[1])
    if task.rule == TABLE:
        blocks = present.shape[1] // task.block
        each = present[:, : blocks * task.block].reshape(-1, blocks, task.block)
        arrived = each.sum(axis=2).cumsum(axis=1)
        ends = np.arange(1, blocks + 1) * task.block
        near = ends - arrived <= _MOST_LOST + _LOST_EACH * arrived
        last = (each.all(axis=2) & near) * np.arange(1, blocks + 1)
        last = last.max(axis=1, initial=0)
        return steps < last[:, np.newaxis] * task.block
    known = np.logical_and.accumulate(present, axis=1)
    if task.block is None:
        return known
    there = known.sum(axis=1)
    # A short block is one that nothing follows.
    whole = np.broadcast_to(np.asarray(ended, np.bool_), len(present))
    whole = whole & (present.sum(axis=1) == there)
    there = np.where(whole, there, there // task.block * task.block)
    return steps < there[:, np.newaxis]


@dataclass(frozen=True)
class _Said:
    """What releases say: posterior, leakage and gain of each (Decoded), and of all together.

    unmixed: (4, J, d) raw_sums. drawn: (3, d, d), of blocks (3, d^w, d^w), by the release before
    and by the release: how often it came beyond its P, the variance of that, and how many followed.
    """

    posterior: Floats
    leakage: Floats
    gain: Floats
    unmixed: Floats
    drawn: Floats


def _any(
    task: Task,
    symbols: Integers,
    here: Flags,
    known: Flags,
    wanted: Wanted,
    beliefs: AllBeliefs,
) -> _Said:
    """Of blocks, too, which have no raw estimate."""
    if isinstance(beliefs, Beliefs):
        return _Said(*smoothed_steps(task, symbols, known, wanted, beliefs))
    posterior, leakage, gain, drawn = smoothed_blocks(task, symbols, here, known, beliefs)
    unmixed = np.zeros((4, len(wanted.steps), task.symbols))
    return _Said(posterior, leakage, gain, unmixed, drawn)


def _parts(task: Task, symbols: Integers) -> list[slice]:
    # Of blocks, each has a probability.
    each = task.symbols ** (task.block or 1)
    size = max(1, _HELD // (symbols.shape[1] * each))
    return [slice(at, at + size) for at in range(0, len(symbols), size)]
