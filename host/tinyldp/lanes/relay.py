"""A board made of MicroPython's unix port: its raw REPL behind a pseudo-terminal.

`port` behaves as a board's USB port does, so that mpremote, and what is built
on it, can be tried without a board: it runs boot.py and main.py at boot, a
soft reset says "MPY: soft reboot" and runs them anew (from the raw REPL
boot.py alone), Ctrl-C interrupts a program, and a folder is its file system.

    python -m tinyldp.lanes.relay FOLDER      prints the port; Ctrl-C ends it
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
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
from tinyldp.lanes.unix import Unix
from tinyldp.stoppable import Stoppable

# The terminal is the interpreter's own, so that it ends when this process is killed.
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
_PROMPT = b"\r\n>>> "
_CTRL_C = b"\x03"
# Seconds that a board waits for somebody to read, before it goes on as if nobody listened.
_PATIENCE = 2.0
# A program has seen an interrupt after so much processor time, or so much time: in ticks, seconds.
_SERVED = (3, 0.25)
_NEVER = (-3, -0.25)


class RelayedBoard(Stoppable):
    """port: the path to open. folder: its files, a temporary folder when none is given.

    Raises UserError where missing() has a reason.
    """

    def __init__(self, folder: Path | None = None, heap: str = "256K") -> None:
        reason = self.missing()
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
        self._on.set()
        self._stop_read, self._stop_write = os.pipe()
        self._host, self._host_slave = os.openpty()
        tty.setraw(self._host_slave)
        os.set_blocking(self._host, False)
        self.port = os.ttyname(self._host_slave)
        self._start()
        self._thread = threading.Thread(target=self._relay, name="relayed board", daemon=True)
        self._thread.start()

    @classmethod
    def missing(cls) -> str | None:
        """Why this computer cannot play a board, or None when it can."""
        if not Path("/proc/self/status").exists():
            return "it needs Linux"
        return Unix.missing()

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
        _make_interruptible(slave)
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
        self._interrupted_at = _NEVER
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
            if held and self._ready:
                held = self._told_by_host(held)

    def _restart(self) -> None:
        """The interpreter has ended: begin anew, as a board does."""
        os.close(self._device)
        code = self._child.wait()
        if code == _RESET or code < 0:
            self._raw = False
            if code < 0:
                # What was on the line went nowhere.
                with contextlib.suppress(BlockingIOError):
                    while os.read(self._host, 4096):
                        pass
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
        self._to_host(chunk)
        prompt, raw = self._said.rfind(_PROMPT), self._said.rfind(_RAW_REPL)
        if prompt != raw:
            self._raw = raw > prompt
        self._said = self._said[-len(_RAW_REPL) :]

    def _told_by_host(self, data: bytes) -> bytes:
        """Give the interpreter what it takes of this; what is left."""
        end = data.find(_CTRL_C)
        if end == 0:
            rest = data.lstrip(_CTRL_C)
            if self._interrupted():
                return rest
            end = len(data) - len(rest)
        elif end < 0:
            end = len(data)
        if not self._catches():
            # What the REPL runs next can be interrupted, until it says otherwise.
            _make_interruptible(self._device)
            self._interrupted_at = _NEVER
        with contextlib.suppress(BlockingIOError, OSError):
            return data[os.write(self._device, data[:end]) :]
        return data

    def _interrupted(self) -> bool:
        """Whether Ctrl-C was for a program, which then has got it, and is no byte for it to read.

        The interpreter is held still meanwhile: a program that ended between
        the look and the signal would take the interpreter with it.
        """
        child = self._child.pid
        try:
            os.kill(child, signal.SIGSTOP)
            event = os.waitid(os.P_PID, child, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            if event is None or event.si_code != os.CLD_STOPPED:
                return True
            os.waitid(os.P_PID, child, os.WSTOPPED)
            if not self._catches() or not termios.tcgetattr(self._device)[3] & termios.ISIG:
                return False
            now = (self._processor_time(), time.monotonic())
            # A second interrupt before the first is served would end the unix port.
            if any(b - a >= c for a, b, c in zip(self._interrupted_at, now, _SERVED, strict=True)):
                self._interrupted_at = now
                os.kill(child, signal.SIGINT)
            return True
        except OSError:
            # It has just ended.
            return True
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGCONT)

    def _catches(self) -> bool:
        """Whether the interpreter has a handler for interrupts: it does while a program runs."""
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{self._child.pid}/status").read_text().splitlines():
                if line.startswith("SigCgt:"):
                    return bool(int(line.split()[1], 16) & 1 << signal.SIGINT - 1)
        return True

    def _processor_time(self) -> int:
        text = Path(f"/proc/{self._child.pid}/stat").read_text()
        return sum(map(int, text.rpartition(")")[2].split()[11:13]))

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
                stopping = select.select([self._stop_read], [], [], 0.002)[0]
                if stopping or not self._on.is_set():
                    return


def _make_interruptible(end: int) -> None:
    """Raw, and marked as what makes Ctrl-C an interrupt; the relay, and not the kernel, does it."""
    attributes = termios.tcgetattr(end)
    if attributes[3] != termios.ISIG:
        tty.setraw(end, termios.TCSANOW)
        attributes = termios.tcgetattr(end)
        attributes[3] = termios.ISIG
        for other in (termios.VINTR, termios.VQUIT, termios.VSUSP):
            attributes[6][other] = b"\x00"
        termios.tcsetattr(end, termios.TCSANOW, attributes)


def main(arguments: list[str] | None = None) -> None:
    """Keep a board with a folder until Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m tinyldp.lanes.relay",
        description="Play a board: print the port to open, until Ctrl-C.",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="its files; made if missing")
    folder = parser.parse_args(arguments).folder
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        parser.error(f"{folder} can't be made: {error.strerror}.")
    try:
        with RelayedBoard(folder) as board, contextlib.suppress(KeyboardInterrupt):
            print(board.port, flush=True)
            while True:
                time.sleep(1)
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
