"""What whole sequences give away, from the step that the device runs: exactly, by enumeration.

The law of a step is found from outside, from the words that lead to each symbol, and the device
is led along all sequences of values and of releases by such words. So a step that depends on
what it must not, or a belief that does, is seen.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import pytest

from tests.crr_beliefs import FRESH, crr_task, wrong
from tinyldp.certify import certify
from tinyldp.certify.bounds import log_upper
from tinyldp_device.coupling import BELIEF, MODEL, Coupling
from tinyldp_device.crr import Crr
from tinyldp_protocol.task import MIN_ERROR, PRESERVE, SCALE, Task

Belief = tuple[int, ...]
# Chances of the symbols, and words that lead to each one that is possible.
Law = tuple[list[Fraction], dict[int, list[int]]]


class Given:
    """Words that are given, and how many of them were used."""

    def __init__(self, words: list[int]) -> None:
        self.words = words
        self.used = 0

    def word(self) -> int:
        self.used += 1
        return self.words[self.used - 1]


class Frozen:
    """A coupling as it is, which a step does not change."""

    def __init__(self, coupling: Coupling) -> None:
        names = ("symbols", "belief", "served", "marginal", "total", "joint", "fresh", "kappa")
        for name in names:
            setattr(self, name, getattr(coupling, name))

    def update(self, y: int) -> None:
        pass

    def make(self) -> None:
        pass


class Device:
    """A CRR device, moved to any belief, and what one step of it does from there."""

    def __init__(self, task: Task, kind: type[Crr] = Crr) -> None:
        self.words = Given([])
        self.crr = kind(task, self.words)
        self.symbols = task.symbols
        self.start: Belief = tuple(self.crr.coupling.belief)
        self._laws: dict[tuple[Belief, int], Law] = {}
        self._next: dict[tuple[Belief, int, int], Belief] = {}

    def _place(self, belief: Belief) -> None:
        coupling = self.crr.coupling
        if tuple(coupling.belief) != belief:
            for x, units in enumerate(belief):
                coupling.belief[x] = units
            coupling.make()

    def _step(self, x: int, words: list[int]) -> tuple[int, int]:
        """The released symbol, and how many words it took."""
        self.words.words = words
        self.words.used = 0
        return self.crr.step(x), self.words.used

    def law(self, belief: Belief, x: int) -> Law:
        if (belief, x) in self._laws:
            return self._laws[belief, x]
        self._place(belief)
        held: Any = self.crr.coupling
        self.crr.coupling = Frozen(held)  # pyright: ignore[reportAttributeAccessIssue]
        chances = [Fraction(0)] * self.symbols
        words: dict[int, list[int]] = {}
        threshold = vars(self.crr)["_threshold"]
        assert self._step(x, [threshold - 1, 0])[1] == 2
        for first, weight in ((0, threshold), (threshold, SCALE - threshold)):
            # Symbols ascend with the word, and the last words are drawn again.
            every = range(SCALE)
            usable = bisect_left(every, 3, key=lambda v: self._step(x, [first, v, 0])[1])
            last = 0
            for y in range(self.symbols):
                end = bisect_left(
                    every, y + 1, hi=usable, key=lambda v: self._step(x, [first, v])[0]
                )
                chances[y] += Fraction(weight, SCALE) * Fraction(end - last, usable)
                if end > last:
                    words[y] = [first, last]
                last = end
            assert last == usable
        self.crr.coupling = held
        self._laws[belief, x] = chances, words
        return chances, words

    def after(self, belief: Belief, x: int, y: int) -> Belief:
        """The belief after a step with this value that released y."""
        if (belief, x, y) not in self._next:
            words = self.law(belief, x)[1][y]
            self._place(belief)
            assert self._step(x, list(words)) == (y, 2)
            self._next[belief, x, y] = tuple(self.crr.coupling.belief)
        return self._next[belief, x, y]


def chances_of(device: Device, task: Task, length: int) -> dict[Belief, dict[Belief, Fraction]]:
    """By released sequence, the chance that each sequence of values gives it: M(y|x)."""
    found: dict[Belief, dict[Belief, Fraction]] = defaultdict(dict)
    front = [((), (), Fraction(1), device.start)]
    for _ in range(length):
        following = []
        for values, released, chance, belief in front:
            for x in range(task.symbols):
                if not chance_of_values(task, (*values, x)):
                    continue
                for y, more in enumerate(device.law(belief, x)[0]):
                    if more:
                        then = device.after(belief, x, y)
                        following.append(((*values, x), (*released, y), chance * more, then))
        front = following
    for values, released, chance, _ in front:
        found[released][values] = chance
    return found


def chance_of_values(task: Task, values: Belief) -> Fraction:
    """By the Task's model."""
    chance = Fraction(task.prior[values[0]], BELIEF)
    for x, then in pairwise(values):
        chance *= Fraction(task.transitions[x * task.symbols + then], MODEL)
    return chance


