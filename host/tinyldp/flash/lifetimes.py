"""What a board may say in its life, of Tasks with epochs: made once, never refilled.

Unlike a ledger's window, a life does not pass: the record stays with the board, also
under a new identity, and a board whose record is lost says nothing any more.
"""

from __future__ import annotations

import os
from fractions import Fraction

from tinyldp.errors import UserError
from tinyldp.figures import stated
from tinyldp.flash.stored import Files, stored_state
from tinyldp_device.lifetime import COUNTS_AT, TASK_AT, epoch_bytes, provision, state_bytes
from tinyldp_device.state import StateError
from tinyldp_protocol.messages import get_word
from tinyldp_protocol.task import Task

_UNIT = 1 << 16


def amount(n: int) -> str:
    """An allowance, or what a Task costs, in epsilon."""
    return stated(Fraction(n, _UNIT), _UNIT)


class Lifetimes:
    """A board's record for life, and what flashing a Task makes of it.

    slots: its two paths. old: the allowance in the board's identity, None where there is
    none. allowance: of a record that is made now, by default what the Task costs.
    vouched: whether it is known that nothing was ever said.
    allowance: what the identity must hold from now on, None: nothing. resumes: whether the
    record is of this very Task, whose counters go on. left: what is left of a record that is
    of another Task; else None.
    Raises UserError when the board and the Task do not go together; nothing is
    written before write().
    """

    def __init__(
        self,
        files: Files,
        slots: tuple[str, str],
        task: Task,
        old: int | None,
        allowance: int | None,
        *,
        vouched: bool,
    ) -> None:
        self._state = stored_state(files, slots)
        self._makes = False
        self.allowance = old
        self.resumes = False
        self.left: int | None = None
        if task.epochs is None:
            if allowance is not None:
                raise UserError("Only a device with epochs has an allowance for life.")
            return
        assert task.epsilon is not None
        record, reason = self._record()
        if record is not None:
            left = get_word(record, 0)
            # Where the identity is another one by now, what is left is all.
            self.allowance = left if old is None else old
            if allowance not in (None, self.allowance):
                raise UserError(
                    f"The board's allowance for life was fixed when it was provisioned "
                    f"({amount(self.allowance)}): for another one, take another board."
                )
            if record[TASK_AT:COUNTS_AT] != task.id and task.epsilon > left:
                raise UserError(
                    f"The Task costs {amount(task.epsilon)} for life, "
                    f"but {amount(left)} is left to the board for ever: another board is "
                    "needed, or where this computer plays one, another folder."
                )
            self.resumes = record[TASK_AT:COUNTS_AT] == task.id
            if len(record) > TASK_AT and not self.resumes:
                self.left = left
        elif reason == "missing" and old is None and vouched:
            self._makes = True
            self.allowance = task.epsilon if allowance is None else allowance
            if not task.epsilon <= self.allowance < 1 << 30:
                raise UserError(
                    f"The allowance must lie between what the Task costs for life "
                    f"({amount(task.epsilon)}) and 16383, but is {amount(self.allowance)}."
                )
        else:
            raise UserError(
                f"The board's record of what it has said is {reason}, so it can say nothing any "
                "more: to give it to someone else, erase its file system."
            )

    def write(self) -> None:
        """Make the record, where there never was one."""
        if self._makes and self.allowance is not None:
            provision(self._state, self.allowance, int.from_bytes(os.urandom(3), "little"))

    def _record(self) -> tuple[bytes | None, str]:
        """The record, or why there is none."""
        try:
            record = self._state.load()
        except StateError as error:
            return None, str(error.args[0])
        # A device that found it damaged has said so for ever.
        closed = len(record) < 4 or record == bytes(4)
        return (None, "damaged") if closed else (record, "")


def lifetime_data(task: Task) -> int:
    """Bytes of heap that a record takes while it is stored, or read, and the epochs."""
    return 4 * (state_bytes(task) + 8 + 32) + 2 * epoch_bytes(task)
