"""agent: what leaves the device, tick by tick, against a link that only records."""

from helpers import Clock, FakeLink, Generator, Words, decode, make_task, player

from tinyldp_device import agent as agent_module
from tinyldp_device.agent import Agent
from tinyldp_device.entropy import EntropyError
from tinyldp_device.signals import SOFTWARE
from tinyldp_device.switch import RanSwitch, StaSwitch
from tinyldp_protocol import messages as m
from tinyldp_protocol.task import SCALE, STASWITCH

PSEUDONYM = b"somebody"
NONCE = Words.nonce
STAY = SCALE - 1
NO_SWITCHES = [STAY] * 5000


def device(words=NO_SWITCHES, **changed):
    link = FakeLink()
    return Agent(make_task(**changed), Words(words), link, PSEUDONYM), link


def ack(sequence, hello=False, nonce=NONCE[:4]):
    buf = bytearray(m.put_ack(None, 0, nonce, sequence, hello))
    m.put_ack(buf, 0, nonce, sequence, hello)
    return buf


def kinds(messages, values=1):
    return [m.check(message, len(message), values) for message in messages]


def releases(messages, values=1):
    """Pairs of sequence and values; every message must be a valid one of this boot."""
    found = []
    for message in messages:
        if m.check(message, len(message), values) == m.RELEASE:
            assert message[m.NONCE_AT : m.NONCE_AT + 4] == NONCE[:4]
            found.append((m.get_word(message, m.SEQUENCE_AT), list(message[-values:])))
    return found


def statuses(messages, values=1):
    """(health, drops, lowest, count) of each status."""
    found = []
    for message in messages:
        if m.check(message, len(message), values) == m.STATUS:
            words = [m.get_word(message, at) for at in (9, 14, 19)]
            found.append((message[7],) + tuple(words))
    return found


def play(agent, readings):
    for reading in readings:
        agent.tick(reading)
        agent.service()


def test_hello_and_status_come_first():
    agent, link = device()
    play(agent, [10])
    messages = link.take()
    assert kinds(messages) == [m.HELLO, m.STATUS]
    expected = bytearray(len(messages[0]))
    m.put_hello(expected, 0, SOFTWARE, b"task-id!", PSEUDONYM, NONCE, 0, 0)
    assert messages[0] == bytes(expected)
    assert statuses(messages) == [(m.RUNNING, 0, 0, 0)]


def test_values_leave_in_order_of_the_mechanism():
    readings = [i * 7 & 255 for i in range(50)]
    for mechanism, number in ((RanSwitch, 1), (StaSwitch, STASWITCH)):
        task = make_task(mechanism=number, outbox=60)
        switch = mechanism(task, Generator(5))
        expected = [switch.step(reading) for reading in readings][2:]
        link = FakeLink()
        agent = Agent(task, Generator(5), link, PSEUDONYM)
        play(agent, readings)
        found = releases(link.take())
        assert expected != readings[:48]
        first = found[:48]
        assert [sequence for sequence, _ in first] != []
        values = {}
        for sequence, value in found:
            assert values.setdefault(sequence, value) == value
        assert [values[i] for i in range(48)] == [[value] for value in expected]


def test_wide_values_and_batches():
    agent, link = device(symbols=65536, batch=3)
    play(agent, [1, 256, 65535, 70000, -5, 513, 6, 7])
    assert releases(link.take(), 6) == [
        (0, [1, 0, 0, 1, 255, 255]),
        (1, [255, 255, 0, 0, 1, 2]),
    ]


def test_hello_is_repeated_until_it_is_known():
    agent, link = device(beacon=3)
    play(agent, [0] * 7)
    assert kinds(link.take()).count(m.HELLO) == 3
    link.incoming.append(ack(0))
    play(agent, [0] * 7)
    messages = link.take()
    assert kinds(messages).count(m.HELLO) == 0
    assert kinds(messages).count(m.STATUS) == 2
    # The host asks for it: at once, not only at the next beacon.
    link.incoming.append(ack(0, True))
    play(agent, [0])
    assert kinds(link.take())[:2] == [m.HELLO, m.STATUS]


def test_an_ack_frees_frames():
    agent, link = device()
    play(agent, [1, 2, 3, 4, 5])
    assert [sequence for sequence, _ in releases(link.take())] == [0, 1, 2]
    link.incoming.append(ack(2))
    play(agent, [6])
    assert (agent.outbox.lowest, agent.outbox.next) == (2, 4)
    assert releases(link.take()) == [(3, [4])]


