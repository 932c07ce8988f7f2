"""Lanes that are a process on this computer: a folder, and an interpreter in it."""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tinyldp.errors import UserError
from tinyldp.lanes.lane import Lane, Process, Result, checked_path
from tinyldp.lanes.packages import compile_module, sources


class PipedProcess(Process):
    """A child process: its standard input and output are the bytes to exchange."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._command = command
        self._folder = folder
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, closed by stop()
        self._start()

    def _start(self) -> None:
        self._child = subprocess.Popen(
            self._command,
            bufsize=0,
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # A file, so that a program which complains at length never waits for a reader.
            stderr=self._errors,
        )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether the program has not ended yet."""
        return self._child.poll() is None

    def read(self, n: int, timeout: float = 10.0) -> bytes:
        assert self._child.stdout is not None
        output = self._child.stdout.fileno()
        deadline = time.monotonic() + timeout
        data = b""
        while len(data) < n:
            ready, _, _ = select.select([output], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(output, n - len(data)) if ready else b""
            if not chunk:
                break
            data += chunk
        return data

    def write(self, data: bytes) -> None:
        assert self._child.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self._child.stdin.write(view) :]

    def reset(self) -> None:
        self._end()
        self._start()

    def wait(self, timeout: float = 60.0, stdin: bytes = b"") -> Result:
        try:
            output, _ = self._child.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            self._end()
            raise TimeoutError(f"The program did not end in {timeout:g} s.") from None
        self._errors.seek(0)
        return Result(self._child.returncode, output, self._errors.read())

    def stop(self) -> None:
        self._end()
        self._errors.close()

    def _end(self) -> None:
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            assert pipe is not None
            pipe.close()


class Interpreter(Lane):
    """A lane whose root is a temporary folder and whose programs are child processes."""

    small_int_bits: ClassVar[int]

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix=f"tinyldp-{self.name}-")
        self._processes: list[PipedProcess] = []
        self.folder = Path(self._temporary.name)

    @abstractmethod
    def command(self, main: str, args: tuple[str, ...], heap: str | None) -> list[str]:
        """The command line of a program, run in the lane's folder."""

    def put(self, files: Mapping[str, bytes]) -> None:
        for path, content in files.items():
            target = self.folder / checked_path(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)

    def install(self, compiled: bool = False) -> None:
        self.put(self.compile(sources()) if compiled else sources())

    def compile(self, modules: Mapping[str, bytes]) -> dict[str, bytes]:
        """The .mpy files of some .py files, for this lane's integers."""
        return {
            path[:-3] + ".mpy": compile_module(path, source, self.small_int_bits)
            for path, source in modules.items()
        }

    def start(self, main: str, *args: str, heap: str | None = None) -> PipedProcess:
        if not (self.folder / checked_path(main)).is_file():
            raise UserError(f"There is no file {main} on the lane {self.name}.")
        process = PipedProcess(self.command(main, args, heap), self.folder)
        self._processes.append(process)
        return process

    def stop(self) -> None:
        while self._processes:
            self._processes.pop().stop()
        self._temporary.cleanup()
