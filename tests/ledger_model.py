"""Everything that a server, resets and power cuts can do to the real ledger, searched through.

A world is a Ledger on its two slots, and beside them the truth: what was drawn about
each real step. Worlds that differ only by what no later behaviour depends on (the names
of steps and t, the generation) are one; from each one every action is tried:

    a step of time, stored or not; time that passes while the device is off
    a query for the t before the bound one, for it or for the next, each phase and entry,
      and then a cut at each write of the spend or of the answer, or between them
    a reset; storage emptied; another Task flashed

Time does not go back to the start, so the search ends with every behaviour of `steps`
real steps, and without a limit, when nothing new is found, with every behaviour at all.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast
from unittest.mock import patch

from tinyldp_device import ledger as real
from tinyldp_device.state import State
from tinyldp_protocol.messages import LOST, get_word
from tinyldp_protocol.task import Task


@dataclass(frozen=True)
class Window:
    """A Task, as far as the ledger knows it: w steps, epsilon, the entries' spends."""

    w: int
    epsilon: int
    spends: tuple[int, ...]
    payload: int = 1
    id: bytes = b"task-id!"


@dataclass(frozen=True)
class Setting:
    """A Task, or one that it may be changed for; the ledger's cap, horizon and block.

    cap, horizon: 0 for the Task's epsilon and w. resets: with power cuts, resets and
    storage that is lost.
    """

    task: Window
    other: Window | None = None
    cap: int = 0
    horizon: int = 0
    block: int = 1
    resets: bool = True

    @property
    def allowance(self) -> tuple[int, int]:
        return self.cap or self.task.epsilon, self.horizon or self.task.w


class FastCrc:
    """As framing.Crc32, which is tested elsewhere, but for its speed."""

    def feed(self, buf: bytes, start: int, end: int) -> None:
        self.crc = zlib.crc32(buf[start:end]).to_bytes(4, "little")

    def put(self, buf: bytearray, pos: int) -> None:
        buf[pos : pos + 4] = self.crc

    def matches(self, buf: bytes, pos: int) -> bool:
        return buf[pos : pos + 4] == self.crc


class Violated(Exception):
    """Why, and the actions that led there."""


class Cut(Exception):
    pass


class Slot:
    def __init__(self, data: bytes = b"") -> None:
        self.data = bytes(data)
        self.power: list[int] = [-1]

    def read(self) -> bytes:
        return self.data

    def write(self, data: bytes | bytearray) -> None:
        if self.power[0] == 0:
            self.data = bytes(data[:5])
            raise Cut
        self.power[0] -= 1
        self.data = bytes(data)


class World:
    """drawn: by real step, the last one first; since: real steps since t was bound.

    phases: those that were drawn for the t that is bound. taken: the ledger's step that
    was bound last.
    """

    def __init__(self, setting: Setting, module: ModuleType) -> None:
        self.setting = setting
        self.module = module
        self.task = setting.task
        self.slots = (Slot(), Slot())
        self.power = [-1]
        for slot in self.slots:
            slot.power = self.power
        horizon = setting.allowance[1]
        module.provision(State(*self.slots), horizon, setting.block)
        self.drawn = [0] * (2 * horizon)
        self.since = 0
        self.phases: frozenset[int] = frozenset()
        self.taken = -1
        self.ledger: Any = None
        self.boot()

    def clone(self) -> World:
        other = _copied(self)
        other.power = [-1]
        other.slots = (Slot(self.slots[0].data), Slot(self.slots[1].data))
        for slot in other.slots:
            slot.power = other.power
        other.drawn = list(self.drawn)
        other.ledger = _copied(self.ledger)
        other.ledger._data = bytearray(self.ledger._data)
        other.ledger._state = _copied(self.ledger._state)
        other.ledger._state._slots = other.slots
        return other

    def boot(self) -> None:
        self.power[0] = -1
        if self.setting.block > 1:
            # Charged ahead, and not stored before there was an answer: the number comes again.
            self.taken = -1
        self.ledger = self.module.Ledger(
            State(*self.slots), cast(Task, self.task), *self.setting.allowance
        )

    def pass_time(self) -> None:
        self.drawn = [0, *self.drawn[:-1]]
        self.since += 1

    def query(self, ahead: int, phase: int, entry: int, writes: int | None) -> bool:
        """Whether something was drawn, or could have been but for a cut.

        writes: of the spend and the answer, how many succeed before the power is cut;
        None: all do, and it is not.
        """
        ledger = self.ledger
        t = ledger.t + ahead
        if t < 0:
            return False
        before = ledger.t
        drew = False
        self.power[0] = -1 if writes is None else writes
        try:
            result = ledger.ask(t, phase, entry)
            self._rebound(before)
            if result != self.module.FRESH:
                return False
            if phase in self.phases:
                raise Violated("drawn twice")
            drew = True
            self.phases |= {phase}
            self.drawn[self.since] += self.task.spends[entry]
            self.check()
            ledger.keep(phase, b"xyz")
        except Cut:
            pass
        if writes is not None:
            before = before if not drew else t
            self.boot()
            self._rebound(before)
            # A step that was charged ahead is not stored before its answer is.
            if drew and (self.setting.block == 1 or self.ledger.t == t):
                status = self.ledger.ask(t, phase, entry)
                if status not in (LOST, self.module.STORED):
                    raise Violated(f"neither lost nor stored: {status}")
        return True

    def _rebound(self, before: int) -> None:
        """What follows when another t is bound than before."""
        if self.ledger.t == before:
            return
        if self.ledger.bound == self.taken:
            raise Violated("two t for one step")
        self.taken = self.ledger.bound
        self.since = 0
        self.phases = frozenset()

    def check(self) -> None:
        """No window that the last draw is in may exceed."""
        cap, horizon = self.setting.allowance
        for length, limit in ((self.task.w, self.task.epsilon), (horizon, cap)):
            for start in range(max(0, self.since - length + 1), self.since + 1):
                if sum(self.drawn[start : start + length]) > limit:
                    raise Violated(f"{self.drawn} over {length} is above {limit}")

    def key(self) -> tuple[Any, ...]:
        """All that any later behaviour depends on."""
        ledger = self.ledger
        w = self.task.w
        horizon = self.setting.allowance[1]
        stored = self.slots[0].data[4:-4]
        saved = get_word(stored, real.STEP_AT)
        open_ = ledger._left >= 0 and ledger.now - ledger.bound < w
        history = horizon + (self.since if open_ else 0)
        return (
            self.task,
            _normal(ledger._data, ledger.now, ledger.bound, ledger.t, ledger._steps, w),
            _normal(
                stored,
                saved,
                get_word(stored, real.BOUND_AT) if stored[real.BINDING_AT] else -1,
                0 if stored[real.BINDING_AT] > 1 else -1,
                ledger._steps,
                w,
            ),
            stored[real.TASK_AT : real.TASK_AT + 8],
            min(ledger.now - saved, horizon),
            ledger.now == self.taken,
            ledger._begun,
            ledger._free,
            open_,
            ledger._left if open_ else 0,
            ledger._prepaid if ledger._until >= ledger.now else 0,
            max(ledger._until - ledger.now, -1),
            tuple(self.drawn[:history]),
            self.since if open_ else 0,
            self.phases,
        )


