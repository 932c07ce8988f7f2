"""rounds: what a queried device says, and what it never says twice."""

from asked import NONCE, ask, query, said
from helpers import (
    Clock,
    FakeLink,
    Generator,
    MemorySlot,
    Words,
    decode,
    player,
    round_task,
)

from tinyldp_device import ledger as l
from tinyldp_device.agent import run
from tinyldp_device.entropy import EntropyError
from tinyldp_device.ledger import Ledger
from tinyldp_device.oraclerounds import OracleRounds
from tinyldp_device.oracles import Grr, Olh, Oue
from tinyldp_device.rounds import RoundAgent
from tinyldp_device.signals import SOFTWARE
from tinyldp_device.state import State
from tinyldp_protocol import messages as m
from tinyldp_protocol.hashing import GROUPS, group
from tinyldp_protocol.task import OLH, OUE, SCALE

PSEUDONYM = b"somebody"
TRUTH = [SCALE - 1] * 500


def slots_of(task):
    slots = (MemorySlot(), MemorySlot())
    l.provision(State(slots[0], slots[1]), task.w)
    return slots


def device(words=None, slots=None, task=None, **changed):
    task = task or round_task(**changed)
    slots = slots or slots_of(task)
    link = FakeLink()
    ledger = Ledger(State(slots[0], slots[1]), task, task.epsilon, task.w)
    entropy = words if hasattr(words, "word") else Words(words or TRUTH)
    return RoundAgent(task, entropy, link, PSEUDONYM, OracleRounds(task, entropy, ledger)), link


def ack(hello=False, nonce=NONCE):
    buf = bytearray(m.put_ack(None, 0, nonce, 0, hello))
    m.put_ack(buf, 0, nonce, 0, hello)
    return buf


def test_hello_and_status_come_first_and_again():
    agent, link = device(beacon=3)
    agent.tick(1)
    agent.service()
    messages = link.take()
    assert [m.check(one, len(one), 1) for one in messages] == [m.HELLO, m.STATUS]
    expected = bytearray(len(messages[0]))
    m.put_hello(expected, 0, SOFTWARE, b"task-id!", PSEUDONYM, Words.nonce, 0, 0)
    assert messages[0] == bytes(expected)
    link.incoming.append(ack())
    kinds = []
    for _ in range(9):
        agent.service()
        kinds += [m.check(one, len(one), 1) for one in link.take()]
    assert kinds == [m.STATUS] * 3
    for bad in (ack(True, b"\1\2\3\5"), bytearray(b"\0"), ack(True)[:-1]):
        link.incoming.append(bad)
    agent.service()
    assert agent.rejected == 3
    link.take()
    link.incoming.append(ack(True))
    agent.service()
    assert [m.check(one, len(one), 1) for one in link.take()] == [m.HELLO, m.STATUS]


def test_an_answer_is_the_oracles_on_the_latched_value():
    agent, link = device()
    for t in range(5):
        agent.tick(t)
        assert ask(agent, link, query(t)) == [(t, 0, 0, bytes([t]))]
    assert agent.count == 5


def test_each_entry_draws_by_its_own_threshold():
    task = round_task(thresholds=[3000000, 2000000, 1000000])
    for entry in range(3):
        for word in (0, task.thresholds[entry] * 4 - 1, task.thresholds[entry] * 4):
            agent, link = device([word], task=task)
            agent.tick(4)
            found = ask(agent, link, query(0, 0, entry))
            lie = word // task.thresholds[entry]
            assert found == [(0, 0, entry, bytes([4 if lie >= 4 else lie]))]


