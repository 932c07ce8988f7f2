"""What is written: whole or not at all, and never over a product of another kind."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO, cast

from tinyldp.errors import UserError

STUDY, TASK, CERTIFICATE, STORE = "study", "Task", "certificate", "store"
REPORT, TABLE, PICTURE = "report", "table", "picture"
_SUFFIXES = {
    ".toml": STUDY,
    ".task": TASK,
    ".json": CERTIFICATE,
    ".db": STORE,
    ".html": REPORT,
    ".csv": TABLE,
    ".png": PICTURE,
    ".svg": PICTURE,
    ".pdf": PICTURE,
}
# What the pages that we make have in their head, and at their end.
GENERATOR = '<meta name="generator" content="tinyldp">'
FOOTER = "<footer>Made by tinyldp. Pictures are drawn from what the devices released.</footer>"
_MAGIC = {
    b"SQLite format 3\0": STORE,
    b"\x89PNG": PICTURE,
    b"%PDF": PICTURE,
    b"<?xml": PICTURE,
}
# Bytes that show what a file is: a Task or a study is no longer.
_LOOK = 1 << 22


def keep_kind(output: str | Path, own: str) -> None:
    """Refuse to write what `own` names over anything else, or under another's name.

    own: STUDY, TASK, ... What a file holds counts first, then its name. Raises UserError.
    """
    path = Path(output)
    named = _SUFFIXES.get(path.suffix.lower())
    held = _held(path)
    if held is None:
        keep_folder(path)
        if named not in (None, own):
            raise UserError(f"{path} has a {named}'s name; name the {own} otherwise.")
    elif held != own and not (held == "" and named == own and own in (TASK, TABLE)):
        # A Task may be damaged, and a table has no mark; of the others any part shows the kind.
        what = f"holds a {held}" if held else f"is no {own}"
        raise UserError(f"{path} {what} and is kept; write the {own} to another file.")


def keep_folder(path: Path) -> None:
    """Refuse, before the work, to write where there is no folder to write into."""
    if not path.parent.is_dir():
        raise UserError(f"{path} can't be written: its folder does not exist.")


def _held(path: Path) -> str | None:
    """What kind of file lies there: "" for none of ours, None where nothing is lost."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            data = file.read(_LOOK)
    except OSError:
        # Whoever writes says why that is impossible.
        return None
    return kind_of(data) if data else None


def kind_of(data: bytes) -> str:
    """STUDY, TASK, ... by what a file holds; "" for none of ours."""
    for magic, kind in _MAGIC.items():
        if data[: len(magic)].lower() == magic.lower():
            return kind
    if data[:14].lower() == b"<!doctype html":
        # Those of earlier versions have but the end.
        own = GENERATOR.encode() in data[:1024] or FOOTER.encode() in data
        return REPORT if own else ""
    return _parsed(data)


def _parsed(data: bytes) -> str:
    from tinyldp.sections import is_study
    from tinyldp_protocol.cbor import Malformed
    from tinyldp_protocol.task import TaskError, read_file

    with contextlib.suppress(Malformed, TaskError):
        read_file(data)
        return TASK
    if data.startswith(b"{") and b'"task_id"' in data and b'"sha256"' in data:
        return CERTIFICATE
    return STUDY if is_study(data) else ""


@contextlib.contextmanager
def replacing(path: str | Path, own: str) -> Iterator[BinaryIO]:
    """A file to write to, which takes the path's place when all of it is on the disk.

    own: see keep_kind. Raises UserError when that is refused or can't be written; what was
    there then is there still.
    """
    keep_kind(path, own)
    # A link stays one; a device or pipe takes the bytes as they are.
    target = Path(os.path.realpath(path))
    beside = target.parent / f".{target.name}.{os.getpid()}"
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                yield cast(BinaryIO, file)
            return
        try:
            with beside.open("xb") as file:
                yield cast(BinaryIO, file)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise
    except OSError as error:
        raise UserError(f"{path} can't be written: {error.strerror}.") from None


def replace_file(path: str | Path, data: bytes, own: str) -> None:
    """Write a file whole or not at all; see replacing."""
    with replacing(path, own) as file:
        file.write(data)


@contextlib.contextmanager
def replacing_text(path: str | Path, own: str) -> Iterator[IO[str]]:
    """The same for UTF-8, with line ends as they are written."""
    with replacing(path, own) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        yield text
        text.flush()
        text.detach()
