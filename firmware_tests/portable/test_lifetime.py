"""lifetime: what is adopted, counted and stored, and what storage that lies about it does."""

from helpers import MemorySlot, epoch_task, raised

from tinyldp_device import lifetime as l
from tinyldp_device.ledger import FRESH, STORED, word_at
from tinyldp_device.lifetime import Lifetime
from tinyldp_device.state import State, StateError
from tinyldp_protocol import messages as m
from tinyldp_protocol.task import TaskError

ALLOWANCE = 120


def slots_of(allowance=ALLOWANCE):
    slots = (MemorySlot(), MemorySlot())
    l.provision(State(slots[0], slots[1]), allowance, 77)
    return slots


def boot(slots, allowance=ALLOWANCE, word=1, **changed):
    return Lifetime(State(slots[0], slots[1]), epoch_task(**changed), allowance, word)


def answered(lifetime, t, phase=0, entry=0, said=True, total=3):
    """Asks and, when it is due, binds, counts and keeps a report that names t and phase."""
    result = lifetime.ask(t, phase, entry)
    if result == FRESH:
        if t != lifetime.t:
            lifetime.bind(t)
            lifetime.data[lifetime.bound_at] = total
        lifetime.count(phase, entry, said)
        lifetime.keep(phase, bytes([t | phase << 7] * 3))
    return result


def refused(slots, **changed):
    try:
        boot(slots, **changed)
    except TaskError as error:
        return error.args[0]
    raise AssertionError("it was adopted")


def left(slots):
    return word_at(State(slots[0], slots[1]).load(), 0)


def test_a_task_is_paid_for_once_and_again_when_it_comes_back():
    slots = slots_of()
    for _ in range(3):
        boot(slots)
        assert left(slots) == 70
    boot(slots, name=b"another!", epsilon=30)
    assert left(slots) == 40
    said = refused(slots)
    assert said == "The Task costs 50 for life, more than the 40 that are left to the device."
    boot(slots, name=b"another!", epsilon=30)
    assert left(slots) == 40
    boot(slots, name=b"exactly!", epsilon=40)
    assert left(slots) == 0
    assert "0 that are left" in refused(slots, name=b"smallest", epsilon=1)


def test_a_device_without_an_allowance_takes_no_task():
    slots = slots_of()
    assert "without an allowance" in raised(TaskError, boot, slots, None)
    assert left(slots) == ALLOWANCE


def test_another_task_counts_anew():
    slots = slots_of()
    lifetime = boot(slots)
    assert answered(lifetime, 1, 1, 1) == FRESH
    lifetime.update()
    assert answered(lifetime, 2, 0, 0) == FRESH
    # HeavyThresh's state is larger, and its reports are.
    lifetime = boot(slots, name=b"another!", coordinates=4, items=2)
    assert lifetime.t == 0
    assert not lifetime.known()
    assert lifetime.left(0) and lifetime.left(1)
    assert answered(lifetime, 1) == FRESH
    assert lifetime.report(0) == b"\1\1\1"


def test_votes_and_estimates_have_a_count_each_that_never_falls():
    slots = slots_of()
    lifetime = boot(slots)
    found = []
    for t in range(1, 7):
        found.append((lifetime.left(0), lifetime.left(1)))
        assert answered(lifetime, t, 0, 0, t & 1 == 0) == FRESH
        assert answered(lifetime, t, 1, 1, t > 4) == FRESH
        lifetime = boot(slots)
    yes = (True, True)
    assert found == [yes, yes, yes, yes, (False, True), (False, True)]
    assert not lifetime.left(1)


def test_a_repeated_query_gets_the_stored_report():
    slots = slots_of()
    lifetime = boot(slots)
    for phase, entry in ((0, 0), (1, 1)):
        assert answered(lifetime, 3, phase, entry) == FRESH
        for _ in range(2):
            for again in range(phase + 1):
                assert lifetime.ask(3, phase, again) == STORED
            assert lifetime.entry(phase) == entry
            assert lifetime.report(phase) == bytes([3 | phase << 7])
            lifetime = boot(slots)


def test_t_never_goes_back_nor_does_a_vote_come_after_its_estimate():
    lifetime = boot(slots_of())
    for t in (0, 9, m.COUNTER_MAX):
        assert answered(lifetime, t) == m.UNKNOWN
    for phase, entry in ((0, 1), (1, 2), (0, 65535)):
        assert answered(lifetime, 1, phase, entry) == m.UNKNOWN
    assert answered(lifetime, 5) == FRESH
    for phase in range(2):
        assert answered(lifetime, 4, phase) == m.LATE
    assert answered(lifetime, 6, 1) == FRESH
    assert answered(lifetime, 6, 0) == m.LATE
    assert answered(lifetime, 8) == FRESH
    assert answered(lifetime, 8, 1) == FRESH
    assert lifetime.ask(8, 0, 0) == STORED


