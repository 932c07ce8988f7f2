"""Thresh and HeavyThresh: all that one device can send in its life, weighed exactly.

The device package's own code is run through every series of epochs, every series of
updates (the server may lie), with and without resets, and every random word that makes a
difference. What leaves is compared with the rules' own law (tests/oracle/brute/thresh.py),
and the likelihood ratio of whole transcripts with what the certificate promises.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log
from types import FunctionType, ModuleType
from typing import Any, cast

import numpy as np
import pytest

from tests.oracle.brute.thresh import Data, Law, Rules, kept, laws, signed_sums
from tinyldp.lanes.packages import sources
from tinyldp_device import lifetime as lifetimes
from tinyldp_device.epochs import Epochs
from tinyldp_device.ledger import FRESH, STORED
from tinyldp_device.lifetime import Lifetime
from tinyldp_device.state import State
from tinyldp_protocol.task import HEAVYTHRESH, SCALE, THRESH, Task

VOTE, ESTIMATE, POLL = SCALE // 5, SCALE // 7, SCALE // 3
# An answer that nobody gave: what the eavesdropper sees instead of a report.
Seen = tuple[Any, ...]
Memory = tuple[Any, Any]
RESETS = ("never", "before each epoch", "within each epoch")


def make_task(**changed: Any) -> Task:
    numbers = {
        "mechanism": THRESH,
        "epsilon": 1000,
        "symbols": 2,
        "thresholds": [VOTE, ESTIMATE],
        "tick": 1,
        "beacon": 1,
        "failure": 1,
        "epochs": 5,
        "rounds": 2,
        "votes": 2,
        "estimates": 1,
        "levels": [0, 0, 1],
    }
    task = Task({**numbers, **changed})
    # Of this id the two items' signs differ in both coordinates.
    task.id = b"task-000"
    return task


def make_heavy(**changed: Any) -> Task:
    numbers = {
        "mechanism": HEAVYTHRESH,
        "epochs": 3,
        "rounds": 2,
        "votes": 1,
        "levels": [0, 2],
        "coordinates": 2,
        "items": 2,
    }
    return make_task(**{**numbers, **changed})


FOUR = make_task(epochs=4, votes=1, levels=[0, 0, 1])
TASKS = {
    "three epochs": make_task(epochs=3, votes=1, levels=[0, 1]),
    "five epochs": make_task(),
    "as many estimates as votes": make_task(epochs=4, votes=1, estimates=2, levels=[0, 1, 1]),
    "polls": make_task(
        epochs=4, votes=1, levels=[0, 0, 1], polls=2, thresholds=[VOTE, ESTIMATE, POLL]
    ),
    "heavy": make_heavy(),
    "heavy, no room": make_heavy(items=1, levels=[1, 1]),
}


class Slot:
    def __init__(self) -> None:
        self.data = b""
        self.sizes: list[int] = []

    def read(self) -> bytes:
        return self.data

    def write(self, data: bytes | bytearray, /) -> None:
        self.data = bytes(data)
        self.sizes.append(len(data))


class Words:
    """The words of one answer; they must be neither too few nor too many."""

    def __init__(self) -> None:
        self.left: list[int] = []

    def word(self) -> int:
        return self.left.pop(0)

    def refill(self, need: int = 1) -> None:
        pass


class Device:
    """The device's own code, whose whole state can be written down and gone on from."""

    def __init__(self, task: Task) -> None:
        self.slots = Slot(), Slot()
        lifetimes.provision(State(*self.slots), task.epsilon or 0)
        self.task = task
        self.words = Words()
        self.boot()

    def boot(self) -> None:
        state = State(*self.slots)
        lifetime = Lifetime(state, self.task, self.task.epsilon)
        self.epochs = Epochs(self.task, cast(Any, self.words), lifetime)
        self._objects = [state, lifetime, self.epochs, vars(self.epochs)["_thresh"]]

    def ask(self, t: int, phase: int, entry: int, words: Sequence[int]) -> Seen:
        """What is seen of it: the answer, asked for twice, and what was written."""
        for slot in self.slots:
            slot.sizes = []
        self.words.left = list(words)
        try:
            result = self.epochs.settle(t, phase, entry)
        except OSError:
            result = "silent"
        except IndexError:
            result = "too few words"
        if self.words.left and result == FRESH:
            result = "too many words"
        seen: Seen = (result,)
        if result == FRESH:
            seen = (result, self.epochs.entry(phase), self.epochs.report(phase))
            assert self.epochs.settle(t, phase, 0) == STORED
            assert (self.epochs.entry(phase), self.epochs.report(phase)) == seen[1:]
        return (*seen, *(tuple(slot.sizes) for slot in self.slots))

    def frozen(self) -> Memory:
        """All that it remembers, in its slots and in memory."""
        slots = tuple(slot.data for slot in self.slots)
        return slots, tuple(tuple(map(_copied, vars(one).values())) for one in self._objects)

    def thaw(self, state: Memory) -> None:
        for slot, data in zip(self.slots, state[0], strict=True):
            slot.data = data
        for one, values in zip(self._objects, state[1], strict=True):
            for name, value in zip(vars(one), values, strict=True):
                if value is not None:
                    setattr(one, name, bytearray(value[0]) if isinstance(value, tuple) else value)


