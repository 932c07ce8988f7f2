"""mechanism: the one that the Task names, with the words that it takes; whole devices of each."""

from helpers import BY_BELIEF, EACH, FakeLink, Mixed, Words, crr_task, table_task, task_of

from tinyldp_device.agent import Agent
from tinyldp_device.crr import Crr
from tinyldp_device.crrblocks import CrrBlocks
from tinyldp_device.crrtables import CrrTable
from tinyldp_device.jittersort import JitterSort
from tinyldp_device.mechanism import make_mechanism, pool_words, step_words
from tinyldp_device.oracles import Grr, Olh, Oue
from tinyldp_device.switch import RanSwitch, StaSwitch
from tinyldp_protocol import messages as m
from tinyldp_protocol.task import (
    CRR,
    CRR_BATCH,
    GRR,
    JITTERSORT,
    OLH,
    OUE,
    RANSWITCH,
    SCALE,
    STASWITCH,
)

# In place of a mechanism's number, which is that of CRR_BATCH.
BY_TABLE = 100
CLASSES = {
    RANSWITCH: RanSwitch,
    STASWITCH: StaSwitch,
    JITTERSORT: JitterSort,
    GRR: Grr,
    OUE: Oue,
    OLH: Olh,
    CRR: Crr,
    CRR_BATCH: CrrBlocks,
    BY_TABLE: CrrTable,
}


def any_task(number, **changed):
    """A small Task of any of them."""
    if number == BY_TABLE:
        return table_task(**changed)
    return (crr_task if number in BY_BELIEF else task_of)(number, **changed)


def test_the_one_that_the_task_names():
    assert sorted(CLASSES) == sorted(EACH) + sorted(BY_BELIEF) + [BY_TABLE]
    for number in CLASSES:
        assert type(make_mechanism(any_task(number), Mixed(1))) is CLASSES[number]


class Counted(Mixed):
    def __init__(self, seed):
        Mixed.__init__(self, seed)
        self.used = 0

    def word(self):
        self.used += 1
        return Mixed.word(self)


def test_words_of_a_step():
    for number in EACH:
        for symbols in (4, 100):
            task = task_of(number, symbols=symbols, thresholds=[1]) if number == GRR else None
            task = task or task_of(number, symbols=symbols)
            entropy = Counted(1)
            mechanism = make_mechanism(task, entropy)
            for _ in range(2):
                mechanism.step(3)
            entropy.used = 0
            for _ in range(20):
                mechanism.step(3)
            # Mixed(1) has no word that is drawn again.
            assert entropy.used == 20 * step_words(task)
            assert pool_words(task) == max(64, step_words(task))
    # A block takes those of a step, once, and by a table half of them.
    for number, steps, words in ((CRR, 20, 40), (CRR_BATCH, 40, 40), (BY_TABLE, 40, 20)):
        task = any_task(number)
        # Nor does Mixed(2) have one that is drawn again.
        entropy = Counted(2)
        mechanism = make_mechanism(task, entropy)
        for _ in range(steps):
            mechanism.step(3)
        assert entropy.used == words
        assert 20 * step_words(task) == 40


class Flow(Mixed):
    """Keeps what it was asked to have ready."""

    def __init__(self, seed):
        Mixed.__init__(self, seed)
        self.needs = []

    def refill(self, need=1):
        self.needs.append(need)


def test_the_agent_asks_for_the_words_of_a_step():
    for number in CLASSES:
        task = any_task(number)
        entropy = Flow(1)
        agent = Agent(task, entropy, FakeLink(), b"somebody")
        agent.tick(1)
        agent.service()
        assert entropy.needs == [step_words(task)]


def bytes_of(report, width):
    if type(report) is int:
        return [report >> 8 * i & 255 for i in range(width)]
    assert len(report) == width
    return list(report)


def released(task, readings):
    """Bytes of all values that a device releases, the reports of its frames; and the agent."""
    link = FakeLink()
    agent = Agent(task, Mixed(7), link, b"somebody")
    for reading in readings:
        agent.tick(reading)
        agent.service()
    agent.stop()
    while agent.health == m.RUNNING:
        agent.tick(99)
        agent.service()
    agent.service()
    size = task.batch * task.width
    frames = {}
    for message in link.take():
        if m.check(message, len(message), size) == m.RELEASE:
            values = list(message[-size:])
            assert frames.setdefault(m.get_word(message, m.SEQUENCE_AT), values) == values
    assert sorted(frames) == list(range(len(frames)))
    return [byte for i in sorted(frames) for byte in frames[i]], agent


