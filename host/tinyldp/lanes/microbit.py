"""The lane `microbit`: a BBC micro:bit in QEMU, with MicroPython 1.9.2 and 16 KB of RAM."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tinyldp.errors import UserError
from tinyldp.lanes.lane import Lane, Process, Result, checked_path

FIRMWARE = Path("/usr/share/firmware-microbit-micropython/firmware.hex")
_QEMU = "qemu-system-arm"
# Seconds in which it answers, also where it gets no core for long.
_PATIENCE = 60.0
_PROMPT = rb"\r\n>>> "
_END = _PROMPT + rb"|Traceback .*\r\n(?:  .*\r\n)+\S.*\r\n"
# The board's receive ring has 64 bytes, so no command may be longer before it answers.
_LONGEST_COMMAND = 60
# Erases the last page of the file system, through the flash controller (CONFIG, ERASEPAGE).
_ERASE = (
    b"from machine import mem32",
    b"mem32[0x4001e504]=2",
    b"mem32[0x4001e508]=0x3f800",
    b"mem32[0x4001e504]=0",
)


class EmulatedBoard(Process):
    """One emulated board; what it says on its serial line is its output.

    Its flash, with all that the program wrote there, lives as long as the board.
    """

    def __init__(
        self,
        files: Mapping[str, bytes],
        seed: int | None = None,
        progress: Callable[[int, int, str], None] | None = None,
    ) -> None:
        self._progress = progress
        self._serial, serial = socket.socketpair()
        self._control, control = socket.socketpair()
        self._qemu = subprocess.Popen(
            [
                *(_QEMU, "-M", "microbit", "-device", f"loader,file={FIRMWARE}"),
                *("-nodefaults", "-display", "none"),
                # Time is counted in instructions then: on a busy computer the clock would
                # outrun the program, and its generator pass over bytes.
                *(() if seed is None else ("-seed", str(seed), "-icount", "shift=5")),
                *("-chardev", f"socket,id=serial,fd={serial.fileno()}"),
                *("-serial", "chardev:serial"),
                *("-chardev", f"socket,id=control,fd={control.fileno()}"),
                *("-mon", "chardev=control,mode=control"),
            ],
            pass_fds=[serial.fileno(), control.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        serial.close()
        control.close()
        self._unread = b""
        try:
            self._control.settimeout(_PATIENCE)
            self._answers = self._control.makefile("rb")
            self._answers.readline()
            self._execute("qmp_capabilities")
            self._provision(files)
            self.reset()
        except BaseException:
            self.stop()
            raise

    def _execute(self, command: str) -> None:
        self._control.sendall(json.dumps({"execute": command}).encode() + b"\n")
        while b'"return"' not in (answer := self._answers.readline()):
            if not answer or b'"error"' in answer:
                raise RuntimeError(f"QEMU refused {command}: {answer.decode()}")

    def _provision(self, files: Mapping[str, bytes]) -> None:
        self._expect(_PROMPT)
        self.write(b"\r\x03\x01")
        self._expect(rb"CTRL-B to exit\r\n>")
        # Flash begins as zeros here, and as ones on a board: there, the file system marks on that
        # page which way it is laid out, and without the mark it loses files when it is compacted.
        for line in _ERASE:
            self._command(line)
        for done, (path, content) in enumerate(files.items()):
            if self._progress:
                self._progress(done, len(files), path)
            self._command(f"f=open({path!r},'wb')".encode())
            at = 0
            while at < len(content):
                size = 48
                while len(line := b"f.write(%r)" % content[at : at + size]) > _LONGEST_COMMAND:
                    size -= 1
                self._command(line)
                at += size
            self._command(b"f.close()")
        if self._progress:
            self._progress(len(files), len(files), "")

    def _command(self, line: bytes) -> None:
        """One line in the raw REPL (which answers OK, output, 4, errors, 4, >)."""
        self.write(line + b"\x04")
        answer = self._expect(rb"\x04>")
        if not answer.endswith(b"\x04\x04>"):
            raise UserError(f"The micro:bit refused a file: {answer.decode(errors='replace')}")

    def _expect(self, end: bytes, timeout: float = _PATIENCE) -> bytes:
        """Read up to where the pattern `end` ends."""
        deadline = time.monotonic() + timeout
        while not (found := re.search(end, self._unread)):
            if not self._receive(deadline):
                raise TimeoutError(f"The micro:bit said {self._unread[-200:]!r}, and no {end!r}.")
        data, self._unread = self._unread[: found.end()], self._unread[found.end() :]
        return data

    def _receive(self, deadline: float) -> bool:
        self._serial.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            data = self._serial.recv(65536)
        except TimeoutError:
            return False
        self._unread += data
        return bool(data)

    @property
    def pid(self) -> int:
        return self._qemu.pid

    def read(self, n: int, timeout: float = 10.0) -> bytes:
        deadline = time.monotonic() + timeout
        while len(self._unread) < n and self._receive(deadline):
            pass
        data, self._unread = self._unread[:n], self._unread[n:]
        return data

    def write(self, data: bytes) -> None:
        self._serial.settimeout(_PATIENCE)
        self._serial.sendall(data)

    def reset(self) -> None:
        self._unread = b""
        self._execute("system_reset")

    def wait(self, timeout: float = 60.0, stdin: bytes = b"") -> Result:
        """The program ends where the REPL prompts, or after a traceback: exit code 1.

        The board then shows the error on its display for minutes before it prompts.
        """
        self.write(stdin)
        output = self._expect(_END, timeout)
        return Result(int(b"Traceback" in output), output, b"")

    def stop(self) -> None:
        self._qemu.kill()
        self._qemu.wait()
        assert self._qemu.stderr is not None
        self._qemu.stderr.close()
        self._serial.close()
        self._control.close()


class Microbit(Lane):
    """31-bit small integers, 9 KB of heap, a flat file system, no arguments."""

    name = "microbit"

    def __init__(self) -> None:
        # Of the emulated generator; None: from this computer's own randomness.
        self.seed: int | None = None
        self._files: dict[str, bytes] = {}
        self._boards: list[EmulatedBoard] = []

    @classmethod
    def missing(cls) -> str | None:
        if shutil.which(_QEMU) is None:
            return f"{_QEMU} is not installed (on Debian: the package qemu-system-arm)"
        if not FIRMWARE.is_file():
            return "the Debian package firmware-microbit-micropython is not installed"
        return None

    def put(self, files: Mapping[str, bytes]) -> None:
        for path in files:
            if "/" in checked_path(path):
                raise UserError(f"The micro:bit has no folders to put {path} into.")
        self._files.update(files)

    def install(self, compiled: bool = False) -> None:
        raise UserError(
            "The packages do not fit on a micro:bit: put what flatten() gives for a Task."
        )

    def start(self, main: str, *args: str, heap: str | None = None) -> EmulatedBoard:
        if args or heap:
            raise UserError("A program on the micro:bit takes no arguments and has all the heap.")
        if main not in self._files:
            raise UserError(f"There is no file {main} on the lane microbit.")
        files = {**self._files, "main.py": self._files[main]}
        board = EmulatedBoard(files, self.seed, self.progress)
        self._boards.append(board)
        return board

    def stop(self) -> None:
        while self._boards:
            self._boards.pop().stop()
