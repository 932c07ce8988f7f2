"""Putting a built Task on a micro:bit's own file system, through its raw REPL.

That file system is flat, without rename, and too small for two versions, so
that what runs there is replaced in place:

    main.py          what runs at boot; while flashing, a line that says to flash again
    steps            the built agent
    sample.py        the user's sample function
    state0, state1   pseudonym and boots (see tinyldp_device.state)

Wherever that is interrupted, the board runs the old version, or the new one, or
nothing until it is flashed again; its identity stays.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from tinyldp.errors import UserError
from tinyldp.flash.build import MAIN, build_microbit
from tinyldp.flash.stored import no_identity, no_sample, refuse_foreign_main, stored_state
from tinyldp.lanes.board import Board
from tinyldp.lanes.flatfiles import FlatFiles
from tinyldp_device.identity import provision
from tinyldp_device.state import StateError
from tinyldp_protocol.task import Task

SLOTS = ("state0", "state1")
STUB = b"print('tinyldp: flash again')\n"
Progress = Callable[[int, int, str], None]


def flash_flat(
    board: Board,
    task: Task,
    sample: bytes | None,
    new_identity: bool,
    replace_main: bool,
    progress: Progress | None,
) -> tuple[dict[str, bytes], int, bytes, str]:
    """Flash the micro:bit at this raw REPL: its files, how many are new, pseudonym, identity.

    Raises UserError; before anything was changed, if the Task or the board is unfit.
    """
    files = FlatFiles(board)
    sizes = files.sizes()
    main = files.read("main.py") or b""
    own = _is_own(main)
    if not own and not replace_main:
        refuse_foreign_main(main)
    state = stored_state(files, SLOTS)
    try:
        payload = state.load()
        why = "" if len(payload) == 12 else "of another kind"
    except StateError as error:
        payload, why = b"", str(error.args[0])
    own = (own and main != b"") or not why
    if not own:
        _refuse_strangers(files, sizes, sample is not None)
    elif why and not new_identity:
        raise no_identity(why)
    if sample is None:
        sample = files.read("sample.py")
    if sample is None:
        raise no_sample()
    built = build_microbit(task, sample).files
    # The identity comes first: where anything else of ours is, it must be there.
    identity = "kept"
    if why:
        payload, identity = os.urandom(8) + bytes(4), "new"
        provision(state, payload[:8])
    elif new_identity:
        payload, identity = os.urandom(8) + bytes(4), "new"
        state.save(payload)
    copied = _replace(files, built, main, progress)
    return built, copied, payload[:8], identity


def _is_own(main: bytes) -> bool:
    """Whether it is ours, of any version, or what is left of it after an interruption."""
    return b"open('steps')" in main or MAIN.startswith(main) or STUB.startswith(main)


def _refuse_strangers(files: FlatFiles, sizes: dict[str, int], sample: bool) -> None:
    """On a board that was never flashed, files that have the names of ours."""
    for name in ("steps", *SLOTS, *(["sample.py"] if sample else [])):
        if name not in sizes:
            continue
        # A state that was torn when it was first written is ours.
        if name in SLOTS and not (files.read(name) or b"")[:4].strip(b"\0"):
            continue
        raise UserError(
            f"{name} on the board would be taken for what is flashed, or overwritten: "
            f"remove it first (mpremote exec \"import os; os.remove('{name}')\")."
        )


def _replace(
    files: FlatFiles, built: dict[str, bytes], main: bytes, progress: Progress | None
) -> int:
    """Replace what differs, main.py first by the line that says so and last by the real one."""
    todo = [name for name in built if name != "main.py" and files.read(name) != built[name]]
    if not todo and main == built["main.py"]:
        return 0
    if main != STUB:
        files.put("main.py", STUB)
    sizes = files.sizes()
    for name in todo:
        if name in sizes:
            files.remove(name)
    todo.append("main.py")
    for done, name in enumerate(todo):
        if progress:
            progress(done, len(todo), name)
        files.put(name, built[name])
    if progress:
        progress(len(todo), len(todo), "")
    return len(todo)
