"""What the coordinator decides equals the re-statement, on 1,000 random streams for each method.

Both hear the same support counts: of devices that stay as they are or change, and of answers that
are anything at all; of all who were asked, of some, or of none. Equal means: the same queries, the
same exact dis, err and release, rounded once. Streams are drawn from their number, so a failure
names its case.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.faults import planted
from tests.oracle.brute.oracles import collision_probability
from tests.oracle.rounds import methods
from tests.oracle.rounds.methods import Asked, Setting, Step
from tinyldp.coordinate import Circle, coordinator, meant, schedules
from tinyldp.estimate import frequency
from tinyldp_protocol.hashing import GROUPS
from tinyldp_protocol.task import GRR, LBA, LBD, LBU, LPA, LPD, LPU, LSP, OLH, OUE, SCALE, Task

STREAMS = 1000
METHODS = {"lbu": LBU, "lsp": LSP, "lbd": LBD, "lba": LBA, "lpu": LPU, "lpd": LPD, "lpa": LPA}
ORACLES = {"grr": GRR, "oue": OUE, "olh": OLH}
POPULATIONS = ("lpu", "lpd", "lpa")


@dataclass
class Stream:
    """A Task, its re-statement, the users in each step, and how those answer.

    answers: for each step and phase, from queries to (support counts, n).
    """

    task: Task
    setting: Setting
    start: int
    users: list[int]
    steps: list[Step] = field(default_factory=list)
    answers: dict[tuple[int, int], tuple[tuple[int, ...], int]] = field(default_factory=dict)


# Streams ----------------------------------------------------------------------------------------


@cache
def collision(buckets: int) -> Fraction:
    """That the hash puts two values into one bucket: a little above 1/buckets."""
    return collision_probability(buckets)


def method_spends(method: str, w: int, unit: int, grid: int) -> list[int]:
    """What the method may ask for, ascending, in ledger units."""
    if method == "lbu":
        return [2 * unit]
    if method == "lba":
        return [units * unit for units in range(1, w + 1)]
    if method == "lbd":
        parts = range(1, w * grid // 2 + 1)
        return sorted({part * unit // grid for part in parts} | {unit})
    return [2 * w * unit]


def draw_study(method: str, random: Random) -> tuple[Task, Setting]:
    """w, d, epsilon, oracle and grid at random; epsilon is seldom a multiple of the unit."""
    w, d = random.randint(2, 12), random.randint(2, 6)
    oracle = random.choice(list(ORACLES))
    buckets = random.randint(2, 5) if oracle == "olh" else 0
    grid = random.choice((1, 2, 4))
    epsilon = round(math.exp(random.uniform(math.log(0.2), math.log(6))) * 65536)
    unit = epsilon // (2 * w)
    spends = method_spends(method, w, unit, grid)
    choices = {"grr": d, "oue": 2, "olh": buckets}[oracle]
    thresholds = [math.ceil(SCALE / (math.exp(spend / 65536) + choices - 1)) for spend in spends]
    task = Task(
        {
            "mechanism": ORACLES[oracle],
            "method": METHODS[method],
            "w": w,
            "epsilon": epsilon,
            "symbols": d,
            "thresholds": thresholds,
            "spends": spends,
            "buckets": buckets or None,
            "tick": 1000,
            "beacon": 5,
        }
    )
    setting = Setting(
        method,
        oracle,
        d,
        w,
        unit,
        dict(zip(spends, thresholds, strict=True)),
        buckets,
        collision(buckets) if buckets else Fraction(0),
        grid,
    )
    return task, setting


def draw_users(w: int, steps: int, random: Random) -> list[int]:
    """How many there are: mostly hundreds or thousands, who stay; or some join, or some leave."""
    most = 5000 if random.random() < 0.85 else 3 * w
    known = random.randint(0 if most < 100 else 200, most)
    change = random.choice((0, 0, 1, -1))
    users = []
    for _ in range(steps):
        users.append(known)
        if change and random.random() < 0.3:
            known = max(0, known + change * random.randint(0, most // 10))
    return users


def answering(setting: Setting, users: list[int], random: Random) -> Callable[..., Any]:
    """Answers by people who change seldom or often, wholly or in part, or by anybody."""
    restless = random.choice((0.0, 0.05, 0.3, 1.0))
    anything = random.random() < 0.1
    silent, some = random.choice(((0.0, 0.0), (0.0, 0.0), (0.1, 0.3), (0.3, 0.3)))
    chances = {s: tuple(map(float, methods.probabilities(setting, s))) for s in setting.thresholds}
    shares, phases = draw_shares(setting.d, random), [-1]

    def answer(number: int, query: Asked) -> tuple[tuple[int, ...], int]:
        nonlocal shares
        if number != phases[0]:
            phases[0] = number
            if random.random() < restless:
                shares = draw_shares(setting.d, random)
        n = users[number] if query.users is None else query.users
        luck = random.random()
        n = 0 if luck < silent else random.randint(0, n) if luck < silent + some else n
        if anything:
            return tuple(random.randint(0, n) for _ in range(setting.d)), n
        p, q = chances[query.spend]
        noise = random.choice((0, 0.5 * math.sqrt(n)))
        counts = (n * (q + (p - q) * share) + random.gauss(0, noise) for share in shares)
        return tuple(min(n, max(0, round(count))) for count in counts), n

    return answer


def draw_shares(d: int, random: Random) -> list[float]:
    """How many have each value."""
    weights = [random.random() ** 3 + 1e-9 for _ in range(d)]
    return [weight / sum(weights) for weight in weights]


def restated(method: str, number: int) -> Stream:
    """The stream of this number, as the re-statement runs it."""
    random = Random(f"{method} {number}")
    task, setting = draw_study(method, random)
    users = draw_users(setting.w, random.randint(setting.w + 2, 2 * setting.w + 6), random)
    stream = Stream(task, setting, random.choice((0, 0, 1, 1000)), users)
    answer = answering(setting, users, random)

    def heard(step: int, query: Asked) -> tuple[tuple[int, ...], int]:
        stream.answers[step, query.phase] = answered = answer(step, query)
        return answered

    stream.steps = methods.run(setting, users, heard)
    return stream


@cache
def streams(method: str) -> list[Stream]:
    """All of them, as the re-statement runs them."""
    return [restated(method, number) for number in range(STREAMS)]


# The coordinator --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decided:
    """What is compared of a step, and what it spent in ledger units or users."""

    asked: tuple[Asked, ...]
    dis: float | None
    err: float | None
    published: bool
    release: tuple[float, ...]
    answers: tuple[int, ...]


def decisions(stream: Stream, run: type[coordinator.Coordinator]) -> Iterator[Decided]:
    """Of each step; what is not as in the re-statement is answered by nobody."""
    task = stream.task
    running = run(task, stream.users[0], stream.start)
    for number, users in enumerate(stream.users):
        running.users = users
        asked, ns = [], []
        ask = running.begin()
        while ask:
            assert ask.t == stream.start + number
            asked.append(Asked(ask.phase, task.spends[ask.entry], ask.users))
            silence = ((0,) * task.symbols, 0)
            supports, n = stream.answers.get((number, ask.phase), silence)
            ns.append(n)
            ask = running.heard(supports, n)
        made = running.decision
        assert made is not None
        assert made.t == stream.start + number
        check_record(made, asked, ns, users, task)
        release = tuple(map(float, made.release))
        yield Decided(tuple(asked), made.dis, made.err, made.published, release, tuple(ns))


def check_record(
    made: coordinator.Decision, asked: list[Asked], ns: list[int], users: int, task: Task
) -> None:
    """The record says what was asked, and what came."""
    queries = list(zip(asked, ns, strict=True))
    adaptive = task.method in (LBD, LBA, LPD, LPA)
    first = queries[0] if adaptive and queries else None
    last = queries[-1] if queries and len(queries) == 1 + adaptive else None
    for query, spent in (
        (first, (made.dissimilarity_units, made.dissimilarity_users, made.dissimilarity_n)),
        (last, (made.units, made.publication_users, made.publication_n)),
    ):
        if query is None:
            assert spent == (0, 0, 0)
        else:
            wanted, n = query
            assert spent == (wanted.spend, users if wanted.users is None else wanted.users, n)
    assert made.users == users


def expected(step: Step) -> Decided:
    """The re-statement's rationals, as floats."""
    return Decided(
        step.asked,
        None if step.dis is None else float(step.dis),
        None if step.err is None else float(step.err),
        step.published,
        tuple(map(float, step.release)),
        step.answers,
    )


