"""Who a board is, as flashing finds it, without a board."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.collecting import rounds_task
from tests.epochs_tasks import epoch_task
from tinyldp.errors import UserError
from tinyldp.flash.flat import LEDGER_SLOTS, LIFETIME_SLOTS, SLOTS
from tinyldp.flash.identities import Allowance, Identities
from tinyldp.flash.microbit import flash_microbit, new_state
from tinyldp.flash.provision import flash
from tinyldp.flash.stored import Progress, stored_state
from tinyldp_device.lifetime import Lifetime
from tinyldp_protocol.task import LBA

TASK = rounds_task(LBA)


class Files(dict[str, bytes]):
    """A board's files, in memory."""

    def read(self, path: str, /) -> bytes | None:
        return self.get(path)

    def put(self, path: str, content: bytes, /) -> None:
        self[path] = content


def identities(files: Files, new: bool = False) -> Identities:
    return Identities(files, SLOTS, LEDGER_SLOTS, LIFETIME_SLOTS, TASK, used=True, new=new)


def test_a_provisioned_board_is_kept() -> None:
    assert identities(Files(new_state(b"somebody", TASK))).identity == "kept"


@pytest.mark.parametrize("at", [8, 12, 16])
def test_a_stored_word_that_is_too_large_is_refused(at: int) -> None:
    """Boots, cap and horizon."""
    files = Files(new_state(b"somebody", TASK))
    state = stored_state(files, SLOTS)
    payload = bytearray(state.load())
    payload[at + 3] = 64
    state.create(bytes(payload))
    with pytest.raises(UserError, match=r"of another kind; see --new-identity"):
        identities(files)


@pytest.mark.parametrize("content", [None, b"", b"torn"])
@pytest.mark.parametrize("capped", [True, False])
def test_a_new_identity_gets_no_ledger_in_place_of_one_that_is_gone(
    content: bytes | None, capped: bool
) -> None:
    """Nor does a later flashing make one: the device waits for a whole horizon."""
    files = Files(new_state(b"somebody", TASK if capped else None))
    for path in LEDGER_SLOTS:
        files.pop(path, None)
        if content is not None:
            files[path] = content
    identities(files, new=True).write()
    gone = capped or content is not None
    for _ in range(2):
        assert [files.get(path) == b"void" for path in LEDGER_SLOTS] == [gone] * 2
        identities(files).write()


@pytest.mark.parametrize("name", ["source", "slots", "open_line", "ledger_slots"])
def test_a_board_file_that_lacks_something(name: str, tmp_path: Path) -> None:
    """Nothing is asked of the board; what is imported counts, too."""
    path = tmp_path / "mine.py"
    text = (
        "from tinyldp_device.boards.files import ledger_slots\n\n\ndef source(): ...\n"
        "def slots(): ...\ndef open_line(): ...\n"
    )
    path.write_text(text)
    with pytest.raises(UserError, match="There is no board at"):
        flash(str(tmp_path / "port"), TASK, board_file=path)
    path.write_text(text.replace(name, "another"))
    with pytest.raises(UserError, match=rf"defines no function {name}\(\)"):
        flash(str(tmp_path / "port"), TASK, board_file=path)


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir])
def test_a_port_that_is_none(make: Callable[[Path], None], tmp_path: Path) -> None:
    port = tmp_path / "port"
    make(port)
    with pytest.raises(UserError, match=r"There is no board at .*port: that is no serial port\.$"):
        flash(str(port), TASK)


class _Lane:
    """Keeps what is put on the emulated board."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.progress: Progress | None = None

    def put(self, files: dict[str, bytes]) -> None:
        self.files.update(files)

    def start(self, name: str) -> None:
        assert name in self.files
        assert self.progress is not None
        self.progress(len(self.files), len(self.files), "")


def test_an_emulated_board_has_the_cap_that_is_named() -> None:
    lane: Any = _Lane()
    told: list[tuple[int, int, str]] = []
    flash_microbit(TASK, lane, cap=3 << 16, progress=lambda *now: told.append(now))
    files = len(lane.files)
    assert told == [(0, 1, "is being built"), (files, files, "")]
    assert identities(Files(lane.files)).allowance == Allowance(3 << 16, TASK.w or 0)
    with pytest.raises(UserError, match="but the board may spend"):
        flash_microbit(TASK, lane, cap=1)


def life(lane: dict[str, bytes], task: Any, new: bool = True) -> Identities:
    return Identities(Files(lane), SLOTS, LEDGER_SLOTS, LIFETIME_SLOTS, task, used=True, new=new)


def test_a_new_identity_says_that_counters_for_life_stay() -> None:
    first, second = epoch_task(), epoch_task(epsilon=1 << 15)
    files = Files(new_state(b"somebody", first, lifetime=4 << 16))
    state = stored_state(files, LIFETIME_SLOTS)
    assert life(files, first).notes == []
    Lifetime(state, first, 4 << 16)
    assert life(files, first, new=False).notes == []
    (said,) = life(files, first).notes
    assert "stay counted" in said
    assert "new identity gives none back" in said
    for new in (True, False):
        (said,) = life(files, second, new).notes
        assert "takes epsilon 0.5 of the 3 that are left" in said


def test_a_new_identity_says_that_it_waits() -> None:
    files = Files(new_state(b"somebody", TASK))
    assert identities(files).notes == []
    (said,) = identities(files, new=True).notes
    assert f"after {TASK.w} steps" in said
    assert identities(Files(new_state(b"somebody")), new=True).notes == []


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"cap": 0}, "The cap must be above 0 and at most 16383, but is 0."),
        ({"cap": 1 << 30}, "The cap must be above 0 and at most 16383, but is 16384."),
        ({"horizon": 1025}, "The horizon must lie in 1..1024 steps, but is 1025."),
    ],
)
def test_a_cap_is_told_in_epsilon(wanted: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as refused:
        Identities(Files(), SLOTS, LEDGER_SLOTS, LIFETIME_SLOTS, TASK, used=False, **wanted)
    assert str(refused.value) == words


def test_an_allowance_of_nothing_is_told_in_epsilon() -> None:
    task = epoch_task()
    with pytest.raises(UserError, match=r"for life \(1\) and 16383, but is 0\.$"):
        Identities(Files(), SLOTS, LEDGER_SLOTS, LIFETIME_SLOTS, task, used=False, lifetime=0)
