"""tinyldp flash with counters for life: made once, kept under every identity, never refilled."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from firmware_tests.test_flash_rounds import STREAM, asked
from firmware_tests.test_flash_rounds import TASK as ROUNDS
from tinyldp.errors import UserError
from tinyldp.flash.identities import Identities
from tinyldp.flash.provision import LEDGER_SLOTS, LIFETIME_SLOTS, ROOT, SLOTS, flash
from tinyldp.flash.stored import stored_state
from tinyldp.lanes.relay import RelayedBoard
from tinyldp.lanes.serial import Serial
from tinyldp_device.identity import LifeIdentity, RoundIdentity
from tinyldp_device.ledger import word_at
from tinyldp_device.lifetime import Lifetime
from tinyldp_device.state import State
from tinyldp_protocol.messages import ANSWER, BUDGET, REASON_AT
from tinyldp_protocol.task import SCALE, THRESH, Task, write_file

UNIT = 1 << 16


def make(epsilon: int = UNIT, votes: int = 2) -> Task:
    task = Task(
        {
            "mechanism": THRESH,
            "epsilon": epsilon,
            "symbols": 4,
            "thresholds": [SCALE // 3, SCALE // 3],
            "epochs": 16,
            "rounds": 2,
            "votes": votes,
            "estimates": 1,
            "levels": [0, 1, 2, 3, 4],
            "failure": 1 << 20,
            "tick": 20,
            "beacon": 4,
        }
    )
    write_file(task)
    return task


TASK = make()


class Cut(Exception):
    """The cable was pulled."""


class Files:
    """A board's files, in memory; power: writes until it is cut, or -1."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.used = False
        self.power = -1

    def read(self, path: str, /) -> bytes | None:
        return self.content.get(path)

    def put(self, path: str, content: bytes, /) -> None:
        if not self.power:
            raise Cut
        self.power -= 1
        self.content[path] = content

    def flash(self, task: Task, lifetime: int | None = None, new: bool = False) -> int | None:
        """The allowance that the device has afterwards."""
        made = Identities(
            self,
            SLOTS,
            LEDGER_SLOTS,
            LIFETIME_SLOTS,
            task,
            used=self.used,
            new=new,
            lifetime=lifetime,
        )
        made.write()
        self.used = True
        assert self.state(SLOTS).load()[:8] != bytes(8)
        assert LifeIdentity(self.state(SLOTS)).allowance == made.lifetime
        return made.lifetime

    def state(self, slots: tuple[str, str]) -> State:
        return stored_state(self, slots)

    def boot(self, task: Task) -> Lifetime:
        allowance = LifeIdentity(self.state(SLOTS)).allowance
        return Lifetime(self.state(LIFETIME_SLOTS), task, allowance)

    def left(self) -> int:
        return word_at(self.state(LIFETIME_SLOTS).load(), 0)


def test_a_record_is_made_once_and_never_refilled() -> None:
    files = Files()
    assert files.flash(TASK) == UNIT
    files.boot(TASK)
    assert files.left() == 0
    for _ in range(2):
        assert files.flash(TASK) == UNIT
        assert files.left() == 0
    with pytest.raises(
        UserError,
        match=r"The Task costs 1 for life, but 0 is left to the board for ever: another board",
    ):
        files.flash(make(votes=3))
    with pytest.raises(UserError, match=r"fixed when it was provisioned \(1\)"):
        files.flash(TASK, 2 * UNIT)


def test_an_allowance_pays_for_more_than_one_task() -> None:
    files = Files()
    with pytest.raises(UserError, match=r"must lie between what the Task costs .* \(1\) and 16383"):
        files.flash(TASK, UNIT - 1)
    assert not files.content
    with pytest.raises(UserError, match="and 16383"):
        files.flash(TASK, 1 << 30)
    assert files.flash(TASK, 5 * UNIT) == 5 * UNIT
    for task in (TASK, make(votes=3), TASK, TASK):
        files.flash(task)
        assert not files.boot(task).closed
    assert files.left() == 2 * UNIT


def test_another_identity_has_the_same_record() -> None:
    for between in (TASK, STREAM, ROUNDS):
        files = Files()
        files.flash(TASK, 3 * UNIT)
        lifetime = files.boot(TASK)
        lifetime.bind(1)
        lifetime.count(0, 0, True)
        record = files.state(LIFETIME_SLOTS).load()
        pseudonym = files.state(SLOTS).load()[:8]
        assert files.flash(between, new=True) == 3 * UNIT
        assert files.state(SLOTS).load()[:8] != pseudonym
        assert files.flash(TASK) == 3 * UNIT
        assert files.state(LIFETIME_SLOTS).load() == record
        assert files.boot(TASK).t == 1