def test_what_is_no_ack_of_this_boot_has_no_effect():
    agent, link = device()
    play(agent, [1, 2, 3, 4, 5])
    status = bytearray(m.put_status(None, 0, NONCE[:4], 0, 0, 0, 0))
    m.put_status(status, 0, NONCE[:4], 0, 0, 0, 0)
    bad = [ack(3, False, b"\x01\x02\x03\x05"), status, ack(3) + b"\x00", ack(3)[:-1], b"\x00"]
    for number in range(len(bad)):
        link.incoming.append(bytearray(bad[number]))
        agent.service()
        assert agent.outbox.lowest == 0
        assert agent.rejected == number + 1
    # More than was ever made: nothing is freed, for it would be lost.
    link.incoming.append(ack(4))
    agent.service()
    assert agent.outbox.lowest == 0
    agent.rejected = m.COUNTER_MAX
    link.incoming.append(bytearray(1))
    agent.service()
    assert agent.rejected == m.COUNTER_MAX


def test_unacknowledged_frames_are_resent_identically():
    agent, link = device(resend=5, outbox=30)
    play(agent, [1, 2, 3, 4])
    first = [frame for frame in link.written if len(frame) == 14 + 7]
    assert len(first) == 2
    link.written = []
    play(agent, [5] * 10)
    again = [frame for frame in link.written if len(frame) == 14 + 7]
    for frame in first:
        assert again.count(frame) >= 1
    numbers = [sequence for sequence, _ in releases(link.take())]
    # One more after each tick, and from the lowest anew after the ticks of the Task.
    assert numbers.count(0) >= 1
    assert 0 <= numbers.index(0) <= 5


def test_acknowledged_frames_are_not_resent():
    agent, link = device(resend=2)
    play(agent, [1, 2, 3, 4])
    link.take()
    link.incoming.append(ack(2))
    for _ in range(10):
        agent.service()
    assert releases(link.take()) == []


def test_drops_are_counted_and_told():
    agent, link = device(outbox=2, beacon=10)
    link.busy = True
    play(agent, range(10))
    assert (agent.outbox.lowest, agent.outbox.next, agent.outbox.drops) == (6, 8, 6)
    link.busy = False
    agent.service()
    messages = link.take()
    assert statuses(messages) == [(m.RUNNING, 6, 6, 8)]
    assert releases(messages) == [(6, [6]), (7, [7])]
    assert m.get_word(messages[0], len(messages[0]) - 4) == 6


def test_a_busy_link_loses_nothing_that_the_outbox_holds():
    agent, link = device(outbox=20)
    for i in range(20):
        link.busy = i % 3 != 0
        play(agent, [i])
    link.busy = False
    agent.service()
    found = dict(releases(link.take()))
    assert [found[i][0] for i in range(18)] == list(range(18))


def test_stop_flushes_and_pads():
    agent, link = device(batch=4, beacon=2)
    play(agent, [11, 12, 13, 14, 15])
    agent.stop()
    play(agent, [99] * 4)
    messages = link.take()
    found = {}
    for sequence, values in releases(messages, 4):
        found[sequence] = values
    assert found == {0: [11, 12, 13, 14], 1: [15, 0, 0, 0]}
    assert statuses(messages, 4)[-1] == (m.ENDED, 0, 0, 5)
    assert agent.health == m.ENDED
    play(agent, [99] * 4)
    assert agent.count == 5
    assert not agent.idle()
    link.incoming.append(ack(2))
    play(agent, [None] * 10)
    assert agent.idle()
    assert statuses(link.take(), 4)[-1] == (m.ENDED, 0, 2, 5)


def test_a_segment_without_values_ends():
    agent, link = device(beacon=1)
    agent.stop()
    play(agent, [None] * 5)
    assert agent.idle()
    assert releases(link.take()) == []


def test_a_full_last_frame_is_not_followed_by_padding():
    agent, link = device(batch=2)
    play(agent, [1, 2, 3, 4])
    agent.stop()
    play(agent, [None] * 5)
    assert [pair for pair in releases(link.take(), 2) if pair[0] < 9][-1][0] == 1
    assert agent.outbox.next == 2


def test_counters_end_by_name():
    agent, link = device(window=2, k=2)
    agent.count = m.COUNTER_MAX - 2
    play(agent, [1, 2])
    assert (agent.health, agent.count) == (m.RUNNING, m.COUNTER_MAX - 1)
    play(agent, [3])
    assert (agent.health, agent.count) == (m.COUNTER_END, m.COUNTER_MAX)
    play(agent, [4] * 5)
    assert agent.count == m.COUNTER_MAX
    messages = link.take()
    assert statuses(messages)[-1] == (m.COUNTER_END, 0, 0, m.COUNTER_MAX)
    # What had been released is still delivered.
    assert [values for _, values in releases(messages)][:2] == [[1], [2]]


