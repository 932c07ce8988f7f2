"""No server, reset or power cut makes a device spend more in a window than its Task allows.

The real ledger is searched through (see ledger_model): every behaviour, for as long as one
likes, of small Tasks with windows of up to four steps. Mutants of its source are found.
"""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest

from tests.ledger_model import FastCrc, Setting, Violated, Window, World, search, successors
from tinyldp_device import ledger as real

OTHER = b"another!"
SETTINGS = {
    "w=1": Setting(Window(1, 2, (1, 2))),
    "w=2": Setting(Window(2, 4, (1, 2, 3, 4))),
    "w=2, ahead": Setting(Window(2, 4, (1, 2)), block=2),
    "w=2, Task changes": Setting(Window(2, 3, (1, 3)), Window(1, 2, (1, 2), 2, OTHER)),
    "w=2, longer horizon": Setting(Window(2, 3, (1, 3)), cap=4, horizon=3),
    "w=3": Setting(Window(3, 6, (2, 3))),
    "w=3, ahead": Setting(Window(3, 3, (1, 3)), block=3),
    "w=3, Task changes": Setting(Window(3, 3, (1, 2)), Window(2, 2, (1, 2), 2, OTHER)),
    "w=4": Setting(Window(4, 4, (1, 2))),
    "w=4, all": Setting(Window(4, 4, (1, 4))),
    "w=4, ahead": Setting(Window(4, 4, (1,)), block=2),
    "w=4, 2w units": Setting(Window(4, 8, (1, 2, 4, 8)), resets=False),
    "w=4, 2w units ahead": Setting(Window(4, 8, (2, 8)), block=3, resets=False),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_no_window_ever_exceeds_and_some_are_full(name: str) -> None:
    setting = SETTINGS[name]
    found = search(setting)
    assert found.most == setting.allowance[0]
    # Nothing new came up any more: more steps would find nothing either.
    assert found.steps > setting.task.w
    assert len(found.worlds) > 100


@pytest.mark.parametrize("name", ["w=2, Task changes", "w=2, ahead", "w=3"])
def test_worlds_that_count_as_one_behave_as_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random walks, which merge nothing: from the same world the same actions lead to the same."""
    monkeypatch.setattr("tinyldp_device.state.Crc32", FastCrc)
    futures: dict[Any, Any] = {}
    met = 0
    for seed in range(30):
        choose = random.Random(seed)
        world = World(SETTINGS[name], real)
        for _ in range(30):
            found = list(successors(world))
            future = {action: after.key() for action, after in found}
            met += world.key() in futures
            assert futures.setdefault(world.key(), future) == future
            _, world = choose.choice(found)
    assert met > 100


ROOM = "for back in range(self._horizon):"
WINDOW = "if back == task.w - 1:"
# A fault's name, the setting that finds it, and what the source says before and after.
MUTANTS = [
    (
        "recycle one step early",
        "w=3",
        ((ROOM, "for back in range(self._horizon - 1):"), (WINDOW, "if back == task.w - 2:")),
    ),
    (
        "charge to now instead of the bound step",
        "w=3",
        (
            ("self._place(self.bound + i)", "self._place(self.now + i)"),
            ("if spend > self._left:", "if spend > self._room(1):"),
        ),
    ),
    (
        "not stored before the draw",
        "w=2",
        (("        if size:\n            self._save()\n", ""),),
    ),
    ("a reset makes a step pass", "w=2", (("        if self._begun:", "        if True:"),)),
    (
        "the step of a reset is free",
        "w=2",
        (("self._free = self.bound != self.now", "self._free = True"),),
    ),
    ("the other phase is free", "w=2", (("if spend > self._left:", "if False:"),)),
    (
        "a phase after a reset",
        "w=2",
        (
            ("if self._left < 0 or self.now", "if self.now"),
            ("if spend > self._left:", "if spend > self._room(1):"),
        ),
    ),
    (
        "what was lost is drawn again",
        "w=2",
        (
            (
                "            if status:\n"
                "                return STORED if status == _ANSWERED else LOST\n",
                "            if status == _ANSWERED:\n                return STORED\n",
            ),
        ),
    ),
    ("two t for one step", "w=2", (("if not self._free:", "if False:"),)),
    ("lost state waits a step less", "w=2", (("1, horizon)\n", "1, horizon - 1)\n"),)),
    ("lost state does not wait", "w=2", (("word_at(data, WAIT_AT):", "0:"),)),
    (
        "the cap is not looked at",
        "w=2, longer horizon",
        (("room = min(room, left // min(ahead + 1, size))", "pass"),),
    ),
    (
        "the window is not looked at",
        "w=2, Task changes",
        (("room = min(room, part)", "pass"),),
    ),
    (
        "a changed Task starts anew",
        "w=2, Task changes",
        (
            (
                "        if _horizon(old) != horizon or (",
                "        if old[TASK_AT : TASK_AT + 8] not in (bytes(8), task.id):\n"
                "            old = _empty(horizon, 1, 0)\n"
                "            state.create(old)\n"
                "        if _horizon(old) != horizon or (",
            ),
        ),
    ),
    (
        "a block is charged if its first step is free",
        "w=2, ahead",
        (("self._room(self._block) >= spend", "self._room(1) >= spend"),),
    ),
    (
        "more than what was charged ahead",
        "w=2, ahead",
        ((" and spend <= self._prepaid", ""),),
    ),
    (
        "what is charged ahead is cleared",
        "w=2, ahead",
        (("self._place(self.now + self._block - 1), 0)", "self._place(self.now), 0)"),),
    ),
    (
        "ahead beyond the block",
        "w=2, ahead",
        (("self._until = self.now + size - 1", "self._until = self.now + size"),),
    ),
]


def mutant(edits: tuple[tuple[str, str], ...]) -> ModuleType:
    assert real.__file__ is not None
    with open(real.__file__) as file:
        source = file.read()
    for before, after in edits:
        assert source.count(before) == 1, before
        source = source.replace(before, after)
    module = ModuleType("mutant")
    exec(compile(source, "mutant", "exec"), module.__dict__)
    return module


@pytest.mark.parametrize(("fault", "name", "edits"), MUTANTS, ids=[one[0] for one in MUTANTS])
def test_a_mutant_is_found(fault: str, name: str, edits: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(Violated):
        search(SETTINGS[name], mutant(edits))
