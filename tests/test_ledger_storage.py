"""Storage that lies: whatever one fault does to the slots, no less is spent than before.

A ledger's life is written down slot by slot, torn writes included, and at each of these
moments every single fault is tried: emptied, one slot from an older copy, any bit flipped.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ledger_model import FastCrc, Slot, Window
from tinyldp_device import ledger
from tinyldp_device.ledger import FRESH, STORED, Ledger
from tinyldp_device.state import State
from tinyldp_protocol.messages import BUDGET, EARLY, LATE, LOST, WAITING

W = 4
TASK = Window(W, 8, (1, 2, 4, 8))
Pair = tuple[bytes, bytes]


class Moment:
    """The slots, and what had been drawn in the last steps, the present one first."""

    def __init__(self, slots: Pair, drawn: list[int], whole: bool) -> None:
        self.slots = slots
        self.drawn = drawn
        self.whole = whole


class Recorder(Slot):
    """A slot that tells of each write, and of one that was cut in its middle."""

    def __init__(self, life: Life) -> None:
        super().__init__()
        self.life = life

    def write(self, data: bytes | bytearray) -> None:
        self.data = bytes(data[: len(data) // 2])
        self.life.note()
        self.data = bytes(data)
        self.life.note()


class Life:
    """A few steps with answers in both phases."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.drawn = [0] * W
        self.slots = Recorder(self), Recorder(self)
        ledger.provision(State(*self.slots), W, word=9)
        self.moments.clear()
        self.ledger = made(self.slots, 1)
        for t, asked in enumerate(((1,), (0, 1), (), (2,), (0,), (2,), (1, 1))):
            self.ledger.step()
            self.drawn = [0, *self.drawn[:-1]] if t else self.drawn
            for phase, entry in enumerate(asked):
                if self.ledger.ask(t, phase, entry) == FRESH:
                    self.drawn[0] += TASK.spends[entry]
                    self.ledger.keep(phase, b"x")
            self.ledger.checkpoint()
            self.note()

    def note(self) -> None:
        if hasattr(self, "slots"):
            slots = (self.slots[0].data, self.slots[1].data)
            self.moments.append(Moment(slots, list(self.drawn), slots[0] == slots[1]))


def made(slots: tuple[Slot, Slot], word: int) -> Ledger:
    return Ledger(State(*slots), TASK, 8, W, word)  # type: ignore[arg-type]


def faults(moments: list[Moment], number: int) -> Iterator[tuple[str, Pair]]:
    first, second = moments[number].slots
    yield "none", (first, second)
    yield "both emptied", (b"", b"")
    if first == second:
        yield "first emptied", (b"", second)
        yield "second emptied", (first, b"")
        for older in {moment.slots[0] for moment in moments[:number]}:
            yield "first older", (older, second)
            yield "second older", (first, older)
    for which in range(2):
        for i in range(8 * len((first, second)[which])):
            changed = bytearray((first, second)[which])
            changed[i >> 3] ^= 1 << (i & 7)
            pair = [first, second]
            pair[which] = bytes(changed)
            yield f"bit {i} of slot {which}", (pair[0], pair[1])


def spent_in_spite(drawn: list[int], slots: Pair) -> list[int]:
    """What a device that comes up with these slots draws, asked for all there is; by step."""
    pair = Slot(slots[0]), Slot(slots[1])
    found = made(pair, 0x800000)
    drawn = list(drawn)
    t = found.t
    for phase in range(2):
        if t >= 0:
            assert found.ask(t, phase, 0) in (STORED, LOST, LATE)
    most = 0
    found.step()
    for step in range(W + 1):
        for entry in (3, 2, 1, 0):
            for phase in range(2):
                result = found.ask(100 + step, phase, entry)
                assert result in (FRESH, LOST, LATE, EARLY, BUDGET, WAITING)
                if result == FRESH:
                    drawn[0] += TASK.spends[entry]
        most = max(most, sum(drawn[:W]))
        found.step()
        drawn = [0, *drawn[:-1]]
    assert most <= TASK.epsilon
    return drawn


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tinyldp_device.state.Crc32", FastCrc)


def test_no_single_fault_makes_less_spent() -> None:
    life = Life()
    assert len(life.moments) > 40
    tried = 0
    for number, moment in enumerate(life.moments):
        for fault, slots in faults(life.moments, number):
            try:
                spent_in_spite(moment.drawn, slots)
            except AssertionError as error:
                raise AssertionError(f"moment {number}, {fault}: {error}") from None
            tried += 1
    assert tried > 20_000


def test_both_slots_from_an_older_copy_are_outside() -> None:
    """And the test above would see it."""
    life = Life()
    early, late = life.moments[2], life.moments[-1]
    with pytest.raises(AssertionError):
        spent_in_spite(late.drawn, early.slots)
