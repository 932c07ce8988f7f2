"""The lane `serial:PORT`: a real board, reached through mpremote."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping

from tinyldp.errors import UserError
from tinyldp.lanes.board import Board
from tinyldp.lanes.flatfiles import FlatFiles
from tinyldp.lanes.lane import Lane, Process, Result, checked_path
from tinyldp.lanes.packages import compile_module, sources

# Everything happens in this folder of the board, which is removed at the end.
_FOLDER = "tinyldp-lane"
_CHUNK = 48
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


# The same, as a module of boards without folders and arguments.
_FLAT = "tinyldp_lane.py"
_RUN_FLAT = b"""import sys
def run(main, mark):
 code = 0
 error = None
 try:
  file = open(main)
  source = file.read()
  file.close()
  exec(source, {'__name__': '__main__'})
 except SystemExit as end:
  if end.args: code = end.args[0]
 except BaseException as failure:
  code = 1
  error = failure
 print(mark + str(code or 0))
 if error: sys.print_exception(error)
"""


class _Place(ABC):
    """Where a lane keeps its files on a board, and how it starts one of them there."""

    @abstractmethod
    def put(self, files: Mapping[str, bytes]) -> None:
        """Write and verify."""

    @abstractmethod
    def has(self, path: str) -> bool: ...

    @abstractmethod
    def begin(self, argv: list[str], mark: bytes) -> None:
        """Start a program, at whose end the board says the mark, its exit code and a new line."""

    @abstractmethod
    def clean(self) -> None:
        """Leave nothing behind."""


class _Folder(_Place):
    def __init__(self, board: Board) -> None:
        self._board = board
        board.remove(_FOLDER)
        board.exec(f"import os\nos.mkdir({_FOLDER!r})")

    def put(self, files: Mapping[str, bytes]) -> None:
        there = {f"{_FOLDER}/{path}": content for path, content in files.items()}
        for path, content in there.items():
            self._board.write(path, content)
        self._board.verify(there)

    def has(self, path: str) -> bool:
        return f"{_FOLDER}/{path}" in self._board.tree(_FOLDER)

    def begin(self, argv: list[str], mark: bytes) -> None:
        self._board.begin(_RUN.format(folder=_FOLDER, argv=argv, main=argv[0], mark=mark))

    def clean(self) -> None:
        self._board.remove(_FOLDER)


class _Root(_Place):
    """The only folder that a micro:bit has: what is there already is not overwritten."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._own: set[str] = set()

    def put(self, files: Mapping[str, bytes]) -> None:
        place = FlatFiles(self._board)
        there = place.sizes().keys() - self._own
        for path, content in files.items():
            if "/" in path:
                raise UserError(f"The micro:bit has no folders to put {path} into.")
            if path in there:
                raise UserError(f"{path} is on the board already, and is not this lane's.")
            self._own.add(path)
            place.put(path, content)

    def has(self, path: str) -> bool:
        return path in self._own

    def begin(self, argv: list[str], mark: bytes) -> None:
        if len(argv) > 1:
            raise UserError("A program on the micro:bit takes no arguments.")
        if not self.has(_FLAT):
            self.put({_FLAT: _RUN_FLAT})
        self._board.command(b"m=%r" % mark.decode())
        self._board.command(b"from %b import run" % _FLAT.removesuffix(".py").encode())
        self._board.begin_line(b"run(%r,m)" % argv[0])

    def clean(self) -> None:
        place = FlatFiles(self._board)
        for path in self._own & place.sizes().keys():
            place.remove(path)
        self._own.clear()


class BoardProcess(Process):
    """A program on a board: what it prints and reads goes over the board's port.

    A port that is a REPL turns 0x03 into Ctrl-C, unless the program says
    micropython.kbd_intr(-1); there is no end of input.
    """

    def __init__(self, board: Board, place: _Place, argv: list[str]) -> None:
        self._board = board
        self._place = place
        self._argv = argv
        self._start()

    def _start(self) -> None:
        self._mark = b"\n" + os.urandom(8).hex().encode() + b" "
        self._unread = b""
        self._ended = False
        self._board.clear()
        self._place.begin(self._argv, self._mark)
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
    """One board, one program at a time; the board's other files stay.

    A micro:bit runs small programs: nothing is installed there.
    """

    name = "serial"

    def __init__(self, port: str) -> None:
        self._board = Board(port)
        self._process: BoardProcess | None = None
        try:
            self._place = _Root(self._board) if self._board.flat else _Folder(self._board)
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
        self._place.put({checked_path(path): content for path, content in files.items()})

    def install(self, compiled: bool = False) -> None:
        if self._board.flat:
            raise UserError("The packages do not fit on a micro:bit.")
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
        if not self._place.has(checked_path(main)):
            raise UserError(f"There is no file {main} on the lane serial:{self._board.port}.")
        self._process = BoardProcess(self._board, self._place, [main, *args])
        return self._process

    def stop(self) -> None:
        if self._board.serial.is_open:
            try:
                self._end()
                self._place.clean()
            finally:
                self._board.stop()

    def _end(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None
