"""What a board that was started says first, where that is why it does not run."""

from __future__ import annotations

import time
from collections.abc import Callable

# Bytes of text before anything binary: more is a program's own.
_MOST = 4096


def first_error(receive: Callable[[float], bytes], seconds: float) -> str:
    """The error that main.py ends with within so many seconds, or "".

    It is looked for before the first binary byte, as frames have. receive(deadline) gives what
    came until that time.monotonic() at the latest, or b"".
    """
    deadline = time.monotonic() + seconds
    said = b""
    while seconds and (part := receive(deadline)):
        # A line that is opened may give one, before anything is said.
        said = (said + part).lstrip(b"\0")
        if b"\0" in said or len(said) > _MOST:
            return ""
        if said.endswith(b">>> "):
            break
    # A micro:bit shows an error on its display for minutes before it prompts.
    return _error(said[: said.rfind(b"\n") + 1])


def _error(said: bytes) -> str:
    """The last line of a traceback, or one of our own."""
    failed = False
    for line in said.decode(errors="replace").splitlines():
        if line.startswith("tinyldp: "):
            return line.removeprefix("tinyldp: ").rstrip(". ")
        failed = failed or line.startswith("Traceback ")
        if failed and line[:1].isalpha() and not line.startswith("Traceback "):
            return line.rstrip(". ")
    return ""
