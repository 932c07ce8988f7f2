"""Stored state under power cuts: every block write on littlefs, every step on the micro:bit."""

from __future__ import annotations

import pytest

from firmware_tests.microbit import PROGRAMS, STA, program, start, state_files
from tinyldp.lanes import Lane

PSEUDONYM = b"somebody"


@pytest.mark.parametrize("lane", ["unix"], indirect=True)
@pytest.mark.parametrize("arrives", [0, 7, 1 << 20], ids=["none", "torn", "all"])
@pytest.mark.parametrize("size", [12, 300, 1500], ids=["inline", "file", "blocks"])
def test_littlefs_comes_up_with_the_old_state_or_the_new(
    lane: Lane, size: int, arrives: int
) -> None:
    lane.install()
    name = "littlefs_state.py"
    lane.put({name: (PROGRAMS / name).read_bytes()})
    result = lane.run(name, str(size), str(arrives), timeout=120)
    assert result.exit_code == 0, (result.stdout + result.stderr).decode()
    *complaints, last = result.stdout.decode().splitlines()
    cuts, old, new, neither = map(int, last.split())
    assert neither == 0, complaints
    assert cuts >= 2
    # A block that arrives whole may have been all that was needed.
    assert old >= 1 or arrives > 512
    assert new >= 1
    assert old + new == 4 * (cuts + 1)


# Where a write of a slot can be interrupted: before the file is opened, when it is
# open (and empty), when it is written, and when it is closed; for both slots.
POINTS = 8


@pytest.mark.parametrize("lane", ["microbit"], indirect=True)
def test_a_reset_at_every_write_leaves_the_old_state_or_the_new(lane: Lane) -> None:
    source = program("microbit_state.py")
    seen = set()
    for point in range(POINTS):
        files = {**state_files(PSEUDONYM, 41), "point": b"%d" % point}
        with start(lane, STA, files, source) as board:
            assert board.read(6, 15)[-5:] == b"ready", point
            board.reset()
            text = board.wait(20).stdout.decode(errors="replace")
        assert "state somebody " in text, (point, text)
        # This boot counts, too.
        boots = int(text.split("state somebody ")[1].split()[0]) - 1
        assert boots in (41, 42), (point, text)
        seen.add(boots)
    assert seen == {41, 42}
