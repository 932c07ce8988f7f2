"""Who a device is, and how often it has booted.

The payload: the pseudonym (8 random bytes, drawn when the device is
provisioned) and the number of boots (4 bytes, little-endian). With a ledger
then follow the cap, in 2^-16 of one epsilon, and the horizon, in steps (4 bytes
each): what the device may ever spend, and in how many steps. For Tasks with epochs
then follows its allowance for life, in 2^-16 of one epsilon; cap and horizon are 0
where there is no ledger.
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


class RoundIdentity(Identity):
    """Of a device with a ledger; cap and horizon: None or 0 where it has none."""

    def __init__(self, state):
        Identity.__init__(self, state)
        payload = state.load()
        self.cap = None
        self.horizon = None
        if len(payload) > 12:
            self.cap = get_word(payload, 12)
            self.horizon = get_word(payload, 16)


class LifeIdentity(Identity):
    """Of a device with counters for life; allowance: None where it has none."""

    def __init__(self, state):
        Identity.__init__(self, state)
        payload = state.load()
        self.allowance = None
        if len(payload) == 24:
            self.allowance = get_word(payload, 20)


def allowances(cap, horizon, lifetime=None):
    """The end of the payload of a device that is asked; None, or 0: it has none."""
    words = bytearray(8 if lifetime is None else 12)
    set_word(words, 0, cap or 0)
    set_word(words, 4, horizon or 0)
    if lifetime is not None:
        set_word(words, 8, lifetime)
    return bytes(words)


def provision(state, pseudonym, cap=None, horizon=None, lifetime=None):
    """Make the state of a new device: 8 bytes that no other device has, no boot yet."""
    words = b""
    if cap is not None or lifetime is not None:
        words = allowances(cap, horizon, lifetime)
    state.create(pseudonym + bytes(4) + words)
