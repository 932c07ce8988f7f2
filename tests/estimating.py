"""Tasks of oracles, and their reports as a device makes them, for the estimators' tests."""

from __future__ import annotations

import math

import numpy as np

from tinyldp_protocol.hashing import PRIME
from tinyldp_protocol.task import GRR, OLH, OUE, SCALE, Task, write_file


def make_oracle(
    mechanism: int, symbols: int, epsilon: float, buckets: int | None = None, **more: int
) -> Task:
    """An oracle of this loss per report; its id is known."""
    choices = {GRR: symbols, OUE: 2, OLH: buckets or 0}[mechanism]
    numbers: dict[str, int | list[int] | None] = {
        "mechanism": mechanism,
        "symbols": symbols,
        "thresholds": [math.ceil(SCALE / (math.exp(epsilon) + choices - 1))],
        "tick": 1000,
        "batch": 1,
        "resend": 5,
        "beacon": 5,
        "outbox": 16,
        "buckets": buckets,
        **more,
    }
    task = Task(numbers)
    write_file(task)
    return task


def make_reports(task: Task, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One report for each value, drawn plainly: (n,) for GRR, else (n, width) bytes."""
    n = len(values)
    lie = task.thresholds[0] / SCALE
    if task.mechanism == OUE:
        own = values[:, None] == np.arange(task.symbols)
        bits = rng.random((n, task.symbols)) < np.where(own, 0.5, lie)
        return np.packbits(bits, axis=1, bitorder="little")
    if task.mechanism == GRR:
        return _randomize(values, task.symbols, lie, rng)
    key = rng.integers(0, PRIME, (n, 2))
    hashes = (key[:, 0] + key[:, 1] * values) % PRIME % task.buckets
    return pack_olh(task, key[:, 0], key[:, 1], _randomize(hashes, task.buckets, lie, rng))


def pack_olh(task: Task, a: np.ndarray, b: np.ndarray, bucket: np.ndarray) -> np.ndarray:
    columns = [a & 255, a >> 8, b & 255, b >> 8, bucket & 255, bucket >> 8]
    return np.stack(columns[: task.width], axis=1).astype(np.uint8)


def _randomize(
    values: np.ndarray, choices: int, lie: float, rng: np.random.Generator
) -> np.ndarray:
    lied = rng.random(len(values)) < (choices - 1) * lie
    others = rng.integers(0, choices - 1, len(values))
    return np.where(lied, others + (others >= values), values)
