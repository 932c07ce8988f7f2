"""Flashing a micro:bit: the built agent, an identity, and the user's sample function."""

from __future__ import annotations

import os

from tinyldp.flash.build import SAMPLE, Build, build_microbit
from tinyldp.lanes.lane import Lane, Process
from tinyldp_device.identity import provision
from tinyldp_device.state import State
from tinyldp_protocol.task import Task


class _File:
    data = b""

    def read(self) -> bytes:
        return self.data

    def write(self, data: bytes, /) -> None:
        self.data = data


def new_state(pseudonym: bytes) -> dict[str, bytes]:
    """The files of a state that says: this device is called so, and has never booted."""
    slots = (_File(), _File())
    provision(State(*slots), pseudonym)
    return {f"state{i}": slot.data for i, slot in enumerate(slots)}


def flash_microbit(
    task: Task, lane: Lane, sample: bytes = SAMPLE, pseudonym: bytes | None = None
) -> tuple[Build, bytes, Process]:
    """Build for a Task, put it on a board of the lane that has no state yet, start it.

    Gives what was built, the pseudonym (drawn here unless given) and the running
    board. Raises UserError when the Task does not fit.
    """
    build = build_microbit(task, sample)
    pseudonym = os.urandom(8) if pseudonym is None else pseudonym
    lane.put({**build.files, **new_state(pseudonym)})
    return build, pseudonym, lane.start("main.py")
