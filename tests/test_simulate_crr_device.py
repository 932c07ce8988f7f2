"""CRR's simulator against the device package, bit for bit, on the same words."""

from __future__ import annotations

from itertools import pairwise
from types import ModuleType

import numpy as np
import pytest

from tests.crr_tasks import random_crr, sticky
from tests.faults import planted
from tests.simulating import played, random_words
from tinyldp.crr import couplings, graph
from tinyldp.simulate import crr
from tinyldp.simulate.words import GivenWords
from tinyldp_device.coupling import BELIEF, Coupling
from tinyldp_protocol.task import MIN_ERROR, PRESERVE, SCALE, Task

DEVICES = 3
STEPS = 40


def same_series(tasks: int, seed: int) -> bool:
    """Whether whole segments agree for this many random Tasks, words that are refused included."""
    rng = np.random.default_rng(seed)
    for _ in range(tasks):
        task = random_crr(rng)
        values = rng.integers(0, task.symbols, (DEVICES, STEPS))
        words = random_words(rng, (DEVICES, 12 * STEPS))
        try:
            released = crr.release(task, values, words)
        except (ValueError, IndexError):
            return False
        for i in range(DEVICES):
            if played(task, values[i], words[i])[0] != released[i].tolist():
                return False
    return True


def random_blocks(rng: np.random.Generator) -> Task:
    """Any Task of blocks, small enough to be played through quickly."""
    n, block = [(2, 2), (2, 4), (3, 2), (3, 3), (5, 2), (2, 3)][int(rng.integers(6))]
    return random_crr(rng, n=n, block=block, memory=int(rng.integers(1, min(block, 3) + 1)))


def same_blocks(tasks: int, seed: int) -> bool:
    """As same_series, for CRR_BATCH: with whole blocks, and with a shorter one at the end."""
    rng = np.random.default_rng(seed)
    for _ in range(tasks):
        task = random_blocks(rng)
        steps = int(rng.integers(0, 20))
        values = rng.integers(0, task.symbols, (DEVICES, steps))
        words = random_words(rng, (DEVICES, 400))
        released = crr.release(task, values, words)
        for i in range(DEVICES):
            if played(task, values[i], words[i])[0] != released[i].tolist():
                return False
    return True


def same_couplings(module: ModuleType, tasks: int, seed: int) -> bool:
    """Whether couplings, and what follows each release, are the device's, of any beliefs."""
    rng = np.random.default_rng(seed)
    for _ in range(tasks):
        task = random_crr(rng)
        n = task.symbols
        many = np.array([any_belief(rng, n) for _ in range(12)])
        rule = module.Couplings(task)
        coupled = rule.make(many)
        device = Coupling(task)
        for i, belief in enumerate(many):
            for x in range(n):
                device.belief[x] = int(belief[x])
            device.make()
            if coupled.joint[i].ravel().tolist() != list(device.joint):
                return False
            if coupled.marginal[i].tolist() != list(device.marginal):
                return False
            released = int(rng.choice(np.flatnonzero(coupled.marginal[i])))
            part = module.Coupled(coupled.joint[i : i + 1], coupled.marginal[i : i + 1])
            following = rule.update(belief[np.newaxis], part, np.array([released]))
            device.update(released)
            if following[0].tolist() != list(device.belief):
                return False
    return True


def any_belief(rng: np.random.Generator, n: int) -> np.ndarray:
    """From even ones to those in which some symbols, or all but one, have a few units, or none."""
    if rng.random() < 0.5:
        # Equal shares, and so ties; where the others are rare, too, a unit can go nowhere.
        shares = np.where(rng.random(n) < 0.7, 1.0, 0.0)
    else:
        shares = rng.dirichlet(np.full(n, rng.choice([0.1, 1.0, 9.0])))
    few = rng.integers(0, rng.choice([2, 5, 200]), n)
    belief = few + np.floor(shares / max(shares.sum(), 1) * (BELIEF - few.sum())).astype(np.int64)
    belief[belief.argmax()] += BELIEF - belief.sum()
    return belief


