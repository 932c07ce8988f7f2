"""Putting a Task, the device package and an identity on a board with files.

On the board, below the folder that it starts in:

    main.py                what runs at boot: goes to the version in use
    tinyldp/use0, use1     which version is in use: the newer valid one counts
    tinyldp/VERSION/       modules, Task and sample function of one version
    tinyldp/state0, state1 pseudonym, boots and what it may spend (see tinyldp_device.identity)
    tinyldp/ledger0, ledger1  what it has spent (see tinyldp_device.ledger)
    tinyldp/lifetime0, lifetime1  what it has said in its life (see tinyldp_device.lifetime)

A version is copied whole and verified before one small file names it. Wherever
that is interrupted, the board runs the old version or the new one.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tinyldp.errors import UserError
from tinyldp.flash.build import task_data
from tinyldp.flash.flat import flash_flat
from tinyldp.flash.identities import Identities, ledger_data
from tinyldp.flash.lifetimes import lifetime_data
from tinyldp.flash.stored import Order, Progress, no_sample, refuse_foreign_main
from tinyldp.lanes.board import Board
from tinyldp.lanes.packages import PACKAGES, compile_module, sources
from tinyldp_device.boards.start import NO_ROOM
from tinyldp_protocol.task import Task, write_file

OLDEST = (1, 20)
ROOT = "tinyldp"
SLOTS = (f"{ROOT}/state0", f"{ROOT}/state1")
LEDGER_SLOTS = (f"{ROOT}/ledger0", f"{ROOT}/ledger1")
LIFETIME_SLOTS = (f"{ROOT}/lifetime0", f"{ROOT}/lifetime1")
USES = (f"{ROOT}/use0", f"{ROOT}/use1")
# Board files by sys.platform.
BOARDS = {"esp32": "esp32", "rp2": "rp2", "pyboard": "stm32", "linux": "unix", "darwin": "unix"}
_START = "tinyldp_start"
# Seconds in which a board says its first hello, or why it can't.
STARTS = 10
_MARK = "# Written by `tinyldp flash`, which keeps it: the sensor's own code is in sample.py."
MAIN = f"""{_MARK}
import sys


def version():
    newest = 0
    name = None
    for path in {USES!r}:
        try:
            with open(path) as file:
                words = file.read().split()
        except OSError:
            continue
        if len(words) == 4 and words[:2] == words[2:] and int(words[0]) > newest:
            newest = int(words[0])
            name = words[1]
    return name


if version():
    sys.path.insert(0, "{ROOT}/" + version())
    try:
        import {_START}
    except MemoryError:
        print("tinyldp: not started: {NO_ROOM}")
    else:
        {_START}.main()
else:
    print("tinyldp: flashing was interrupted the first time; flash again.")
"""
_STARTER = """from sample import sample
from tinyldp_device.boards import {board}
from tinyldp_device.boards.start import start


def main():
    start({board}, "{folder}/task", sample)
