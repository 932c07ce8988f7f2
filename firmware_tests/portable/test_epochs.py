"""epochs: what a device with epochs answers, and what it never says."""

from asked import ask, query
from helpers import Counting, FakeLink, Generator, MemorySlot, Words, epoch_task

from tinyldp_device import heavythresh
from tinyldp_device import lifetime as l
from tinyldp_device.entropy import EntropyError
from tinyldp_device.epochs import Epochs, polled
from tinyldp_device.lifetime import Lifetime
from tinyldp_device.rounds import RoundAgent
from tinyldp_device.state import State
from tinyldp_protocol import messages as m
from tinyldp_protocol.task import SCALE

# A word that says what is true, whatever the threshold: neither below it nor above the rest.
TRUE = SCALE // 2
HEAVY = {"coordinates": 40, "items": 2}


def slots_of(task):
    slots = (MemorySlot(), MemorySlot())
    l.provision(State(slots[0], slots[1]), task.epsilon)
    return slots


def device(words=None, slots=None, task=None, **changed):
    task = task or epoch_task(**changed)
    slots = slots or slots_of(task)
    link = FakeLink()
    entropy = words if hasattr(words, "word") else Words(words or [TRUE] * 999)
    lifetime = Lifetime(State(slots[0], slots[1]), task, task.epsilon)
    return RoundAgent(task, entropy, link, b"somebody", Epochs(task, entropy, lifetime)), link


def epoch(agent, reading, steps=4):
    for _ in range(steps):
        agent.tick(reading)


def votes(agent, link, readings, updates, first=1):
    """What a device votes in each epoch; updates: those that are asked for."""
    found = []
    for t in range(first, first + len(readings)):
        epoch(agent, readings[t - first])
        found.append(ask(agent, link, query(t))[0][3][0])
        ask(agent, link, query(t, 1, 1 if t in updates else 0))
    return found


def test_an_epoch_that_is_complete_is_bound_once():
    agent, link = device()
    assert ask(agent, link, query(1)) == [(1, 0, m.EARLY)]
    epoch(agent, 1, 3)
    assert ask(agent, link, query(1)) == [(1, 0, m.EARLY)]
    agent.tick(1)
    assert ask(agent, link, query(1)) == [(1, 0, 0, b"\0")]
    assert ask(agent, link, query(2), query(3, 1, 1)) == [(2, 0, m.EARLY)]
    epoch(agent, 2)
    assert ask(agent, link, query(1, 1, 1)) == [(1, 1, 1, b"\1")]
    # Another sum than the update's.
    assert ask(agent, link, query(3)) == [(3, 0, 0, b"\1")]
    assert ask(agent, link, query(2)) == [(2, 0, m.LATE)]


def test_both_phases_are_about_the_bound_epoch():
    # M = 8, v = 0: an estimate says whether the sum is above 0.
    for reading, bit in ((0, b"\0"), (2, b"\1")):
        agent, link = device([TRUE, 0, TRUE])
        epoch(agent, reading)
        ask(agent, link, query(1))
        epoch(agent, 2 - reading)
        assert ask(agent, link, query(1, 1, 1)) == [(1, 1, 1, bit)]


def test_votes_are_for_changes_since_the_last_update():
    no = [0, 0, 0, 0, 0, 0, 0, 0]
    agent, link = device()
    assert votes(agent, link, [0, 2, 0, 2, 0, 2, 0, 2], []) == no
    agent, link = device()
    # A difference of 8 is above every level: any t. Two votes are all.
    assert votes(agent, link, [0, 2, 0, 2, 2, 2, 0, 2], [1]) == [0, 1, 0, 1, 0, 0, 0, 0]
    agent, link = device()
    assert votes(agent, link, [0, 2, 2, 2, 0, 0, 2, 2], [1, 2, 5]) == [0, 1, 0, 0, 1, 0, 0, 0]


def test_a_small_change_waits_for_its_epoch():
    agent, link = device(levels=[0, 4, 8, 8])
    # 4 in sum: above the lowest level alone, so that 8 must divide t.
    assert votes(agent, link, [0, 1, 1, 1, 1, 1, 1, 1], [1]) == [0, 0, 0, 0, 0, 0, 0, 1]
    agent, link = device(levels=[0, 4, 8, 8])
    assert votes(agent, link, [0, 2, 2, 2, 2, 2, 2, 2], [1]) == [0, 0, 0, 1, 0, 0, 0, 1]


def test_estimates_are_capped_however_many_updates_are_announced():
    agent, link = device([TRUE, 0, TRUE] * 8)
    found = []
    for t in range(1, 9):
        epoch(agent, 2)
        ask(agent, link, query(t))
        found.append(ask(agent, link, query(t, 1, 1))[0][3])
    assert found == [b"\1", b"\1"] + [b"\0"] * 6


