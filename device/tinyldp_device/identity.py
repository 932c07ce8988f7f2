"""Who a device is, and how often it has booted: the state of every stream mechanism.

The payload: the pseudonym (8 random bytes, drawn when the device is
provisioned) and the number of boots (4 bytes, little-endian).
"""

from tinyldp_protocol.messages import COUNTER_MAX, get_word, set_word


class Identity:
    """Counts this boot in `state`, before anything is drawn.

    ended: no boot is left to count, and the device must not release anything.
    Raises StateError: a device without valid state does not start.
    """

    def __init__(self, state):
        payload = bytearray(state.load())
        self.pseudonym = bytes(payload[:8])
        self.boots = get_word(payload, 8)
        self.ended = self.boots == COUNTER_MAX
        if not self.ended:
            self.boots += 1
            set_word(payload, 8, self.boots)
            state.save(payload)


def provision(state, pseudonym):
    """Make the state of a new device: 8 bytes that no other device has, no boot yet."""
    state.create(pseudonym + bytes(4))
