"""Tasks of Thresh and HeavyThresh, and the device package on given words and steps."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.simulating import GivenEntropy
from tinyldp_device.epochs import Epochs
from tinyldp_device.ledger import FRESH, word_at
from tinyldp_device.lifetime import COUNTS_AT, Lifetime, provision
from tinyldp_device.state import State
from tinyldp_protocol.task import HEAVYTHRESH, SCALE, THRESH, Task, write_file

Array = npt.NDArray[Any]


def epoch_task(mechanism: int = THRESH, **numbers: Any) -> Task:
    """A small Task, with an id; what is not given is filled in."""
    filled = {
        "symbols": 2, "epsilon": 1 << 16, "thresholds": [6_000_000, 4_000_000], "tick": 1000,
        "beacon": 5, "epochs": 16, "rounds": 8192, "votes": 2, "estimates": 2,
        "levels": [500, 1000, 1500, 2000, 2500], "failure": 1 << 27,
    }  # fmt: skip
    if mechanism == HEAVYTHRESH:
        filled |= {"symbols": 1000, "coordinates": 64, "items": 16}
    task = Task({"mechanism": mechanism, **filled, **numbers})
    write_file(task)
    return task


def lie(loss: float) -> int:
    """The least threshold T with a loss ln((N - T) / T) of at most this."""
    return math.ceil(SCALE / (math.exp(loss) + 1))


def tuned_losses(epsilon: float, votes: int, estimates: int) -> tuple[float, float]:
    """a and b of a vote and an estimate: half of epsilon for all votes, half for all estimates."""
    return epsilon / (4 * votes), epsilon / (2 * estimates)


def thresh_task(
    n: int,
    epsilon: float,
    votes: int,
    estimates: int,
    *,
    losses: tuple[float, float] | None = None,
    epochs: int = 16,
    rounds: int = 8192,
    failure: float = 0.1,
    **numbers: Any,
) -> Task:
    """Binary Thresh with the levels for n devices; losses: a and b, those of tuned if None."""
    a, b = losses or tuned_losses(epsilon, votes, estimates)
    unit = 2 * rounds * math.sqrt(math.log(12 * n * epochs / failure) / (2 * rounds))
    return epoch_task(
        epsilon=int(epsilon * 65536), thresholds=[lie(a), lie(b)], epochs=epochs, rounds=rounds,
        votes=votes, estimates=estimates, levels=_levels(unit, epochs, rounds),
        failure=int(failure * 2**30), **numbers,
    )  # fmt: skip


def heavy_task(
    n: int,
    epsilon: float,
    votes: int,
    estimates: int,
    *,
    epochs: int = 8,
    rounds: int = 4096,
    dictionary: int = 100_000,
    coordinates: int = 1024,
    items: int = 256,
    failure: float = 0.1,
) -> Task:
    a, b = tuned_losses(epsilon, votes, estimates)
    w = coordinates
    unit = 2 * math.sqrt(2 * math.log(16 * w * n * epochs / failure) / (w * rounds))
    unit *= math.sqrt(w) * rounds
    return epoch_task(
        HEAVYTHRESH, symbols=dictionary, coordinates=w, items=items, epsilon=int(epsilon * 65536),
        thresholds=[lie(a), lie(b)], epochs=epochs, rounds=rounds, votes=votes,
        estimates=estimates, levels=_levels(unit, epochs, 2 * rounds), failure=int(failure * 2**30),
    )  # fmt: skip


def _levels(unit: float, epochs: int, most: int) -> list[int]:
    return [min(most, math.floor((b + 1) * unit)) for b in range(epochs.bit_length())]


def random_epoch_task(rng: np.random.Generator, mechanism: int) -> Task:
    """Any Task, small enough to be played through quickly, with levels that are often met."""
    epochs = int(rng.integers(2, 20))
    rounds = int(rng.integers(2, 40))
    polls = None if rng.random() < 0.5 else int(rng.integers(1, epochs + 1))
    symbols = int(rng.choice([2, 2, 3, 16, 257]))
    numbers: dict[str, Any] = {}
    most = rounds * (symbols - 1)
    if mechanism == HEAVYTHRESH:
        symbols = int(rng.choice([2, 20, 1000, 1 << 20]))
        items = int(rng.integers(1, min(rounds, 12) + 1))
        numbers = {"coordinates": int(rng.choice([2, 31, 32, 33, 70, 300])), "items": items}
        most = 2 * rounds
    return epoch_task(
        mechanism, epochs=epochs, rounds=rounds, symbols=symbols, polls=polls,
        levels=sorted(rng.integers(0, most // 2 + 1, epochs.bit_length()).tolist()),
        votes=int(rng.integers(1, epochs + 1)), estimates=int(rng.integers(1, epochs + 1)),
        thresholds=rng.integers(1, SCALE // 2, 2 if polls is None else 3).tolist(), **numbers,
    )  # fmt: skip


class MemorySlot:
    def __init__(self) -> None:
        self._data = b""

    def read(self) -> bytes:
        return self._data

    def write(self, data: bytes | bytearray) -> None:
        self._data = bytes(data)


def played_epochs(
    task: Task, symbols: Array, entries: Array, words: Array
) -> tuple[list[tuple[bytes, bytes]], tuple[int, int], int]:
    """What the device package answers: reports of each epoch, counters used, words taken.

    symbols: (epochs, rounds) of one device's steps. entries: (epochs,) of phase 1.
    """
    state = State(MemorySlot(), MemorySlot())
    assert task.epsilon is not None
    provision(state, task.epsilon)
    lifetime = Lifetime(state, task, task.epsilon)
    entropy = GivenEntropy(words)
    device = Epochs(task, entropy, lifetime)  # type: ignore[arg-type]
    answers = []
    # Each epoch is asked for when it was compared, which takes some steps of the next one.
    compared = max(1, task.rounds // 16) - 1
    steps = iter([*symbols.ravel().tolist(), *[0] * compared])
    for t, entry in enumerate(entries, 1):
        for symbol in itertools.islice(steps, task.rounds + (compared if t == 1 else 0)):
            device.step(symbol)
        pair = []
        for phase, asked in ((0, 0), (1, int(entry))):
            assert device.settle(t, phase, asked) == FRESH
            pair.append(device.report(phase))
        answers.append((pair[0], pair[1]))
    used = [word_at(lifetime.data, COUNTS_AT + 4 * phase) for phase in (0, 1)]
    return answers, (used[0], used[1]), entropy.used
