"""Counters for life under power cuts, at every block write on littlefs."""

from __future__ import annotations

import pytest

from firmware_tests.microbit import PROGRAMS
from tinyldp.lanes import Lane
from tinyldp.lanes.packages import sources

ALL = 1 << 20
FAULTS = {
    "not stored before the draw": (
        "lifetime",
        "        data[ENTRY_AT + phase] = entry\n        self._save()\n",
        "        data[ENTRY_AT + phase] = entry\n",
    ),
    "counters in memory only": (
        "lifetime",
        "            self.t = word_at(old, T_AT)\n",
        "            self.t = word_at(old, T_AT)\n"
        "            set_word(self.data, COUNTS_AT, 0)\n"
        "            set_word(self.data, COUNTS_AT + 4, 0)\n",
    ),
    "drawn again after a reset": ("lifetime", "_ANSWERED else LOST", "_ANSWERED else FRESH"),
    "counted after the draw": (
        "epochs",
        "            lifetime.count(phase, entry, said)\n            self._entropy.refill(2)\n",
        "            self._thresh.vote(self._report, said, None)\n"
        "            lifetime.count(phase, entry, said)\n",
    ),
}


def on_littlefs(lane: Lane, mechanism: str, arrives: int, fault: str | None) -> list[str]:
    """Complaints; that so much was tried is asserted here."""
    lane.install()
    for path in (*PROGRAMS.glob("*.py"), PROGRAMS.parent / "portable" / "helpers.py"):
        lane.put({path.name: path.read_bytes()})
    if fault is not None:
        module, before, after = FAULTS[fault]
        source = sources()[f"tinyldp_device/{module}.py"].decode()
        assert source.count(before) == 1
        lane.put({f"tinyldp_device/{module}.py": source.replace(before, after).encode()})
    result = lane.run("littlefs_lifetime.py", mechanism, str(arrives), timeout=300)
    assert result.exit_code == 0, (result.stdout + result.stderr).decode()
    lines = result.stdout.decode().splitlines()
    cuts, stored, lost = map(int, lines[-1].split())
    if fault is None:
        assert cuts >= 30
        assert stored >= 20
        # Where all arrives that is being written, so does a small answer.
        assert lost >= 20 or (mechanism, arrives) == ("thresh", ALL)
    return [line for line in lines if line.startswith("cut ")]


@pytest.mark.parametrize("lane", ["unix"], indirect=True)
@pytest.mark.parametrize("arrives", [0, 7, ALL], ids=["none", "torn", "all"])
def test_counters_never_fall(lane: Lane, arrives: int) -> None:
    assert on_littlefs(lane, "thresh", arrives, None) == []


@pytest.mark.soak
@pytest.mark.parametrize("lane", ["unix"], indirect=True)
@pytest.mark.parametrize("arrives", [0, 7, ALL], ids=["none", "torn", "all"])
def test_counters_in_a_larger_file_never_fall(lane: Lane, arrives: int) -> None:
    assert on_littlefs(lane, "heavythresh", arrives, None) == []


@pytest.mark.parametrize("lane", ["unix"], indirect=True)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(lane: Lane, fault: str) -> None:
    assert on_littlefs(lane, "thresh", 7, fault) != []
