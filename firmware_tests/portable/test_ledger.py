"""ledger: what may be spent, what a reset leaves, what storage that lies about the past does."""

from helpers import MemorySlot, raised, round_task

from tinyldp_device import ledger as l
from tinyldp_device.ledger import FRESH, STORED, Ledger
from tinyldp_device.state import State
from tinyldp_protocol import messages as m
from tinyldp_protocol.task import TaskError


def slots_of(horizon=4, block=1):
    slots = (MemorySlot(), MemorySlot())
    l.provision(State(slots[0], slots[1]), horizon, block, 77)
    return slots


def boot(slots, cap=8, horizon=4, word=1, **changed):
    ledger = Ledger(State(slots[0], slots[1]), round_task(**changed), cap, horizon, word)
    ledger.step()
    return ledger


def answered(ledger, t, phase=0, entry=0):
    """Asks and, if it is paid for, keeps a report that names t and phase."""
    result = ledger.ask(t, phase, entry)
    if result == FRESH:
        ledger.keep(phase, bytes([t & 127 | phase << 7]))
    return result


# Spends of round_task: 2, 4, 8 of 8 in a window of 4.


def test_a_window_is_spent_and_comes_back_step_by_step():
    ledger = boot(slots_of())
    found = []
    for t in range(12):
        found.append(answered(ledger, t, 0, 1))
        ledger.step()
    assert found == [FRESH, FRESH, m.BUDGET, m.BUDGET] * 3


def test_both_phases_are_charged_to_the_bound_step():
    ledger = boot(slots_of())
    assert answered(ledger, 0, 0, 0) == FRESH
    for _ in range(3):
        ledger.step()
    # Of the first step, with 2 of 8: three steps later it still is its own, and is full.
    assert answered(ledger, 0, 1, 2) == m.BUDGET
    assert answered(ledger, 0, 1, 1) == FRESH
    ledger.step()
    # The first step has left the window, with both.
    assert answered(ledger, 1, 0, 2) == FRESH


def test_a_later_phase_finds_the_windows_of_its_own_step():
    ledger = boot(slots_of())
    # 4 in step 0, 2 in step 2, and its other phase in step 5, when step 0 is forgotten.
    assert answered(ledger, 0, 0, 1) == FRESH
    ledger.step()
    ledger.step()
    assert answered(ledger, 1, 0, 0) == FRESH
    for _ in range(3):
        ledger.step()
    assert answered(ledger, 1, 1, 1) == m.BUDGET
    assert answered(ledger, 1, 1, 0) == FRESH


def test_a_value_is_kept_less_than_a_window():
    for steps, result in ((3, FRESH), (4, m.LATE)):
        ledger = boot(slots_of())
        assert answered(ledger, 0) == FRESH
        for _ in range(steps):
            ledger.step()
        assert answered(ledger, 0, 1) == result
        # What was answered stays so.
        assert ledger.ask(0, 0, 0) == STORED


def test_a_repeated_query_gets_the_stored_report():
    ledger = boot(slots_of())
    assert answered(ledger, 3, 1, 1) == FRESH
    for entry in range(3):
        assert ledger.ask(3, 1, entry) == STORED
        assert (ledger.entry(1), ledger.report(1)) == (1, b"\x83")
    assert answered(ledger, 3, 0, 0) == FRESH
    assert (ledger.entry(0), ledger.report(0), ledger.report(1)) == (0, b"\x03", b"\x83")


def test_t_never_goes_back_and_one_is_bound_to_a_step():
    ledger = boot(slots_of())
    assert answered(ledger, 7) == FRESH
    assert answered(ledger, 8) == m.EARLY
    assert answered(ledger, 6) == m.LATE
    assert ledger.t == 7
    ledger.step()
    assert answered(ledger, 6) == m.LATE
    assert answered(ledger, m.COUNTER_MAX) == FRESH
    ledger.step()
    for t in (m.COUNTER_MAX - 1, 0):
        assert answered(ledger, t) == m.LATE
    assert ledger.ask(m.COUNTER_MAX, 0, 0) == STORED


def test_before_the_first_step_there_is_no_value():
    slots = slots_of()
    ledger = Ledger(State(slots[0], slots[1]), round_task(), 8, 4)
    assert answered(ledger, 0) == m.EARLY
    ledger.step()
    assert ledger.now == 0
    assert answered(ledger, 0) == FRESH


