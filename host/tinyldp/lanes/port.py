"""A running board's serial line as a port of this computer, to collect from."""

from __future__ import annotations

import contextlib
import os
import threading
import tty

from tinyldp.lanes.lane import Process
from tinyldp.stoppable import Stoppable


class Port(Stoppable):
    """path: a pseudo-terminal that carries what a process says and is told.

    said: what it has said before, which comes first.
    """

    def __init__(self, process: Process, said: bytes = b"") -> None:
        self._process = process
        self._end, self._slave = os.openpty()
        tty.setraw(self._slave)
        os.set_blocking(self._end, False)
        self.path = os.ttyname(self._slave)
        os.write(self._end, said)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._relay, name="port", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._thread.join()
        os.close(self._end)
        os.close(self._slave)

    def _relay(self) -> None:
        while not self._stopping.is_set():
            said = self._process.read(1024, timeout=0.003)
            with contextlib.suppress(BlockingIOError):
                # Nobody waits for a reader, as on a real line.
                if said:
                    os.write(self._end, said)
            with contextlib.suppress(BlockingIOError):
                self._process.write(os.read(self._end, 48))
