"""The methods of LDP-IDS on a simulated fleet: one Coordinator, two ways to get answers.

aggregate      The support counts of all answers to a query are drawn directly
               (aggregate.supports). A group is drawn without replacement from the whole
               fleet, afresh for each query. That is the law of the way below for values that
               are dealt anew at each step (lns, sin, log); of series that devices play, each
               group is right by itself, but that a device's groups follow one another in
               circular order is not seen.
one by one     Every device has a pseudonym, and with it a place on the circle
               (hashing.group), a ledger of what the last w steps spent, and a report of its
               own for each query whose range it is in, by the Task's integers (oracles).

Both are for simulation alone: no data of people is randomized here.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tinyldp.coordinate import Ask, Circle, Coordinator, entry_task, meant
from tinyldp.errors import UserError
from tinyldp.estimate import supports
from tinyldp.simulate import aggregate, oracles
from tinyldp.simulate.simulation import AGGREGATE, ONE_BY_ONE, RoundSimulation
from tinyldp.simulate.sources import Stream, make_stream, shared
from tinyldp.simulate.theory import expected_cfpu, expected_mse
from tinyldp.simulate.words import DrawnWords
from tinyldp_device.mechanism import step_words
from tinyldp_protocol.hashing import group
from tinyldp_protocol.task import LPA, LPD, LPU, Task

Array = npt.NDArray[Any]
Told = Callable[[int, int], None]

SOURCE = "lns"
# Words up to which devices report one by one: a few seconds.
_WORDS = 50_000_000
# Devices whose reports are drawn at a time.
_REPORTS = 65536
# What numpy draws groups from; shares that are held, of each step and value.
_MOST_IN_GROUPS = 10**9
_MOST_SHARES = 1 << 26


def simulate_rounds(
    task: Task,
    devices: int,
    steps: int,
    seed: int,
    progress: Told | None = None,
    *,
    source: str = SOURCE,
    stream_seed: int = 0,
    aggregated: bool | None = None,
) -> RoundSimulation:
    """Run the Task's method on what `devices` devices measure of a source (see sources).

    seed: of all randomizers and pseudonyms; stream_seed: of what is measured. aggregated:
    see above, None chooses. A source that ends before `steps` ends the run.
    Raises UserError for a source that can't be played.
    """
    started = time.perf_counter()
    if task.method in (LPU, LPD, LPA) and devices >= _MOST_IN_GROUPS:
        raise UserError(f"Groups are simulated of fewer than {_MOST_IN_GROUPS:,} devices.")
    if steps * task.symbols > _MOST_SHARES:
        raise UserError(f"{steps:,} steps of {task.symbols:,} values are too many to be held.")
    stream = make_stream(source, task, devices, steps, stream_seed)
    steps = len(stream.counts)
    if aggregated is None:
        aggregated = devices * steps * step_words(entry_task(task, 0)) > _WORDS
    fleet = (_Together if aggregated else _OneByOne)(task, stream, devices, seed)
    coordinator = Coordinator(task, devices)
    decisions = []
    answers = 0
    for step in range(steps):
        fleet.step(step)
        ask = coordinator.begin()
        while ask:
            counts, n = fleet.answer(ask)
            answers += n
            ask = coordinator.heard(counts, n)
        assert coordinator.decision is not None
        decisions.append(coordinator.decision)
        if progress is not None:
            progress((step + 1) * devices, steps * devices)
    return RoundSimulation(
        task,
        devices,
        steps,
        seed,
        time.perf_counter() - started,
        source,
        stream.counts / devices,
        tuple(decisions),
        AGGREGATE if aggregated else ONE_BY_ONE,
        answers,
        expected_cfpu(task, tuple(decisions)),
        expected_mse(task, stream.counts),
        fleet.max_spend,
        fleet.refused,
        notes=shared(stream, devices),
    )


class _Fleet(Protocol):
    """max_spend: the most that any device spent in w consecutive steps, ledger units."""

    max_spend: int
    refused: int

    def step(self, step: int) -> None:
        """The next step begins; each device latches its value."""
        ...

    def answer(self, ask: Ask) -> tuple[Array, int]:
        """(d,) support counts, and the number of answers."""
        ...


class _Together:
    """Counts of all answers, drawn directly."""

    refused = 0

    def __init__(self, task: Task, stream: Stream, devices: int, seed: int) -> None:
        self.max_spend = 0
        self._stream = stream
        self._devices = devices
        self._rng = np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(seed)))
        self._spends = task.spends
        self._oracles = [entry_task(task, entry) for entry in range(len(task.spends))]
        self._groups = task.method in (LPU, LPD, LPA)
        # For the last w steps: what everyone spent, or how many devices were asked.
        self._window: deque[int] = deque(maxlen=task.w)

    def step(self, step: int) -> None:
        self._counts = self._stream.counts[step]
        self._window.append(0)

    def answer(self, ask: Ask) -> tuple[Array, int]:
        counts = self._counts
        if ask.users is not None and ask.users < self._devices:
            counts = _part(counts, ask.users, self._rng)
        n = int(counts.sum())
        self._window[-1] += n if self._groups else self._spends[ask.entry]
        spent = sum(self._window)
        if self._groups:
            # In circular order, nobody is asked twice before everyone was asked once.
            spent = -(-spent // self._devices) * self._spends[ask.entry]
        self.max_spend = max(self.max_spend, spent)
        return aggregate.supports(self._oracles[ask.entry], counts, self._rng), n


def _part(counts: Array, users: int, rng: np.random.Generator) -> Array:
    """(d,) what `users` of the devices hold, drawn without replacement."""
    left, wanted = int(counts.sum()), users
    part = np.zeros_like(counts)
    for value, count in enumerate(counts.tolist()):
        left -= count
        part[value] = _hypergeometric(count, left, wanted, rng)
        wanted -= int(part[value])
    return part


def _hypergeometric(good: int, bad: int, drawn: int, rng: np.random.Generator) -> int:
    if good == 0 or drawn == 0:
        return 0
    return int(rng.hypergeometric(good, bad, drawn))


class _OneByOne:
    """Devices with pseudonyms, ledgers and reports of their own."""

    def __init__(self, task: Task, stream: Stream, devices: int, seed: int) -> None:
        self.max_spend = 0
        self.refused = 0
        self._task = task
        self._stream = stream
        self._oracles = [entry_task(task, entry) for entry in range(len(task.spends))]
        names, self._words = np.random.SeedSequence(seed).spawn(2)
        self._circle = None
        if task.method in (LPU, LPD, LPA):
            pseudonyms = np.random.Generator(np.random.PCG64DXSM(names)).bytes(8 * devices)
            places = [group(task.id, pseudonyms[at : at + 8]) for at in range(0, 8 * devices, 8)]
            self._places = np.array(places)
            self._circle = Circle(places, task.w)
        assert task.w is not None
        assert task.epsilon is not None
        self._cap = task.epsilon
        # What each device spent in each of the last w steps, and their sum.
        self._ring = np.zeros((task.w, devices), dtype=np.int64)
        self._sums = np.zeros(devices, dtype=np.int64)
        self._everyone = np.arange(devices)

    def step(self, step: int) -> None:
        self._slot = step % len(self._ring)
        self._sums -= self._ring[self._slot]
        self._ring[self._slot] = 0
        self._values = self._stream.values(step)
        if self._circle is not None:
            self._circle.step()

    def answer(self, ask: Ask) -> tuple[Array, int]:
        spend = self._task.spends[ask.entry]
        asked = self._meant(ask.users)
        able = asked[self._sums[asked] + spend <= self._cap]
        self.refused += len(asked) - len(able)
        self._ring[self._slot, able] += spend
        self._sums[able] += spend
        if len(able):
            self.max_spend = max(self.max_spend, int(self._sums[able].max()))
        oracle = self._oracles[ask.entry]
        counts = np.zeros(self._task.symbols, dtype=np.int64)
        for start in range(0, len(able), _REPORTS):
            values = self._values[able[start : start + _REPORTS]]
            # A child for each block of each query: none shares its words.
            words = DrawnWords(len(values), self._words.spawn(1)[0])
            counts += supports(oracle, oracles.draw(oracle, values, words))
        return counts, len(able)

    def _meant(self, users: int | None) -> Array:
        """The devices that a query for so many users is meant for."""
        if users is None or self._circle is None:
            return self._everyone
        asked = [meant(self._places, *part) for part in self._circle.take(users)]
        return np.flatnonzero(asked[0]) if asked else self._everyone[:0]