def first_difference(stream: Stream, made: list[Decided]) -> str | None:
    """Where decisions leave the re-statement; None if nowhere."""
    for number, (one, step) in enumerate(zip(made, stream.steps, strict=True)):
        if one != expected(step):
            return f"step {number} of {stream.setting}: {one}, but {expected(step)}"
    return None


def share(made: list[Decided]) -> float:
    """Of the steps, how many published."""
    return sum(step.published for step in made) / len(made)


def kinds_of(step: Decided, users: int) -> set[str]:
    """What there is to see in a step."""
    wanted = [users if query.users is None else query.users for query in step.asked]
    kinds = set()
    for query, asked, n in zip(step.asked, wanted, step.answers, strict=True):
        kinds.add("whole" if n == asked else "partial" if n else "silent")
        if n == 0 and query.phase == 1:
            kinds.add("silent publication")
    if not step.asked:
        kinds.add("nobody asked")
    if step.dis is not None:
        kinds.add("negative" if step.dis < 0 else "positive")
        kinds.add("nothing left" if step.err is None else "weighed")
        if step.err is not None and step.dis <= step.err:
            kinds.add("similar")
    return kinds


@cache
def decided(method: str) -> list[list[Decided]]:
    """What the coordinator decides in each of the streams."""
    return [list(decisions(stream, coordinator.Coordinator)) for stream in streams(method)]


