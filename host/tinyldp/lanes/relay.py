"""A board made of MicroPython's unix port: its raw REPL behind a pseudo-terminal.

`port` behaves as a board's USB port does, so that mpremote, and what is built
on it, can be tried without a board: it runs boot.py and main.py at boot, a
soft reset says "MPY: soft reboot" and runs them anew (from the raw REPL
boot.py alone), Ctrl-C interrupts a program, and a folder is its file system.

    python -m tinyldp.lanes.relay FOLDER      prints the port; Ctrl-C ends it
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import subprocess
import sys
import tempfile
import termios
import threading
import time
import tty
from importlib.util import find_spec
from pathlib import Path

from tinyldp.errors import UserError
from tinyldp.lanes.lane import Stoppable
from tinyldp.lanes.unix import Unix

# The interpreter gets the terminal as its own, so that the kernel turns Ctrl-C into an interrupt
# while a program runs, and into a plain byte at the REPL, which sets the terminal raw.
_RUN = (
    "import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "sys.path.insert(0, sys.argv[1]); import micropython_run; "
    "sys.exit(micropython_run.run_main(['micropython'] + sys.argv[2:]))"
)
_READY = b"\x02tinyldp\x03\n"
_RESET = 64
# What a board has and the unix port lacks: machine.reset(), no arguments, /lib on the path.
_BOOT = f"""
import sys, machine
sys.argv[:] = []
class _Machine: pass
_m = _Machine()
for _n in dir(machine):
    if _n[0] != '_': setattr(_m, _n, getattr(machine, _n))
_m.reset = lambda: sys.exit({_RESET})
_m.soft_reset = lambda: sys.exit(0)
sys.modules['machine'] = _m
del machine, _Machine, _m, _n
sys.stdout.buffer.write({_READY!r})
def _boot(name):
    try: open(name).close()
    except OSError: return
    execfile(name)