def test_an_identity_that_is_damaged_leaves_the_record() -> None:
    files = Files()
    files.flash(TASK, 3 * UNIT)
    files.boot(TASK)
    for path in SLOTS:
        files.content[path] = b"damaged"
    with pytest.raises(UserError, match="--new-identity"):
        files.flash(TASK)
    # What is left is all that there is from now on.
    assert files.flash(TASK, new=True) == 2 * UNIT
    assert files.boot(TASK).t == 0
    assert files.left() == 2 * UNIT


@pytest.mark.parametrize("damage", [b"", b"damaged"])
@pytest.mark.parametrize("new", [False, True])
def test_a_record_that_is_lost_is_not_made_anew(damage: bytes, new: bool) -> None:
    files = Files()
    files.flash(TASK, 3 * UNIT)
    for path in LIFETIME_SLOTS:
        files.content[path] = damage
    with pytest.raises(UserError, match=r"can say nothing any more: .* erase its file system"):
        files.flash(TASK, new=new)
    assert files.boot(TASK).closed
    # The device has closed it by now.
    with pytest.raises(UserError, match="is damaged"):
        files.flash(TASK, new=new)
    # Other Tasks do not need it.
    assert files.flash(STREAM, new=new) == 3 * UNIT


def test_both_lost_is_not_a_new_board() -> None:
    files = Files()
    files.flash(TASK)
    files.content.clear()
    with pytest.raises(UserError, match="is missing, so it can say nothing any more"):
        files.flash(TASK, new=True)


@pytest.mark.parametrize("first", [STREAM, ROUNDS])
def test_a_device_gets_its_record_when_it_needs_one_and_keeps_what_it_had(first: Task) -> None:
    files = Files()
    assert files.flash(first) is None
    assert not set(LIFETIME_SLOTS) & set(files.content)
    before = files.state(SLOTS).load()
    assert files.flash(TASK) == UNIT
    assert files.boot(TASK).t == 0
    after = files.state(SLOTS).load()
    assert after[:8] == before[:8]
    files.flash(ROUNDS)
    identity = RoundIdentity(files.state(SLOTS))
    assert (identity.cap, identity.horizon) == (UNIT, 50)
    assert LifeIdentity(files.state(SLOTS)).allowance == UNIT
    assert files.state(LEDGER_SLOTS).load()


def test_only_epochs_have_an_allowance() -> None:
    for task in (STREAM, ROUNDS):
        with pytest.raises(UserError, match="Only a device with epochs"):
            Files().flash(task, UNIT)


def test_interrupted_anywhere_the_next_flashing_goes_on() -> None:
    whole = Files()
    whole.flash(STREAM)
    for writes in range(8):
        files = Files()
        files.used = True
        files.content = dict(whole.content)
        files.power = writes
        try:
            files.flash(TASK, 2 * UNIT)
        except Cut:
            assert writes < 6
        else:
            assert writes >= 6
        files.power = -1
        assert files.flash(TASK, 2 * UNIT) == 2 * UNIT
        assert files.left() == 2 * UNIT
        files.boot(TASK)
        assert files.left() == UNIT


@pytest.fixture
def board(need: Callable[[str, str | None], None]) -> Iterator[RelayedBoard]:
    need("serial", Serial.missing() or RelayedBoard.missing())
    with RelayedBoard() as relayed:
        (relayed.folder / "sample.py").write_text("def sample():\n    return 2\n")
        yield relayed


def test_a_board_answers_within_its_allowance(board: RelayedBoard) -> None:
    done = flash(board.port, TASK, allowance=UNIT)
    assert (done.identity, done.allowance, done.cap) == ("new", UNIT, None)
    assert asked_when_there_is_an_epoch(board, TASK, 1)[1] == ANSWER
    again = flash(board.port, TASK)
    assert (again.identity, again.pseudonym) == ("kept", done.pseudonym)
    with pytest.raises(UserError, match="0 is left"):
        flash(board.port, make(votes=3))
    # A Task that came to the board in another way.
    (folder,) = (path.parent for path in board.folder.glob(f"{ROOT}/*/task"))
    task = (folder / "task").read_bytes()
    (folder / "task").write_bytes(write_file(make(votes=3)))
    board.power_cut()
    said = asked(board, TASK, 4, 0)
    assert b"tinyldp: not started: The Task costs 65536 for life, more than the 0" in said
    (folder / "task").write_bytes(task)
    for name in LIFETIME_SLOTS:
        (board.folder / name).write_bytes(b"")
    board.power_cut()
    assert asked(board, TASK, 4, 0)[REASON_AT] == BUDGET


def asked_when_there_is_an_epoch(board: RelayedBoard, task: Task, t: int) -> bytes:
    """The answer, however often it is too early."""
    for _ in range(20):
        said = asked(board, task, t, 0)
        if said[1] == ANSWER:
            return said
    raise AssertionError("there never was an epoch")
