"""Simulated devices of epochs against the device package, bit for bit, on the same words."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.epochs_tasks import played_epochs, random_epoch_task
from tests.faults import planted
from tests.simulating import random_words
from tinyldp.estimate.phi import hashes, signs
from tinyldp.simulate import epoch_devices
from tinyldp.simulate.words import GivenWords
from tinyldp_protocol.hashing import halfsiphash
from tinyldp_protocol.task import HEAVYTHRESH, THRESH, Task

DEVICES = 4
# Words that suffice but for a chance of 1e-15: one in ten is drawn again.
WORDS = 400


def simulated(
    module: ModuleType, task: Task, symbols: Any, entries: Any, words: Any
) -> tuple[list[tuple[Any, Any]], Any, Any]:
    """Reports of each epoch, the devices, and their words. symbols: (n, epochs, rounds)."""
    given = GivenWords(words)
    if task.mechanism == THRESH:
        fleet = module.ThreshDevices(task, len(symbols), given)
        epochs = np.moveaxis(symbols.sum(axis=2), 1, 0)
    else:
        items = np.unique(symbols)
        fleet = module.HeavyDevices(task, signs(task, items), len(symbols), given)
        epochs = np.array(
            [
                [module.table(items, symbols[i, t], task.items) for i in range(len(symbols))]
                for t in range(symbols.shape[1])
            ]
        )
    answers = []
    for t, (values, entry) in enumerate(zip(epochs, entries, strict=True), 1):
        answers.append((fleet.vote(t, values), fleet.estimate(bool(entry))))
    return answers, fleet, given


def same(module: ModuleType, mechanism: int, tasks: int, seed: int) -> bool:
    """Whether whole lives agree for this many random Tasks: answers, counters, words taken."""
    rng = np.random.default_rng(seed)
    for _ in range(tasks):
        task = random_epoch_task(rng, mechanism)
        few = rng.choice(task.symbols, min(task.symbols, int(rng.integers(1, 20))), replace=False)
        # Each device keeps to an alphabet of its own, so that sums differ between epochs.
        shapes = (DEVICES, task.epochs, task.rounds)
        symbols = np.where(
            rng.random(shapes[:2])[:, :, None] < 0.5, few[0], rng.choice(few, shapes)
        )
        entries = rng.random(task.epochs) < 0.3
        entries[0] |= rng.random() < 0.8
        words = random_words(rng, (DEVICES, WORDS))
        try:
            answers, fleet, given = simulated(module, task, symbols, entries, words)
        except (ValueError, IndexError):
            # It took words that the device does not take.
            return False
        taken = given.taken()
        for i in range(DEVICES):
            found, used, spent = played_epochs(task, symbols[i], entries, words[i])
            mine = [(bytes(vote[i]), bytes(estimate[i])) for vote, estimate in answers]
            if (mine, used) != (found, (fleet.votes[i], fleet.estimates[i])) or taken[i] != spent:
                return False
    return True


@pytest.mark.parametrize(("mechanism", "tasks"), [(THRESH, 150), (HEAVYTHRESH, 40)])
def test_lives_equal_the_devices(mechanism: int, tasks: int) -> None:
    assert same(epoch_devices, mechanism, tasks, 1)


@pytest.mark.parametrize(
    ("mechanism", "old", "new"),
    [
        (THRESH, 'side="left"', 'side="right"'),
        (THRESH, "(t % divisors == 0)", "(t % divisors >= 0)"),
        (THRESH, "self.votes += yes", "self.votes += 0"),
        (THRESH, "self.estimates += said", "self.estimates += update"),
        (THRESH, "self._known |= update", "self._known = True"),
        (THRESH, "* (SCALE // self._most)) % self._most", "* (SCALE // self._most)) // 2"),
        (THRESH, "self._reference = self._sums", "self._reference = self._sums * said"),
        (THRESH, "places < self._sums", "places <= self._sums"),
        (THRESH, "task.thresholds[2]) << 1", "task.thresholds[1]) << 1"),
        (HEAVYTHRESH, "np.where(said, places", "np.where(said | True, places"),
        (HEAVYTHRESH, "reports[:, 2] = where >> 8", "reports[:, 2] = 0"),
        (HEAVYTHRESH, "self._signs.T[where[part]]", "self._signs.T[where[part] ^ 1]"),
        (HEAVYTHRESH, "np.abs(apart @", "np.abs(-1 + apart @"),
        (HEAVYTHRESH, "del held[next(iter(held))]", "held.popitem()"),
    ],
)
def test_planted_faults_are_found(mechanism: int, old: str, new: str) -> None:
    assert not same(planted(epoch_devices, old, new), mechanism, 40, 1)


def test_signs_equal_the_protocols_on_100_000_pairs() -> None:
    rng = np.random.default_rng(2)
    task = random_epoch_task(rng, HEAVYTHRESH)
    blocks = rng.integers(0, 1 << 10, 3125, dtype=np.uint32)
    items = rng.integers(0, 1 << 20, 3125, dtype=np.uint32)
    found = hashes(task.id, blocks, items)
    halves = [0, 0]
    # 32 signs in each hash.
    for block, item, word in zip(blocks.tolist(), items.tolist(), found.tolist(), strict=True):
        halfsiphash(task.id, block, item, halves)
        assert word == halves[0] | halves[1] << 16


def test_signs_are_bits_of_the_hashes() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        task = random_epoch_task(rng, HEAVYTHRESH)
        items = rng.integers(0, task.symbols, 300)
        found = signs(task, items)
        assert found.shape == (300, task.coordinates)
        for j in {0, 1, task.coordinates // 2, task.coordinates - 1}:
            words = hashes(task.id, np.full(300, j // 32, np.uint32), items.astype(np.uint32))
            assert (found[:, j] == np.where(words >> np.uint32(j % 32) & 1, 1, -1)).all()
