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

_MESSAGES_A_TICK = 4
_CREDITS = 1
# How often a step run() looks for queries, for both phases to fit in.
_PARTS = 4
# Which of the frames is that of a refusal.
_REFUSED = 2


class SmallRoundAgent(SmallSignals):
    """One device: a Task that is asked, its randomness, a serial port, a pseudonym, its rounds.

    It has no end: there is no stop(), nor idle().
    """

    def __init__(self, task, entropy, port, pseudonym, rounds):
        line = QuerySerial(port, bytes(entropy.nonce[:4]))
        SmallSignals.__init__(self, task, entropy, line, pseudonym, _CREDITS, task.beacon)
        self._line = line
        self.drops = 0
        self._task = task
        self._rounds = rounds
        self._quantizer = Quantizer(task)
        size = task.payload
        self._head = bytes([0x40 + size]) if size < 24 else bytes([0x58, size])
        # An answer for each phase and a refusal: finished frames that are to be sent, or empty.
        self._frames = [bytearray() for _ in range(3)]
        # What takes room for a while comes last: the builder puts the loop's code after it.
        self._group = group(task.id, pseudonym)

    def tick(self, reading):
        """One step of the device's time, with the reading latched for it, or None."""
        if self.health != RUNNING:
            return
        if not self._rounds.step(self._quantizer.symbol(reading)):
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
            else:
                self._say(self._hear())
        self._speak()
        if not part:
            try:
                self._rounds.checkpoint()
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
        """Settle a query: STORED, the reason of a refusal, or FRESH where nothing is to be said."""
        query = self._line.inbox()
        phase = query[PHASE]
        result = FRESH
        # Where randomness or counting has ended, status says so.
        if self.health != RUNNING:
            return result
        try:
            if query[TASK : TASK + 8] != self._task.id:
                result = FOREIGN
            elif (self._group - word_at(query, START)) % GROUPS < word_at(query, SIZE):
                entry = query[ENTRY] | query[ENTRY + 1] << 8
                result = self._rounds.settle(word_at(query, T), phase, entry)
                if result == FRESH:
                    if self._frames[phase]:
                        self.drops += 1
                    if self.count < COUNTER_MAX:
                        self.count += 1
                    result = STORED
        except OSError:
            # The storage failed between the spend and the stored answer.
            result = LOST
        except StateError:
            self._halt(COUNTER_END)
        except EntropyError:
            self._halt(ENTROPY_FAILED)
        return result

    def _say(self, result):
        """Frame what the query was settled with."""
        query = self._line.inbox()
        # That of the phase, or of refusals.
        i = query[PHASE]
        kind = b"\x86\x05"
        if result == STORED:
            entry = self._rounds.entry(i)
            report = self._rounds.report(i)
            end = bytes([0x42, entry & 255, entry >> 8]) + self._head + report
        else:
            i = _REFUSED
            if not result or self._frames[i]:
                return
            kind = b"\x85\x06"
            end = bytes([result])
        # This boot, t and phase of the query.
        message = small_message(kind + self._boot + query[T - 1 : PHASE + 1] + end, 0)
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
