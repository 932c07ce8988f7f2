"""Putting a built Task on a micro:bit's own file system, through its raw REPL.

That file system is flat, without rename, and too small for two versions, so
that what runs there is replaced in place:

    main.py          what runs at boot; while flashing, a line that says to flash again
    steps            the built agent
    sample.py        the user's sample function
    state0, state1   pseudonym and boots (see tinyldp_device.state)
    ledger0, ledger1 what was spent, of a device that is asked
    lifetime0, lifetime1  what was said, of a device with epochs

Wherever that is interrupted, the board runs the old version, or the new one, or
nothing until it is flashed again; its identity stays.
"""

from __future__ import annotations

from typing import NamedTuple

from tinyldp.errors import UserError
from tinyldp.flash.build import MAIN, build_microbit
from tinyldp.flash.identities import Allowance, Identities
from tinyldp.flash.stored import Order, Progress, no_sample, refuse_foreign_main, stored_state
from tinyldp.lanes.board import Board
from tinyldp.lanes.flatfiles import FlatFiles
from tinyldp_device.state import StateError

SLOTS = ("state0", "state1")
LEDGER_SLOTS = ("ledger0", "ledger1")
LIFETIME_SLOTS = ("lifetime0", "lifetime1")
STUB = b"print('tinyldp: flash again')\n"


class Flat(NamedTuple):
    """What was flashed: the files, how many are new, who the board is."""

    files: dict[str, bytes]
    copied: int
    pseudonym: bytes
    identity: str
    allowance: Allowance | None
    lifetime: int | None
    notes: tuple[str, ...]


def flash_flat(board: Board, order: Order) -> Flat:
    """Flash the micro:bit at this raw REPL.

    Raises UserError; before anything was changed, if the Task or the board is unfit.
    """
    files = FlatFiles(board)
    sizes = files.sizes()
    main = files.read("main.py") or b""
    own = _is_own(main)
    if not own and not order.replace_main:
        refuse_foreign_main(main)
    # Even if its main.py is gone: it has an identity.
    used = (own and main != b"") or _has_state(files)
    if not used:
        _refuse_strangers(files, sizes, order.sample is not None)
    identities = Identities(
        files,
        SLOTS,
        LEDGER_SLOTS,
        LIFETIME_SLOTS,
        order.task,
        used=used,
        new=order.new_identity,
        cap=order.cap,
        horizon=order.horizon,
        lifetime=order.lifetime,
    )
    sample = files.read("sample.py") if order.sample is None else order.sample
    if sample is None:
        raise no_sample()
    allowance = identities.allowance if order.task.method is not None else None
    built = build_microbit(order.task, sample, allowance=allowance).files
    # The identity comes first: where anything else of ours is, it must be there.
    pseudonym = identities.write()
    copied = _replace(files, built, main, order.progress)
    identity = "kept" if identities.identity == "kept" else "new"
    return Flat(
        built,
        copied,
        pseudonym,
        identity,
        identities.allowance,
        identities.lifetime,
        tuple(identities.notes),
    )


def _has_state(files: FlatFiles) -> bool:
    try:
        stored_state(files, SLOTS).load()
    except StateError:
        return False
    return True


def _is_own(main: bytes) -> bool:
    """Whether it is ours, of any version, or what is left of it after an interruption."""
    return b"open('steps')" in main or MAIN.startswith(main) or STUB.startswith(main)


def _refuse_strangers(files: FlatFiles, sizes: dict[str, int], sample: bool) -> None:
    """On a board that was never flashed, files that have the names of ours."""
    slots = SLOTS + LEDGER_SLOTS + LIFETIME_SLOTS
    for name in ("steps", *slots, *(["sample.py"] if sample else [])):
        if name not in sizes:
            continue
        # A state that was torn when it was first written is ours.
        if name in slots and not (files.read(name) or b"")[:4].strip(b"\0"):
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
