"""Files that a person relies on are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from tinyldp.errors import UserError


def replace_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all. Raises UserError when it can't be written."""
    # A link stays one; a device or pipe takes the bytes as they are.
    target = Path(os.path.realpath(path))
    beside = target.parent / f".{target.name}.{os.getpid()}"
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(data)
            return
        try:
            with beside.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise
    except OSError as error:
        raise UserError(f"{path} can't be written: {error.strerror}.") from None