def test_what_is_refused_costs_and_writes_nothing():
    slots = slots_of()
    ledger = boot(slots)
    assert answered(ledger, 5, 0, 1) == FRESH
    assert answered(ledger, 5, 1, 1) == FRESH
    ledger.step()
    before = (slots[0].data, slots[1].data)
    for query, reason in (
        ((4, 0, 0), m.LATE),
        ((5, 0, 3), m.UNKNOWN),
        ((6, 0, 65535), m.UNKNOWN),
        ((6, 0, 0), m.BUDGET),
        ((m.COUNTER_MAX, 1, 2), m.BUDGET),
    ):
        assert ledger.ask(query[0], query[1], query[2]) == reason
    assert (slots[0].data, slots[1].data) == before
    assert ledger.t == 5


def test_entries_of_two_bytes():
    ledger = boot(slots_of(), cap=600, epsilon=600, spends=list(range(1, 301)))
    assert answered(ledger, 0, 0, 299) == FRESH
    assert answered(ledger, 0, 1, 256) == FRESH
    assert (ledger.entry(0), ledger.entry(1)) == (299, 256)


def test_a_restart_keeps_step_t_and_answers():
    slots = slots_of()
    ledger = boot(slots)
    ledger.step()
    assert answered(ledger, 9, 0, 1) == FRESH
    again = boot(slots)
    assert (again.now, again.t) == (1, 9)
    assert again.ask(9, 0, 0) == STORED
    assert again.report(0) == b"\x09"
    # Its value is gone, and this may still be the same step.
    assert answered(again, 9, 1) == m.LATE
    assert answered(again, 10) == m.EARLY
    again.step()
    assert answered(again, 10, 0, 2) == m.BUDGET
    assert answered(again, 10, 0, 1) == FRESH


def test_what_was_spent_without_an_answer_is_lost():
    slots = slots_of()
    ledger = boot(slots)
    assert ledger.ask(0, 0, 1) == FRESH
    assert ledger.ask(0, 0, 1) == m.LOST
    for _ in range(3):
        ledger = boot(slots)
        assert ledger.ask(0, 0, 1) == m.LOST
    ledger.step()
    assert answered(ledger, 1, 0, 2) == m.BUDGET
    assert answered(ledger, 1, 0, 1) == FRESH


def test_restarts_do_not_make_time_pass():
    slots = slots_of()
    ledger = boot(slots)
    assert answered(ledger, 0, 0, 2) == FRESH
    for _ in range(20):
        ledger = boot(slots)
        assert answered(ledger, 1, 0, 0) == m.EARLY
        ledger.checkpoint()
    for _ in range(3):
        ledger.step()
        assert answered(ledger, 1, 0, 0) == m.BUDGET
    ledger.step()
    assert answered(ledger, 1, 0, 2) == FRESH


def test_steps_without_queries_are_stored_now_and_then():
    slots = slots_of(16)
    ledger = boot(slots, cap=8, horizon=16)
    written = 0
    for _ in range(160):
        before = slots[1].data
        ledger.checkpoint()
        written += before != slots[1].data
        ledger.step()
    assert 30 <= written <= 40
    assert 155 <= boot(slots, horizon=16).now <= 160


def test_what_is_missing_or_damaged_waits_out_a_horizon():
    for damage in (b"", b"x", b"x" * 99, None):
        slots = slots_of(6)
        ledger = boot(slots, horizon=6)
        ledger.step()
        assert answered(ledger, 0, 0, 2) == FRESH
        for slot in slots:
            slot.data = slot.data[:-1] if damage is None else damage
        ledger = boot(slots, horizon=6)
        for _ in range(6):
            assert answered(ledger, 1, 0, 0) == m.WAITING
            ledger.step()
        assert answered(ledger, 1, 0, 2) == FRESH


def test_a_block_that_cannot_be_counts_as_damage():
    for block in (0, 5):
        slots = slots_of(4)
        state = State(slots[0], slots[1])
        data = bytearray(state.load())
        m.set_word(data, l.BLOCK_AT, block)
        state.create(data + bytes(64), 77)
        assert answered(boot(slots), 0) == m.WAITING


def test_waiting_goes_on_after_a_restart():
    slots = (MemorySlot(), MemorySlot())
    ledger = boot(slots)
    for _ in range(3):
        ledger.step()
        ledger.checkpoint()
        assert answered(ledger, 0) == m.WAITING
    ledger = boot(slots)
    found = []
    for _ in range(3):
        found.append(answered(ledger, 0))
        ledger.step()
    # At least as many steps as the horizon has, and not much more.
    assert found[0] == m.WAITING
    assert FRESH in found


