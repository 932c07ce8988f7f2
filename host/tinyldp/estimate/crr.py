"""Conditional randomized response: what the released series say about those that were measured.

A device's belief follows from what it released, so that whoever has its releases from its start
on knows with which M_t(y|x) each of them was drawn. Two estimates, of two kinds:

raw       (M_t^-1)[y, x] has the expectation 1 if the value is x and 0 if not, whatever the series
          are: its mean over the devices is an unbiased estimate of the share of x at t. It needs
          an M_t that can be inverted, and so no rule that leaves symbols out.
smoothed  the probability of x given all releases, earlier and later (forward-backward smoothing of
          a hidden Markov chain, Rabiner 1989, with M_t in place of fixed emissions). Much less
          noise, and right on average where the series follow the Task's chain; where they do
          not, it leans towards the chain.

Losses must not depend on values, and from a device's first lost release on its belief is unknown:
only what comes before is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from tinyldp.crr.beliefs import Beliefs
from tinyldp.crr.model import PRIOR_SCALE, ROW_SCALE
from tinyldp.errors import UserError
from tinyldp.estimate.frequency import CONFIDENCE
from tinyldp_protocol.task import CRR, Task

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# Numbers that are held at a time, of all devices, steps and symbols.
_HELD = 1 << 24
# Determinants below are of kernels that can't be inverted in floats.
_SINGULAR = 1e-9


@dataclass(frozen=True)
class Decoded:
    """What n devices' releases say of each of their steps.

    posterior: (n, T, d) probability of each value given all the device's releases; NaN where
    nothing is known. known: (n, T) whether everything up to this step is there. leakage: (n, T)
    nats by which this release made some value likelier or less likely, at most -ln q; NaN where
    not known. Its sum over steps is what the whole series tells of some series of values.
    """

    posterior: Floats
    known: Flags
    leakage: Floats


@dataclass(frozen=True)
class Histograms:
    """Shares of the d values at J steps, among the devices whose releases are known there.

    steps: (J,) from 0. devices: (J,). raw: (J, d) unbiased, NaN where an M can't be inverted;
    variances: (J, d) of it, unbiased. smoothed: (J, d); spreads: (J, d) its variance if the series
    follow the Task's chain. low, high, smoothed_low, smoothed_high: (J, d) limits in 0..1, each
    alone with `confidence` (normal: so for some tens of devices or more).
    """

    steps: Integers
    devices: Integers
    raw: Floats
    variances: Floats
    low: Floats
    high: Floats
    smoothed: Floats
    spreads: Floats
    smoothed_low: Floats
    smoothed_high: Floats
    confidence: float


def decode(task: Task, released: npt.ArrayLike, present: npt.ArrayLike | None = None) -> Decoded:
    """Smooth n series of releases, each from its device's start on.

    released: (n, T) symbols. present: (n, T) which of them are there (absent: all).
    Raises UserError for arrays that do not fit, and for releases that no device can have made.
    """
    symbols, known = _checked(task, released, present)
    parts = [_smoothed(task, symbols[part], known[part]) for part in _parts(task, symbols)]
    posterior, leakage = (np.concatenate(kind) for kind in zip(*parts, strict=True))
    return Decoded(posterior, known, leakage)


def histograms(
    task: Task,
    released: npt.ArrayLike,
    present: npt.ArrayLike | None = None,
    steps: npt.ArrayLike | None = None,
    confidence: float = CONFIDENCE,
) -> Histograms:
    """Estimate the shares of the values at some steps (absent: all), raw and smoothed.

    released, present: as decode takes them. Raises UserError as decode does, and for a step at
    which no device is known.
    """
    symbols, known = _checked(task, released, present)
    length = symbols.shape[1]
    wanted = np.arange(length) if steps is None else np.asarray(steps, dtype=np.int64)
    if not wanted.size or wanted.min() < 0 or wanted.max() >= length:
        raise UserError(f"The steps of histograms must lie in 0..{length - 1}.")
    number = known[:, wanted].sum(axis=0)
    if not number.all():
        raise UserError(f"Of no device everything is there up to step {wanted[number == 0][0]}.")
    sums = np.zeros((4, len(wanted), task.symbols))
    for part in _parts(task, symbols):
        here = known[part]
        posterior, _ = _smoothed(task, symbols[part], here)
        chosen = np.where(here[:, wanted, np.newaxis], posterior[:, wanted], 0.0)
        sums[0] += chosen.sum(axis=0)
        sums[1] += (chosen * (1 - chosen)).sum(axis=0)
        sums[2:] += _inverted(task, symbols[part], here, wanted)
    n = number[:, np.newaxis]
    smoothed, spreads, raw = sums[0] / n, sums[1] / n**2, sums[2] / n
    # E h^2 = Var h + 1 for the value itself, where h has the mean 1, and Var h for the others.
    variances = np.maximum(sums[3] - sums[2], 0) / n**2
    z = ndtri((1 + confidence) / 2)
    return Histograms(
        wanted,
        number,
        raw,
        variances,
        *_limits(raw, z * np.sqrt(variances)),
        smoothed,
        spreads,
        *_limits(smoothed, z * np.sqrt(spreads)),
        confidence,
    )


def _limits(middle: Floats, half: Floats) -> tuple[Floats, Floats]:
    return np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)


def _checked(
    task: Task, released: npt.ArrayLike, present: npt.ArrayLike | None
) -> tuple[Integers, Flags]:
    """Symbols, and which are there with all that came before them."""
    if task.mechanism != CRR:
        raise UserError("Only releases of CRR can be smoothed.")
    symbols = np.asarray(released)
    if symbols.ndim != 2 or symbols.dtype.kind not in "iu" or 0 in symbols.shape:
        raise UserError("Released symbols must be integers of shape (devices, steps).")
    here = np.ones(symbols.shape, np.bool_) if present is None else np.asarray(present, np.bool_)
    if here.shape != symbols.shape:
        raise UserError("What is present must have the shape of the released symbols.")
    known = np.logical_and.accumulate(here, axis=1)
    symbols = np.where(known, symbols, 0).astype(np.int64)
    if symbols.min() < 0 or symbols.max() >= task.symbols:
        raise UserError(f"A released symbol lies outside 0..{task.symbols - 1}.")
    return symbols, known


def _parts(task: Task, symbols: Integers) -> list[slice]:
    size = max(1, _HELD // (symbols.shape[1] * task.symbols))
    return [slice(at, at + size) for at in range(0, len(symbols), size)]


def _walk(
    task: Task, symbols: Integers, known: Flags
) -> Iterator[tuple[Beliefs, Integers, Integers]]:
    """At each step: all beliefs, the devices that are known there, and their beliefs' numbers."""
    beliefs = Beliefs(task)
    devices = np.arange(len(symbols))
    numbers = np.zeros(len(symbols), dtype=np.int64)
    for step in range(symbols.shape[1]):
        still = known[devices, step]
        devices, numbers = devices[still], numbers[still]
        if not len(devices):
            return
        yield beliefs, devices, numbers
        numbers = beliefs.follow(numbers, symbols[devices, step])


