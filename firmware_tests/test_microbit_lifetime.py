"""Counters for life on the emulated micro:bit's flash: resets at every write, long epochs."""

from __future__ import annotations

import time

import pytest

from firmware_tests.asking import Host, Siege, query
from firmware_tests.microbit import PROGRAMS, replace_source, start, thresh
from tinyldp.flash.build import EPOCHS
from tinyldp.flash.flat import LIFETIME_SLOTS, SLOTS
from tinyldp.flash.microbit import flash_microbit, new_state
from tinyldp.lanes import Lane
from tinyldp_device.lifetime import COUNTS_AT, PHASE_AT, T_AT, state_bytes
from tinyldp_device.state import StateError
from tinyldp_protocol.messages import EARLY, LOST, get_word
from tinyldp_protocol.task import SCALE

MICROBIT = pytest.mark.parametrize("lane", ["microbit"], indirect=True)
PSEUDONYM = b"somebody"
# Every epoch differs from the one before, and what is said is a coin's toss.
TASK = thresh(
    rounds=3,
    symbols=5,
    tick=20,
    epochs=1 << 14,
    levels=[0] * 15,
    votes=50,
    estimates=20,
    thresholds=[SCALE // 2 - 1] * 2,
)
# A number that no epoch's sum repeats soon.
SAMPLE = b"""seen = [0]
def sample():
    seen[0] += 1
    return seen[0] // 4 % 5
"""
# Of a record 3 times phase 0's state, and phase 1's: adopted; vote counted and answered;
# estimate counted and answered.
KINDS = "adghi"
POINTS = {
    *((slot, at, "a") for slot in SLOTS for at in "ABCDE"),
    *((slot, at, kind) for slot in LIFETIME_SLOTS for at in "ABCDE" for kind in KINDS),
}
# Both slots hold that a vote is counted; its answer is half written to the first one.
SOME = {("lifetime0", "C", "g")}


class Resets(Siege):
    """Both phases of each epoch in turn, asked until they are settled."""

    def __init__(self, host: Host, points: set[tuple[str, str, str]]) -> None:
        super().__init__(host, TASK, PSEUDONYM, LIFETIME_SLOTS, points)
        # As the flash was read at the last boot, and what was heard since the first.
        self.payload = bytes(state_bytes(TASK))
        self.heard: dict[tuple[int, int], bytes] = {}
        self.lost = self.stored = 0

    def run(self) -> None:
        t, quiet = 1, 0
        # So many epochs without a cut: no point comes any more.
        while quiet < 5 and (self.left or not quiet):
            quiet += 1
            for phase in (0, 1):
                if not self.settled(t, phase):
                    quiet = 0
            t += 1

    def settled(self, t: int, phase: int) -> bool:
        """Ask until it is settled; False when the board was reset meanwhile."""
        whole = True
        # Once with an update, then, where it is asked again, without.
        entry = phase
        while (said := self.ask(t, phase, entry)) is None:
            whole = False
            entry = 0
            self.boot()
        status = self.payload[PHASE_AT + phase] if get_word(self.payload, T_AT) == t else 0
        if whole or not status:
            assert said[:3] == (t, phase, entry), said
        elif status == 1:
            self.lost += 1
            assert said == (t, phase, LOST)
        else:
            self.stored += 1
            assert said == (t, phase, phase, self.report(phase))
        if said[2] != LOST:
            self.heard[t, phase] = said[3]
        return whole

    def report(self, phase: int) -> bytes:
        return self.payload[len(self.payload) - 2 + phase :][:1]

    def take_in(self, payload: bytes) -> None:
        """Of all that was ever known to be counted, or answered, nothing is missing."""
        assert get_word(payload, 0) in (TASK.epsilon, 0)
        if len(payload) == 4:
            # Not adopted yet.
            assert self.heard == {}
            return
        # Paid for once.
        assert get_word(payload, 0) == 0
        t = get_word(payload, T_AT)
        for at in (COUNTS_AT, COUNTS_AT + 4, T_AT):
            assert get_word(payload, at) >= get_word(self.payload, at)
        for (known, phase), report in self.heard.items():
            assert t >= known
            if t == known:
                assert payload[PHASE_AT + phase] == 2
                assert payload[len(payload) - 2 + phase :][:1] == report
        # Each update that was answered, or asked for, is counted.
        updates = sum(phase for _, phase in self.heard)
        assert get_word(payload, COUNTS_AT + 4) >= min(updates, TASK.estimates or 0)
        self.payload = payload


def cut_everywhere(
    lane: Lane,
    monkeypatch: pytest.MonkeyPatch,
    points: set[tuple[str, str, str]],
    source: str = "",
) -> Resets:
    files = (PROGRAMS / "announced_files.py").read_bytes()
    kind = b"(data[28] * 3 + data[29] if len(data) > 40 else 0)"
    assert b"data[29 % len(data)]" in files
    replace_source(
        monkeypatch,
        "tinyldp_device/boards/files.py",
        files.replace(b"data[29 % len(data)]", kind),
    )
    lane.put({"sample.py": SAMPLE})
    with start(lane, TASK, new_state(PSEUDONYM, TASK), source or EPOCHS.read_text()) as board:
        resets = Resets(Host(board), points)
        resets.run()
    return resets


@MICROBIT
@pytest.mark.timeout(900)
def test_a_reset_while_it_is_written(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    resets = cut_everywhere(lane, monkeypatch, SOME)
    assert not resets.left
    assert resets.lost == 1


@pytest.mark.soak
@MICROBIT
@pytest.mark.timeout(1800)
def test_a_reset_at_every_write(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    resets = cut_everywhere(lane, monkeypatch, POINTS)
    assert not resets.left
    # Several points for each: a phase is cut until it is lost, or its answer is stored.
    assert resets.lost >= 4
    assert resets.stored >= 2


@pytest.mark.soak
@MICROBIT
@pytest.mark.timeout(900)
def test_counters_in_one_file_only_are_found_out(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = EPOCHS.read_text().replace('"lifetime1"', '"lifetime0"')
    with pytest.raises((AssertionError, KeyError, StateError)):
        cut_everywhere(lane, monkeypatch, SOME, source)


@pytest.mark.soak
@MICROBIT
@pytest.mark.timeout(1800)
def test_epochs_of_16384_steps(lane: Lane) -> None:
    """Sums up to 2^24; what is said is true but for one time in 2^24."""
    task = thresh(rounds=1 << 14, symbols=1025, tick=10, beacon=400)
    sample = (
        b"seen = [0]\ndef sample():\n    seen[0] += 1\n    return seen[0] > 16384 and 9999 or 0\n"
    )
    with flash_microbit(task, lane, sample, PSEUDONYM)[2] as board:
        host = Host(board)
        said = []
        for t in (1, 2):
            for phase in (0, 1):
                deadline = time.monotonic() + 600
                while True:
                    found = host.asks(query(task, t, phase, phase), early=True)
                    if found[2:] != (EARLY,):
                        break
                    assert time.monotonic() < deadline
                    time.sleep(1)
                said.append(found[3])
    # The first epoch is 0, the second as much as can be.
    assert said == [b"\0", b"\0", b"\1", b"\1"]
