"""Stands for boards/files.py: tells what a slot holds, and each point of each write, and waits.

A line says: the slot, how far the write is (A before the file is opened, B before it is
written, C after half of it, D before it is closed, E after that), and of a ledger whether
phase 0 is spent (b) or answered (c). The write goes on when a byte comes.
"""

from microbit import uart


class FileSlot:
    def __init__(self, name):
        self._name = name

    def read(self):
        try:
            file = open(self._name, "rb")  # noqa: SIM115
        except OSError:
            return b""
        data = file.read()
        file.close()
        print("\nread", self._name, data)
        return data

    def write(self, data):
        file = None
        # As short as can be: the builder puts it where it is called, for calls take stack.
        for at in range(5):
            uart.write(self._name)
            uart.write(bytes([65 + at, data[29 % len(data)] + 97, 10]))
            while not uart.read(1):
                pass
            if file is None:
                file = open(self._name, "wb")  # noqa: SIM115
            elif at < 3:
                half = len(data) // 2
                file.write(data[:half] if at == 1 else data[half:])
            elif at == 3:
                file.close()
