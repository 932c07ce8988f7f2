"""Who a board is, and what it may spend: made once, kept by every later flashing.

A board's ledger begins with nothing spent only where there never was one: where
nothing of ours ever ran, or streams alone. Those are certified alone, do not compose
with rounds and are charged to no ledger. A new identity for a used board has no ledger
that could vouch for the past: the device waits out a horizon before it answers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from tinyldp.errors import UserError
from tinyldp.figures import counted, stated
from tinyldp.flash.lifetimes import Lifetimes, amount
from tinyldp.flash.stored import Files, no_identity, stored_state
from tinyldp_device import ledger
from tinyldp_device.identity import allowances, provision
from tinyldp_device.ledger import RING_AT
from tinyldp_device.state import State, StateError
from tinyldp_protocol.messages import get_word
from tinyldp_protocol.task import Task

_UNIT = 1 << 16
# What is no ledger, and not nothing either: no later flashing begins a new one there.
_VOID = b"void"


@dataclass(frozen=True)
class Allowance:
    """What a device may spend, in 2^-16 of one epsilon, in any `horizon` steps."""

    cap: int
    horizon: int

    def __str__(self) -> str:
        return f"{stated(Fraction(self.cap, _UNIT), _UNIT)} in any {counted(self.horizon, 'step')}"


def allowance_of(task: Task) -> Allowance:
    """What a Task with a method spends."""
    assert task.epsilon is not None
    assert task.w is not None
    return Allowance(task.epsilon, task.w)


class Identities:
    """The stored state of a board, and what flashing a Task makes of it.

    slots, ledger_slots, lifetime_slots: two paths each. used: whether anything of ours
    ever ran there. new: another identity is asked for. cap, horizon: of a ledger that is
    made now, by default the Task's epsilon and w; lifetime: of a record for life (see
    Lifetimes), by default the Task's epsilon. identity: "kept", "new" (there is
    none) or "other" (another one than there is). allowance, lifetime: what the device
    has from now on, or None. notes: what a person may not expect of what the board goes on
    with, in sentences.
    Raises UserError when the board and the Task do not go together; nothing is
    written before write().
    """

    def __init__(
        self,
        files: Files,
        slots: tuple[str, str],
        ledger_slots: tuple[str, str],
        lifetime_slots: tuple[str, str],
        task: Task,
        *,
        used: bool,
        new: bool = False,
        cap: int | None = None,
        horizon: int | None = None,
        lifetime: int | None = None,
    ) -> None:
        self._files = files
        self._state = stored_state(files, slots)
        self._ledger_slots = ledger_slots
        self._used = used
        self._payload = b""
        try:
            self._payload = self._state.load()
            self.identity = "other" if new else "kept"
        except StateError as error:
            # A board that never ran has lost nothing: its first flashing was interrupted.
            if used and not new:
                raise no_identity(str(error.args[0])) from None
            self.identity = "new"
        if self.identity == "kept" and not _is_identity(self._payload):
            raise UserError("The stored state on the board is of another kind; see --new-identity.")
        wanted = _wanted(task, cap, horizon)
        self.allowance = wanted
        self._adds = wanted is not None
        if self.identity == "kept" and _has_cap(self._payload):
            self._adds = False
            self.allowance = _kept(self._payload, task, cap, horizon)
        old = get_word(self._payload, 20) if len(self._payload) == 24 else None
        vouched = not used or self.identity != "new"
        self._lifetimes = Lifetimes(files, lifetime_slots, task, old, lifetime, vouched=vouched)
        self.lifetime = self._lifetimes.allowance
        self.notes = [*self._notes(task)]

    def _notes(self, task: Task) -> Iterator[str]:
        if task.method is not None and self._voids():
            assert self.allowance is not None
            yield (
                "Nothing vouches for what it spent under another identity: it answers after"
                f" {counted(self.allowance.horizon, 'step')}."
            )
        # How often it has voted and estimated is told to nobody: that depends on the readings.
        if self._lifetimes.resumes and self.identity != "kept":
            yield (
                "Its votes and estimates under this Task stay counted: a new identity gives none"
                " back."
            )
        elif self._lifetimes.left is not None:
            assert task.epsilon is not None
            yield (
                f"This Task takes epsilon {amount(task.epsilon)} of the"
                f" {amount(self._lifetimes.left)} that are left to the board for life."
            )

    def write(self) -> bytes:
        """Make what is missing; gives the pseudonym. A cut leaves the old state or the new one.

        The ledger, and the record for life, are made first: an identity that has an
        allowance has had them.
        """
        cap, horizon = (None, None)
        if self.allowance:
            cap, horizon = self.allowance.cap, self.allowance.horizon
        words = b""
        if self.allowance or self.lifetime is not None:
            words = allowances(cap, horizon, self.lifetime)
        if self.identity == "kept":
            if words != self._payload[12:]:
                if self._adds:
                    self._make_ledger()
                self._lifetimes.write()
                self._state.save(self._payload[:12] + words)
            return self._payload[:8]
        self._make_ledger()
        self._lifetimes.write()
        pseudonym = os.urandom(8)
        if self.identity == "other":
            # Written as any other state is.
            self._state.save(pseudonym + bytes(4) + words)
        else:
            provision(self._state, pseudonym, cap, horizon, self.lifetime)
        return pseudonym

    def _make_ledger(self) -> None:
        if self._used and self.identity != "kept":
            # Whose ledger it was is forgotten; the device finds none that is whole, and waits.
            for path in self._ledger_slots:
                if self._had_ledger(path):
                    self._files.put(path, _VOID)
            return
        if self.allowance is None:
            return
        state = stored_state(self._files, self._ledger_slots)
        if not _has_ledger(state):
            word = int.from_bytes(os.urandom(3), "little")
            ledger.provision(state, self.allowance.horizon, word=word)

    def _had_ledger(self, path: str) -> bool:
        return self._files.read(path) is not None or _has_cap(self._payload)

    def _voids(self) -> bool:
        """Whether write() leaves the device without a ledger that is whole, where it had one."""
        return (
            self._used
            and self.identity != "kept"
            and any(map(self._had_ledger, self._ledger_slots))
        )


def _is_identity(payload: bytes) -> bool:
    """Whether it has the length of one, and its words are below 2^30."""
    return len(payload) in (12, 20, 24) and max(payload[11::4]) < 64


def _has_ledger(state: State) -> bool:
    """Whether there is one, even a damaged one, which no flashing may turn into an empty one."""
    try:
        state.load()
    except StateError as error:
        return error.args[0] != "missing"
    return True


def _has_cap(payload: bytes) -> bool:
    return len(payload) >= 20 and get_word(payload, 16) > 0


def _wanted(task: Task, cap: int | None, horizon: int | None) -> Allowance | None:
    if task.method is None:
        if cap is not None or horizon is not None:
            raise UserError("Only a device with a ledger has a cap and a horizon, for rounds.")
        return None
    made = allowance_of(task)
    made = Allowance(made.cap if cap is None else cap, made.horizon if horizon is None else horizon)
    if not 1 <= made.cap < 1 << 30:
        raise UserError(f"The cap must be above 0 and at most 16383, but is {amount(made.cap)}.")
    if not 1 <= made.horizon <= 1024:
        raise UserError(f"The horizon must lie in 1..1024 steps, but is {made.horizon}.")
    _refuse_above(task, made, "may spend")
    return made


def _kept(payload: bytes, task: Task, cap: int | None, horizon: int | None) -> Allowance:
    made = Allowance(get_word(payload, 12), get_word(payload, 16))
    if cap not in (None, made.cap) or horizon not in (None, made.horizon):
        raise UserError(
            f"The board's cap and horizon were fixed when it was provisioned ({made}): "
            "others take --new-identity."
        )
    if task.method is not None:
        _refuse_above(task, made, "was provisioned for")
    return made


def _refuse_above(task: Task, made: Allowance, may: str) -> None:
    assert task.epsilon is not None
    assert task.w is not None
    if task.epsilon > made.cap or task.w > made.horizon:
        raise UserError(
            f"The Task spends up to {Allowance(task.epsilon, task.w)}, but the board {may} {made}."
        )


def ledger_data(task: Task, horizon: int) -> int:
    """Bytes of heap that a ledger takes while it is stored, or read."""
    return 5 * (RING_AT + 4 * horizon + 2 * task.payload + 8 + 32)
