"""What goes wrong because of what a person gave us."""

import os
from pathlib import Path


class UserError(Exception):
    """Bad input: its argument is the one sentence that a person is shown."""


# What else of ours has a name like this.
_NAMED = {".toml": "study", ".task": "Task", ".json": "certificate", ".db": "store"}


def keep_name(output: Path, own: str) -> None:
    """Refuse to write what `own` names under the name of another of our products."""
    other = _NAMED.get(output.suffix, own)
    if other != own:
        raise UserError(f"{output} has a {other}'s name; name the {own} otherwise.")


def keep_apart(output: Path, source: str | Path) -> None:
    """Refuse to write over what is read, under whichever names."""
    try:
        same = os.path.samefile(output, source)
    except (OSError, ValueError):
        return
    if same:
        raise UserError(f"{output} is what is read; write to another file.")