def test_one_slot_from_an_older_copy():
    slots = slots_of()
    first = slots[0].data
    ledger = boot(slots)
    copies = []
    for t in range(4):
        copies.append(slots[0].data)
        assert answered(ledger, t, 0, 0) == FRESH
        copies.append(slots[0].data)
        ledger.step()
    now = slots[0].data
    for which in range(2):
        for copy in copies + [first]:
            slots[which].data = copy
            slots[1 - which].data = now
            ledger = boot(slots)
            ledger.step()
            # Nothing, or what one step before gave back.
            found = answered(ledger, 99, 0, 1)
            assert found == m.WAITING or (copy == now and found == m.BUDGET), (which, found)
            slots[which].data = now


def test_a_copy_from_before_the_ledger_was_lost():
    """A ledger that is made anew does not count from where an old one may have been."""
    slots = slots_of()
    ledger = boot(slots)
    copies = [slots[0].data]
    for t in range(3):
        assert answered(ledger, t, 0, 0) == FRESH
        copies.append(slots[0].data)
        ledger.step()
    for copy in copies:
        slots[0].data = slots[1].data = b""
        ledger = boot(slots, word=0x800000)
        slots[1].data = copy
        ledger = boot(slots, word=0x900000)
        assert answered(ledger, 50) == m.WAITING


def test_every_bit():
    slots = slots_of()
    ledger = boot(slots)
    assert answered(ledger, 0, 0, 2) == FRESH
    good = slots[0].data
    for i in range(8 * len(good)):
        changed = bytearray(good)
        changed[i >> 3] ^= 1 << (i & 7)
        which = i // 8 & 1
        slots[which].data = bytes(changed)
        ledger = boot(slots)
        assert ledger.ask(0, 0, 0) == STORED
        assert ledger.ask(1, 0, 0) == m.EARLY
        assert slots[which].data == good
    ledger.step()
    assert answered(ledger, 1, 0, 0) == m.BUDGET


def test_a_task_that_comes_back_pays_again():
    slots = slots_of()
    ledger = boot(slots, name=b"task A..")
    assert answered(ledger, 5, 0, 1) == FRESH
    assert answered(boot(slots, name=b"task A.."), 5, 0, 1) == STORED
    ledger = boot(slots, name=b"task B..")
    ledger.step()
    assert answered(ledger, 3, 0, 0) == FRESH
    # Of A's 5 nothing is known but its step: it is a new one, of another step, with 6 of 8 spent.
    ledger = boot(slots, name=b"task A..")
    assert answered(ledger, 5) == m.EARLY
    ledger.step()
    assert answered(ledger, 5, 0, 1) == m.BUDGET
    assert answered(ledger, 4, 0, 0) == FRESH
    assert ledger.now == 2


def test_a_changed_task_debits_the_same_ledger():
    slots = slots_of()
    ledger = boot(slots)
    assert answered(ledger, 7, 0, 1) == FRESH
    # Another id, w, epsilon, alphabet and width of a report.
    other = {"name": b"another!", "w": 3, "epsilon": 7, "spends": [3, 4], "symbols": 300}
    ledger = boot(slots, **other)
    assert ledger.t == -1
    # The same step still is bound, though to nobody that this Task knows.
    assert ledger.ask(0, 0, 0) == m.EARLY
    ledger.step()
    assert ledger.ask(0, 0, 1) == m.BUDGET
    assert ledger.ask(0, 0, 0) == FRESH
    ledger.keep(0, b"ab")
    assert ledger.report(0) == b"ab"
    # And back: what was stored for it is gone, what was spent is not.
    ledger = boot(slots)
    assert ledger.ask(7, 0, 0) == m.EARLY
    ledger.step()
    assert answered(ledger, 7, 0, 0) == m.BUDGET


def test_the_cap_holds_over_the_horizon_for_a_task_of_shorter_windows():
    ledger = boot(slots_of(6), cap=8, horizon=6, w=2)
    found = []
    for t in range(12):
        found.append(answered(ledger, t, 0, 1))
        ledger.step()
    assert found == [FRESH, FRESH, m.BUDGET, m.BUDGET, m.BUDGET, m.BUDGET] * 2