def test_sequence_and_drops_reach_their_end_together_with_count():
    agent, link = device(window=2, k=2, outbox=1)
    last = m.COUNTER_MAX
    agent.count = last - 2
    outbox = agent.outbox
    outbox.lowest = outbox.next = outbox.unsent = last - 2
    outbox.drops = last - 2
    link.busy = True
    play(agent, [1, 2, 3, 4])
    link.busy = False
    agent.service()
    messages = link.take()
    assert agent.health == m.COUNTER_END
    assert releases(messages) == [(last - 1, [2])]
    assert statuses(messages) == [(m.COUNTER_END, last - 1, last - 1, last)]


class Failing(Words):
    def word(self):
        raise EntropyError("stuck")


class FailingRefill(Words):
    def refill(self, need=1):
        raise EntropyError("stuck")


def test_failed_randomness_stops_the_device_by_name():
    for entropy in (Failing([]), FailingRefill(NO_SWITCHES)):
        link = FakeLink()
        agent = Agent(make_task(), entropy, link, PSEUDONYM)
        play(agent, [1, 2, 3, 4])
        messages = link.take()
        assert agent.health == m.ENTROPY_FAILED
        assert releases(messages) == []
        assert statuses(messages)[-1] == (m.ENTROPY_FAILED, 0, 0, 0)


def test_readings_change_nothing_but_the_values():
    """Frames, their lengths and their moments are the same whatever the readings are."""
    shapes = []
    for reading in (0, 1, 23, 24, 255, 256, -1, 1 << 40, None, 1.5, "x", b"", ValueError("x")):
        agent, link = device(batch=2, outbox=30, resend=7, beacon=5)
        shape = []
        for i in range(40):
            play(agent, [reading if i % 2 else 3])
            shape.append([len(frame) for frame in link.written])
            for message in decode(b"".join(link.written))[0]:
                if m.check(message, len(message), 2) != m.RELEASE:
                    shape.append(message)
            link.written = []
        shapes.append(shape)
    for shape in shapes:
        assert shape == shapes[0]


def test_frames_of_a_kind_have_one_length():
    agent, link = device(symbols=65536, outbox=4, beacon=3)
    for i in range(3000):
        play(agent, [i * i & 0xFFFF])
    lengths = {}
    for message in link.take():
        lengths.setdefault(m.check(message, len(message), 2), set()).add(len(message))
    assert sorted(lengths) == [m.HELLO, m.RELEASE, m.STATUS]
    for kind in lengths:
        assert len(lengths[kind]) == 1


class Host(FakeLink):
    """Acknowledges everything at once, and notes when each release left."""

    def __init__(self, clock):
        FakeLink.__init__(self)
        self.clock = clock
        self.moments = []

    def write(self, frame):
        for message in decode(bytes(frame))[0]:
            if m.check(message, len(message), 1) == m.RELEASE:
                self.moments.append(self.clock.now)
                self.incoming.append(ack(m.get_word(message, m.SEQUENCE_AT) + 1))
        return FakeLink.write(self, frame)


def segment(samples, clock, **changed):
    """Play a whole segment; each sample is a value, an exception, or (value, ms it takes).

    Gives the released values, and the moments when they left.
    """
    link = Host(clock)
    agent = Agent(make_task(beacon=1, **changed), Words(NO_SWITCHES), link, PSEUDONYM)
    agent_module.run(agent, 100, player(samples, clock), clock)
    return [values[0] for _, values in releases(link.take())], link.moments


def test_a_segment_in_real_time():
    for start in (0, 0x3FFFFFFF - 350):
        clock = Clock(start)
        assert segment([5, 6, 7, 8], clock)[0] == [5, 6, 7, 8]
        # 4 samples, 1 tick in which they end, 2 more values, 1 tick that ends, 3 farewells.
        assert 700 <= clock.now - start <= 1500


def test_a_sample_that_fails_is_missing():
    for error in (ValueError("x"), OSError(5), MemoryError(), RuntimeError()):
        assert segment([5, error, 7, 8], Clock(), missing=99)[0] == [5, 99, 7, 8]


def test_steps_that_were_slept_through_are_missing():
    # The first sample takes 250 ms: it comes too late for its own step, and the next
    # step has passed as a whole.
    assert segment([(5, 250), 6, 7], Clock(), missing=99)[0] == [99, 99, 6, 7]


def test_the_time_that_a_sample_takes_shows_nowhere():
    quick = segment([5, 6, 7, 8, 9], Clock())
    assert quick[1] == [300, 400, 500, 600, 700]
    assert segment([5, (6, 30), (7, 99), (8, 1), 9], Clock()) == quick
