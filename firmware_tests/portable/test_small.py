"""The small agent says what the big one says, byte for byte, to the same host."""

from helpers import EACH, Generator, Mixed, Port, Words, make_task, player, task_of

from tinyldp_device import smallpost
from tinyldp_device.agent import Agent
from tinyldp_device.links.serial import SerialLink
from tinyldp_device.small import SmallAgent, run
from tinyldp_protocol.framing import HEAD, TAIL, Encoder
from tinyldp_protocol.messages import put_ack
from tinyldp_protocol.task import GRR, JITTERSORT, OLH, OUE, RANSWITCH, SCALE, STASWITCH


def ack(nonce, sequence, hello):
    message = bytearray(HEAD + put_ack(None, 0, nonce, sequence, hello) + TAIL)
    put_ack(message, HEAD, nonce, sequence, hello)
    encoder = Encoder(message, HEAD)
    frame = encoder.slot()
    encoder.frame(frame)
    return frame


def alike(seed, steps, mechanism=RANSWITCH, **changed):
    """Both agents through one history: acks that are late, lost, damaged, foreign."""
    # The big one leaves any number of frames unanswered.
    smallpost._CREDITS = 1 << 20
    try:
        return _alike(seed, steps, task_of(mechanism, beacon=9, resend=5, **changed))
    finally:
        smallpost._CREDITS = 3


def _alike(seed, steps, task):
    one = Port()
    two = Port()
    big = Agent(task, Mixed(seed), SerialLink(one), b"somebody")
    small = SmallAgent(task, Mixed(seed), two, b"somebody")
    dice = Generator(seed + 1000)
    accepted = 0
    for i in range(steps):
        if i == steps * 2 // 3:
            big.stop()
            small.stop()
        roll = dice.word() >> 8
        for _ in range(roll & 3):
            roll = dice.word() >> 8
            nonce = Words.nonce[:4] if roll & 7 else b"else"
            wanted = max(0, big.outbox.next + (roll >> 3 & 3) - 2)
            frame = ack(nonce, wanted, not roll >> 5 & 15)
            if not roll >> 9 & 7:
                frame[(roll >> 4) % len(frame)] ^= 1 << (roll & 7)
            one.incoming += bytes(frame)
            two.incoming += bytes(frame)
        one.busy = two.busy = not roll >> 11 & 15
        lowest = small.outbox.lowest
        reading = (dice.word() >> 8) - 100
        for agent in (big, small):
            agent.tick(reading)
            agent.service()
        accepted += small.outbox.lowest > lowest
        assert one.written == two.written, (seed, i)
        assert (big.health, big.count) == (small.health, small.count)
        one.written = []
        two.written = []
    assert accepted
    assert small.health
    return small.line.rejected