def leakages(device: Device, task: Task, length: int) -> tuple[Fraction, Fraction]:
    """The largest factors: of a sequence against the model's mean, and of one against another."""
    mean = between = Fraction(1)
    count = sum(chance_of_values(task, x) > 0 for x in product(range(task.symbols), repeat=length))
    for by_values in chances_of(device, task, length).values():
        most, least = max(by_values.values()), min(by_values.values())
        if len(by_values) < count:
            # Some values never give what others do.
            return Fraction(1 << 99), Fraction(1 << 99)
        overall = sum(
            (chance * chance_of_values(task, values) for values, chance in by_values.items()),
            Fraction(0),
        )
        mean = max(mean, most / overall, overall / least)
        between = max(between, most / least)
    return mean, between


def exceeds(task: Task, length: int, kind: type[Crr] = Crr) -> str:
    """What of the certificate does not hold, or nothing."""
    device = Device(task, kind)
    q = Fraction(task.thresholds[0], SCALE)
    for steps in range(1, length + 1):
        mean, between = leakages(device, task, steps)
        if steps == 1 and mean > 1 / q:
            return "one step"
        if between > q ** (-2 * steps):
            return f"two sequences of {steps}"
        certificate = certify(_with_w(task, steps)).crr
        assert certificate is not None
        assert certificate.sequence is not None
        if log_upper(mean) > certificate.sequence:
            return f"sequences of {steps}"
    return ""


def _with_w(task: Task, w: int) -> Task:
    numbers = {name: value for name, value in vars(task).items() if name not in ("width", "id")}
    return Task(numbers | {"w": w})


def of(symbols: int, epsilon: float, prior: list[int], chain: list[int], rule: int = 1) -> Task:
    threshold = FRESH[epsilon] << 10
    return crr_task(symbols, thresholds=[threshold], prior=prior, transitions=chain, rule=rule)


STICKY = (2, 1, [16384, 16384], [15000, 1384, 1384, 15000])
RARE = (2, 1, [31500, 1268], [16100, 284, 9000, 7384])
# Symbol 1 is just below K, which is 8813.4 before it is rounded.
BELOW = (2, 1, [BELIEF - 8813, 8813], [16100, 284, 9000, 7384])
THREE = (3, 0.5, [20000, 12000, 768], [14000, 2284, 100, 2000, 13000, 1384, 500, 4000, 11884])
# Symbol 2 never follows 0, and is then of no belief.
GAP = (3, 1, [16384, 8192, 8192], [8192, 8192, 0, 8192, 8192, 0, 16383, 1, 0])


@pytest.fixture(autouse=True)
def short_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tinyldp.certify.crr._MOST_HISTORIES", 40)
    monkeypatch.setattr("tinyldp.certify.crr._SAMPLED_WORK", 500)


@pytest.mark.parametrize("rule", [PRESERVE, MIN_ERROR])
@pytest.mark.parametrize(
    ("given", "length"),
    [
        (STICKY, 4),
        (RARE, 4),
        (THREE, 3),
        (GAP, 3),
        pytest.param(STICKY, 5, marks=pytest.mark.soak),
        pytest.param(RARE, 5, marks=pytest.mark.soak),
        pytest.param(THREE, 5, marks=pytest.mark.soak),
        pytest.param(GAP, 5, marks=pytest.mark.soak),
    ],
)
def test_sequences_give_away_no_more_than_the_certificate(
    given: tuple, length: int, rule: int
) -> None:
    assert exceeds(of(*given, rule=rule), length) == ""


