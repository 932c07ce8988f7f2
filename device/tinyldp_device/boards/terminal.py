"""Serial lines of the unix port of MicroPython: terminals, by their path."""

import select
import termios

_VMIN = 6
_VTIME = 5


def open_serial(path):
    """Open a terminal as a raw line that never waits."""
    file = open(path, "r+b", buffering=0)
    number = file.fileno()
    termios.setraw(number)
    attributes = termios.tcgetattr(number)
    attributes[6][_VMIN] = 0
    attributes[6][_VTIME] = 0
    termios.tcsetattr(number, termios.TCSANOW, attributes)
    return _Port(file)


class _Port:
    def __init__(self, file):
        self.readinto = file.readinto
        self._write = file.write
        self._poller = select.poll()
        self._poller.register(file, select.POLLOUT)

    def write(self, buf):
        """Bytes written: 0 while the other end does not read."""
        for _ in self._poller.ipoll(0):
            return self._write(buf)
        return 0
