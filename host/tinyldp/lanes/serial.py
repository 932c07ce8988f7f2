"""The lane `serial:PORT`: a real board with a file system, reached through mpremote."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from tinyldp.errors import UserError
from tinyldp.lanes.board import Board
from tinyldp.lanes.lane import Lane, Process, Result, checked_path
from tinyldp.lanes.packages import compile_module, sources

# Everything happens in this folder of the board, which is removed at the end.
_FOLDER = "tinyldp-lane"
_CHUNK = 64
# Runs a program in that folder, then says how it ended after a mark that no output holds by chance.
_RUN = """
import os, sys
def _run():
    home = os.getcwd()
    os.chdir({folder!r})
    sys.path.insert(0, os.getcwd())
    sys.argv[:] = {argv!r}
    code, error = 0, None
    try:
        with open({main!r}) as file:
            source = file.read()
        exec(source, {{"__name__": "__main__"}})
    except SystemExit as end:
        code = end.args[0] if end.args else 0
    except BaseException as failure:
        code, error = 1, failure
    os.chdir(home)
    sys.stdout.buffer.write({mark!r} + b"%d\\n" % (code or 0))
    if error is not None:
        sys.print_exception(error)
_run()
"""


class BoardProcess(Process):
    """A program on a board: what it prints and reads goes over the board's port.

    A port that is a REPL turns 0x03 into Ctrl-C, unless the program says
    micropython.kbd_intr(-1); there is no end of input.
    """

    def __init__(self, board: Board, main: str, args: tuple[str, ...]) -> None:
        self._board = board
        self._main = main
        self._args = args
        self._start()

    def _start(self) -> None:
        self._mark = b"\n" + os.urandom(8).hex().encode() + b" "
        self._unread = b""
        self._ended = False
        argv = [self._main, *self._args]
        self._board.clear()
        self._board.begin(_RUN.format(folder=_FOLDER, argv=argv, main=self._main, mark=self._mark))
        self._running = True

    @property
    def pid(self) -> int:
        """0: no process of this computer runs it."""
        return 0

    def read(self, n: int, timeout: float = 10.0) -> bytes:
        deadline = time.monotonic() + timeout
        while self._printed() < n and not self._ended and self._receive(deadline):
            pass
        n = min(n, self._printed())
        data, self._unread = self._unread[:n], self._unread[n:]
        return data

    def write(self, data: bytes) -> None:
        self._board.send(data)

    def reset(self) -> None:
        self._board.interrupt()
        self._start()

    def wait(self, timeout: float = 60.0, stdin: bytes = b"") -> Result:
        deadline = time.monotonic() + timeout
        # A little at a time: a board that waits until its output is read reads nothing.
        for at in range(0, len(stdin), _CHUNK):
            self.write(stdin[at : at + _CHUNK])
            self._receive(0.0)
        # The REPL ends output and errors with a 4 each, and then prompts.
        while not (self._ended and self._unread.endswith(b"\x04\x04>")):
            if not self._receive(deadline):
                self.stop()
                raise TimeoutError(f"The program did not end in {timeout:g} s.")
        self._running = False
        self._board.prompted()
        output, _, rest = self._unread.partition(self._mark)
        code, _, errors = rest.removesuffix(b"\x04\x04>").partition(b"\n")
        return Result(int(code), output, errors)

    def stop(self) -> None:
        if self._running:
            self._running = False
            self._board.interrupt()

    def _printed(self) -> int:
        """How many of the unread bytes are the program's output for sure."""
        end = self._unread.find(self._mark)
        if end >= 0:
            return end
        for size in range(min(len(self._mark), len(self._unread)), 0, -1):
            if self._mark.startswith(self._unread[-size:]):
                return len(self._unread) - size
        return len(self._unread)

    def _receive(self, deadline: float) -> bool:
        data = self._board.receive(deadline)
        self._unread += data
        self._ended = self._mark in self._unread
        return bool(data)


class Serial(Lane):
    """One board, one program at a time, in a folder of its own: the board's other files stay."""

    name = "serial"

    def __init__(self, port: str) -> None:
        self._board = Board(port)
        self._process: BoardProcess | None = None
        try:
            self._board.remove(_FOLDER)
            self._board.exec(f"import os\nos.mkdir({_FOLDER!r})")
        except BaseException:
            self._board.stop()
            raise

    @classmethod
    def missing(cls) -> str | None:
        try:
            import mpremote  # noqa: F401
        except ImportError:
            return "the PyPI package mpremote is not installed"
        return None

    def put(self, files: Mapping[str, bytes]) -> None:
        self._end()
        for path, content in files.items():
            self._board.write(f"{_FOLDER}/{checked_path(path)}", content)
        self._board.verify({f"{_FOLDER}/{path}": content for path, content in files.items()})

    def install(self, compiled: bool = False) -> None:
        files = sources()
        if compiled:
            bits = self._board.facts.small_int_bits
            files = {
                path[:-3] + ".mpy": compile_module(path, source, bits)
                for path, source in files.items()
            }
        self.put(files)

    def start(self, main: str, *args: str, heap: str | None = None) -> BoardProcess:
        if heap:
            raise UserError("A program on a board has all the heap that there is.")
        self._end()
        path = f"{_FOLDER}/{checked_path(main)}"
        if path not in self._board.tree(_FOLDER):
            raise UserError(f"There is no file {main} on the lane serial:{self._board.port}.")
        self._process = BoardProcess(self._board, main, args)
        return self._process

    def stop(self) -> None:
        if self._board.serial.is_open:
            try:
                self._end()
                self._board.remove(_FOLDER)
            finally:
                self._board.stop()

    def _end(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None
