"""Smoothing of what was released step by step, and what else is summed up on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinyldp.crr.beliefs import Beliefs
from tinyldp.crr.model import PRIOR_SCALE, ROW_SCALE
from tinyldp.errors import UserError
from tinyldp.estimate.crr_raw import raw_sums
from tinyldp_protocol.task import Task

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Wanted:
    """The steps (J,) of which shares are, how many devices of all are there, and z of intervals."""

    steps: Integers
    devices: Integers
    z: float


def smoothed_steps(
    task: Task, symbols: Integers, known: Flags, wanted: Wanted, beliefs: Beliefs
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """(n, T, d) posteriors, and (n, T) leakages and gains, going forward and then back.

    Then (4, J, d) raw_sums at the wanted steps, and (3, d, d) by the release before and by the
    symbol: how often it came beyond its P, the variance of that, and how many releases followed.
    symbols, known: (n, T), each device's from its start on.
    """
    n, length = symbols.shape
    d = task.symbols
    transitions = np.array(task.transitions).reshape(d, d) / ROW_SCALE
    # By steps, as they are worked on.
    told = np.ones((length, n, d))
    forward = np.full((length, n, d), np.nan)
    leakage, gain = np.full((2, n, length), np.nan)
    unmixed = np.zeros((4, len(wanted.steps), d))
    drawn = np.zeros((3, d, d))
    ahead = np.tile(np.array(task.prior) / PRIOR_SCALE, (n, 1))
    for step, (devices, numbers) in enumerate(_walk(beliefs, symbols, known)):
        released = symbols[devices, step]
        told[step, devices] = beliefs.told(numbers, released)
        leakage[devices, step] = beliefs.leakage[numbers, released]
        gain[devices, step] = beliefs.gain[numbers, released]
        if step:
            law = beliefs.marginal(numbers)
            beyond = np.stack([np.eye(d)[released] - law, law * (1 - law), np.ones_like(law)])
            before = np.eye(d)[symbols[devices, step - 1]]
            drawn += np.einsum("na,kny->kay", before, beyond)
        now = ahead[devices] * told[step, devices]
        total = now.sum(axis=1, keepdims=True)
        if not total.all():
            raise UserError(f"No device can have released what one did at its step {step}.")
        now /= total
        forward[step, devices] = now
        ahead[devices] = now @ transitions
        here = wanted.steps == step
        if here.any():
            repeated = wanted.devices[here][0] / len(devices)
            sums = raw_sums(beliefs, numbers, released, repeated, wanted.z)
            unmixed[:, here] = sums[:, np.newaxis]
    backward = np.ones((n, d))
    for step in range(length - 1, -1, -1):
        both = forward[step] * backward
        forward[step] = both / both.sum(axis=1, keepdims=True)
        backward = (told[step] * backward) @ transitions.T
        backward /= backward.sum(axis=1, keepdims=True)
    return forward.transpose(1, 0, 2), leakage, gain, unmixed, drawn


def _walk(beliefs: Beliefs, symbols: Integers, known: Flags) -> Iterator[tuple[Integers, Integers]]:
    """At each step: the devices that are known there, and their beliefs' numbers."""
    devices = np.arange(len(symbols))
    numbers = np.zeros(len(symbols), dtype=np.int64)
    for step in range(symbols.shape[1]):
        still = known[devices, step]
        devices, numbers = devices[still], numbers[still]
        if not len(devices):
            return
        yield devices, numbers
        numbers = beliefs.follow(numbers, symbols[devices, step])