def _copied(thing: Any) -> Any:
    """As copy.copy, which takes three times as long."""
    other = object.__new__(type(thing))
    other.__dict__.update(thing.__dict__)
    return other


def _normal(data: Any, now: int, bound: int, t: int, steps: int, w: int) -> tuple[Any, ...]:
    """A ledger's contents by their distance from its present step."""
    block = get_word(data, real.BLOCK_AT)
    ring = struct.unpack_from(f"<{steps}I", data, real.RING_AT)
    first = (now + block) % steps
    phases = tuple(data[real.PHASE_AT : real.PHASE_AT + 2]) if t >= 0 else ()
    return (
        ring[first:] + ring[:first],
        min(now - bound, w) if bound >= 0 else -1,
        phases,
        max(0, get_word(data, real.WAIT_AT) - now),
    )


def successors(world: World) -> Iterator[tuple[tuple[Any, ...], World]]:
    """Each action that does something, and the world after it; raises Violated."""
    resets = world.setting.resets
    present = world.key()
    names = ["step", "step, stored"]
    names += ["off", "reset", "lost"] if resets else []
    names += ["task"] if world.setting.other else []
    for action in ((name,) for name in names):
        after = world.clone()
        if action[0].startswith("step"):
            # The first step of a boot may be the one in which the device went down.
            if world.ledger._begun:
                after.pass_time()
            after.ledger.step()
            if action[0] != "step":
                after.ledger.checkpoint()
        else:
            if action[0] == "off":
                after.pass_time()
            elif action[0] == "lost":
                for slot in after.slots:
                    slot.data = b""
                after.taken = -1
            elif action[0] == "task" and world.setting.other:
                tasks = (world.setting.task, world.setting.other)
                after.task = tasks[world.task == tasks[0]]
            after.boot()
        yield action, after
    for ahead, phase, entry in itertools.product((-1, 0, 1), (0, 1), range(len(world.task.spends))):
        for writes in (None, 0, 1, 2, 3, 4) if resets else (None,):
            after = world.clone()
            action = ("query", ahead, phase, entry, writes)
            try:
                acted = after.query(ahead, phase, entry, writes)
            except Violated as violated:
                raise Violated(f"{violated.args[0]} after {action}") from None
            if not acted:
                # A refusal, which changes nothing; with a cut it is a reset.
                assert after.key() == present
                break
            yield action, after


@dataclass(frozen=True)
class Found:
    """The worlds, by what they depend on; the most ever drawn in a horizon; real steps gone."""

    worlds: set[Any]
    most: int
    steps: int


@patch("tinyldp_device.state.Crc32", FastCrc)
def search(setting: Setting, module: ModuleType = real, steps: int | None = None) -> Found:
    """Search for all worlds, or those of so many real steps; raises Violated."""
    first = World(setting, module)
    seen = {first.key()}
    paths: dict[Any, tuple[Any, ...]] = {first.key(): ()}
    present = [first]
    most = 0
    done = 0
    while present and (steps is None or done < steps):
        later: list[World] = []
        while present:
            world = present.pop()
            path = paths.pop(world.key(), ())
            try:
                found = list(successors(world))
            except Violated as violated:
                raise Violated(f"{violated.args[0]}, before: {path}") from None
            for action, after in found:
                key = after.key()
                if key in seen:
                    continue
                seen.add(key)
                paths[key] = (*path, action)
                most = max(most, sum(after.drawn[: setting.allowance[1]]))
                began = world.ledger._begun
                passed = action[0] == "off" or (action[0].startswith("step") and began)
                (later if passed else present).append(after)
        present = later
        done += 1
    return Found(seen, most, done)