"""
# What a small file takes on a board's file system (littlefs blocks), and what must stay free.
_BLOCK = 4096
_SPARE = 4 * _BLOCK


@dataclass(frozen=True)
class Flashed:
    """What was done. identity: "new" or "kept". copied: files that were not there already.

    verified: how the board's files were checked. cap, horizon: what the device may spend
    (2^-16 of one epsilon) in so many steps, whatever its Task; None without a ledger.
    allowance: likewise for life, None where no Task with epochs ever was. sample: where
    the readings come from. notes: Identities's.
    """

    port: str
    board: str
    micropython: str
    task_id: str
    version: str
    files: int
    bytes: int
    copied: int
    pseudonym: str
    identity: str
    verified: str
    sample: str
    cap: int | None = None
    horizon: int | None = None
    allowance: int | None = None
    notes: tuple[str, ...] = ()


def flash(
    port: str,
    task: Task,
    *,
    sample: Path | None = None,
    board_file: Path | None = None,
    compiled: bool = False,
    new_identity: bool = False,
    replace_main: bool = False,
    cap: int | None = None,
    horizon: int | None = None,
    allowance: int | None = None,
    progress: Progress | None = None,
    waiting: Callable[[str], None] | None = None,
) -> Flashed:
    """Flash the board on a port, and start it.

    A micro:bit gets what build_microbit makes (see flat), other boards packages.
    sample: a file with the function sample(); without one the board's own
    sample.py is used. board_file: for boards that are not in BOARDS. compiled:
    as .mpy files. new_identity: draw another pseudonym, forget the old one.
    replace_main: overwrite a main.py that is not tinyldp's. cap, horizon: what the
    device may ever spend (2^-16 of one epsilon) in so many steps, fixed when its
    ledger is made, by default by the Task's epsilon and w. allowance: what it may spend
    in all its life on Tasks with epochs, fixed likewise, by default by the Task's epsilon.
    progress: files done, files in all, the next one. waiting: see Board.
    Raises UserError in every other case, with the old version still in use; but when the
    board, started anew, says nothing but an error, which sample.py may have, that is in use.
    """
    order = Order(
        task,
        sample=None if sample is None else read_sample(sample),
        new_identity=new_identity,
        replace_main=replace_main,
        cap=cap,
        horizon=horizon,
        lifetime=allowance,
        progress=progress,
    )
    own = None if board_file is None else _read_board_file(board_file, task)
    done = None
    said = ""
    read_from = "the board's own sample.py" if sample is None else str(sample)
    with Board(port, waiting) as board:
        try:
            if not board.flat:
                done = _flash(board, order, own, compiled, read_from)
            elif own is not None or compiled:
                option = "--mpy" if compiled else "--board"
                raise UserError(
                    f"What runs on a micro:bit is built for it: flash without {option}."
                )
            else:
                done = _flash_microbit(board, order, read_from)
        except UserError:
            raise
        except BaseException:
            # Ctrl-C, in the middle of anything.
            with contextlib.suppress(UserError):
                board.interrupt()
            raise
        finally:
            # Whatever came in between, what ran there before goes on.
            with contextlib.suppress(UserError):
                said = board.restart(STARTS if done else 0)
    if said:
        raise UserError(f"The Task is on the board, but does not start there: {said}.")
    assert done is not None
    return done


def _flash(
    board: Board, order: Order, own: tuple[str, bytes] | None, compiled: bool, read_from: str
) -> Flashed:
    name, board_source = _suited(board, own)
    use = _in_use(board)
    content = order.sample
    _refuse_shadows(board, content is not None)
    _refuse_foreign_main(board, order.replace_main)
    if content is None and use is not None:
        content = board.read(f"{ROOT}/{use[1]}/sample.py")
    if content is None and not any(
        path in board.tree() for path in ("sample.py", "sample.mpy", "sample/__init__.py")
    ):
        raise no_sample()
    modules = needed(name, board_source)
    if compiled:
        modules = _compile(board, modules)
    files = {**modules, "task": write_file(order.task)}
    if content is not None:
        files["sample.py"] = content
    version = _version(files)
    folder = f"{ROOT}/{version}"
    files[f"{_START}.py"] = _STARTER.format(board=name, folder=folder).encode()
    identities = Identities(
        board,
        SLOTS,
        LEDGER_SLOTS,
        LIFETIME_SLOTS,
        order.task,
        used=use is not None,
        new=order.new_identity,
        cap=order.cap,
        horizon=order.horizon,
        lifetime=order.lifetime,
    )
    allowance = identities.allowance
    _refuse_too_large(board, order.task, allowance.horizon if allowance else 0)
    _remove_versions(board, {version} | ({use[1]} if use else set()))
    copied = _copy(board, folder, files, order.progress)
    pseudonym = identities.write()
    _use(board, use, version)
    _put_main(board)
    _remove_versions(board, {version})
    facts = board.facts
    return Flashed(
        port=board.port,
        board=name,
        micropython=".".join(map(str, facts.version)),
        task_id=order.task.id.hex(),
        version=version,
        files=len(files),
        bytes=sum(map(len, files.values())),
        copied=copied,
        pseudonym=pseudonym.hex(),
        identity="kept" if identities.identity == "kept" else "new",
        verified="by SHA-256",
        sample=read_from,
        cap=allowance.cap if allowance else None,
        horizon=allowance.horizon if allowance else None,
        allowance=identities.lifetime,
        notes=tuple(identities.notes),
    )


def _flash_microbit(board: Board, order: Order, read_from: str) -> Flashed:
    done = flash_flat(board, order)
    allowance = done.allowance
    return Flashed(
        port=board.port,
        board="micro:bit",
        micropython=".".join(map(str, board.facts.version)),
        task_id=order.task.id.hex(),
        version=_version(done.files),
        files=len(done.files),
        bytes=sum(map(len, done.files.values())),
        copied=done.copied,
        pseudonym=done.pseudonym.hex(),
        identity=done.identity,
        verified="by reading them back",
        sample=read_from,
        cap=allowance.cap if allowance else None,
        horizon=allowance.horizon if allowance else None,
        allowance=done.lifetime,
        notes=done.notes,
    )


def needed(board: str, board_source: bytes | None = None) -> dict[str, bytes]:
    """The modules that a board's main program imports, directly or not, by path."""
    files = sources()
    if board_source is not None:
        files[f"tinyldp_device/boards/{board}.py"] = board_source
    wanted = [f"tinyldp_device/boards/{module}.py" for module in (board, "start")]
    found: dict[str, bytes] = {}
    while wanted:
        path = wanted.pop()
        if path in found or path not in files:
            continue
        found[path] = files[path]
        parts = path.split("/")
        wanted += ["/".join([*parts[:n], "__init__.py"]) for n in range(1, len(parts))]
        wanted += [f"{module.replace('.', '/')}.py" for module in _imports(path, files[path])]
    return dict(sorted(found.items()))