"""
_RAW_REPL = b"raw REPL; CTRL-B to exit\r\n>"
_PASTE = b"\x05A\x01"
_PROMPT = b"\r\n>>> "
# Seconds that a board waits for somebody to read, as MicroPython's USB does.
_PATIENCE = 0.5


class RelayedBoard(Stoppable):
    """port: the path to open. folder: its files, a temporary folder when none is given.

    Raises UserError when the unix port is missing.
    """

    def __init__(self, folder: Path | None = None, heap: str = "256K") -> None:
        reason = Unix.missing()
        if reason is not None:
            raise UserError(f"The relayed board is not available: {reason}.")
        self._temporary = None
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="tinyldp-board-")
            folder = Path(self._temporary.name)
        self.folder = folder
        self._heap = heap
        self._raw = False
        self._stalled = False
        self._on = threading.Event()
        self._stop_read, self._stop_write = os.pipe()
        self._host, self._host_slave = os.openpty()
        tty.setraw(self._host_slave)
        os.set_blocking(self._host, False)
        self.port = os.ttyname(self._host_slave)
        self._start()
        self._thread = threading.Thread(target=self._relay, name="relayed board", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Of the interpreter; another one after each reset."""
        return self._child.pid

    def power_cut(self) -> None:
        """Off and on again, in the middle of whatever it does."""
        self._on.clear()
        self._raw = False
        self._child.kill()
        self._on.wait()

    def stop(self) -> None:
        if not self._thread.is_alive():
            return
        os.write(self._stop_write, b"x")
        self._thread.join()
        self._child.kill()
        self._child.wait()
        for end in (self._device, self._host, self._host_slave, self._stop_read, self._stop_write):
            os.close(end)
        if self._temporary is not None:
            self._temporary.cleanup()

    def _start(self) -> None:
        spec = find_spec("micropython_run")
        assert spec is not None
        assert spec.origin is not None
        self._device, slave = os.openpty()
        _interruptible(slave, True)
        files = ["boot.py"] if self._raw else ["boot.py", "main.py"]
        boot = _BOOT + "".join(f"_boot({name!r})\n" for name in files)
        site = str(Path(spec.origin).parent)
        self._child = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", "-E", "-c", _RUN, site),
                *("-X", f"heapsize={self._heap}", "-i", "-c", boot),
            ],
            cwd=self.folder,
            env={**os.environ, "MICROPYPATH": ":.frozen:lib"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        os.set_blocking(self._device, False)
        self._ready = False
        self._said = b""
        self._pasting = self._pasted = False
        if self._raw:
            os.write(self._device, b"\x01")

    def _relay(self) -> None:
        held = b""
        while True:
            ends = [self._device, self._stop_read]
            # What comes before the interpreter can be interrupted waits on the line.
            if self._ready and not held:
                ends.append(self._host)
            ready, _, _ = select.select(ends, [], [], 0.02 if held else None)
            if self._stop_read in ready:
                return
            if self._device in ready:
                try:
                    chunk = os.read(self._device, 4096)
                except OSError:
                    chunk = b""
                if chunk:
                    self._said_by_board(chunk)
                else:
                    held = b""
                    self._restart()
                    continue
            if self._host in ready:
                held = os.read(self._host, 1024)
                self._said_by_host(held)
                if termios.tcgetattr(self._device)[3] & termios.ISIG:
                    # A second interrupt before the first is served would end the unix port.
                    held = re.sub(b"\x03+", b"\x03", held)
            if held and self._ready:
                with contextlib.suppress(BlockingIOError, OSError):
                    held = held[os.write(self._device, held) :]

    def _restart(self) -> None:
        """The interpreter has ended: begin anew, as a board does."""
        os.close(self._device)
        code = self._child.wait()
        if code == _RESET or code < 0:
            self._raw = False
        else:
            self._to_host(b"\r\nMPY: soft reboot\r\n")
        self._start()
        self._on.set()

    def _said_by_board(self, chunk: bytes) -> None:
        self._said += chunk
        if not self._ready:
            before, ready, after = self._said.partition(_READY)
            if not ready:
                return
            self._ready = True
            chunk = before + after
            self._said = after
        if self._pasted and self._said.endswith(b"\x04>"):
            self._pasted = False
            _interruptible(self._device, False)
        self._to_host(chunk)
        prompt, raw = self._said.rfind(_PROMPT), self._said.rfind(_RAW_REPL)
        if prompt != raw:
            self._raw = raw > prompt
        self._said = self._said[-len(_RAW_REPL) :]

    def _said_by_host(self, chunk: bytes) -> None:
        """The unix port runs pasted code with Ctrl-C as a plain byte; here it interrupts."""
        if _PASTE in chunk:
            self._pasting = True
        elif self._pasting and chunk.endswith(b"\x04"):
            self._pasting = False
            self._pasted = True
            _interruptible(self._device, True)

    def _to_host(self, chunk: bytes) -> None:
        deadline = time.monotonic() + _PATIENCE
        while chunk:
            try:
                chunk = chunk[os.write(self._host, chunk) :]
                self._stalled = False
            except BlockingIOError:
                if self._stalled or time.monotonic() >= deadline:
                    self._stalled = True
                    return
                select.select([self._stop_read], [], [], 0.002)


def _interruptible(end: int, on: bool) -> None:
    """Whether Ctrl-C interrupts; apart from that the terminal is raw."""
    tty.setraw(end, termios.TCSANOW)
    attributes = termios.tcgetattr(end)
    if on:
        attributes[3] |= termios.ISIG | termios.NOFLSH
        for other in (termios.VQUIT, termios.VSUSP):
            attributes[6][other] = b"\x00"
    termios.tcsetattr(end, termios.TCSANOW, attributes)


def main(folder: str) -> None:
    """Keep a board with this folder until Ctrl-C."""
    Path(folder).mkdir(exist_ok=True)
    with RelayedBoard(Path(folder)) as board, contextlib.suppress(KeyboardInterrupt):
        print(board.port, flush=True)
        while True:
            time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1])
