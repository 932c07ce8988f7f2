"""The lane `cpython`: this very Python, to compare the others with."""

from __future__ import annotations

import sys

from tinyldp.lanes.interpreter import Interpreter

_RUN = (
    "import runpy, sys; sys.argv = sys.argv[1:]; sys.path.insert(0, '.'); "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


class CPython(Interpreter):
    """Integers without bound; no heap to set, and nothing else from this computer's packages."""

    name = "cpython"
    small_int_bits = 63

    @classmethod
    def missing(cls) -> str | None:
        return None

    def command(self, main: str, args: tuple[str, ...], heap: str | None) -> list[str]:
        return [sys.executable, "-I", "-S", "-B", "-c", _RUN, main, *args]