def _copied(value: object) -> object:
    """A value that does not change any more; None for what is no memory."""
    if isinstance(value, bytearray):
        return (bytes(value),)
    return value if isinstance(value, (int, bytes)) else None


# A set of words that all mean the same: two of them, and their probability.
Cell = tuple[int, int, Fraction]


def of_threshold(threshold: int) -> list[Cell]:
    edges = (0, threshold, SCALE - threshold, SCALE)
    return [(a, b - 1, Fraction(b - a, SCALE)) for a, b in itertools.pairwise(edges)]


def of_number(n: int) -> list[Cell]:
    """The words of each number below n; those that are drawn again are tested elsewhere."""
    return [(i, i + n * (SCALE // n - 1), Fraction(1, n)) for i in range(n)]


def cells(task: Task, t: int, phase: int) -> list[list[Cell]]:
    """The words of one answer, in the order in which they are drawn."""
    if not phase:
        found = [of_threshold(task.thresholds[0])]
        if task.polls and t % (task.epochs // task.polls) == 0:
            found.append(of_threshold(task.thresholds[2]))
        return found
    first = [of_number(task.rounds * (task.symbols - 1))]
    if task.mechanism == HEAVYTHRESH:
        first = [of_number(task.coordinates), of_number(2 * task.rounds)]
    return [*first, of_threshold(task.thresholds[1])]


@dataclass
class Step:
    """What a state answers: the law of what is seen, and the states after that."""

    law: dict[Seen, Fraction]
    after: dict[Seen, Memory]


class Walk:
    """The device's answers from any state, each worked out once."""

    def __init__(self, task: Task, resets: str) -> None:
        self.task = task
        self.resets = resets
        self.complaints: set[str] = set()
        self._steps: dict[Any, Step] = {}
        self._epochs: dict[Any, Memory] = {}
        self._device = Device(task)
        self.first = self._device.frozen()

    def lived(self, state: Memory, symbols: Sequence[int]) -> Memory:
        """The state after one epoch's steps."""
        key = state, symbols
        if key not in self._epochs:
            device = self._device
            device.thaw(state)
            if self.resets == "before each epoch":
                device.epochs.step(symbols[0])
                device.boot()
            for symbol in symbols:
                device.epochs.step(symbol)
            self._epochs[key] = device.frozen()
        return self._epochs[key]

    def asked(self, state: Memory, t: int, phase: int, entry: int) -> Step:
        key = state, t, phase, entry
        if key not in self._steps:
            self._steps[key] = self._asked(state, t, phase, entry)
        return self._steps[key]

    def _asked(self, state: Memory, t: int, phase: int, entry: int) -> Step:
        step = Step({}, {})
        device = self._device
        for path in itertools.product(*cells(self.task, t, phase)):
            chance = Fraction(1)
            for cell in path:
                chance *= cell[2]
            both = set()
            for end in range(2):
                device.thaw(state)
                words = [cell[1] if end else cell[0] for cell in path]
                seen = device.ask(t, phase, entry, words)
                if self.resets == "within each epoch":
                    device.boot()
                both.add((seen, device.frozen()))
            if len(both) > 1:
                self.complaints.add("two words that mean the same differ")
            seen, after = both.pop()
            if isinstance(seen[0], str):
                self.complaints.add(seen[0])
            step.law[seen] = step.law.get(seen, Fraction(0)) + chance
            if step.after.setdefault(seen, after) != after:
                self.complaints.add("the words show in the state, and not in what is seen")
        return step


def messages(law: dict[Seen, Fraction]) -> Law:
    """The law of the reports alone; what is no report is b""."""
    found: Law = {}
    for seen, chance in law.items():
        report = seen[2] if seen[0] == FRESH else b""
        found[report] = found.get(report, Fraction(0)) + chance
    return found


def series(task: Task) -> Iterator[tuple[tuple[tuple[int, ...], ...], list[Data]]]:
    """Every series of a device's epochs: its symbols, and what the rules make of them."""
    one = list(itertools.product(range(task.symbols), repeat=task.rounds))
    if task.mechanism == THRESH or task.items > 1:
        # The order within an epoch does not matter.
        one = list(itertools.combinations_with_replacement(range(task.symbols), task.rounds))
    for steps in itertools.product(one, repeat=task.epochs):
        if task.mechanism == THRESH:
            yield steps, [(sum(symbols),) for symbols in steps]
        else:
            counts = [kept(symbols, task.items) for symbols in steps]
            yield steps, [signed_sums(task.id, n, task.coordinates) for n in counts]


def rules(task: Task) -> Rules:
    heavy = task.mechanism == HEAVYTHRESH
    most = task.rounds if heavy else task.rounds * (task.symbols - 1)
    return Rules(
        task.epochs,
        task.votes,
        task.estimates,
        task.levels,
        most,
        task.thresholds,
        task.polls or 0,
        heavy,
    )


class Found:
    """Of one series of updates: the law of each answer of each series of epochs, by number."""

    def __init__(self, walk: Walk, updates: Sequence[bool]) -> None:
        task = walk.task
        numbers: dict[Any, int] = {}
        rows = []
        for steps, data in series(task):
            row = []
            expected = laws(rules(task), data, updates)
            states = {walk.first}
            for t, symbols in enumerate(steps, 1):
                states = {walk.lived(state, symbols) for state in states}
                for phase in range(2):
                    entry = int(phase and updates[t - 1])
                    found = [walk.asked(state, t, phase, entry) for state in states]
                    # So that a transcript's probability is the product of its answers'.
                    if any(step.law != found[0].law for step in found):
                        walk.complaints.add("what was drawn shows in what comes after")
                    if messages(found[0].law) != expected[t - 1][phase]:
                        walk.complaints.add("another law than the rules'")
                    states = {state for step in found for state in step.after.values()}
                    law = tuple(sorted(found[0].law.items(), key=repr))
                    row.append(numbers.setdefault(law, len(numbers)))
            rows.append(row)
        self.rows = np.array(rows)
        self.laws = [dict(law) for law in numbers]
        self.ratios = np.array([[_ratio(a, b) for b in self.laws] for a in self.laws])


def _ratio(one: dict[Seen, Fraction], other: dict[Seen, Fraction]) -> float:
    """The largest logarithm of a likelihood ratio."""
    return max(log(p / other[seen]) if other.get(seen) else float("inf") for seen, p in one.items())


def largest(found: Found, phases: Sequence[int]) -> Fraction | None:
    """The largest ratio of two series' transcripts, exactly; None: infinite.

    phases: which answers of a transcript count.
    """
    every = len(found.rows)
    total = np.zeros((every, every))
    for column in found.rows.T[phases]:
        total += found.ratios[np.ix_(column, column)]
    one, other = divmod(int(np.argmax(total)), every)
    product = Fraction(1)
    for a, b in zip(found.rows[one][phases], found.rows[other][phases], strict=True):
        first, second = found.laws[a], found.laws[b]
        if any(not second.get(seen) for seen in first):
            return None
        product *= max(p / second[seen] for seen, p in first.items())
    return product


def update_series(task: Task) -> list[tuple[bool, ...]]:
    return list(itertools.product((True, False), repeat=task.epochs))


def promised(task: Task) -> tuple[Fraction, Fraction]:
    """What the votes, and all that a device says, may multiply a likelihood by."""
    vote, estimate, *poll = (Fraction(SCALE - T, T) for T in task.thresholds)
    votes = vote ** (2 * task.votes)
    return votes, votes * estimate**task.estimates * (poll[0] ** (task.polls or 0) if poll else 1)


def complaints(
    task: Task, resets: str, series_of_updates: Sequence[Sequence[bool]]
) -> tuple[list[str], Fraction, Fraction]:
    """What is wrong; the largest ratio of the votes alone, and of everything."""
    walk = Walk(task, resets)
    most_votes = most = Fraction(1)
    votes, everything = promised(task)
    for updates in series_of_updates:
        found = Found(walk, updates)
        every = 2 * task.epochs
        ratios = largest(found, range(0, every, 2)), largest(found, range(every))
        if ratios[1] is None or ratios[1] > everything:
            walk.complaints.add("a ratio above the certificate's")
        if ratios[0] is None or (not task.polls and ratios[0] > votes):
            walk.complaints.add("a ratio above the votes' part")
        most_votes = max(most_votes, ratios[0] or Fraction(0))
        most = max(most, ratios[1] or Fraction(0))
    return sorted(walk.complaints), most_votes, most


# Longer ones are for soak tests.
SHORT = [("three epochs", resets) for resets in RESETS]
SHORT += [("five epochs", "never"), ("polls", "within each epoch"), ("heavy", "never")]
LONG = [pair for pair in itertools.product(TASKS, RESETS) if pair not in SHORT]


def check(name: str, resets: str) -> None:
    task = TASKS[name]
    found, votes, everything = complaints(task, resets, update_series(task))
    assert found == []
    assert everything > votes
    if not task.polls and (task.epochs > 2 * task.votes):
        # The bound is the exact loss.
        assert votes == promised(task)[0]


@pytest.mark.parametrize(("name", "resets"), SHORT)
def test_no_transcript_tells_more_than_is_certified(name: str, resets: str) -> None:
    check(name, resets)


@pytest.mark.soak
@pytest.mark.parametrize(("name", "resets"), LONG)
def test_no_longer_transcript_does(name: str, resets: str) -> None:
    check(name, resets)


# Of each fault: module, what is replaced by what, and how it is found.
FAULTS = {
    "cap test before the increment": (
        "lifetime",
        "word_at(self.data, COUNTS_AT + 4 * phase) < most",
        "word_at(self.data, COUNTS_AT + 4 * phase) <= most",
        "a ratio above the votes' part",
    ),
    "counter in memory only": (
        "lifetime",
        "            self.t = word_at(old, T_AT)\n",
        "            self.t = word_at(old, T_AT)\n"
        "            set_word(self.data, COUNTS_AT, 0)\n"
        "            set_word(self.data, COUNTS_AT + 4, 0)\n",
        "a ratio above the votes' part",
    ),
    "silent with nothing to say": (
        "epochs",
        "            lifetime.count(phase, entry, said)\n",
        "            lifetime.count(phase, entry, said)\n"
        "            if not phase and not said:\n                raise OSError\n",
        "a ratio above the votes' part",
    ),
    "a vote level that does not divide t": (
        "thresh",
        " and not t & ((1 << (len(levels) - below)) - 1)",
        "",
        "another law than the rules'",
    ),
    "stored only when a counter moved": (
        "lifetime",
        "        data[ENTRY_AT + phase] = entry\n        self._save()\n",
        "        data[ENTRY_AT + phase] = entry\n        if said:\n            self._save()\n",
        "a ratio above the votes' part",
    ),
    "words only where they matter": (
        "thresh",
        "        v = self._below(task.rounds * (task.symbols - 1))\n",
        "        v = self._below(task.rounds * (task.symbols - 1)) if said else 0\n",
        "too many words",
    ),
    "the reference is forgotten": (
        "epochs",
        "        if entry:\n            lifetime.update()\n",
        "        if entry and says:\n            lifetime.update()\n",
        "another law than the rules'",
    ),
    "an estimate whenever it is asked": (
        "epochs",
        "says = entry == 1",
        "says = True",
        "another law than the rules'",
    ),
}


def planted(monkeypatch: pytest.MonkeyPatch, module: str, before: str, after: str) -> None:
    """Replace the functions of a device module by those of a faulty copy."""
    path = f"tinyldp_device/{module}.py"
    source = sources()[path].decode()
    assert source.count(before) == 1
    original = importlib.import_module(f"tinyldp_device.{module}")
    faulty = ModuleType(original.__name__)
    exec(compile(source.replace(before, after), path, "exec"), vars(faulty))
    for name, value in vars(faulty).items():
        if isinstance(value, type) and value.__module__ == original.__name__:
            for method, function in vars(value).items():
                if isinstance(function, FunctionType):
                    monkeypatch.setattr(getattr(original, name), method, function)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    module, before, after, how = FAULTS[fault]
    planted(monkeypatch, module, before, after)
    yes, no = True, False
    updates = [(yes, no, no, no), (yes, no, yes, no), (no, yes, no, no)]
    assert how in complaints(FOUR, "before each epoch", updates)[0]
