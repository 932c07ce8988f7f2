"""A board with files on a serial port, reached through mpremote.

Paths are relative to the folder that the board starts in (/, or /flash on
stm32). Whatever goes wrong becomes one sentence, a UserError.
"""

from __future__ import annotations

import ast
import contextlib
import errno
import hashlib
import io
import os
import stat
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tinyldp.errors import UserError
from tinyldp.lanes.first_words import first_error
from tinyldp.stoppable import Stoppable

# So many Ctrl-C in a row end the agent, whose line is binary (see boards/repl.py).
INTERRUPT = b"\x03" * 32
_TIMEOUT = 2
# Seconds of silence in the middle of an answer: an emulated board may get no core for long.
_SILENCE = 5
_ENTER = 8
_LONGEST = 15
_ATTEMPTS = 6
_TO_RESET = 60
_TREE = """
import os
def _t(d):
 for e in os.ilistdir(d or '.'):
  p=(d+'/' if d else '')+e[0]
  if e[1]&0x4000:
   print(repr((p,None)))
   _t(p)
  else:
   print(repr((p,os.stat(p)[6])))
try:
 _t({root!r})
except OSError as e:
 if e.errno not in (2,20): raise
"""
_HASH = """
import hashlib
b=bytearray(512)
m=memoryview(b)
for p in {paths!r}:
 h=hashlib.sha256()
 try:
  with open(p,'rb') as f:
   while True:
    n=f.readinto(b)
    if not n: break
    h.update(m[:n])
 except OSError:
  continue
 print(repr((p,h.digest())))
"""


@dataclass(frozen=True)
class Facts:
    """What a board says of itself. home: the folder it starts in; path: where it looks for modules.

    mpy: version of the .mpy files that it loads, 0 for none.
    """

    name: str
    version: tuple[int, ...]
    platform: str
    small_int_bits: int
    home: str
    path: tuple[str, ...]
    mpy: int