def test_couplings_equal_the_device() -> None:
    assert same_couplings(couplings, 200, 1)


def test_series_equal_the_device() -> None:
    assert same_series(25, 2)


@pytest.mark.soak
@pytest.mark.parametrize("rule", [PRESERVE, MIN_ERROR])
def test_many_steps_equal_the_device(rule: int) -> None:
    """10^5 steps, of a few devices for long, and of many."""
    for devices, steps in ((20, 5000), (100, 1000)):
        task = sticky(4, 0.7, 0.9, rule=rule)
        rng = np.random.default_rng(rule)
        values = rng.integers(0, 4, (devices, steps))
        words = rng.integers(0, SCALE, (devices, 2 * steps + 2000))
        released = crr.release(task, values, words)
        for i in range(devices):
            assert played(task, values[i], words[i])[0] == released[i].tolist()


def test_blocks_equal_the_device() -> None:
    assert same_blocks(40, 5)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("np.minimum(units, room[x, y] - joint[x, y], out=units)", "pass"),
        ("np.maximum(units, joint[y, y] - own[y], out=units)", "pass"),
        ("units >>= 1", "pass"),
        ("served[excess[again], np.arange(len(again))] = 0", "break"),
        ("column * total[:, np.newaxis]", "column * PRIOR_SCALE"),
        (
            "np.maximum((exact + ROW_SCALE // 2) >> 14, exact > 0)",
            "(exact + ROW_SCALE // 2) >> 14",
        ),
        ("better = price < least", "better = price <= least"),
        ("both & ~down", "both & down"),
        ("np.minimum(units, marginal[x] - self._kappa, out=units)", "pass"),
        ("sampled >> 10", "sampled >> 11"),
    ],
)
def test_a_fault_in_a_coupling_is_seen(old: str, new: str) -> None:
    assert not same_couplings(planted(couplings, old, new), 150, 1)


def test_words_taken_equal_the_device() -> None:
    rng = np.random.default_rng(3)
    again = 0
    for _ in range(8):
        task = random_crr(rng)
        values = rng.integers(0, task.symbols, (STEPS, DEVICES))
        given = random_words(rng, (DEVICES, 12 * STEPS))
        words = GivenWords(given)
        fleet = crr.CrrFleet(task, DEVICES, words)
        for row in values:
            fleet.step(row)
        taken = words.taken().tolist()
        assert taken == [played(task, values[:, i], given[i])[1] for i in range(DEVICES)]
        again += sum(taken) > 2 * STEPS * DEVICES
    assert again > 4


@pytest.mark.parametrize("blocks", [False, True])
def test_beliefs_that_are_forgotten_change_nothing(
    monkeypatch: pytest.MonkeyPatch, blocks: bool
) -> None:
    task = sticky(3, 0.5, 0.9)
    rng = np.random.default_rng(4)
    if blocks:
        task = random_crr(rng, n=3, block=2, memory=1)
    values = rng.integers(0, 3, (50, 61))
    words = rng.integers(0, SCALE, (50, 400))
    kept = crr.release(task, values, words)
    monkeypatch.setattr(graph, "_MEMORY", 1_500 if blocks else 30_000)
    sizes = []
    follow = graph.BeliefGraph.follow

    def followed(self: graph.BeliefGraph, *arguments: np.ndarray) -> np.ndarray:
        found = follow(self, *arguments)
        sizes.append(self.size)
        return found

    monkeypatch.setattr(graph.BeliefGraph, "follow", followed)
    assert crr.release(task, values, words).tolist() == kept.tolist()
    assert any(after < before for before, after in pairwise(sizes))


def test_what_is_no_symbol_is_refused() -> None:
    task = sticky(3, 1, 0.9)
    with pytest.raises(ValueError, match="alphabet"):
        crr.release(task, np.array([[0, 3]]), np.zeros((1, 9), dtype=np.int64))
    with pytest.raises(ValueError, match="words end"):
        crr.release(task, np.array([[0, 1]]), np.zeros((1, 3), dtype=np.int64))