def test_polls_say_whether_votes_are_left():
    changed = {"polls": 4, "thresholds": [SCALE // 8, SCALE // 16, SCALE // 4], "votes": 1}
    agent, link = device(**changed)
    found = votes(agent, link, [0, 0, 0, 0, 0, 2, 0, 2], [1])
    assert found == [0, 2, 0, 2, 0, 1, 0, 0]
    task = epoch_task(polls=3, thresholds=changed["thresholds"])
    # Every second epoch, but not more than three times.
    assert [t for t in range(1, 9) if polled(task, t)] == [2, 4, 6]
    assert [t for t in range(1, 9) if polled(epoch_task(), t)] == []


def test_a_repeated_query_gets_the_same_bytes_even_after_a_reset():
    for changed, width in (({}, 1), (HEAVY, 3)):
        task = epoch_task(**changed)
        slots = slots_of(task)
        agent, link = device(Generator(3), slots, task)
        epoch(agent, 2)
        first = ask(agent, link, query(1), query(1, 1, 1), width=width)
        assert len(first) == 2
        for seed in (4, 5):
            for entry in (0, 1):
                again = ask(agent, link, query(1), query(1, 1, entry), width=width)
                assert again == first
            assert agent.drops == 0
            agent, link = device(Generator(seed), slots, task)


def test_a_reset_loses_what_is_not_bound():
    task = epoch_task()
    slots = slots_of(task)
    agent, link = device(None, slots, task)
    epoch(agent, 1, 3)
    agent, link = device(None, slots, task)
    agent.tick(1)
    assert ask(agent, link, query(1)) == [(1, 0, m.EARLY)]
    epoch(agent, 1, 3)
    assert ask(agent, link, query(1)) == [(1, 0, 0, b"\0")]
    agent, link = device([0, TRUE], slots, task)
    # The bound epoch's own sum.
    assert ask(agent, link, query(1, 1, 1)) == [(1, 1, 1, b"\1")]
    assert ask(agent, link, query(2)) == [(2, 0, m.EARLY)]


def test_every_refusal_is_named_and_writes_nothing():
    task = epoch_task()
    slots = slots_of(task)
    agent, link = device(None, slots, task)
    epoch(agent, 1)
    ask(agent, link, query(3, 1, 1))
    epoch(agent, 1)
    before = slots[0].data, slots[1].data, slots[0].written
    for bad, reason in (
        (query(2), m.LATE),
        (query(3), m.LATE),
        (query(4, 0, 0, b"foreign!"), m.FOREIGN),
        (query(4, 0, 1), m.UNKNOWN),
        (query(4, 1, 2), m.UNKNOWN),
        (query(0), m.UNKNOWN),
        (query(9), m.UNKNOWN),
    ):
        t = m.get_word(bad, m.QUERY_T_AT)
        assert ask(agent, link, bad) == [(t, bad[m.QUERY_PHASE_AT], reason)]
    assert before == (slots[0].data, slots[1].data, slots[0].written)
    slots[0].data = slots[1].data = b"damaged"
    agent, link = device(None, slots, task)
    epoch(agent, 1)
    assert ask(agent, link, query(4)) == [(4, 0, m.BUDGET)]


# 3 blocks of 2 tables of 2 slots: 12 hashes, 3 in each of 4 steps.
LONG = {"coordinates": 70, "items": 2, "rounds": 64, "symbols": 9}


def test_an_epoch_of_items_is_complete_when_it_was_compared():
    task = epoch_task(**LONG)
    slots = slots_of(task)
    agent, link = device(None, slots, task)
    before = slots[0].data, slots[1].data
    epoch(agent, 5, 63)
    for _ in range(3):
        agent.tick(5)
        for phase in range(2):
            assert ask(agent, link, query(1, phase), width=3) == [(1, phase, m.EARLY)]
    assert (slots[0].data, slots[1].data) == before
    agent.tick(5)
    first = ask(agent, link, query(1), query(1, 1, 1), width=3)
    assert [one[:3] for one in first] == [(1, 0, 0), (1, 1, 1)]
    assert slots[0].written == 2 + 4
    # The next epoch goes on meanwhile: 3 of its steps are over.
    epoch(agent, 7, 60)
    assert ask(agent, link, query(1), query(1, 1, 1), width=3) == first
    assert ask(agent, link, query(2), width=3) == [(2, 0, m.EARLY)]
    epoch(agent, 7, 4)
    assert ask(agent, link, query(2), width=3) == [(2, 0, 0, b"\1\0\0")]
    assert slots[0].written == 2 + 6


def test_an_update_lets_a_comparison_begin_anew():
    # Steps since an epoch was complete that differs from the first reference alone.
    for steps in (0, 2, 9):
        for entry in (0, 1):
            agent, link = device(levels=[20] * 4, **LONG)
            epoch(agent, 5, 64 + 9)
            ask(agent, link, query(1), query(1, 1, 1), width=3)
            epoch(agent, 7, 55 + 9)
            assert ask(agent, link, query(2), width=3) == [(2, 0, 0, b"\1\0\0")]
            epoch(agent, 7, 55 + steps)
            assert ask(agent, link, query(2, 1, entry), width=3)[0][:3] == (2, 1, entry)
            # As before, or 4 steps from here.
            left = 4 if entry else max(0, 3 - steps)
            for _ in range(left):
                assert ask(agent, link, query(3), width=3) == [(3, 0, m.EARLY)]
                agent.tick(7)
            vote = b"\0\0\0" if entry else b"\1\0\0"
            assert ask(agent, link, query(3), width=3) == [(3, 0, 0, vote)]


def test_a_reset_loses_a_comparison():
    task = epoch_task(**LONG)
    slots = slots_of(task)
    agent, link = device(None, slots, task)
    epoch(agent, 5, 66)
    agent, link = device(None, slots, task)
    for _ in range(66):
        agent.tick(5)
        assert ask(agent, link, query(1), width=3) == [(1, 0, m.EARLY)]
    agent.tick(5)
    assert ask(agent, link, query(1), width=3) == [(1, 0, 0, b"\0\0\0")]


def test_no_call_takes_many_hashes():
    agent, link = device(**LONG)
    hashes = Counting(heavythresh.halfsiphash)
    heavythresh.halfsiphash = hashes
    most = [0, 0]
    try:
        for t in range(1, 9):
            for _ in range(65):
                agent.tick(t)
                most[0] = max(most[0], hashes.look())
                for asked in (query(t), query(t, 1, t & 1), query(t - 1, 1, 1)):
                    ask(agent, link, asked, width=3)
                    most[1] = max(most[1], hashes.look())
    finally:
        heavythresh.halfsiphash = hashes.hash
    # A part of a comparison, and an estimate's one block of one table.
    assert most == [3, 2]


class Failing(Generator):
    def word(self):
        raise EntropyError("stuck")


def test_failed_randomness_stops_by_name_and_is_not_drawn_again():
    task = epoch_task()
    slots = slots_of(task)
    agent, link = device(Failing(1), slots, task)
    epoch(agent, 1)
    assert ask(agent, link, query(1)) == []
    assert agent.health == m.ENTROPY_FAILED
    agent, link = device(None, slots, task)
    assert ask(agent, link, query(1)) == [(1, 0, m.LOST)]


def test_an_epoch_is_not_what_came_after_storage_failed():
    task = epoch_task()
    slots = slots_of(task)
    agent, link = device([0, TRUE], slots, task)
    epoch(agent, 0)
    slots[0].power = slots[0].written
    assert ask(agent, link, query(1)) == [(1, 0, m.LOST)]
    slots[0].power = 1 << 20
    epoch(agent, 2)
    # v = 0 is not below a sum of 0.
    assert ask(agent, link, query(1, 1, 1)) == [(1, 1, 1, b"\0")]


class Shape:
    """What an eavesdropper and the storage see of a device that measures `readings`."""

    def __init__(self, readings, **changed):
        task = epoch_task(**changed)
        slots = slots_of(task)
        words = Generator(5)
        agent, link = device(words, slots, task)
        self.seen = []
        played = 0
        for t in range(1, 9):
            for phase, entry in ((0, 0), (1, t & 1), (1, 0), (0, 1), (0, 0), (1, 0)):
                # So that some queries come while an epoch is being compared.
                for _ in range(task.rounds // 4 + (played & 1)):
                    agent.tick(readings[played % len(readings)])
                    played += 1
                link.incoming.append(query(t, phase, entry))
                agent.service()
                frames = [len(frame) for frame in link.written]
                # But the bit: a coordinate is drawn, and shows nothing.
                seen = [one[: -task.payload] if one[1] == m.ANSWER else one for one in link.take()]
                writes = (slots[0].written, slots[1].written, len(slots[0].data))
                self.seen.append((frames, seen, writes, words.state))


def test_readings_change_nothing_but_the_reports():
    polls = {"polls": 8, "thresholds": [SCALE // 8, SCALE // 16, SCALE // 4]}
    for changed in ({}, polls, HEAVY, LONG):
        first = Shape([0], **changed).seen
        for readings in ([2], [0, 0, 0, 0, 2, 2, 2, 2], [None, 1], [-1, 1 << 40, "x", 1.5, b""]):
            assert Shape(readings, **changed).seen == first


def test_the_epochs_end():
    agent, link = device()
    for t in range(1, 9):
        epoch(agent, 1)
        ask(agent, link, query(t), query(t, 1, 1))
    epoch(agent, 2)
    assert ask(agent, link, query(9)) == [(9, 0, m.UNKNOWN)]
    assert ask(agent, link, query(8)) == [(8, 0, 0, b"\0")]
    assert agent.count == 16
    agent.stop()
    agent.tick(None)
    assert agent.health == m.ENDED