@pytest.mark.parametrize("method", METHODS)
def test_decisions_are_those_of_the_restatement(method: str):
    for stream, made in zip(streams(method), decided(method), strict=True):
        found = first_difference(stream, made)
        assert found is None, found


@pytest.mark.parametrize("method", METHODS)
def test_streams_are_of_every_kind(method: str):
    """Publications often and seldom, queries answered by some and by nobody, changes of users."""
    kinds = Counter[str]()
    for stream, made in zip(streams(method), decided(method), strict=True):
        published = share(made)
        kinds["often" if published > 0.4 else "seldom" if published < 0.2 else "sometimes"] += 1
        kinds["users change"] += len(set(stream.users)) > 1
        for users, step in zip(stream.users, made, strict=True):
            kinds.update(kinds_of(step, users))
    seen = {kind for kind, times in kinds.items() if times >= 20}
    wanted = {"often", "users change", "whole", "partial", "silent"}
    if method in ("lbd", "lba", "lpd", "lpa"):
        wanted |= {"seldom", "silent publication", "negative", "positive", "nothing left"}
        wanted |= {"weighed", "similar"}
    if method in POPULATIONS:
        wanted.add("nobody asked")
    assert seen >= wanted, kinds


# Windows ----------------------------------------------------------------------------------------


def spent(stream: Stream, made: list[Decided]) -> list[tuple[int, int]]:
    """Of each window of w steps: what all queries together ask for, and what publications do.

    In ledger units, or in users where groups are asked.
    """
    w, grouped = stream.setting.w, stream.setting.method in POPULATIONS
    every = [
        [(query.phase, query.users if grouped else query.spend) for query in step.asked]
        for step in made
    ]
    totals = []
    for t in range(len(every)):
        window = [each for step in every[max(0, t - w + 1) : t + 1] for each in step]
        publications = sum(amount or 0 for phase, amount in window if phase == 1)
        totals.append((sum(amount or 0 for _, amount in window), publications))
    return totals


def bounds(stream: Stream, t: int) -> tuple[int, int]:
    """What a window that ends with step t may come to: 2w units and w units, N and N/2 users."""
    setting = stream.setting
    if setting.method in POPULATIONS:
        window = stream.users[max(0, t - setting.w + 1) : t + 1]
        return max(window), max(window) // 2
    return 2 * setting.w * setting.unit, setting.w * setting.unit


def excess(stream: Stream, made: list[Decided]) -> bool:
    """Whether some window has more than it may."""
    return any(
        total > bounds(stream, t)[0] or publications > bounds(stream, t)[1]
        for t, (total, publications) in enumerate(spent(stream, made))
    )


