"""A server that keeps to no rule, against the device's own code, and what it gets."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom

from tests.ledger_model import FastCrc
from tinyldp.audit.hostile import GREEDS, _Line, _query, recover, write_growth
from tinyldp.errors import UserError
from tinyldp_device import ledger
from tinyldp_device.entropy import Entropy, Urandom
from tinyldp_device.ledger import BLOCK_AT, FRESH, RING_AT, STORED, Ledger
from tinyldp_device.oraclerounds import OracleRounds
from tinyldp_device.rounds import RoundAgent
from tinyldp_device.state import State
from tinyldp_protocol import messages as m
from tinyldp_protocol.task import GRR, LBA, LPA, OLH, OUE, SCALE, Task, write_file

PSEUDONYM = b"somebody"
W = 20
UNIT = 1638
EPSILON = 2 * W * UNIT


def lie(epsilon: float, values: int) -> int:
    return math.ceil(SCALE / (math.exp(epsilon) + values - 1))


def make_task(
    spends: list[int],
    *,
    w: int = W,
    epsilon: int = EPSILON,
    symbols: int = 5,
    mechanism: int = GRR,
    method: int = LBA,
    buckets: int | None = None,
) -> Task:
    values = {GRR: symbols, OUE: 2, OLH: buckets or 0}[mechanism]
    task = Task(
        {
            "mechanism": mechanism,
            "method": method,
            "symbols": symbols,
            "w": w,
            "epsilon": epsilon,
            "spends": spends,
            "thresholds": [lie(spend / (1 << 16), values) for spend in spends],
            "tick": 1000,
            "beacon": 1000,
            "buckets": buckets,
        }
    )
    write_file(task)
    return task


TASK = make_task([UNIT * i for i in range(1, W + 1)])
# Another id, w, epsilon and domain, and spends that are no multiples of the first one's.
OTHER = make_task([700, 5000, EPSILON // 3], w=13, epsilon=EPSILON // 2, symbols=300)


class Slot:
    data = b""

    def read(self) -> bytes:
        return self.data

    def write(self, data: bytes | bytearray, /) -> None:
        self.data = bytes(data)


class Shadow:
    """The rules once more, plainly: what must become of a query, and what was spent when."""

    def __init__(self) -> None:
        self.task = TASK
        self.step = 0
        self.spent: Counter[int] = Counter()
        self.t = -1
        self.bound = -1
        self.phases: dict[int, int] = {}
        self.value_kept = False
        self.begun = False

    def window(self, end: int, w: int) -> int:
        return sum(self.spent[step] for step in range(end - w + 1, end + 1))

    def reset(self, task: Task) -> None:
        if task is not self.task:
            self.t = -1
        self.task = task
        self.value_kept = self.begun = False

    def tick(self) -> None:
        self.step += self.begun
        self.begun = True

    def fits(self, step: int, spend: int) -> bool:
        assert self.task.w is not None
        assert self.task.epsilon is not None
        # Nothing was spent after the bound step, so that no later window has more.
        return (
            self.window(step, self.task.w) + spend <= self.task.epsilon
            and self.window(step, W) + spend <= EPSILON
        )

    def outcome(self, task_id: bytes, t: int, phase: int, entry: int) -> int:
        """What must become of it; nothing changes."""
        if task_id != self.task.id:
            return m.FOREIGN
        if entry >= len(self.task.spends):
            return m.UNKNOWN
        if t < self.t:
            return m.LATE
        if t == self.t and phase in self.phases:
            return STORED
        step = self.step
        if t == self.t:
            assert self.task.w is not None
            if not self.value_kept or self.step - self.bound >= self.task.w:
                return m.LATE
            step = self.bound
        elif not self.begun or self.bound == self.step:
            return m.EARLY
        return FRESH if self.fits(step, self.task.spends[entry]) else m.BUDGET

    def grant(self, t: int, phase: int, entry: int) -> None:
        if t != self.t:
            self.t, self.bound, self.phases, self.value_kept = t, self.step, {}, True
        self.spent[self.bound] += self.task.spends[entry]
        self.phases[phase] = entry


Query = tuple[bytes, int, int, int]


class Siege:
    """One device, its shadow, and the queries of a hostile and of an honest server."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.slots = Slot(), Slot()
        ledger.provision(State(*self.slots), W)
        self.shadow = Shadow()
        self.hostile = 0
        self.hostile_spent: Counter[int] = Counter()
        self.most = 0
        self.refusals: Counter[int] = Counter()
        self.stored: dict[tuple[bytes, int, int], bytes] = {}
        self.boot(TASK)

    def boot(self, task: Task) -> None:
        if task is not self.shadow.task:
            self.stored.clear()
        # The device vouches for no more steps than are stored.
        self.shadow.step = m.get_word(self.slots[0].data, 4 + ledger.STEP_AT)
        self.shadow.reset(task)
        state = State(*self.slots)
        self.line = _Line()
        entropy = Entropy(Urandom(), 400)
        rounds = OracleRounds(task, entropy, Ledger(state, task, EPSILON, W))
        self.agent = RoundAgent(task, entropy, self.line, PSEUDONYM, rounds)
        self.nonce = bytes(entropy.nonce[:4])

    def tick(self) -> None:
        self.shadow.tick()
        self.agent.tick(self.random.randrange(5))

    def ask(self, queries: list[Query]) -> None:
        """Hand them over at once, and compare what comes back with the shadow's verdicts."""
        answers: dict[int, tuple[int, int]] = {}
        refusal = None
        for task_id, t, phase, entry in queries:
            verdict = self.shadow.outcome(task_id, t, phase, entry)
            if verdict == FRESH:
                self.shadow.grant(t, phase, entry)
            if verdict in (FRESH, STORED):
                answers[phase] = (t, self.shadow.phases[phase])
            elif refusal is None:
                refusal = (t, phase, verdict)
            buf = _query(self.shadow.task, t, phase, entry)
            buf[m.QUERY_TASK_AT : m.QUERY_TASK_AT + 8] = task_id
            self.line.queries.append(buf)
        self.agent.service()
        found: dict[int, tuple[int, int]] = {}
        refused = None
        for message in self.line.heard:
            kind = m.check(message, len(message), self.shadow.task.payload)
            if kind not in (m.ANSWER, m.REFUSAL):
                continue
            t, phase = m.get_word(message, m.SEQUENCE_AT), message[m.PHASE_AT]
            if kind == m.REFUSAL:
                assert refused is None
                refused = (t, phase, message[m.REASON_AT])
                self.refusals[message[m.REASON_AT]] += 1
            else:
                found[phase] = (t, message[m.ENTRY_AT] | message[m.ENTRY_AT + 1] << 8)
                key = (self.shadow.task.id, t, phase)
                # A t that is bound anew after a changed Task is another one.
                report = self.stored.setdefault(key, message[m.REPORT_AT :])
                assert report == message[m.REPORT_AT :]
        self.line.heard.clear()
        assert (found, refused) == (answers, refusal)
        self.read()

    def read(self) -> None:
        """The window that ends with the stored step, as the storage says."""
        assert self.slots[0].data == self.slots[1].data
        payload = self.slots[0].data[4:-4]
        size = m.get_word(payload, 0) + m.get_word(payload, BLOCK_AT) - 1
        words = [m.get_word(payload, RING_AT + 4 * i) for i in range(size)]
        assert size == W
        assert sum(words) <= EPSILON
        self.most = max(self.most, sum(words))
        step = m.get_word(payload, ledger.STEP_AT)
        for back in range(W):
            assert words[(step - back) % size] == self.shadow.spent[step - back]

    def mischief(self, own: bool, share: int) -> Query:
        """A hostile query; one that is granted only in a step of its own, within its share."""
        while True:
            shadow = self.shadow
            pick = self.random.choice
            base = max(shadow.t, 0)
            t = pick(
                [
                    shadow.t,
                    shadow.t,
                    self.random.randrange(base + 1),
                    base + self.random.randrange(1, 100),
                    base + 1,
                    min(base + (1 << 29), m.COUNTER_MAX),
                    m.COUNTER_MAX,
                ]
            )
            entry = pick(
                [
                    0,
                    self.random.randrange(len(shadow.task.spends)),
                    len(shadow.task.spends) - 1,
                    self.random.randrange(len(shadow.task.spends), 1 << 16),
                ]
            )
            task_id = pick([shadow.task.id] * 8 + [OTHER.id, TASK.id, bytes(8)])
            query = (task_id, max(t, 0), pick([0, 1]), entry)
            if shadow.outcome(*query) != FRESH:
                return query
            spend = shadow.task.spends[entry]
            step = shadow.bound if query[1] == shadow.t else shadow.step
            already = sum(self.hostile_spent[step - back] for back in range(W))
            own_t = query[1] != shadow.t or self.hostile_spent[shadow.bound]
            near = query[1] <= 4 * shadow.step + 2
            if own and own_t and near and already + spend <= share:
                self.hostile_spent[step] += spend
                return query

    def attack(self, own: bool, share: int) -> None:
        """One query, or several at once."""
        for _ in range(1 if self.random.random() < 0.8 else 4):
            self.hostile += 1
            query = self.mischief(own, share)
            if self.shadow.outcome(*query) == FRESH or self.random.random() < 0.7:
                self.ask([query])
            else:
                # The same twice at once, as from two servers.
                self.hostile += 1
                self.ask([query, query])


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tinyldp_device.state.Crc32", FastCrc)


