"""The line that the REPL is on, USB or UART, as a binary line.

Ctrl-C is a byte like any other there, and may be in any acknowledgement. So
that the agent can still be stopped from outside, 16 of them in a row do it: no
frame holds them.
"""

import select
import sys

_CTRL_C = 3
_ENOUGH = 16
_HELD = 256


class ReplLine:
    """interrupt(-1) makes Ctrl-C a byte and interrupt(3) makes it Ctrl-C again: kbd_intr.

    pump() takes in what has come, so that a small receive buffer is emptied
    between two ticks too; it raises KeyboardInterrupt on 16 Ctrl-C in a row.
    What nobody fetches beyond 256 bytes is dropped.
    """

    def __init__(self, interrupt):
        self._interrupt = interrupt
        self._in = sys.stdin.buffer
        self._out = sys.stdout.buffer
        self._poll = select.poll()
        self._poll.register(sys.stdin, select.POLLIN)
        self._one = bytearray(1)
        self._held = bytearray()
        self._run = 0
        interrupt(-1)

    def close(self):
        self._interrupt(_CTRL_C)

    def write(self, data):
        return self._out.write(data)

    def pump(self):
        while self._poll.poll(0) and self._in.readinto(self._one):
            self._run = self._run + 1 if self._one[0] == _CTRL_C else 0
            if self._run == _ENOUGH:
                raise KeyboardInterrupt
            if len(self._held) < _HELD:
                self._held.append(self._one[0])

    def readinto(self, buf):
        self.pump()
        n = min(len(buf), len(self._held))
        buf[:n] = self._held[:n]
        self._held = self._held[n:]
        return n