@pytest.mark.parametrize("method", METHODS)
def test_windows_reach_but_never_exceed_w_units(method: str):
    """LBD and LPD come within one part or user of w units, as half of one is none."""
    reached = 0
    for stream, made in zip(streams(method), decided(method), strict=True):
        assert not excess(stream, made), stream.setting
        unit, grid, w = stream.setting.unit, stream.setting.grid, stream.setting.w
        # What LPA leaves to the remainder of N / 2w.
        less = {"lbd": -(-unit // grid), "lpd": 1, "lpa": stream.users[0] % (2 * w)}.get(method, 0)
        for t, sums in enumerate(spent(stream, made)):
            index = int(method in ("lbd", "lba", "lpd", "lpa"))
            steady = len(set(stream.users)) == 1 and stream.users[0] >= 2 * w
            reached += steady and sums[index] >= bounds(stream, t)[index] - less
    assert reached >= 20


@pytest.mark.parametrize("method", POPULATIONS)
def test_nobody_is_asked_twice_within_w_steps(method: str):
    """The groups, taken as ranges of a circle, are exactly as many as asked for, and rest after."""
    for number, stream in enumerate(streams(method)[:100]):
        if len(set(stream.users)) > 1:
            continue
        positions = np.array(Random(number).sample(range(GROUPS), stream.users[0]), dtype=np.int64)
        circle = Circle(positions, stream.setting.w)
        last = np.full(len(positions), -GROUPS)
        for t, step in enumerate(decided(method)[number]):
            circle.step()
            for query in step.asked:
                ranges = circle.take(query.users or 0)
                taken = np.logical_or.reduce([meant(positions, *each) for each in ranges])
                assert taken.sum() == query.users
                assert t - last[taken].max() >= stream.setting.w
                last[taken] = t


# Planted faults ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """What one line of a module says instead; whether a window then has too much."""

    method: str
    name: str
    module: ModuleType
    old: str
    new: str
    exceeds: bool = False


EARLY = (schedules, "deque(maxlen=w - 1)", "deque(maxlen=w - 2)", True)
FRESH = "fresh = estimate(self._oracles[entry], counts, n)"
CLIPPED = "fresh = type(fresh)(np.maximum(fresh.numerators, 0), fresh.denominator)"
UNIT = "Distribution(w, task.spends.index(unit(epsilon, w)), "
UNTIL = "nullified_until = self._last + self._units - 1"
SHARE = "1 / (2 * self._w)"
FAULTS = (
    Fault("lbd", "recycle one step early", *EARLY),
    Fault("lpd", "recycle one step early", *EARLY),
    *(
        Fault(method, "clip before dis", coordinator, FRESH, f"{FRESH}\n            {CLIPPED}")
        for method in ("lbd", "lba", "lpd", "lpa")
    ),
    # As near to it as the Task's entries come; where w >= 8 it is among them.
    Fault(
        "lbd",
        "2 epsilon / w",
        schedules,
        UNIT,
        "Distribution(w, sum(s <= 4 * unit(epsilon, w) for s in task.spends) - 1, ",
        True,
    ),
    Fault(
        "lba",
        "float division in t_N",
        schedules,
        UNTIL,
        f"nullified_until = self._last + int(self._units * ({SHARE}) / ({SHARE})) - 1",
        True,
    ),
    Fault("lba", "one step too few paid back", schedules, UNTIL, UNTIL[:-1] + "2", True),
    Fault(
        "lba",
        "what nobody answered is not spent",
        coordinator,
        "self._potential if second.users else",
        "self._potential if second.n else",
        True,
    ),
    Fault(
        "lpd",
        "users rest one step less",
        coordinator,
        "deque(maxlen=(task.w or 1) - 1)",
        "deque(maxlen=(task.w or 1) - 2)",
    ),
    Fault(
        "lba",
        "the variance's second term not averaged",
        frequency,
        "(1 - p - q) / (task.symbols * gap)",
        "(1 - p - q) / gap",
    ),
    Fault(
        "lbd",
        "n of those asked",
        coordinator,
        "self._variances[entry] / n",
        "self._variances[entry] / (self.users if self._rounds[0].users else n)",
    ),
)


def faulty(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> type[coordinator.Coordinator]:
    """The coordinator with this fault in its source, or in that of what it imports."""
    module = planted(fault.module, fault.old, fault.new)
    if fault.module is coordinator:
        return module.Coordinator
    imported = [
        name
        for name, value in vars(coordinator).items()
        if getattr(value, "__module__", None) == fault.module.__name__
    ]
    for name in imported:
        monkeypatch.setattr(coordinator, name, getattr(module, name))
    return coordinator.Coordinator


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.method}: {fault.name}")
def test_a_planted_fault_is_caught(fault: Fault, monkeypatch: pytest.MonkeyPatch):
    run = faulty(fault, monkeypatch)
    different = exceeding = False
    for stream in streams(fault.method):
        made = list(decisions(stream, run))
        different = different or first_difference(stream, made) is not None
        exceeding = exceeding or excess(stream, made)
        if different and exceeding >= fault.exceeds:
            return
    pytest.fail(f"different: {different}, a window has too much: {exceeding}")