def test_as_the_big_agent():
    rejected = 0
    for seed in range(6):
        for mechanism in EACH:
            rejected += alike(seed, 150, mechanism)
        for mechanism in (RANSWITCH, STASWITCH, JITTERSORT, OLH):
            rejected += alike(seed, 150, mechanism, symbols=3000, batch=3)
        rejected += alike(seed, 150, GRR, symbols=3000, thresholds=[2000])
        rejected += alike(seed, 150, OUE, symbols=19, batch=3)
        rejected += alike(seed, 150, OLH, buckets=300, thresholds=[9000])
        keys = [SCALE // 2] + [SCALE // 16] * 4
        rejected += alike(seed, 150, JITTERSORT, window=9, thresholds=keys)
    assert rejected


def test_long_frames():
    alike(5, 300, symbols=3000, batch=14)
    alike(5, 600, batch=100)


def test_the_counter_ends():
    port = Port()
    agent = SmallAgent(make_task(), Generator(1), port, b"somebody")
    agent.count = 0x3FFFFFFE
    for i in range(9):
        agent.tick(i)
    assert agent.health == 2
    assert agent.count == 0x3FFFFFFF


def test_listening_twice_takes_nothing_twice():
    port = Port()
    agent = SmallAgent(make_task(outbox=9), Generator(1), port, b"somebody")
    for i in range(8):
        agent.tick(i)
        agent.service()
    port.incoming = bytes(ack(Words.nonce[:4], 3, False)) * 3
    for _ in range(5):
        agent.listen()
    assert agent.outbox.lowest == 3
    assert agent.line.rejected == 0


def step(agent):
    agent.tick(5)
    agent.service()


def test_three_frames_at_most_are_unanswered():
    port = Port()
    agent = SmallAgent(make_task(outbox=200, resend=50, beacon=20), Generator(1), port, b"somebody")
    # Hello, status and a release, and nothing more while nobody answers.
    for _ in range(40):
        step(agent)
    assert len(port.written) == 3
    # The answer to the release is one to the signals before it, too.
    port.incoming = bytes(ack(Words.nonce[:4], agent.outbox.lowest + 1, False))
    step(agent)
    # The beacon is due and goes first.
    assert len(port.written) == 6
    # An answer to one of them is credit for one.
    port.incoming = bytes(ack(Words.nonce[:4], agent.outbox.lowest + 1, False))
    step(agent)
    step(agent)
    assert len(port.written) == 7
    # What is not answered in 50 steps is given up.
    for _ in range(48):
        step(agent)
    assert len(port.written) == 7
    step(agent)
    assert len(port.written) > 7


def test_signals_leave_a_place_to_releases():
    """A host that is slower than the beacon, and whose answer stands for all that came before."""
    port = Port()
    task = make_task(outbox=9, resend=500, beacon=2)
    agent = SmallAgent(task, Generator(1), port, b"somebody")
    wanted = 0
    for i in range(300):
        step(agent)
        if i % 5 == 4:
            for frame in port.written:
                if len(frame) == 21:
                    wanted += 1
            if port.written:
                port.incoming = bytes(ack(Words.nonce[:4], wanted, False))
            port.written = []
    assert wanted > 20


def test_what_was_dropped_is_unanswered_still():
    port = Port()
    agent = SmallAgent(make_task(outbox=2, resend=50), Generator(1), port, b"somebody")
    for _ in range(9):
        step(agent)
    assert len(port.written) == 3
    assert agent.outbox.drops
    # One of the three is answered, and was dropped meanwhile: credit for one.
    port.incoming = bytes(ack(Words.nonce[:4], 0, False))
    step(agent)
    step(agent)
    assert len(port.written) == 4


def test_no_answer_finds_more_than_two_before_it():
    """A host that answers each frame, some together, whenever it likes: three fit in a ring."""
    dice = Generator(3)
    port = Port()
    agent = SmallAgent(make_task(outbox=9, resend=500, beacon=7), Generator(1), port, b"somebody")
    wanted = 0
    most = 0
    answers = 0
    for _ in range(3000):
        step(agent)
        for frame in port.written:
            # A release is as long as no other frame.
            if len(frame) == 21:
                wanted += 1
        frames = len(port.written)
        port.written = []
        while frames:
            together = 1 + (dice.word() >> 8) % frames
            frames -= together
            port.incoming += bytes(ack(Words.nonce[:4], wanted - frames, False))
            answers += 1
            most = max(most, len(port.incoming))
        if dice.word() >> 22:
            continue
        # Busy for some steps: the answers wait in the ring.
        agent.tick(5)
    assert answers > 1000
    assert 40 < most <= 60


class Clock:
    """Milliseconds that pass when someone sleeps, and when a sample takes its time."""

    def __init__(self):
        self.now = 0

    def ticks_ms(self):
        return self.now

    def ticks_add(self, ticks, ms):
        return ticks + ms

    def ticks_diff(self, a, b):
        return a - b

    def sleep_ms(self, ms):
        self.now += ms


class Host(Port):
    """Acknowledges everything at once; notes releases and when they left."""

    def __init__(self, clock):
        Port.__init__(self)
        self.clock = clock
        self.values = []
        self.moments = []

    def write(self, buf):
        if len(buf) == 21:
            self.values.append(buf[15] if buf[15] > 1 else 0)
            self.moments.append(self.clock.now)
        self.incoming += bytes(ack(Words.nonce[:4], len(self.values), False))
        return len(buf)


def segment(samples, **changed):
    """Play a segment; a sample is a value, an exception, or (value, ms that it takes)."""
    clock = Clock()
    host = Host(clock)
    agent = SmallAgent(
        make_task(beacon=1, window=2, k=2, thresholds=[1], **changed),
        Words([9] * 99),
        host,
        b"p" * 8,
    )
    run(agent, 100, player(samples, clock), clock)
    return host.values, host.moments


def test_a_segment_in_real_time():
    values, moments = segment([5, 6, 7, 8])
    assert values == [5, 6, 7, 8]
    assert moments == [200, 300, 400, 500]


def test_the_time_that_a_sample_takes_shows_nowhere():
    assert segment([5, (6, 30), (7, 99), 8]) == segment([5, 6, 7, 8])


def test_a_sample_that_fails_or_is_late_is_missing():
    for error in (ValueError("x"), OSError(5), MemoryError()):
        assert segment([5, error, 7, 8], missing=99)[0] == [5, 99, 7, 8]
    assert segment([(5, 250), 6, 7], missing=99)[0] == [99, 99, 6, 7]
