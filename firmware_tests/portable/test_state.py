"""Stored state: two slots, one of which is always good."""

from helpers import raised

from tinyldp_device.identity import Identity, provision
from tinyldp_device.state import State, StateError


class Slot:
    """Keeps what was written; `power` counts down with each write, and cuts the one at 0."""

    power = [1 << 20, 0]

    def __init__(self):
        self.data = b""

    def read(self):
        return self.data

    def write(self, data):
        if Slot.power[0] == 0:
            self.data = data[: Slot.power[1]]
            raise OSError("cut")
        Slot.power[0] -= 1
        self.data = data


def charge(writes=1 << 20, left=0):
    Slot.power = [writes, left]


def made(payload=b"first"):
    charge()
    slots = (Slot(), Slot())
    State(slots[0], slots[1]).create(payload)
    return slots


def loaded(slots):
    return State(slots[0], slots[1]).load()


def test_what_was_saved_is_loaded():
    slots = made()
    assert loaded(slots) == b"first"
    state = State(slots[0], slots[1])
    state.load()
    for payload in (b"second", b"", b"x" * 300):
        state.save(payload)
        assert loaded(slots) == payload
    assert slots[0].data == slots[1].data


def test_a_slots_bytes():
    slots = made(b"12345")
    # Generation 0, the payload, the CRC-32 of both (as zlib.crc32 gives it).
    assert slots[0].data == b"\0\0\0\0" + b"12345" + b"\xaf\xd9\xde\xeb"


def test_every_cut_leaves_old_or_new():
    outcomes = set()
    for writes in range(2):
        for left in range(14):
            slots = made()
            state = State(slots[0], slots[1])
            state.load()
            charge(writes, left)
            try:
                state.save(b"other")
            except OSError:
                pass
            # The repair may be cut, too.
            charge(0, left)
            try:
                loaded(slots)
            except OSError:
                pass
            charge()
            payload = loaded(slots)
            assert payload in (b"first", b"other"), (writes, left)
            assert slots[0].data == slots[1].data
            outcomes.add(payload)
    assert outcomes == {b"first", b"other"}


def test_no_valid_slot_is_named():
    assert raised(StateError, loaded, (Slot(), Slot())) == "missing"
    for damage in (b"x", b"x" * 50, made()[0].data[:-1]):
        slots = made()
        slots[0].data = damage
        slots[1].data = damage
        assert raised(StateError, loaded, slots) == "damaged"


def test_one_bit_is_noticed():
    good = made()[0].data
    for i in range(len(good)):
        slots = made()
        changed = bytearray(good)
        changed[i] ^= 1
        slots[0].data = bytes(changed)
        assert loaded(slots) == b"first"
        assert slots[0].data == good


def test_slots_that_contradict_each_other_are_refused():
    slots = made()
    other = made(b"other")
    slots[1].data = other[1].data
    assert raised(StateError, loaded, slots) == "damaged"
    state = State(other[0], other[1])
    state.load()
    state.save(b"later")
    slots[1].data = other[1].data
    assert loaded(slots) == b"later"
    slots = made()
    state.save(b"latest")
    slots[1].data = other[1].data
    assert raised(StateError, loaded, slots) == "damaged"


def test_generations_end():
    slots = made()
    state = State(slots[0], slots[1])
    state.load()
    state._generation = 0x3FFFFFFE
    state.save(b"last")
    assert loaded(slots) == b"last"
    assert raised(StateError, state.save, b"more") == "ended"
    assert loaded(slots) == b"last"


def test_an_identity_counts_its_boots():
    charge()
    slots = (Slot(), Slot())
    provision(State(slots[0], slots[1]), b"somebody")
    for boots in (1, 2, 3):
        identity = Identity(State(slots[0], slots[1]))
        assert (identity.pseudonym, identity.boots, identity.ended) == (b"somebody", boots, False)


def test_an_identitys_last_boot():
    charge()
    slots = (Slot(), Slot())
    State(slots[0], slots[1]).create(b"somebody" + b"\xfe\xff\xff\x3f")
    assert not Identity(State(slots[0], slots[1])).ended
    for _ in range(2):
        identity = Identity(State(slots[0], slots[1]))
        assert (identity.boots, identity.ended) == (0x3FFFFFFF, True)


def test_nobody_starts_without_state():
    assert raised(StateError, Identity, State(Slot(), Slot())) == "missing"
