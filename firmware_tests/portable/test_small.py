"""The small agent says what the big one says, byte for byte, to the same host."""

from helpers import Generator, Words, make_task

from tinyldp_device import smallpost
from tinyldp_device.agent import Agent
from tinyldp_device.links.serial import SerialLink
from tinyldp_device.small import SmallAgent, run
from tinyldp_protocol.framing import HEAD, TAIL, Encoder
from tinyldp_protocol.messages import put_ack


class Port:
    def __init__(self):
        self.written = []
        self.incoming = b""
        self.busy = False

    def write(self, buf):
        if self.busy:
            return None
        self.written.append(bytes(buf))
        return len(buf)

    def readinto(self, buf):
        n = min(len(buf), len(self.incoming))
        for i in range(n):
            buf[i] = self.incoming[i]
        self.incoming = self.incoming[n:]
        return n or None


def ack(nonce, sequence, hello):
    message = bytearray(HEAD + put_ack(None, 0, nonce, sequence, hello) + TAIL)
    put_ack(message, HEAD, nonce, sequence, hello)
    encoder = Encoder(message, HEAD)
    frame = encoder.slot()
    encoder.frame(frame)
    return frame


def alike(seed, steps, **changed):
    """Both agents through one history: acks that are late, lost, damaged, foreign."""
    # The big one leaves any number of frames unanswered.
    smallpost._CREDITS = 1 << 20
    try:
        return _alike(seed, steps, changed)
    finally:
        smallpost._CREDITS = 3


def _alike(seed, steps, changed):
    task = make_task(beacon=9, resend=5, **changed)
    one = Port()
    two = Port()
    big = Agent(task, Generator(seed), SerialLink(one), b"somebody")
    small = SmallAgent(task, Generator(seed), two, b"somebody")
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
        for mechanism in (1, 2):
            rejected += alike(seed, 150, mechanism=mechanism, window=4, k=4)
            rejected += alike(seed, 150, mechanism=mechanism, symbols=3000, batch=3)
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
