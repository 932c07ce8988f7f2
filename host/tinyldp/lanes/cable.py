"""A serial cable between two pseudo-terminals, with taps on both wires."""

from __future__ import annotations

import os
import select
import threading
import tty
from collections.abc import Callable

from tinyldp.stoppable import Stoppable

Fault = Callable[[bytes], bytes]


class Cable(Stoppable):
    """device_end and host_end: paths of two terminals; what goes in at one comes out at the other.

    from_device, from_host: all bytes that went in, before any fault. A fault
    (up: device to host, down: host to device) maps each chunk to what arrives
    of it, and may be set at any time. As on a real line, nobody waits for a
    reader: what finds its terminal's buffer full (some 4 KB or more) is gone, and counted in
    `overruns`.
    """

    def __init__(self, up: Fault | None = None, down: Fault | None = None) -> None:
        self.up = up
        self.down = down
        self.from_device = bytearray()
        self.from_host = bytearray()
        self.overruns = 0
        # Both slaves stay open here: a master whose last slave is closed reads EIO.
        self._device, self._device_slave = _raw_pair()
        self._host, self._host_slave = _raw_pair()
        self.device_end = os.ttyname(self._device_slave)
        self.host_end = os.ttyname(self._host_slave)
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._relay, name="cable", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Unplug: both terminals hang up."""
        if not self._thread.is_alive():
            return
        os.write(self._stop_write, b"x")
        self._thread.join()
        for end in (self._device, self._device_slave, self._host, self._host_slave):
            os.close(end)
        os.close(self._stop_read)
        os.close(self._stop_write)

    def _relay(self) -> None:
        ends = [self._device, self._host, self._stop_read]
        while True:
            ready, _, _ = select.select(ends, [], [])
            if self._stop_read in ready:
                return
            if self._device in ready:
                chunk = os.read(self._device, 4096)
                self.from_device += chunk
                self._pass_on(self._host, self.up(chunk) if self.up else chunk)
            if self._host in ready:
                chunk = os.read(self._host, 4096)
                self.from_host += chunk
                self._pass_on(self._device, self.down(chunk) if self.down else chunk)

    def _pass_on(self, end: int, chunk: bytes) -> None:
        while chunk:
            try:
                chunk = chunk[os.write(end, chunk) :]
            except BlockingIOError:
                self.overruns += len(chunk)
                return


def _raw_pair() -> tuple[int, int]:
    """Master and slave of a new raw terminal; writes to the master never wait."""
    master, slave = os.openpty()
    tty.setraw(slave)
    os.set_blocking(master, False)
    return master, slave