def test_what_was_counted_without_an_answer_is_lost():
    for phase in range(2):
        slots = slots_of()
        lifetime = boot(slots)
        lifetime.bind(2)
        lifetime.count(phase, phase, True)
        for _ in range(3):
            assert lifetime.ask(2, phase, 0) == m.LOST
            lifetime = boot(slots)
        assert lifetime.ask(2, 1 - phase, 0) == (m.LATE if phase else FRESH)
        lifetime.bind(3)
        lifetime.count(phase, 0, True)
        assert not boot(slots).left(phase)


def test_a_reset_keeps_the_bound_epoch_and_the_reference():
    slots = slots_of()
    lifetime = boot(slots)
    assert answered(lifetime, 1, 1, 1, True, 7) == FRESH
    lifetime.update()
    assert answered(lifetime, 2, 0, 0, True, 5) == FRESH
    lifetime = boot(slots)
    assert lifetime.known()
    assert lifetime.data[l.REFERENCE_AT] == 7
    assert lifetime.data[lifetime.bound_at] == 5
    assert answered(lifetime, 2, 1, 1) == FRESH


def closed(slots, **changed):
    lifetime = boot(slots, **changed)
    for _ in range(2):
        for t in (0, 1, 8, 9):
            for phase in range(2):
                assert lifetime.ask(t, phase, phase) == m.BUDGET
        lifetime = boot(slots, **changed)
    return lifetime.closed


def test_what_is_missing_or_damaged_is_closed_for_life():
    for damage in (b"", b"x", b"x" * 99, None):
        for adopted in range(2):
            slots = slots_of()
            if adopted:
                answered(boot(slots), 1)
            for slot in slots:
                slot.data = slot.data[:-1] if damage is None else damage
            assert closed(slots)
            # Also for a Task of another size, and one that costs more than there ever was.
            assert closed(slots, name=b"another!", coordinates=4, items=2)
            assert closed(slots, name=b"too much", epsilon=ALLOWANCE + 1)


def test_a_state_that_cannot_be_is_closed():
    for payload in (
        b"\0\0\0\1",
        bytes([ALLOWANCE + 1, 0, 0, 0]),
        bytes([0, 0, 0, 64]),
        b"",
        bytes(5),
        bytes([20, 0, 0, 0]) + b"task-id!" + bytes(17),
        bytes([20, 0, 0, 0]) + b"task-id!" + bytes(40),
    ):
        slots = (MemorySlot(), MemorySlot())
        State(slots[0], slots[1]).create(payload)
        assert closed(slots), payload


def test_one_slot_from_an_older_copy():
    slots = slots_of()
    copies = [slots[0].data]
    lifetime = boot(slots)
    for t in range(1, 5):
        assert answered(lifetime, t) == FRESH
        copies.append(slots[0].data)
    now = slots[0].data
    for which in range(2):
        for copy in copies[:-1]:
            slots[which].data = copy
            slots[1 - which].data = now
            assert closed(slots)


def test_a_copy_from_before_the_state_was_lost():
    slots = slots_of()
    copies = [slots[0].data]
    lifetime = boot(slots)
    for t in range(1, 4):
        answered(lifetime, t)
        copies.append(slots[0].data)
    for copy in copies:
        slots[0].data = slots[1].data = b""
        boot(slots, ALLOWANCE, 0x800000)
        slots[1].data = copy
        assert closed(slots)


def test_every_bit():
    slots = slots_of()
    lifetime = boot(slots)
    for t in range(1, 3):
        assert answered(lifetime, t) == FRESH
    good = slots[0].data
    for i in range(8 * len(good)):
        changed = bytearray(good)
        changed[i >> 3] ^= 1 << (i & 7)
        which = i // 8 & 1
        slots[which].data = bytes(changed)
        lifetime = boot(slots)
        assert lifetime.ask(2, 0, 0) == STORED
        assert not lifetime.left(0)
        assert slots[which].data == good


def test_storage_that_fails_is_counted_and_never_answered():
    for writes in range(4):
        slots = slots_of()
        lifetime = boot(slots)
        for slot in slots:
            slot.power = slots[0].written + writes
        try:
            assert answered(lifetime, 1) == FRESH
        except OSError:
            assert lifetime.ask(1, 0, 0) == m.LOST
        for slot in slots:
            slot.power = 1 << 20
        assert answered(lifetime, 2) == FRESH
        assert not lifetime.left(0)
        assert not boot(slots).left(0)


def test_generations_end_by_name():
    lifetime = boot(slots_of())
    lifetime._state._generation = m.COUNTER_MAX
    lifetime.bind(1)
    assert raised(StateError, lifetime.count, 0, 0, True) == "ended"


def test_the_largest_numbers():
    most = m.COUNTER_MAX
    slots = slots_of(most)
    boot(slots, most, epsilon=most)
    assert left(slots) == 0
    slots = slots_of(most)
    boot(slots, most, epsilon=1, epochs=1 << 14, votes=1 << 14, levels=[0] * 15)
    assert left(slots) == most - 1