def _smoothed(task: Task, symbols: Integers, known: Flags) -> tuple[Floats, Floats]:
    """(n, T, d) posteriors and (n, T) leakages."""
    n, length = symbols.shape
    d = task.symbols
    transitions = np.array(task.transitions).reshape(d, d) / ROW_SCALE
    # By steps, as they are worked on.
    told = np.ones((length, n, d))
    forward = np.full((length, n, d), np.nan)
    leakage = np.full((n, length), np.nan)
    ahead = np.tile(np.array(task.prior) / PRIOR_SCALE, (n, 1))
    for step, (beliefs, devices, numbers) in enumerate(_walk(task, symbols, known)):
        released = symbols[devices, step]
        told[step, devices] = beliefs.told(numbers, released)
        leakage[devices, step] = beliefs.leakage[numbers, released]
        now = ahead[devices] * told[step, devices]
        total = now.sum(axis=1, keepdims=True)
        if not total.all():
            raise UserError(f"No device can have released this symbol at its step {step}.")
        now /= total
        forward[step, devices] = now
        ahead[devices] = now @ transitions
    backward = np.ones((n, d))
    for step in range(length - 1, -1, -1):
        both = forward[step] * backward
        forward[step] = both / both.sum(axis=1, keepdims=True)
        backward = (told[step] * backward) @ transitions.T
        backward /= backward.sum(axis=1, keepdims=True)
    return forward.transpose(1, 0, 2), leakage


def _inverted(task: Task, symbols: Integers, known: Flags, wanted: Integers) -> Floats:
    """(2, J, d) sums over the devices of the raw estimator, and of its square."""
    sums = np.zeros((2, len(wanted), task.symbols))
    for step, (beliefs, devices, numbers) in enumerate(_walk(task, symbols, known)):
        at = np.flatnonzero(wanted == step)
        if not len(at):
            continue
        different, which = np.unique(numbers, return_inverse=True)
        kernel = beliefs.kernel(different)
        if np.linalg.det(kernel).min() < _SINGULAR:
            sums[:, at] = np.nan
            continue
        estimate = np.linalg.inv(kernel)[which, symbols[devices, step]]
        sums[0, at] = estimate.sum(axis=0)
        sums[1, at] = np.square(estimate).sum(axis=0)
    return sums