def test_the_law_is_that_of_the_formula() -> None:
    """M(y|x) = q P_y/S + (1-q) J_xy/b_x, to the word."""
    device = Device(of(*THREE))
    coupling = device.crr.coupling
    q = Fraction(coupling.fresh, MODEL)
    for _ in range(3):
        assert not wrong(coupling)
        belief = tuple(coupling.belief)
        for x in range(3):
            found = device.law(belief, x)[0]
            own = [Fraction(coupling.joint[x * 3 + y], coupling.served[x]) for y in range(3)]
            p = [Fraction(units, coupling.total) for units in coupling.marginal]
            assert found == [q * p[y] + (1 - q) * own[y] for y in range(3)]
        coupling.update(1)
        coupling.make()


class Forgetful(Crr):
    """Never updates its belief."""

    def __init__(self, task: Task, entropy: Any) -> None:
        super().__init__(task, entropy)
        self.coupling = Frozen(self.coupling)  # pyright: ignore[reportAttributeAccessIssue]


class Truthful(Crr):
    """Updates its belief with what is true."""

    def step(self, symbol: int) -> int:
        held: Any = self.coupling
        if isinstance(held, Frozen):
            return super().step(symbol)
        self.coupling = Frozen(held)  # pyright: ignore[reportAttributeAccessIssue]
        y = super().step(symbol)
        self.coupling = held
        held.update(symbol if held.marginal[symbol] else y)
        held.make()
        return y


class Honest(Crr):
    """Tells the truth of a symbol that its belief thinks impossible."""

    def __init__(self, task: Task, entropy: Any) -> None:
        super().__init__(task, entropy)
        self._words = entropy
        self._least = task.thresholds[0]

    def step(self, symbol: int) -> int:
        coupling = self.coupling
        if coupling.served[symbol]:
            return super().step(symbol)
        first = self._words.word()
        if first < self._least:
            self._words.used -= 1
            return super().step(symbol)
        self._words.word()
        coupling.update(max(range(coupling.symbols), key=lambda y: coupling.marginal[y]))
        coupling.make()
        return symbol


class Louder(Crr):
    """Its threshold is rounded toward less noise, by one word."""

    def __init__(self, task: Task, entropy: Any) -> None:
        super().__init__(task, entropy)
        self._threshold -= 1


class LessNoise(Coupling):
    """Its K is rounded down."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.kappa -= 1


class Rounded(Crr):
    def __init__(self, task: Task, entropy: Any) -> None:
        super().__init__(task, entropy)
        self.coupling = LessNoise(task)
        self.coupling.make()


class ClosedForm(Coupling):
    """The paper's rule for frequent symbols, whatever is rare."""

    def make(self) -> None:
        super().make()
        n = self.symbols
        for x in range(n):
            self.served[x] = self.marginal[x] = self.belief[x]
            for y in range(n):
                self.joint[x * n + y] = self.belief[x] if x == y else 0


class Paper(Crr):
    def __init__(self, task: Task, entropy: Any) -> None:
        super().__init__(task, entropy)
        self.coupling = ClosedForm(task)
        self.coupling.make()


NEVER = (3, 1, [16384, 16383, 1], [8192, 8192, 0, 8192, 8192, 0, 8192, 8192, 0])


@pytest.mark.parametrize(
    ("kind", "given", "found"),
    [
        (Forgetful, STICKY, "sequences of 2"),
        (Truthful, STICKY, "sequences of 2"),
        (Louder, STICKY, "one step"),
        (Rounded, BELOW, "one step"),
        (Paper, RARE, "one step"),
    ],
)
def test_planted_faults_are_found(kind: type[Crr], given: tuple, found: str) -> None:
    assert exceeds(of(*given), 3, kind) == found


def test_the_truth_of_a_symbol_of_no_belief_is_found() -> None:
    """The certificate holds for any values, also those that the model thinks impossible."""
    task = of(*NEVER)
    for kind in (Crr, Honest):
        device = Device(task, kind)
        belief = device.after(device.start, 0, 0)
        assert belief[2] == 0
        laws = [device.law(belief, x)[0] for x in range(3)]
        q = Fraction(task.thresholds[0], SCALE)
        holds = all(q * q * max(each) <= min(each) for each in zip(*laws, strict=True))
        assert holds == (kind is Crr)
