"""The ledger under power cuts: at every block write on littlefs, killed at every file write."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from firmware_tests.microbit import PROGRAMS
from tinyldp.flash.stored import stored_state
from tinyldp.lanes import LANES, Lane, open_lane
from tinyldp.lanes.interpreter import Interpreter
from tinyldp.lanes.packages import sources
from tinyldp_device import ledger
from tinyldp_protocol.messages import BUDGET, EARLY, LATE, LOST

LEDGER = "tinyldp_device/ledger.py"
EPSILON, WINDOW = 8, 4
SPENDS = (2, 4, 8)
FAULTS = {
    "not stored before the draw": ("        if size:\n            self._save()\n", ""),
    "a reset makes a step pass": ("        if self._begun:", "        if True:"),
    "drawn again after a reset": (
        "                return STORED if status == _ANSWERED else LOST",
        "                return STORED if status == _ANSWERED else FRESH",
    ),
    "what was stored is forgotten": (
        "self.now = word_at(data, STEP_AT)\n",
        "self.now = word_at(data, STEP_AT)\n        data[PHASE_AT] = 0\n",
    ),
}


def put(lane: Lane, fault: str | None) -> None:
    lane.install()
    portable = PROGRAMS.parent / "portable" / "helpers.py"
    for path in (*PROGRAMS.glob("*.py"), portable):
        lane.put({path.name: path.read_bytes()})
    if fault is not None:
        before, after = FAULTS[fault]
        source = sources()[LEDGER].decode()
        assert source.count(before) == 1
        lane.put({LEDGER: source.replace(before, after).encode()})


def on_littlefs(lane: Lane, horizon: int, arrives: int, fault: str | None) -> list[str]:
    """Complaints; that so much was tried is asserted here."""
    put(lane, fault)
    result = lane.run("littlefs_ledger.py", str(horizon), str(arrives), timeout=300)
    assert result.exit_code == 0, (result.stdout + result.stderr).decode()
    lines = result.stdout.decode().splitlines()
    cuts, stored, lost = map(int, lines[-1].split())
    if fault is None:
        assert cuts >= 30
        assert min(stored, lost) >= 20
    return [line for line in lines if line.startswith("cut ")]


@pytest.mark.parametrize("lane", ["unix"], indirect=True)
@pytest.mark.parametrize("arrives", [0, 7, 1 << 20], ids=["none", "torn", "all"])
@pytest.mark.parametrize("horizon", [4, 60], ids=["inline", "file"])
def test_littlefs_comes_up_with_no_less_spent(lane: Lane, horizon: int, arrives: int) -> None:
    assert on_littlefs(lane, horizon, arrives, None) == []


@pytest.mark.parametrize("lane", ["unix"], indirect=True)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_on_littlefs(lane: Lane, fault: str) -> None:
    assert on_littlefs(lane, 4, 7, fault) != []


# What the program is asked until it is killed: (step, t, phase, entry), 4 writes each.
ASKED = ((1, 10, 0, 0), (1, 10, 1, 0), (2, 11, 0, 1))
WRITES = 4 * len(ASKED)
ALL = 1 << 20


class Said:
    """A line of the program: what left in which step of its run; detail: entry or reason."""

    def __init__(self, line: str) -> None:
        words = line.split()
        self.answers = words[0] == "answer"
        self.step, self.t, self.phase, self.detail = map(int, words[1:5])
        self.report = words[5] if self.answers else ""

    @property
    def asked(self) -> tuple[int, int]:
        return self.t, self.phase


def lines(output: bytes) -> list[Said]:
    found = output.decode().splitlines()
    return [Said(line) for line in found if line.startswith(("answer", "refusal"))]


def killed(lane: Interpreter, write: int, arrives: int) -> tuple[bytes, bytes]:
    """What a device said until it was killed at one write, and what it said after that."""
    for i in range(2):
        (lane.folder / f"ledger{i}").write_bytes(b"")
    ledger.provision(stored_state(Folder(lane), ("ledger0", "ledger1")), WINDOW, word=5)
    process = lane.start("ledger_killed.py", str(write), str(arrives))
    output = b""
    while not output.endswith((b"cut\n", b"end\n")):
        byte = process.read(1, 60)
        assert byte, output
        output += byte
    # SIGKILL: nothing runs any more that could put anything right.
    process.stop()
    after = lane.run("ledger_killed.py", timeout=60)
    assert after.stdout.endswith(b"end\n"), after
    return output, after.stdout


def faults(write: int, arrives: int, before: list[Said], after: list[Said]) -> Iterator[str]:
    drawn: dict[int, int] = {}
    known = {one.asked: one.report for one in before if one.answers}
    now = 3
    for i, (step, t, phase, entry) in enumerate(ASKED):
        if write >= 4 * i + 2:
            drawn[step] = drawn.get(step, 0) + SPENDS[entry]
        if 4 * i <= write < 4 * i + 4:
            now = step
        if 4 * i + 2 <= write < 4 * i + 4:
            # Drawn, and not sent. It may be sent only if it was stored.
            known[t, phase] = "stored" if (write, arrives) >= (4 * i + 2, ALL) else "lost"
    bound = 11 if (write, arrives) >= (8, ALL) else 10
    for one in after:
        report = known.get(one.asked)
        if one.answers and report is None:
            known[one.asked] = one.report
            # The first step of this run may be the one in which the device was killed.
            step = now + one.step - 1
            drawn[step] = drawn.get(step, 0) + SPENDS[one.detail]
        elif one.answers and report == "stored":
            known[one.asked] = one.report
        elif one.answers and report != one.report:
            yield f"{one.asked}: {report} became {one.report}"
        elif not one.answers and report not in (None, "lost") and (one.step, one.t) == (0, bound):
            yield f"{one.asked}: {report} is gone"
        if not one.answers and one.detail not in (LATE, EARLY, BUDGET, LOST):
            yield f"refused for {one.detail}"
    for start in range(20):
        spent = sum(drawn.get(step, 0) for step in range(start, start + WINDOW))
        if spent > EPSILON:
            yield f"{spent} in a window: {drawn}"
    if not any(one.answers and one.t >= 20 for one in after):
        yield "it stopped answering"


class Folder:
    """A lane's files, for stored_state."""

    def __init__(self, lane: Interpreter) -> None:
        self._lane = lane

    def read(self, path: str, /) -> bytes | None:
        return (self._lane.folder / path).read_bytes()

    def put(self, path: str, content: bytes, /) -> None:
        self._lane.put({path: content})


def at_every_write(fault: str | None) -> list[str]:
    found = []
    with open_lane("unix") as lane:
        assert isinstance(lane, Interpreter)
        put(lane, fault)
        for write in range(WRITES + 1):
            for arrives in (0, 30, ALL):
                before, after = killed(lane, write, arrives)
                if fault is None:
                    assert before.count(b"write") == write
                    assert before.endswith(b"end\n") == (write == WRITES)
                told = faults(write, arrives, lines(before), lines(after))
                found += [f"at {write}, {arrives}: {one}" for one in told]
    return found


def test_a_device_that_is_killed_at_any_write(need: Callable[[str, str | None], None]) -> None:
    need("unix", LANES["unix"].missing())
    assert at_every_write(None) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_by_killing(
    need: Callable[[str, str | None], None], fault: str
) -> None:
    need("unix", LANES["unix"].missing())
    assert at_every_write(fault) != []
