"""A reset inside the emulator at every write of stored state on the micro:bit."""

from __future__ import annotations

import re

import pytest

from firmware_tests.microbit import STA, program, start, state_files
from tinyldp.lanes import Lane, Process

pytestmark = pytest.mark.waits
PSEUDONYM = b"somebody"
SIZE = 4 + 12 + 4
POINTS = {
    (kind, slot, step)
    for kind in (b"repair", b"save")
    for slot in (b"state0", b"state1")
    for step in range(SIZE + 3)
}
ANNOUNCED = re.compile(rb"(repair|save) (state\d) (\d+) (\d+)\r\n|up somebody (\d+)\r\n|Traceback")


def announcement(board: Process, heard: bytearray) -> re.Match[bytes]:
    heard.clear()
    while (found := ANNOUNCED.search(heard)) is None:
        data = board.read(1, 20)
        assert data, bytes(heard)
        heard += data
    if found[0] == b"Traceback":
        raise AssertionError(bytes(heard) + board.read(400, 2))
    return found


def cut_everywhere(lane: Lane, source: str) -> tuple[int, int, set]:
    """Cut every boot at the first point where none was; each shows what the cut before it left.

    Gives how often that was the old state, and how often the new, and the points of
    POINTS that never came. Fails when it is neither, or no state at all.
    """
    left = set(POINTS)
    # Boots that the state may count now.
    possible = {7}
    old = new = 0
    after_cut = False
    heard = bytearray()
    with start(lane, STA, state_files(PSEUDONYM, 7), source) as board:
        while (found := announcement(board, heard))[5] is None:
            count = int(found[4])
            before = count - (found[1] == b"save")
            assert before in possible
            if after_cut and len(possible) == 2:
                old += before == min(possible)
                new += before == max(possible)
            possible = {before, count}
            point = (found[1], found[2], int(found[3]))
            after_cut = point in left
            if after_cut:
                left.remove(point)
                board.reset()
            else:
                board.write(b".")
    assert possible == {int(found[5]) - 1, int(found[5])}
    return old, new, left


@pytest.mark.parametrize("lane", ["microbit"], indirect=True)
def test_a_reset_at_every_write_leaves_the_old_state_or_the_new(lane: Lane) -> None:
    old, new, left = cut_everywhere(lane, program("microbit_state.py"))
    assert not left
    assert old >= SIZE
    assert new >= SIZE


@pytest.mark.parametrize("lane", ["microbit"], indirect=True)
def test_a_state_in_one_file_only_is_found_out(lane: Lane) -> None:
    source = program("microbit_state.py").replace('"state1"', '"state0"')
    with pytest.raises(AssertionError, match=r"missing|damaged"):
        cut_everywhere(lane, source)