def test_a_task_above_the_cap_or_the_horizon_is_refused():
    for cap, horizon, changed in (
        (7, 4, {}),
        (8, 3, {}),
        (8, 4, {"w": 5}),
        (8, 4, {"epsilon": 9}),
    ):
        slots = slots_of(horizon)
        state = State(slots[0], slots[1])
        said = raised(TaskError, Ledger, state, round_task(**changed), cap, horizon)
        assert "more than the device's" in said
    said = raised(TaskError, Ledger, State(MemorySlot(), MemorySlot()), round_task(), None, None)
    assert "without a ledger" in said


def test_another_horizon_does_not_read_these_spends():
    slots = slots_of(4)
    assert answered(boot(slots), 0, 0, 2) == FRESH
    assert answered(boot(slots, horizon=6), 1) == m.WAITING


def test_charging_ahead_spares_writes():
    slots = slots_of(4, 3)
    ledger = boot(slots)
    writes = []
    for t in range(6):
        before = slots[0].written
        assert ledger.ask(t, 0, 0) == FRESH
        writes.append(slots[0].written - before)
        ledger.keep(0, b"x")
        ledger.step()
    assert writes == [1, 0, 0, 1, 0, 0]


def test_what_was_charged_ahead_stays_spent_after_a_reset():
    slots = slots_of(4, 3)
    assert answered(boot(slots), 0) == FRESH
    ledger = boot(slots)
    found = []
    for t in range(1, 6):
        ledger.step()
        found.append(answered(ledger, t, 0, 1))
    # 2 each in steps 0, 1 and 2: 2 are left until step 0 goes, then 4.
    assert found == [m.BUDGET, m.BUDGET, m.BUDGET, FRESH, m.BUDGET]


def test_a_block_that_does_not_fit_is_a_step():
    slots = slots_of(4, 4)
    ledger = boot(slots)
    # 4 + 4 + 4 + 4 in four steps are too much, 4 + 4 are not.
    found = []
    for t in range(4):
        found.append(answered(ledger, t, 0, 1))
        ledger.step()
    assert found == [FRESH, FRESH, m.BUDGET, m.BUDGET]


def test_storage_that_fails_is_paid_for_and_never_answered():
    for writes in range(4):
        slots = slots_of()
        ledger = boot(slots)
        for slot in slots:
            slot.power = slots[0].written + writes
        try:
            assert answered(ledger, 0, 0, 1) == FRESH
        except OSError:
            assert ledger.ask(0, 0, 1) == m.LOST
        for slot in slots:
            slot.power = 1 << 20
        ledger.step()
        assert answered(ledger, 1, 0, 2) == m.BUDGET
        assert answered(ledger, 1, 0, 1) == FRESH


def test_generations_end_by_name():
    slots = slots_of()
    ledger = boot(slots)
    ledger._state._generation = m.COUNTER_MAX
    from tinyldp_device.state import StateError

    assert raised(StateError, ledger.ask, 0, 0, 0) == "ended"


def test_steps_end_by_name():
    slots = slots_of(4, 4)
    ledger = boot(slots)
    ledger.now = l.LAST_STEP - 1
    assert ledger.step()
    assert answered(ledger, 0) == FRESH
    assert not ledger.step()
    assert answered(ledger, 1) == m.EARLY
    assert ledger.ask(0, 0, 0) == STORED
    ledger = boot(slots)
    assert not ledger.step()
    assert answered(ledger, 1) == m.EARLY


def test_the_largest_numbers():
    most = m.COUNTER_MAX
    slots = slots_of(4)
    ledger = boot(slots, cap=most, epsilon=most, spends=[1, most - 1])
    assert answered(ledger, most - 1, 0, 1) == FRESH
    assert answered(ledger, most - 1, 1, 1) == m.BUDGET
    assert answered(ledger, most - 1, 1, 0) == FRESH
    ledger.step()
    assert answered(ledger, most, 0, 1) == m.BUDGET
    assert answered(ledger, most, 0, 0) == m.BUDGET


def test_a_horizon_or_a_block_out_of_range_is_not_provisioned():
    slots = (MemorySlot(), MemorySlot())
    state = State(slots[0], slots[1])
    for horizon, block in ((0, 1), (1025, 1), (-1, 1), (4, 0), (4, 5), (4, -1)):
        assert "at most the horizon" in raised(ValueError, l.provision, state, horizon, block)
        assert slots[0].written == 0
    for horizon, block in ((1, 1), (1024, 1), (4, 4)):
        l.provision(state, horizon, block)
        Ledger(state, round_task(w=1, spends=[8]), 8, horizon)
        assert l.word_at(state.load(), l.WAIT_AT) == 0
