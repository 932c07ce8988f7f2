"""The small round agent says what the big one says, byte for byte, to the same host."""

from helpers import Clock, Generator, MemorySlot, Mixed, Port, Words, epoch_task, round_task

from tinyldp_device import ledger as l
from tinyldp_device import lifetime, smallrounds
from tinyldp_device.entropy import EntropyError
from tinyldp_device.epochs import Epochs
from tinyldp_device.ledger import Ledger
from tinyldp_device.links.serial import SerialLink
from tinyldp_device.oraclerounds import OracleRounds
from tinyldp_device.rounds import RoundAgent
from tinyldp_device.smallrounds import SmallRoundAgent, run
from tinyldp_device.state import State
from tinyldp_protocol import messages as m
from tinyldp_protocol.framing import HEAD, TAIL, Encoder
from tinyldp_protocol.hashing import GROUPS, group
from tinyldp_protocol.task import OLH, OUE, SCALE

PSEUDONYM = b"somebody"
NONCE = Words.nonce[:4]
# Lengths of frames; an answer with a report of one byte.
HELLO = 47
STATUS = 30
ANSWER = 25
REFUSAL = 21


def framed(put, *fields):
    message = bytearray(HEAD + put(None, 0, *fields) + TAIL)
    put(message, HEAD, *fields)
    encoder = Encoder(message, HEAD)
    frame = encoder.slot()
    encoder.frame(frame)
    return frame


def query(t, phase=0, entry=0, task=b"task-id!", start=0, size=GROUPS):
    return framed(m.put_query, task, t, phase, entry, start, size)


def ack(hello=False, nonce=NONCE):
    return framed(m.put_ack, nonce, 0, hello)


class Device:
    """An agent of one kind, with its port and the slots of its ledger, or of its counters."""

    def __init__(self, kind, task, entropy, slots=None):
        self.port = Port()
        if slots is None:
            slots = (MemorySlot(), MemorySlot())
            if task.epochs:
                lifetime.provision(State(slots[0], slots[1]), task.epsilon)
            else:
                l.provision(State(slots[0], slots[1]), task.w)
        self.slots = slots
        state = State(slots[0], slots[1])
        if task.epochs:
            counters = lifetime.Lifetime(state, task, task.epsilon)
            rounds = Epochs(task, entropy, counters)
        else:
            ledger = Ledger(state, task, task.epsilon, task.w, 0, 1)
            rounds = OracleRounds(task, entropy, ledger)
        port = self.port if kind is SmallRoundAgent else SerialLink(self.port)
        self.agent = kind(task, entropy, port, PSEUDONYM, rounds)

    def hears(self, frame):
        self.port.incoming += bytes(frame)
        self.agent.service()

    def said(self):
        written = self.port.written
        self.port.written = []
        return written


def pair(task, seed, slots=(None, None)):
    return (
        Device(RoundAgent, task, Mixed(seed), slots[0]),
        Device(SmallRoundAgent, task, Mixed(seed), slots[1]),
    )


