"""Flashing a micro:bit: the built agent, an identity, and the user's sample function."""

from __future__ import annotations

import os

from tinyldp.flash.build import SAMPLE, Build, build_microbit
from tinyldp.flash.flat import LEDGER_SLOTS, LIFETIME_SLOTS, SLOTS
from tinyldp.flash.identities import Allowance, Identities, allowance_of
from tinyldp.flash.stored import Progress, stored_state
from tinyldp.lanes.lane import Lane, Process
from tinyldp_device import ledger
from tinyldp_device.identity import provision
from tinyldp_device.lifetime import provision as provision_lifetime
from tinyldp_protocol.task import Task


class _Files(dict[str, bytes]):
    """The files of a board that is not there yet."""

    def read(self, path: str, /) -> bytes | None:
        return self.get(path)

    def put(self, path: str, content: bytes, /) -> None:
        self[path] = content


def new_state(
    pseudonym: bytes,
    task: Task | None = None,
    allowance: Allowance | None = None,
    lifetime: int | None = None,
) -> dict[str, bytes]:
    """The files of a state that says: this device is called so, and has never booted.

    With a Task that has a method also those of its ledger, from which nothing was spent;
    allowance: of that, by default what the Task spends. With one that has epochs those of
    its counters for life; lifetime: what they may come to, by default what the Task costs.
    """
    files = _Files()
    state = stored_state(files, SLOTS)
    word = int.from_bytes(os.urandom(3), "little")
    if task is not None and task.method is not None:
        made = allowance or allowance_of(task)
        ledger.provision(stored_state(files, LEDGER_SLOTS), made.horizon, word=word)
        provision(state, pseudonym, made.cap, made.horizon)
    elif task is not None and task.epochs is not None:
        lifetime = lifetime or task.epsilon
        assert lifetime is not None
        provision_lifetime(stored_state(files, LIFETIME_SLOTS), lifetime, word)
        provision(state, pseudonym, lifetime=lifetime)
    else:
        provision(state, pseudonym)
    return files


def flash_microbit(
    task: Task,
    lane: Lane,
    sample: bytes = SAMPLE,
    pseudonym: bytes | None = None,
    *,
    cap: int | None = None,
    horizon: int | None = None,
    lifetime: int | None = None,
    progress: Progress | None = None,
) -> tuple[Build, bytes, Process]:
    """Build for a Task, put it on a board of the lane that has no state yet, start it.

    Gives what was built, the pseudonym (drawn here unless given) and the running
    board. cap, horizon, lifetime: see provision.flash; of a board with a drawn pseudonym.
    progress: as there; how many files there are is known once it is built.
    Raises UserError when the Task does not fit.
    """
    if progress:
        progress(0, 1, "is being built")
    if pseudonym is not None:
        build = build_microbit(task, sample)
        state = new_state(pseudonym, task)
    else:
        state = _Files()
        identities = Identities(
            state,
            SLOTS,
            LEDGER_SLOTS,
            LIFETIME_SLOTS,
            task,
            used=False,
            cap=cap,
            horizon=horizon,
            lifetime=lifetime,
        )
        build = build_microbit(task, sample, allowance=identities.allowance)
        pseudonym = identities.write()
    lane.put({**build.files, **state})
    lane.progress = progress
    return build, pseudonym, lane.start("main.py")
