"""The unix port of MicroPython: a serial line on a terminal device."""

import termios

_VMIN = 6
_VTIME = 5


def open_serial(path):
    """Open a terminal as a raw line whose reads do not wait."""
    port = open(path, "r+b", buffering=0)
    termios.setraw(port.fileno())
    attributes = termios.tcgetattr(port.fileno())
    attributes[6][_VMIN] = 0
    attributes[6][_VTIME] = 0
    termios.tcsetattr(port.fileno(), termios.TCSANOW, attributes)
    return port