def _imports(path: str, source: bytes) -> Iterable[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        raise UserError(f"{path} is no Python module.") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def read_sample(path: Path) -> bytes:
    """The module with the user's sample(); UserError when it is not one."""
    content, tree = _read_module(path)
    if "sample" not in _defined(tree):
        raise UserError(f"{path} defines no function sample().")
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "sample":
            _check_sample(path, node)
    return content


def _check_sample(path: Path, function: ast.FunctionDef) -> None:
    """Raise UserError unless it can be called, and gives a reading."""
    given = function.args
    required = len(given.posonlyargs + given.args) - len(given.defaults)
    if required or None in given.kw_defaults:
        raise UserError(f"{path}: sample() is called without arguments, so it must take none.")
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function)):
        raise UserError(f"{path}: sample() must return a reading each time, and not yield it.")


def _read_module(path: Path) -> tuple[bytes, ast.Module]:
    try:
        content = path.read_bytes()
        return content, ast.parse(content)
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}.") from None
    except (SyntaxError, ValueError):
        raise UserError(f"{path} is no Python module.") from None


def _defined(tree: ast.Module) -> set[str]:
    """Names that a module has, or may have."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
        else:
            names |= {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return names


def _read_board_file(path: Path, task: Task) -> tuple[str, bytes]:
    """Its name as a module, and its source; UserError when the Task needs more than it has."""
    if not path.stem.isidentifier():
        raise UserError(f"{path} has no name that a module can have.")
    content, tree = _read_module(path)
    defined = _defined(tree)
    needed = ["source", "slots", "open_line"]
    if task.method is not None:
        needed.append("ledger_slots")
    elif task.epochs is not None:
        needed.append("lifetime_slots")
    for name in needed:
        if name not in defined:
            raise UserError(f"{path} defines no function {name}(), which this Task needs.")
    return path.stem, content


def _suited(board: Board, own: tuple[str, bytes] | None) -> tuple[str, bytes | None]:
    """The name of the board's file, and its source where it is the user's own; or UserError."""
    facts = board.facts
    version = ".".join(map(str, facts.version))
    if facts.name != "micropython":
        raise UserError(f"The board runs {facts.name} {version}, and not MicroPython.")
    if facts.version < OLDEST:
        raise UserError(
            f"The board's MicroPython {version} is too old: "
            f"{'.'.join(map(str, OLDEST))} or newer is needed for a Task on files."
        )
    if own is not None:
        return own
    if facts.platform not in BOARDS:
        raise UserError(
            f"There is no board file for {facts.platform} yet; "
            "write one (README, Another board) and name it with --board."
        )
    return BOARDS[facts.platform], None


def _refuse_too_large(board: Board, task: Task, horizon: int) -> None:
    board.command(b"import gc;gc.collect()")
    free = board.value(b"gc.mem_free()", "asked for its memory")
    if task.epochs is not None:
        needed = lifetime_data(task)
    else:
        needed = task_data(task) if task.method is None else ledger_data(task, horizon)
    if free < needed:
        raise UserError(
            f"The board cannot hold this Task: its buffers take {needed} bytes of memory, "
            f"{free} are free."
        )


def _refuse_shadows(board: Board, sample: bool) -> None:
    """Modules outside tinyldp/ that would be imported in place of ours, or ours in theirs."""
    names = (*PACKAGES, _START)
    for place in board.facts.path:
        if place == ".frozen" or place.startswith(ROOT + "/"):
            continue
        listing = board.tree_of(place, (*names, "sample") if sample and not place else names)
        for path in listing:
            module = path.removeprefix(place + "/" if place else "").partition("/")[0]
            if module.partition(".")[0] == "sample":
                raise UserError(
                    f"{path} on the board and --sample are two sample functions: "
                    f"remove one of them (mpremote rm -r :{path})."
                )
            whole = f"{place}/{module}" if place else module
            raise UserError(
                f"{path} on the board would be imported in place of what is flashed: "
                f"remove it first (mpremote rm -r :{whole})."
            )


def _refuse_foreign_main(board: Board, replace: bool) -> None:
    main = board.read("main.py")
    if main is None or replace or main.decode(errors="replace").startswith(_MARK):
        return
    refuse_foreign_main(main)


def _compile(board: Board, modules: Mapping[str, bytes]) -> dict[str, bytes]:
    bits = board.facts.small_int_bits
    compiled = {
        path[:-3] + ".mpy": compile_module(path, source, bits) for path, source in modules.items()
    }
    made = next(iter(compiled.values()))[1]
    if board.facts.mpy != made:
        loads = f"version {board.facts.mpy}" if board.facts.mpy else "none"
        raise UserError(
            f"This mpy-cross makes .mpy files of version {made}, but the board loads {loads}: "
            "flash without --mpy."
        )
    return compiled


def _version(files: Mapping[str, bytes]) -> str:
    """A name that stands for the content."""
    sha = hashlib.sha256()
    for path, content in sorted(files.items()):
        sha.update(f"{path} {len(content)} ".encode() + content)
    return sha.hexdigest()[:12]


def _in_use(board: Board) -> tuple[int, str, int] | None:
    """Generation, name and slot of the version in use, as MAIN finds it."""
    best = None
    for slot, path in enumerate(USES):
        words = (board.read(path) or b"").decode(errors="replace").split()
        if len(words) == 4 and words[:2] == words[2:] and words[0].isdecimal():
            found = (int(words[0]), words[1], slot)
            if found[0] > (best or (0,))[0]:
                best = found
    return best


def _use(board: Board, use: tuple[int, str, int] | None, version: str) -> None:
    """The switch: one small file, beside the one that still names the old version."""
    if use is not None and use[1] == version:
        return
    words = f"{use[0] + 1 if use else 1} {version}"
    slot = 1 - use[2] if use else 0
    board.put(USES[slot], f"{words} {words}\n".encode())


def _put_main(board: Board) -> None:
    if board.read("main.py") != MAIN.encode():
        board.put(f"{ROOT}/main.new", MAIN.encode())
        board.rename(f"{ROOT}/main.new", "main.py")
        board.verify({"main.py": MAIN.encode()})


def _remove_versions(board: Board, keep: set[str]) -> None:
    for path, size in board.tree(ROOT).items():
        name = path.removeprefix(ROOT + "/")
        if size is None and "/" not in name and name not in keep:
            board.remove(path)


def _copy(board: Board, folder: str, files: Mapping[str, bytes], progress: Progress | None) -> int:
    """Copy what is not there yet, remove what does not belong there, verify everything."""
    wanted = {f"{folder}/{path}": content for path, content in files.items()}
    present = board.hashes(path for path in board.tree(folder) if path in wanted)
    todo = {
        path: content
        for path, content in wanted.items()
        if present.get(path) != hashlib.sha256(content).digest()
    }
    room = sum(-(-len(content) // _BLOCK) * _BLOCK for content in todo.values())
    free = board.free()
    if todo and free < room + _SPARE:
        raise UserError(
            f"The board has no room: {room + _SPARE} bytes are needed, {free} are free."
        )
    for done, (path, content) in enumerate(todo.items()):
        if progress:
            progress(done, len(todo), path)
        board.write(path, content)
    for path, size in board.tree(folder).items():
        if size is not None and path not in wanted:
            board.remove(path)
    board.verify(wanted)
    if progress:
        progress(len(todo), len(todo), "")
    return len(todo)
