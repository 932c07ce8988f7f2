"""rounds.RoundAgent for boards with a few kilobytes: the same frames, on a serial line only.

A query has 37 bytes, and a board may have room for 64 while it is busy: so one frame
at most is unanswered, and no second query can come before the first was taken.
"""

from tinyldp_device.entropy import EntropyError
from tinyldp_device.ledger import FRESH, STORED, word_at
from tinyldp_device.links.queryserial import (
    ENTRY,
    PHASE,
    SIZE,
    START,
    TASK,
    QuerySerial,
    T,
)
from tinyldp_device.mechanism import make_oracle, step_words
from tinyldp_device.quantize import Quantizer
from tinyldp_device.smallsignals import STATUS_DROPS, SmallSignals, small_message
from tinyldp_device.state import StateError
from tinyldp_protocol.hashing import GROUPS, group
from tinyldp_protocol.messages import (
    COUNTER_END,
    COUNTER_MAX,
    ENTROPY_FAILED,
    FOREIGN,
    LOST,
    RUNNING,
    set_word,
)
from tinyldp_protocol.task import OLH, OUE

_MESSAGES_A_TICK = 4
_CREDITS = 1
# How often a step run() looks for queries, for both phases to fit in.
_PARTS = 4
# Which of the frames is that of a refusal.
_REFUSED = 2


class SmallRoundAgent(SmallSignals):
    """One device: a Task with a method, its randomness, a serial port, a pseudonym, a ledger.

    It has no end: there is no stop(), nor idle().
    """

    def __init__(self, task, entropy, port, pseudonym, ledger):
        line = QuerySerial(port, bytes(entropy.nonce[:4]))
        SmallSignals.__init__(self, task, entropy, line, pseudonym, _CREDITS, task.beacon)
        self._line = line
        self.drops = 0
        self._task = task
        self._entropy = entropy
        self._ledger = ledger
        self._quantizer = Quantizer(task)
        self._oracle = make_oracle(task, entropy)
        self._words = step_words(task)
        # Whether a report is bytes, or an integer.
        self._bytes = task.mechanism == OUE or task.mechanism == OLH
        # Of the present step, and of the one that is bound once it is over.
        self._symbol = 0
        self._bound = 0

        size = task.payload
        self._head = bytes([0x40 + size]) if size < 24 else bytes([0x58, size])
        # An answer for each phase and a refusal: finished frames that are to be sent, or empty.
        self._frames = [bytearray() for _ in range(3)]
        # What takes room for a while comes last: the builder puts the loop's code after it.
        self._group = group(task.id, pseudonym)

    def tick(self, reading):
        """One step of the device's time, with the reading latched for it, or None."""
        ledger = self._ledger
        if self.health != RUNNING:
            return
        if ledger.bound == ledger.now:
            self._bound = self._symbol
        self._symbol = self._quantizer.symbol(reading)
        if not ledger.step():
            self._halt(COUNTER_END)

    def service(self, part=0):
        """In each part of a tick: take in what the host says, answer; in part 0 the rest, too.

        Queries are taken in at this depth of calls: a board has not many of them.
        """
        if not part:
            self._wait()
        line = self._line
        for _ in range(_MESSAGES_A_TICK):
            if not line.receive():
                break
            self._open = 0
            if not line.query:
                self._acknowledged()
            elif self.health == RUNNING:
                # Where randomness or counting has ended, status says so.
                self._hear()
        self._speak()
        if not part:
            try:
                self._ledger.checkpoint()
            except (OSError, StateError):
                # The next one may succeed; what is not stored cannot be spent.
                pass

    def _speak(self):
        """Send what is due, answers first."""
        # Answers could take the last place of every signal.
        last = self._until_beacon < 0 and self._open == self._credits - 1 and not self._signals
        for i in range(3):
            if self._frames[i] and not last and self._send(self._frames[i]):
                self._frames[i] = bytearray()
                self._signals = 0
        if self._until_beacon <= 0 and self._signal():
            self._until_beacon = self._beacon

    def _hear(self):
        """Take in a query."""
        try:
            result = self._pay()
            if result == FRESH:
                self._draw()
                result = STORED
        except OSError:
            # The storage failed between the spend and the stored answer.
            result = LOST
        except StateError:
            self._halt(COUNTER_END)
            return
        except EntropyError:
            self._halt(ENTROPY_FAILED)
            return
        if result == STORED:
            self._answered()
        elif result > 0 and not self._frames[_REFUSED]:
            self._frame(_REFUSED, b"\x85\x06", bytes([result]))

    def _pay(self):
        """FRESH when the query is paid for, STORED, the reason of a refusal, or -1 for nothing."""
        query = self._line.inbox()
        same = True
        for i in range(8):
            if query[TASK + i] != self._task.id[i]:
                same = False
        if not same:
            return FOREIGN
        ahead = (self._group - word_at(query, START)) % GROUPS
        if ahead >= word_at(query, SIZE):
            return -1
        entry = query[ENTRY] | query[ENTRY + 1] << 8
        return self._ledger.ask(word_at(query, T), query[PHASE], entry)

    def _draw(self):
        """Answer the query that was paid for."""
        task = self._task
        ledger = self._ledger
        query = self._line.inbox()
        phase = query[PHASE]
        value = self._symbol if ledger.bound == ledger.now else self._bound
        if self._frames[phase]:
            self.drops += 1
        self._entropy.refill(self._words)
        self._oracle.threshold = task.thresholds[query[ENTRY] | query[ENTRY + 1] << 8]
        report = self._oracle.step(value)
        if not self._bytes:
            report = (report & 255, report >> 8)  # type: ignore
        ledger.keep(phase, report)
        if self.count < COUNTER_MAX:
            self.count += 1

    def _answered(self):
        """Frame the stored answer to the query."""
        ledger = self._ledger
        phase = self._line.inbox()[PHASE]
        entry = ledger.entry(phase)
        report = ledger.report(phase)
        end = bytes([0x42, entry & 255, entry >> 8]) + self._head + report
        self._frame(phase, b"\x86\x05", end)

    def _frame(self, i, kind, end):
        """Make frame number i: its kind, this boot, t and phase of the query, its end."""
        asked = self._line.inbox()[T - 1 : PHASE + 1]
        message = small_message(kind + self._boot + asked + end, 0)
        self._frames[i] = frame = bytearray(len(message))
        self.line.frame(message, frame)

    def _fill(self):
        set_word(self._status, STATUS_DROPS, self.drops)


def run(agent, period, sample, clock):
    """Play in real time, as agent.run does, for good: a StopIteration is a missing reading."""
    due = clock.ticks_ms()
    part = 0
    while True:
        late = clock.ticks_diff(clock.ticks_ms(), due)
        if late < 0:
            clock.sleep_ms(-late)
        agent.service(part)
        if not part:
            reading = None
            if late < period:
                try:
                    reading = sample()
                except Exception:
                    pass
                if clock.ticks_diff(clock.ticks_ms(), due) >= period:
                    reading = None
            agent.tick(reading)
        # Over all parts these add up to the period.
        due = clock.ticks_add(due, (period + part) // _PARTS)
        part = (part + 1) % _PARTS
