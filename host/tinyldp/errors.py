"""What goes wrong because of what a person gave us."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


class UserError(Exception):
    """Bad input: its argument is the one sentence that a person is shown."""


def keep_apart(output: Path, source: str | Path) -> None:
    """Refuse to write over what is read, under whichever names."""
    try:
        same = os.path.samefile(output, source)
    except (OSError, ValueError):
        return
    if same:
        raise UserError(f"{output} is what is read; write to another file.")
