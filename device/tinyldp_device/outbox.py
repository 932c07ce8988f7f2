"""Bounded store-and-forward of finished frames.

Frames are numbered from 0. The host's acknowledgement frees them; when all
slots are taken, the oldest frame is dropped and counted. A frame is sent again,
the very same bytes, until it is acknowledged.
"""


class Outbox:
    """A ring of slots for finished frames.

    lowest: number of the oldest frame held; next: number of the next frame;
    unsent: number of the first frame that was not sent, or has to be again.
    """

    def __init__(self, slots):
        self._slots = slots
        self.lowest = 0
        self.next = 0
        self.unsent = 0
        self.drops = 0

    def add(self):
        """The slot for frame number `next`, which now counts as held.

        Drops the oldest frame when there is no free slot. Allocates nothing.
        """
        number = self.next
        size = len(self._slots)
        if number - self.lowest == size:
            self.drops += 1
            self.free(self.lowest + 1)
        self.next = number + 1
        return self._slots[number % size]

    def slot(self, number):
        """The finished frame with this number, which must be held."""
        return self._slots[number % len(self._slots)]

    def free(self, number):
        """All frames below number are acknowledged; one never made frees nothing."""
        if self.lowest < number <= self.next:
            self.lowest = number
            if self.unsent < number:
                self.unsent = number

    def resend(self):
        """Send all that is held again."""
        self.unsent = self.lowest
