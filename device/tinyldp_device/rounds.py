"""A device that reports when it is asked: reading -> symbol; query -> rounds -> answer.

tick(reading) latches the reading of a step and allocates nothing; service() does
the rest. `rounds` decides what is answered: OracleRounds, or Epochs. It gives an
answer only when that is paid for and stored, and the same one when it is asked
again. Everything else, down to when and how often is written to storage, is the
same whatever the values are.

For each of a step's two phases one answer waits for the link, and one refusal in
all, which leaves at most once a tick: while it waits, others are not sent.
"""

from tinyldp_device.entropy import EntropyError
from tinyldp_device.ledger import FRESH, STORED
from tinyldp_device.quantize import Quantizer
from tinyldp_device.signals import FAREWELLS, MESSAGES_A_TICK, Signals, framed
from tinyldp_device.state import StateError
from tinyldp_protocol.cbor import Malformed
from tinyldp_protocol.framing import HEAD
from tinyldp_protocol.hashing import GROUPS, group
from tinyldp_protocol.messages import (
    ACK,
    COUNTER_END,
    COUNTER_MAX,
    ENDED,
    ENTROPY_FAILED,
    FOREIGN,
    LOST,
    QUERY,
    QUERY_ENTRY_AT,
    QUERY_PHASE_AT,
    QUERY_SIZE_AT,
    QUERY_START_AT,
    QUERY_T_AT,
    QUERY_TASK_AT,
    RUNNING,
    SEQUENCE_AT,
    check,
    get_word,
    put_answer,
    put_refusal,
)


class RoundAgent:
    """One device: a Task with a method or epochs, its randomness, a link, a pseudonym, its rounds.

    health: one of messages' health codes; count: answers given since boot; drops:
    answers that another step's took the place of, unsent; rejected: messages from
    the host that were malformed or not for this boot. looks: how often a step run()
    looks for queries, for both phases to fit in.
    """

    looks = 4

    def __init__(self, task, entropy, link, pseudonym, rounds):
        self.health = RUNNING
        self.count = 0
        self.drops = 0
        self.rejected = 0
        self._task = task
        self._link = link
        self._rounds = rounds
        self._signals = Signals(task, entropy, link, pseudonym)
        self._group = group(task.id, pseudonym)
        self._quantizer = Quantizer(task)
        self._stopping = False
        self._farewells = 0

        self._answer = framed(self._put_answer)
        self._answers = link.encoder(self._answer, HEAD + SEQUENCE_AT, 0)
        self._frames = (self._answers.slot(), self._answers.slot())
        self._waiting = [False, False]
        self._refusal = framed(self._put_refusal)
        self._refusals = link.encoder(self._refusal, HEAD + SEQUENCE_AT, 0)
        self._refused = self._refusals.slot()
        self._refusing = False
        self._may_refuse = True

    def tick(self, reading):
        """One step of the device's time, with the reading latched for it, or None."""
        if self.health != RUNNING:
            return
        if self._stopping:
            self._halt(ENDED)
            return
        if not self._rounds.step(self._quantizer.symbol(reading)):
            self._halt(COUNTER_END)

    def stop(self):
        """No more steps: what was latched may still be asked for until idle()."""
        self._stopping = True

    def idle(self):
        """Whether the steps are over, and the host was told so thrice."""
        return self._farewells >= FAREWELLS

    def service(self):
        """Once for each tick: take in what the host says, send what is due."""
        self._may_refuse = True
        self.look()
        if self._signals.send(self.health, self.drops, 0, self.count):
            if self.health != RUNNING and self._signals.known and True not in self._waiting:
                self._farewells += 1
        try:
            self._rounds.checkpoint()
        except (OSError, StateError):
            # The next one may succeed; what is not stored cannot be spent.
            pass

    def look(self):
        """At any time: take in what the host says, and answer."""
        link = self._link
        for _ in range(MESSAGES_A_TICK):
            n = link.receive()
            if not n:
                break
            self._take(link.inbox, n)
        for phase in range(2):
            if self._waiting[phase] and link.write(self._frames[phase]):
                self._waiting[phase] = False
        if self._refusing and self._may_refuse and link.write(self._refused):
            self._refusing = False
            self._may_refuse = False

    def _halt(self, health):
        self.health = health
        self._signals.until = 0

    def _take(self, buf, n):
        """Take in one message of n bytes: a query, or an ack of this boot."""
        try:
            kind = check(buf, n, self._task.payload)
        except Malformed:
            kind = None
        if kind == QUERY:
            # Where randomness or counting has ended, status says so.
            if self.health <= ENDED:
                self._asked(buf)
        elif kind != ACK or not self._signals.hear(buf):
            if self.rejected < COUNTER_MAX:
                self.rejected += 1

    def _asked(self, buf):
        t = get_word(buf, QUERY_T_AT)
        phase = buf[QUERY_PHASE_AT]
        for i in range(8):
            if buf[QUERY_TASK_AT + i] != self._task.id[i]:
                self._refuse(t, phase, FOREIGN)
                return
        ahead = (self._group - get_word(buf, QUERY_START_AT)) % GROUPS
        if ahead >= get_word(buf, QUERY_SIZE_AT):
            return
        try:
            entry = buf[QUERY_ENTRY_AT] | buf[QUERY_ENTRY_AT + 1] << 8
            result = self._rounds.settle(t, phase, entry)
        except OSError:
            # The storage failed between the spend and the stored answer.
            result = LOST
        except StateError:
            self._halt(COUNTER_END)
            return
        except EntropyError:
            self._halt(ENTROPY_FAILED)
            return
        if result == FRESH:
            if self._waiting[phase]:
                self.drops += 1
            if self.count < COUNTER_MAX:
                self.count += 1
        elif result != STORED:
            self._refuse(t, phase, result)
            return
        self._put_answer(self._answer, HEAD, t, phase)
        self._answers.frame(self._frames[phase])
        self._waiting[phase] = True

    def _refuse(self, t, phase, reason):
        if not self._refusing:
            self._put_refusal(self._refusal, HEAD, t, phase, reason)
            self._refusals.frame(self._refused)
            self._refusing = True

    def _put_answer(self, buf, pos, t=0, phase=0):
        rounds = self._rounds
        return put_answer(
            buf, pos, self._signals.nonce, t, phase, rounds.entry(phase), rounds.report(phase)
        )

    def _put_refusal(self, buf, pos, t=0, phase=0, reason=FOREIGN):
        return put_refusal(buf, pos, self._signals.nonce, t, phase, reason)