def test_an_honest_server_beside_a_hostile_one() -> None:
    siege = Siege(1)
    asked = answered = 0
    tick = 0
    while siege.hostile < 10_000:
        if tick in (300, 600):
            # Another Task is flashed, and this one again; nothing of it is honest.
            for task in (OTHER, TASK):
                siege.boot(task)
                for _ in range(30 if task is OTHER else 0):
                    siege.tick()
                    for _ in range(4):
                        siege.attack(True, EPSILON // 2)
        siege.tick()
        own = siege.shadow.step % 2 == 1
        for phase in range(2):
            for _ in range(siege.random.randrange(4)):
                siege.attack(own, EPSILON // 2)
            if not own:
                query = (TASK.id, 4 * siege.shadow.step, phase, 0)
                asked += 1
                answered += siege.shadow.outcome(*query) == FRESH
                siege.ask([query])
                siege.ask([query])
        for _ in range(siege.random.randrange(4)):
            siege.attack(own, EPSILON // 2)
        tick += 1
    assert answered >= 0.99 * asked
    assert asked >= 1000
    # Every reason that there is without a loss of storage.
    assert {m.LATE, m.EARLY, m.FOREIGN, m.UNKNOWN, m.BUDGET} == set(siege.refusals)
    assert min(siege.refusals.values()) >= 50
    assert siege.agent.rejected == 0


def alone(siege: Siege, queries: int) -> None:
    while siege.hostile < queries:
        siege.tick()
        for _ in range(8):
            siege.attack(True, EPSILON)


def test_a_hostile_server_alone_reaches_epsilon() -> None:
    siege = Siege(2)
    alone(siege, 10_000)
    assert siege.most == EPSILON


_ROOM: Callable[[Any, int], int] = vars(Ledger)["_room"]
FAULTS: dict[str, Callable[[pytest.MonkeyPatch], Any]] = {
    "a repeated query is drawn anew": lambda patch: patch.setattr(ledger, "STORED", FRESH),
    "no budget": lambda patch: patch.setattr(Ledger, "_room", lambda self, size: 1 << 29),
    "a refusal costs": lambda patch: patch.setattr(Ledger, "_room", _costly(_ROOM)),
}


def _costly(room: Callable[[Any, int], int]) -> Callable[[Any, int], int]:
    def costly(self: Any, size: int) -> int:
        found = room(self, size)
        if found < UNIT:
            self.now += 1
        return found

    return costly


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_by_the_siege(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS[fault](monkeypatch)
    siege = Siege(3)
    with pytest.raises(AssertionError):
        alone(siege, 2000)


DEVICES = 2000
WINDOW = 10
# Each of at most 31 windows exceeds its limit, where the bound is met, with a probability of
# 10^-8: a false alarm in all of this file's recoveries has one of 2 * 10^-6.
ALARM = 1e-8
FULL = 1 << 16
UNITS = [FULL // (2 * WINDOW) * i for i in range(1, WINDOW + 1)]
RECOVERED = {
    "GRR, all at once": (make_task([FULL], w=WINDOW, epsilon=FULL, method=LPA), "at once"),
    "GRR, LBA at once": (make_task(UNITS, w=WINDOW, epsilon=FULL), "at once"),
    "GRR, LBA at random": (make_task(UNITS, w=WINDOW, epsilon=FULL), "at random"),
    "OUE": (make_task([FULL], w=WINDOW, epsilon=FULL, mechanism=OUE, method=LPA), "at once"),
    "OLH": (
        make_task(UNITS, w=WINDOW, epsilon=FULL, mechanism=OLH, buckets=3),
        "spread",
    ),
}


@pytest.mark.parametrize("name", RECOVERED)
def test_no_window_recovers_a_constant_value_more_often_than_epsilon_allows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tinyldp_device.state.Crc32", FastCrc)
    task, greed = RECOVERED[name]
    found = recover(task, DEVICES, 4, seed=5, greed=greed)
    assert found.bound() == pytest.approx(math.e / (math.e + 4))
    assert len(found.windows) == 3 * WINDOW + 1
    limit = binom.isf(ALARM, DEVICES, found.bound())
    assert max(found.windows) <= limit
    for k in range(1, 5):
        assert found.growth[k - 1] <= binom.isf(ALARM, DEVICES, found.bound(k))
    if name == "GRR, all at once":
        # One answer with all of epsilon meets the bound, so that a little more would show.
        assert min(found.windows) >= binom.ppf(ALARM, DEVICES, found.bound())
        assert binom.sf(limit, DEVICES, math.exp(1.4) / (math.exp(1.4) + 4)) > 0.9
    # It does learn, the more the longer it goes on.
    assert found.growth[3] > binom.isf(ALARM, DEVICES, 1 / 5) or name == "OLH"


@pytest.mark.parametrize("fault", ["no budget", "a third of the window", "drawn anew"])
def test_a_fault_is_found_by_recovery(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes three answers of one; two of GRR's are worth no more than one."""
    if fault == "no budget":
        monkeypatch.setattr(Ledger, "_room", lambda self, size: 1 << 29)
    elif fault == "drawn anew":
        monkeypatch.setattr(ledger, "STORED", FRESH)
    else:

        def early(self: Any, size: int) -> int:
            horizon, self._horizon = self._horizon, self._horizon // 3
            room = _ROOM(self, size)
            self._horizon = horizon
            return room

        monkeypatch.setattr(Ledger, "_room", early)
    found = recover(RECOVERED["GRR, all at once"][0], DEVICES, 2, seed=6)
    assert max(found.windows) > binom.isf(ALARM, DEVICES, found.bound())


def test_the_first_window_is_all_windows_so_far() -> None:
    """Also where values are equally likely, as all that OLH hashes to one bucket."""
    found = recover(RECOVERED["OLH"][0], 200, 2, greed=GREEDS[0])
    assert found.growth[0] == found.windows[0]


def test_growth_is_drawn(tmp_path: Path) -> None:
    found = recover(RECOVERED["GRR, all at once"][0], 40, 3, greed=GREEDS[0])
    for name in ("growth.svg", "growth.png"):
        write_growth(found, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 2000
    drawn = (tmp_path / "growth.svg").read_text()
    for label in ("from all windows so far", "no more is possible from one window"):
        assert label in drawn
    with pytest.raises(UserError, match="ending of a picture"):
        write_growth(found, tmp_path / "growth.txt")
    with pytest.raises(UserError, match="Only a Task with a method"):
        recover(Task({**PLAIN}), 10)
    with pytest.raises(UserError, match="greed must be one of"):
        recover(found.task, 10, greed="polite")


PLAIN: dict[str, Any] = {
    "mechanism": GRR,
    "symbols": 5,
    "thresholds": [SCALE // 8],
    "tick": 1000,
    "batch": 1,
    "resend": 5,
    "beacon": 100,
    "outbox": 4,
}