def test_frames_hold_the_reports():
    for number, changes in (
        (JITTERSORT, {}),
        (JITTERSORT, {"symbols": 1000}),
        (GRR, {}),
        (GRR, {"symbols": 1000, "thresholds": [SCALE // 2000]}),
        (OUE, {}),
        (OUE, {"symbols": 20}),
        (OUE, {"symbols": 300}),
        (OLH, {}),
        (OLH, {"buckets": 300, "thresholds": [SCALE // 400]}),
        (CRR, {}),
        (CRR, {"rule": 2, "loss": 2}),
        (CRR_BATCH, {}),
        (CRR_BATCH, {"block": 3}),
        (BY_TABLE, {}),
        (BY_TABLE, {"loss": 3}),
    ):
        for batch in (1, 3):
            task = any_task(number, batch=batch, outbox=30, **changes)
            readings = [i * 7 % task.symbols for i in range(20)]
            mechanism = make_mechanism(task, Mixed(7))
            expected = []
            for reading in readings:
                report = mechanism.step(reading)
                if report is not None:
                    expected += bytes_of(report, task.width)
            report = mechanism.flush()
            while report is not None:
                expected += bytes_of(report, task.width)
                report = mechanism.flush()
            found, agent = released(task, readings)
            assert (agent.count, agent.health) == (20, m.ENDED)
            assert found[: len(expected)] == expected
            assert len(expected) == 20 * task.width
            # Padding.
            assert found[len(expected) :] == [0] * (-20 % batch * task.width)


def test_an_incomplete_block_is_released_unless_by_a_table():
    for number, count in ((CRR_BATCH, 21), (BY_TABLE, 20)):
        for batch in (1, 3):
            task = any_task(number, batch=batch, outbox=30)
            found, agent = released(task, [3] * 21)
            # What is beyond them is padding.
            assert (agent.count, agent.health) == (count, m.ENDED)
            assert len(found) == count + -count % batch


def test_what_is_no_reading_is_missing():
    for number in CLASSES:
        for missing in (None, 0, 3):
            task = any_task(number, symbols=4, missing=missing, outbox=30)
            nothing = [None, 1.5, "x", b"", ValueError("x")] * 4
            assert released(task, nothing)[0] == released(task, [missing or 0] * 20)[0]
            # And clamped.
            outside = [-5, 4, 1 << 40, -(1 << 40)] * 5
            assert released(task, outside)[0] == released(task, [0, 3, 3, 0] * 5)[0]


def test_readings_change_nothing_but_the_values():
    """Frames, their lengths and their moments are the same whatever the readings are."""
    for number in CLASSES:
        shapes = []
        for reading in (0, 1, 3, 255, -1, 1 << 40, None, 1.5, "x"):
            link = FakeLink()
            task = any_task(number, batch=2, outbox=30, resend=7, beacon=5)
            agent = Agent(task, Mixed(7), link, b"somebody")
            shape = []
            for i in range(40):
                if i == 30:
                    agent.stop()
                agent.tick(reading if i % 2 else 3)
                agent.service()
                shape.append([len(frame) for frame in link.written])
                link.written = []
            shapes.append(shape)
        for shape in shapes:
            assert shape == shapes[0]


def test_words_that_end_end_the_device_by_name():
    class Ending(Words):
        def word(self):
            from tinyldp_device.entropy import EntropyError

            if self.used == len(self.words):
                raise EntropyError("missing")
            return Words.word(self)

    for number in CLASSES:
        task = any_task(number, batch=4)
        link = FakeLink()
        agent = Agent(task, Ending([5] * 33), link, b"somebody")
        for i in range(80):
            agent.tick(i)
            agent.service()
        assert agent.health == m.ENTROPY_FAILED
        # Nothing of an unfinished report is counted.
        expected = {1: 33, 2: 33, 3: 15, 4: 33, 5: 8, 6: 11, 9: 16, 10: 32, BY_TABLE: 66}[number]
        assert agent.count == expected, (number, agent.count)