class Board(Stoppable):
    """One board, its program stopped, at its raw REPL until stop().

    waiting: is told in one sentence that somebody has to press the reset button
    of a board that talks and does not stop; Ctrl-C is then sent for a minute.
    Raises UserError when there is none, when another program has the port, when
    nothing answers and when what runs there cannot be stopped.
    """

    def __init__(self, port: str, waiting: Callable[[str], None] | None = None) -> None:
        try:
            from mpremote.transport import TransportError
            from mpremote.transport_serial import SerialTransport
        except ImportError:
            raise UserError("Reaching a board needs the PyPI package mpremote.") from None
        self.port = port
        self._failure = TransportError
        if "://" not in port and os.name == "posix":
            if not os.path.exists(port):
                raise UserError(f"There is no board at {port}: no such port.")
            if not stat.S_ISCHR(os.stat(port).st_mode):
                raise UserError(f"There is no board at {port}: that is no serial port.")
        for left in reversed(range(_ATTEMPTS)):
            try:
                self._transport = SerialTransport(port, timeout=_TIMEOUT)
                break
            except (TransportError, OSError, ValueError):
                # A board that was just reset may need a moment; mpremote hides what is wrong.
                if not left:
                    raise UserError(
                        f"The port {port} can't be opened: another program has it open, "
                        "or you may not use it."
                    ) from None
                time.sleep(0.1)
        self.serial: Any = self._transport.serial
        self.serial.write_timeout = _LONGEST
        # mpremote would listen for ever to a board that never stops sending.
        self._deadline = 0.0
        self._read = self.serial.read
        self.serial.read = self._read_in_time
        self._waiting = waiting
        try:
            self._enter()
            self.facts = self._ask()
        except BaseException:
            self.unplug()
            raise

    def stop(self) -> None:
        """Leave the board at its prompt and close the port."""
        if self.serial.is_open:
            with contextlib.suppress(OSError, self._failure):
                self._transport.exit_raw_repl()
            self.unplug()

    def restart(self, seconds: float = 0) -> str:
        """Soft reset: boot.py and main.py run anew, and the port is closed.

        Gives the error that main.py ends with, if it does so within so many seconds and
        before it has sent anything binary, as a frame.
        """
        if not self.serial.is_open:
            return ""
        with self._told("started"):
            self._transport.exit_raw_repl()
            self._until(b">>> ")
            self.serial.write(b"\x04")
            self._until(b"soft reboot\r\n")
        try:
            return first_error(self.receive, seconds)
        finally:
            self.unplug()

    def clear(self) -> None:
        """Soft reset that does not run main.py: an empty heap."""
        with self._told("reset"):
            self._transport.enter_raw_repl(soft_reset=True, timeout_overall=_ENTER)

    def exec(self, code: str, what: str = "used") -> bytes:
        """Run code and give what it printed; an exception there is a UserError here."""
        with self._told(what):
            return self._transport.exec(code)

    def command(self, line: bytes, what: str = "used") -> bytes:
        """exec() for boards that receive no more than 64 bytes at a time: one short line."""
        self.begin_line(line, what)
        with self._told(what):
            output, error = self._transport.follow(_SILENCE)
            if error:
                raise self._refused(what, error.decode(errors="replace").strip().split("\n")[-1])
            return output

    def value(self, expression: bytes, what: str) -> Any:
        """command() for the value of a short expression."""
        try:
            return ast.literal_eval(self.command(b"print(%b)" % expression, what).decode().strip())
        except (ValueError, SyntaxError):
            raise self._garbled(what) from None

    def begin(self, code: str) -> None:
        """Start code; its bytes are then exchanged over `serial`."""
        with self._told("started"):
            self._transport.exec_raw_no_follow(code)

    def send(self, data: bytes) -> None:
        """Bytes for started code."""
        try:
            self.serial.write(data)
        except OSError as error:
            raise self._gone(error) from None

    def begin_line(self, line: bytes, what: str = "started") -> None:
        """begin() for one short line."""
        with self._told(what):
            self._until(b">")
            self.serial.write(line + b"\x04")
            said = b""
            end = time.monotonic() + _SILENCE
            while len(said) < 2 and time.monotonic() < end:
                said += self.serial.read(2 - len(said))
            if said != b"OK":
                raise self._failure("no OK")

    def receive(self, deadline: float) -> bytes:
        """What started code has sent, or b"" when nothing came until the deadline."""
        try:
            while not (waiting := self.serial.in_waiting):
                if time.monotonic() >= deadline:
                    return b""
                time.sleep(0.002)
            return self._read(waiting)
        except OSError as error:
            raise self._gone(error) from None

    def prompted(self) -> None:
        """Started code has ended, and its output up to the prompt was received."""
        self._transport.serial.write(b"\x01")
        with self._told("asked for its prompt"):
            self._until(b"raw REPL; CTRL-B to exit\r\n")

    def interrupt(self) -> None:
        """End what was started."""
        self._enter()

    def rows(self, code: str, what: str) -> Iterator[Any]:
        """Run code that prints one literal a line."""
        try:
            lines = self.exec(code, what).decode().split("\n")
            yield from [ast.literal_eval(line) for line in lines if line.strip()]
        except (ValueError, SyntaxError):
            raise self._garbled(what) from None

    def tree(self, root: str = "") -> dict[str, int | None]:
        """Everything below a folder: sizes of files, None for folders; empty where it is not."""
        return dict(self.rows(_TREE.format(root=root), "listed"))

    def tree_of(self, place: str, modules: Iterable[str]) -> list[str]:
        """Paths at a place on the module path that `import` would take for these modules.

        Of a package the first file in it, or the folder itself when it is empty.
        """
        found = []
        head = place + "/" if place else ""
        for module in modules:
            for name in (module, f"{module}.py", f"{module}.mpy"):
                code = (
                    f"import os\ntry:\n os.stat({head + name!r})\n print(1)\nexcept OSError:\n pass"
                )
                if self.exec(code, "searched").strip():
                    files = [p for p, size in self.tree(head + name).items() if size is not None]
                    found.append(min(files, default=head + name))
        return found

    def hashes(self, paths: Iterable[str]) -> dict[str, bytes]:
        """SHA-256 of those of the files that are there, computed by the board."""
        wanted = list(paths)
        found = {}
        for at in range(0, len(wanted), 8):
            found.update(self.rows(_HASH.format(paths=wanted[at : at + 8]), "checked"))
        return found

    def read(self, path: str) -> bytes | None:
        """A file's content, or None where there is none."""
        with self._told(f"asked for {path}"):
            try:
                return bytes(self._transport.fs_readfile(path))
            except FileNotFoundError:
                return None

    def write(self, path: str, content: bytes) -> None:
        """Write a whole file, making its folders."""
        with self._told(f"given {path}"):
            folder = ""
            for part in path.split("/")[:-1]:
                folder += ("/" if folder else "") + part
                with contextlib.suppress(FileExistsError):
                    self._transport.fs_mkdir(folder)
            self._transport.fs_writefile(path, content, chunk_size=512)

    def put(self, path: str, content: bytes) -> None:
        """Write a file and let the board check it."""
        self.write(path, content)
        self.verify({path: content})

    def verify(self, files: dict[str, bytes]) -> None:
        """Raise UserError, naming the file, unless the board has each as it should be."""
        found = self.hashes(files)
        for path, content in files.items():
            if path not in found:
                raise UserError(f"{path} is not on the board, though it was copied.")
            if found[path] != hashlib.sha256(content).digest():
                raise UserError(f"{path} on the board is not what was sent: its SHA-256 differs.")

    def rename(self, old: str, new: str) -> None:
        """Atomic on littlefs; FAT first removes what is there."""
        self.exec(
            f"import os\ntry:\n os.rename({old!r},{new!r})\n"
            f"except OSError:\n os.remove({new!r})\n os.rename({old!r},{new!r})",
            f"given {new}",
        )

    def remove(self, root: str) -> None:
        """Remove a file, or a folder with all that is in it; nothing where there is none."""
        tree = self.tree(root)
        for path, size in sorted(tree.items(), reverse=True):
            self.exec(f"import os\nos.{'rmdir' if size is None else 'remove'}({path!r})", "cleaned")
        self.exec(
            f"import os\nfor f in (os.remove,os.rmdir):\n try: f({root!r})\n except OSError: pass",
            "cleaned",
        )

    def free(self) -> int:
        """Bytes left on its file system."""
        (space,) = self.rows(
            "import os\ns=os.statvfs('.')\nprint(repr(s[0]*s[3]))", "asked for its free space"
        )
        return space

    def _read_in_time(self, size: int = 1) -> bytes:
        if self._deadline and time.monotonic() > self._deadline:
            raise self._failure("it does not come to an end")
        return self._read(size)

    def _enter(self) -> None:
        """To the raw REPL, past whatever runs there."""
        try:
            times = (_ENTER, _ENTER - 2, _ENTER - 4)
            if self._waiting is not None:
                # Somebody who would press a button is asked soon.
                times = (_ENTER // 2, _ENTER // 4)
            for attempt, seconds in enumerate(times):
                self.serial.write(INTERRUPT)
                # mpremote itself would wait for silence without limit.
                if not self._settle():
                    continue
                # On a terminal mpremote forgets its own while the board goes on talking.
                self._deadline = time.monotonic() + seconds
                try:
                    with contextlib.redirect_stdout(io.StringIO()):
                        self._transport.enter_raw_repl(
                            soft_reset=attempt < 2, timeout_overall=seconds
                        )
                    return
                except self._failure:
                    if self._waiting is None and not self._hears(0.5):
                        break
        except OSError as error:
            raise self._gone(error) from None
        if self._hears(1.0):
            if self._waiting is not None and self._was_reset(self._waiting):
                self._waiting = None
                return self._enter()
            raise UserError(
                f"The board at {self.port} keeps sending and does not stop on Ctrl-C: "
                "press its reset button and try again at once."
            )
        raise UserError(f"The board at {self.port} does not answer: no MicroPython REPL there.")

    def _was_reset(self, waiting: Callable[[str], None]) -> bool:
        """Ctrl-C until the board, just reset, hears it before its program does."""
        waiting(f"The board at {self.port} does not stop on Ctrl-C: press its reset button.")
        end = time.monotonic() + _TO_RESET
        said = b""
        while not said.endswith(b">>> ") and time.monotonic() < end:
            # To the prompt from the raw REPL, too.
            self.send(b"\x03\x02")
            said = (said + self.receive(time.monotonic() + 0.1))[-64:]
        return said.endswith(b">>> ")

    def _settle(self) -> bool:
        """Throw away what is still on its way, for a second at most; True when it fell silent."""
        end = time.monotonic() + 1.0
        while self._hears(0.1):
            if time.monotonic() >= end:
                return False
            self.serial.reset_input_buffer()
        return True

    def _hears(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not self.serial.in_waiting:
            if time.monotonic() >= end:
                return False
            time.sleep(0.01)
        return True

    def _until(self, ending: bytes) -> None:
        said = self._transport.read_until(1, ending, timeout=_SILENCE, timeout_overall=_ENTER)
        if not said.endswith(ending):
            raise self._failure(f"no {ending!r}")

    def _ask(self) -> Facts:
        """In short lines, that every MicroPython from 1.9.2 on understands."""
        what = "asked what it is"
        self.command(b"import os,sys;v=sys.implementation", what)
        name, version, platform = self.value(b"(v[0],tuple(v[1])[:3],sys.platform)", what)
        largest = self.value(b"getattr(sys,'maxsize',0)", what)
        home = self.value(b"repr(hasattr(os,'getcwd')and os.getcwd()or'')", what)
        path: list[str] = []
        mpy = 0
        if tuple(version) >= (1, 12):
            path = self.value(b"sys.path", what)
            mpy = self.value(b"getattr(v,'_mpy',0)&255", what)
        bits = 63 if largest > 1 << 32 else 31
        return Facts(name, tuple(version), platform, bits, home, tuple(path), mpy)

    @property
    def flat(self) -> bool:
        """Whether it has no folders: a micro:bit, whose files are for FlatFiles."""
        return self.facts.platform == "microbit"

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Turn what can go wrong on the line into a sentence."""
        self._deadline = time.monotonic() + _LONGEST
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                yield
        except self._failure as error:
            told = getattr(error, "error_output", None)
            if told is None:
                raise self._garbled(what) from None
            raise self._refused(what, told.strip().rpartition("\n")[2]) from None
        except OSError as error:
            if isinstance(error.args[0] if error.args else None, int) and not _of_port(error):
                raise self._refused(what, os.strerror(error.args[0]), error.args[0]) from None
            raise self._gone(error) from None
        except (struct.error, ValueError, SyntaxError):
            # mpremote unpacks what it hopes to have read.
            raise self._garbled(what) from None

    def _refused(self, what: str, why: str, number: int = 0) -> UserError:
        if number == errno.ENOSPC or "ENOSPC" in why or why.endswith("OSError: 28"):
            return UserError(f"The board has no room left: it was full when it was {what}.")
        if "MemoryError" in why:
            return UserError(f"The board has too little memory to be {what}.")
        return UserError(f"The board reported an error when it was {what}: {why}.")

    def _garbled(self, what: str) -> UserError:
        return UserError(
            f"The board at {self.port} fell silent or sent something else when it was {what}: "
            "it was unplugged or reset, or its own program still prints; try again."
        )

    def _gone(self, error: OSError) -> UserError:
        import serial

        if isinstance(error, serial.SerialTimeoutException):
            return UserError(f"The board at {self.port} reads nothing of what is sent to it.")
        return UserError(f"The board at {self.port} is gone: {error.strerror or error}.")

    def unplug(self) -> None:
        """Close the port and leave the board as it is."""
        with contextlib.suppress(OSError):
            self._transport.close()


def _of_port(error: OSError) -> bool:
    """Whether the port failed, and not a call on the board."""
    import serial

    return isinstance(error, serial.SerialException) or error.errno in (errno.EIO, errno.ENXIO)
