"""A line of which is known how much the board took in."""


class Counted:
    """The line, and how many bytes were taken from it."""

    def __init__(self, port):
        self.port = port
        self.taken = 0

    def write(self, frame):
        return self.port.write(frame)

    def readinto(self, buf):
        n = self.port.readinto(buf)
        if n:
            self.taken += n
        return n