def random_frame(dice, t):
    """What a host, or anyone, may send while step t is asked about."""
    roll = dice.word() >> 4
    if not roll & 15:
        return ack(not roll >> 4 & 3)
    t = max(0, t + (0, 0, 0, 0, 0, 1, -1, 7)[roll >> 4 & 7])
    entry = (0, 1, 2, 3, 256)[(dice.word() >> 8) % 5]
    phase = roll >> 7 & 1
    more = {}
    if not roll >> 8 & 15:
        more["task"] = b"another!"
    if not roll >> 12 & 3:
        # About half of these mean the device.
        at = group(b"task-id!", PSEUDONYM)
        more["start"] = (at + (dice.word() >> 1) - SCALE // 4) % GROUPS
        more["size"] = 1 + dice.word() // 4
    frame = query(t, phase, entry, **more)
    if not roll >> 14 & 7:
        frame[dice.word() % len(frame)] ^= 1 << (roll & 7)
    return frame


def alike(seed, steps=150, **changed):
    """Both agents through one history; gives how often each kind of frame was said, by length."""
    # The big one leaves any number of frames unanswered.
    smallrounds._CREDITS = 1 << 20
    try:
        kind = epoch_task if "epochs" in changed else round_task
        return _alike(seed, steps, kind(beacon=9, **changed))
    finally:
        smallrounds._CREDITS = 1


def _alike(seed, steps, task):
    dice = Generator(seed + 1000)
    found = {}
    both = pair(task, seed)
    for i in range(steps):
        if i == steps // 2:
            # A reset: what was stored goes on.
            both = pair(task, seed + 99, (both[0].slots, both[1].slots))
        reading = (dice.word() >> 8) % 9 - 2
        for device in both:
            device.agent.tick(reading)
        for _ in range(dice.word() >> 22):
            frame = random_frame(dice, i // task.rounds if task.epochs else i)
            busy = not dice.word() >> 21
            for device in both:
                device.port.busy = busy
                device.hears(frame)
            written = both[0].said()
            assert both[1].said() == written, (seed, i)
            for one in written:
                found[len(one)] = found.get(len(one), 0) + 1
        one, two = both[0].agent, both[1].agent
        assert (one.health, one.count, one.drops) == (two.health, two.count, two.drops)
        assert [slot.data for slot in both[0].slots] == [slot.data for slot in both[1].slots]
    return found


def test_as_the_big_agent():
    for seed in range(8):
        found = alike(seed)
        for length, least in ((HELLO, 1), (STATUS, 4), (ANSWER, 10), (REFUSAL, 10)):
            assert found[length] >= least, found


def test_other_oracles_and_widths():
    for seed in range(3):
        alike(seed, mechanism=OUE, symbols=20)
        alike(seed, mechanism=OLH, buckets=3)
        alike(seed, mechanism=OLH, buckets=300, thresholds=[9000, 8000, 7000])
        alike(seed, symbols=300)
        alike(seed, mechanism=OUE, symbols=8 * 40)
        alike(seed, bins=[0, 2, 3], missing=4)
        alike(seed, w=3, epsilon=6, spends=[1, 2, 6])


def test_epochs():
    more = {"epochs": 64, "levels": [0, 0, 0, 0, 0, 1, 2], "votes": 9}
    for seed in range(4):
        found = alike(seed, rounds=2, **more)
        for length, least in ((HELLO, 1), (STATUS, 4), (ANSWER, 10), (REFUSAL, 10)):
            assert found[length] >= least, found
        alike(seed, rounds=3, polls=20, thresholds=[SCALE // 3, SCALE // 4, SCALE // 5], **more)
        alike(seed, rounds=129, symbols=65536, bins=None, **more)
        alike(seed, rounds=2, symbols=5, bins=[0, 2, 3], missing=4, **more)


def small(words, **changed):
    task = round_task(**changed)
    return Device(SmallRoundAgent, task, Words(words))


def test_an_answer_is_on_the_value_of_its_step():
    device = small([SCALE - 1] * 9, beacon=100)
    device.agent.tick(3)
    device.hears(ack())
    device.said()
    device.hears(query(1))
    assert device.said()[-1][-6] == 3
    # Step 1 is over; its second phase is still about its value.
    device.agent.tick(4)
    device.hears(query(1, 1))
    assert device.said()[-1][-6] == 3
    device.agent.tick(2)
    device.hears(query(2))
    assert device.said()[-1][-6] == 2


def test_malformed_queries_say_nothing():
    device = small([SCALE - 1] * 99, beacon=1000)
    device.agent.tick(3)
    device.hears(ack())
    device.said()
    good = bytearray(m.put_query(None, 0, b"task-id!", 1, 0, 0, 0, GROUPS))
    m.put_query(good, 0, b"task-id!", 1, 0, 0, 0, GROUPS)

    def put(buf, pos, message):
        if buf is not None:
            for i in range(len(message)):
                buf[pos + i] = message[i]
        return pos + len(message)

    # Heads, phase, words beyond 30 bits, and sizes that are none.
    for at, byte in (
        (0, 0x86), (1, 5), (2, 0x47), (11, 0x43), (15, 64), (16, 2), (17, 0x41),
        (20, 0x45), (24, 1), (24, 255), (25, 0x43), (29, 64),
    ):  # fmt: skip
        bad = bytearray(good)
        bad[at] = byte
        device.agent._open = 0
        device.hears(framed(put, bad))
        assert device.said() == [], (at, byte)
    rejected = device.agent.line.rejected
    assert rejected >= 12
    device.hears(framed(put, good))
    assert len(device.said()) == 1
    assert device.agent.line.rejected == rejected


def test_one_frame_at_most_is_unanswered():
    device = small([SCALE - 1] * 99, beacon=20)
    for _ in range(19):
        device.agent.tick(3)
        device.agent.service()
    # Hello, and nothing more while nobody answers.
    assert len(device.said()) == 1
    device.hears(ack())
    assert [len(one) for one in device.said()] == [STATUS]
    device.hears(query(1))
    assert len(device.said()) == 1
    # What is not answered in 20 steps is given up.
    for _ in range(40):
        device.agent.tick(3)
        device.agent.service()
    assert 1 <= len(device.said()) <= 2


def test_answers_leave_a_place_to_signals():
    """A beacon is due in each step, and each step is asked about: both get their turn."""
    device = small([SCALE - 1] * 999, beacon=1, w=4)
    device.agent.tick(3)
    device.hears(ack())
    device.said()
    lengths = []
    for t in range(100):
        device.agent.tick(3)
        for part in range(4):
            device.port.incoming += bytes(query(t))
            device.agent.service(part)
            said = device.said()
            assert len(said) <= 1
            lengths += [len(one) for one in said]
    assert lengths.count(STATUS) > 40
    assert lengths.count(ANSWER) > 50


def test_a_failing_source_ends_it():
    class Failing(Words):
        def refill(self, need=1):
            raise EntropyError("stuck")

    device = Device(SmallRoundAgent, round_task(), Failing([1]))
    device.agent.tick(3)
    device.hears(ack())
    device.said()
    device.hears(query(1))
    device.agent._open = 0
    device.agent.service()
    assert device.agent.health == m.ENTROPY_FAILED


class Host(Port):
    """Acknowledges hello and asks about each step, one query for each frame."""

    def __init__(self, clock):
        Port.__init__(self)
        self.clock = clock
        self.t = 0
        self.answers = []

    def write(self, buf):
        if len(buf) == HELLO:
            self.incoming += bytes(ack())
        else:
            if len(buf) == ANSWER:
                self.answers.append((self.clock.now, buf[-6]))
                self.t += 1
            self.incoming += bytes(query(self.t))
        return len(buf)


class Over(Exception):
    pass


def test_in_real_time():
    """Answers leave at the quarters of a step, whatever time the sample takes."""
    seen = []
    for took in (0, 20):
        clock = Clock()
        device = small([SCALE - 1] * 99)
        host = Host(clock)
        device.agent.line._port = host
        steps = [0]

        def sample():
            steps[0] += 1
            clock.sleep_ms(took)  # noqa: B023
            if steps[0] == 5:
                raise ValueError("a sensor that fails")
            return steps[0] % 5

        sleep = clock.sleep_ms

        def sleep_ms(ms):
            sleep(ms)  # noqa: B023
            if clock.now > 3000:  # noqa: B023
                raise Over()

        clock.sleep_ms = sleep_ms
        try:
            run(device.agent, 101, sample, clock)
        except Over:
            pass
        # Steps of 101 ms, neither more nor less.
        assert 29 <= steps[0] <= 31
        seen.append(host.answers)
    assert len(seen[0]) > 20
    assert seen[0] == seen[1]