def test_wide_reports():
    for changed in (
        {"symbols": 300},
        {"mechanism": OUE, "symbols": 20, "thresholds": [SCALE // 4] * 3},
        {"mechanism": OLH, "symbols": 20, "buckets": 3, "thresholds": [SCALE // 8] * 3},
    ):
        task = round_task(**changed)
        agent, link = device(Generator(7), task=task)
        agent.tick(13)
        words = Generator(7)
        oracle = {OUE: Oue, OLH: Olh}.get(task.mechanism, Grr)(task, words)
        for phase in range(2):
            report = oracle.step(13)
            if type(report) is int:
                report = bytes([report & 255, report >> 8])
            report = bytes(report)
            found = ask(agent, link, query(0, phase), width=task.width)
            assert found == [(0, phase, 0, report)]


def test_both_phases_are_about_the_value_that_was_bound():
    agent, link = device()
    agent.tick(3)
    assert ask(agent, link, query(0)) == [(0, 0, 0, b"\3")]
    agent.tick(1)
    agent.tick(2)
    assert ask(agent, link, query(0, 1)) == [(0, 1, 0, b"\3")]
    assert ask(agent, link, query(1)) == [(1, 0, 0, b"\2")]


def test_a_value_is_not_what_came_after_storage_failed():
    """A t whose binding could not be stored is bound nevertheless, and to its own value."""
    task = round_task()
    slots = slots_of(task)
    agent, link = device(slots=slots)
    agent.tick(3)
    ask(agent, link, query(0))
    agent.tick(1)
    slots[0].power = slots[0].written
    assert ask(agent, link, query(1)) == [(1, 0, m.LOST)]
    slots[0].power = 1 << 20
    agent.tick(2)
    assert ask(agent, link, query(1, 1)) == [(1, 1, 0, b"\1")]


def test_a_repeated_query_gets_the_same_bytes():
    agent, link = device(Generator(3))
    agent.tick(2)
    first = ask(agent, link, query(0))
    assert len(first) == 1
    for entry in (0, 1, 2, 0):
        for _ in range(4):
            assert ask(agent, link, query(0, 0, entry)) == first
    # Two at once, and four: one answer a tick.
    assert ask(agent, link, *[query(0)] * 4) == first
    assert agent.count == 1


def test_every_refusal_is_named():
    agent, link = device()
    assert ask(agent, link, query(0)) == [(0, 0, m.EARLY)]
    agent.tick(1)
    assert ask(agent, link, query(5, 0, 1)) == [(5, 0, 1, b"\1")]
    for bad, reason in (
        (query(4), m.LATE),
        (query(6), m.EARLY),
        (query(5, 1, 0, b"foreign!"), m.FOREIGN),
        (query(5, 1, 3), m.UNKNOWN),
        (query(5, 1, 2), m.BUDGET),
    ):
        t = m.get_word(bad, m.QUERY_T_AT)
        assert ask(agent, link, bad) == [(t, bad[m.QUERY_PHASE_AT], reason)]
    agent, link = device(slots=(MemorySlot(), MemorySlot()))
    agent.tick(1)
    assert ask(agent, link, query(5)) == [(5, 0, m.WAITING)]


def test_one_refusal_a_tick_and_no_answer_pushed_out():
    agent, link = device()
    agent.tick(1)
    flood = [query(0, 0, 9), query(0, 1, 9), query(0), query(0, 0, 9)]
    assert ask(agent, link, *flood) == [(0, 0, 0, b"\1"), (0, 0, m.UNKNOWN)]
    # While the link takes nothing, the answer and the first refusal wait.
    agent.tick(1)
    link.busy = True
    assert ask(agent, link, query(1), query(2), query(0), query(3)) == []
    for _ in range(5):
        assert ask(agent, link, *[query(0)] * 4) == []
    link.busy = False
    assert ask(agent, link) == [(1, 0, 0, b"\1"), (2, 0, m.EARLY)]
    assert ask(agent, link) == []
    assert agent.drops == 0


def test_one_refusal_a_tick_however_often_it_looks():
    agent, link = device()
    for _ in range(5):
        agent.tick(1)
        agent.service()
        found = []
        for _ in range(agent.looks):
            link.incoming += [query(0, 0, 9)] * 3
            agent.look()
            found += said(link)
        assert found == [(0, 0, m.UNKNOWN)]
        # One more waits for the next tick, and takes its place.
        assert ask(agent, link) == [(0, 0, m.UNKNOWN)]
        assert ask(agent, link) == []


def test_an_answer_that_never_left_is_counted():
    agent, link = device()
    link.busy = True
    for t in range(3):
        agent.tick(t)
        ask(agent, link, query(t))
    link.busy = False
    assert ask(agent, link) == [(2, 0, 0, b"\2")]
    assert agent.drops == 2


def test_only_those_who_are_meant_say_anything():
    place = group(b"task-id!", PSEUDONYM)
    assert 0 <= place < GROUPS
    meant = [(place, 1), (place, GROUPS), (0, place + 1), ((place + 5) % GROUPS, GROUPS - 4)]
    others = [((place + 1) % GROUPS, GROUPS - 1), ((place + 1) % GROUPS, 1), (0, place)]
    for start, size in meant:
        agent, link = device()
        agent.tick(1)
        assert ask(agent, link, query(0, 0, 0, b"task-id!", start, size)) == [(0, 0, 0, b"\1")]
    for start, size in others:
        for entry in (0, 9):
            agent, link = device()
            agent.tick(1)
            assert ask(agent, link, query(0, 0, entry, b"task-id!", start, size)) == []
            assert agent._rounds._ledger.t == -1


def test_what_is_stored_is_said_again_after_a_reset_and_nothing_else():
    task = round_task()
    slots = slots_of(task)
    agent, link = device(Generator(3), slots, task)
    agent.tick(2)
    first = ask(agent, link, query(0))
    agent, link = device(Generator(4), slots, task)
    # Even before its first step.
    assert ask(agent, link, query(0)) == first
    agent.tick(3)
    assert ask(agent, link, query(0), query(0, 1)) == first + [(0, 1, m.LATE)]
    assert ask(agent, link, query(1)) == [(1, 0, m.EARLY)]
    agent.tick(4)
    assert ask(agent, link, query(1))[0][:3] == (1, 0, 0)


class Failing(Generator):
    def word(self):
        raise EntropyError("stuck")


class FailingRefill(Generator):
    def refill(self, need=1):
        raise EntropyError("stuck")


def test_failed_randomness_stops_by_name_and_is_not_drawn_again():
    for words in (Failing(1), FailingRefill(1)):
        task = round_task()
        slots = slots_of(task)
        agent, link = device(words, slots, task)
        agent.tick(2)
        assert ask(agent, link, query(0)) == []
        assert agent.health == m.ENTROPY_FAILED
        assert ask(agent, link, query(0), query(1)) == []
        agent, link = device(slots=slots, task=task)
        agent.tick(2)
        assert ask(agent, link, query(0)) == [(0, 0, m.LOST)]


def test_counters_end_by_name():
    agent, link = device()
    agent.tick(1)
    agent._rounds._ledger.now = l.LAST_STEP
    agent.tick(1)
    agent.service()
    assert agent.health == m.COUNTER_END
    assert link.take()[-1][7] == m.COUNTER_END
    agent, link = device()
    agent.tick(1)
    agent._rounds._ledger._state._generation = m.COUNTER_MAX
    assert ask(agent, link, query(0)) == []
    assert agent.health == m.COUNTER_END
    agent, link = device()
    agent.count = agent.rejected = m.COUNTER_MAX
    agent.tick(1)
    assert ask(agent, link, query(0), bytearray(1)) == [(0, 0, 0, b"\1")]
    assert agent.count == agent.rejected == m.COUNTER_MAX


def test_after_the_last_step_what_was_latched_may_be_asked_for():
    agent, link = device(beacon=1)
    link.incoming.append(ack())
    agent.tick(2)
    assert ask(agent, link, query(0)) == [(0, 0, 0, b"\2")]
    agent.stop()
    agent.tick(None)
    assert agent.health == m.ENDED
    assert ask(agent, link, query(0, 1)) == [(0, 1, 0, b"\2")]
    assert ask(agent, link, query(1)) == [(1, 0, m.EARLY)]
    assert not agent.idle()
    agent.tick(None)
    agent.service()
    assert agent.idle()


class Asking(FakeLink):
    """Asks for both phases of a step: the second as soon as the first is answered."""

    def __init__(self, clock):
        FakeLink.__init__(self)
        self.clock = clock
        self.moments = []
        self.incoming.append(ack())

    def write(self, frame):
        for message in decode(bytes(frame))[0]:
            if m.check(message, len(message), 1) == m.ANSWER:
                self.moments.append(self.clock.now)
                t = m.get_word(message, m.SEQUENCE_AT)
                phase = message[m.PHASE_AT]
                self.incoming.append(query(t + phase, 1 - phase))
            elif m.check(message, len(message), 1) == m.REFUSAL:
                # Early: in the same step. Once more.
                self.incoming.append(query(m.get_word(message, m.SEQUENCE_AT)))
        return FakeLink.write(self, frame)


def real_time(link):
    task = round_task(beacon=1)
    slots = slots_of(task)
    ledger = Ledger(State(slots[0], slots[1]), task, task.epsilon, task.w)
    entropy = Words(TRUTH)
    return RoundAgent(task, entropy, link, PSEUDONYM, OracleRounds(task, entropy, ledger))


def played(took):
    clock = Clock()
    link = Asking(clock)
    link.incoming.append(query(0))
    run(real_time(link), 100, player([(1, took)] * 6, clock), clock)
    return link.moments


def test_both_phases_fit_into_a_step_at_moments_that_do_not_tell_how_long_sample_took():
    moments = played(0)
    assert moments[:4] == [25, 50, 125, 150]
    for took in (1, 12, 24):
        assert played(took) == moments
    # What the docstring of run() says of a sample() that takes longer.
    assert played(40) != moments


class Shape:
    """What an eavesdropper and the storage see of a device that measures `readings`."""

    def __init__(self, readings):
        task = round_task()
        slots = slots_of(task)
        agent, link = device(Generator(5), slots, task)
        self.seen = []
        for i in range(60):
            agent.tick(readings[i % len(readings)])
            link.incoming.append(query(i, i & 1, i % 3))
            link.incoming.append(query(i - i % 4, 1, 0))
            agent.service()
            frames = [len(frame) for frame in link.written]
            words = [one[:-1] if one[1] == m.ANSWER else one for one in link.take()]
            self.seen.append((frames, words, slots[0].written, len(slots[1].data)))


def test_readings_change_nothing_but_the_reports():
    first = Shape([0]).seen
    for readings in ([4], [1, 2], [None, 3], [-1, 1 << 40], ["x", 1.5, b"", ValueError("x")]):
        assert Shape(readings).seen == first


class Host(FakeLink):
    """Asks for the next t whenever it has heard of the one before."""

    def __init__(self):
        FakeLink.__init__(self)
        self.incoming = [ack(), query(0)]
        self.heard = []

    def write(self, frame):
        FakeLink.write(self, frame)
        for answer in said(self):
            self.heard.append(answer)
            self.incoming.append(query(answer[0] if len(answer) == 3 else answer[0] + 1))
        return True


def test_a_segment_in_real_time():
    clock = Clock()
    link = Host()
    run(real_time(link), 100, player([0, 1, 2, 3, 4], clock), clock)
    assert [one[3] for one in link.heard if len(one) == 4] == [b"\0", b"\1", b"\2", b"\3", b"\4"]
