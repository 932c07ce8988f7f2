"""What a device may say in its life: it counts before it speaks, whoever asks.

Amounts are in 2^-16 of one epsilon. A device is provisioned with an allowance for
life. A Task with epochs is paid for whole, by its epsilon, when it is adopted: when
the device first starts with it. That is never given back, and a Task that comes
back after another one is adopted, and paid for, again.

Of the epoch that the last t is bound to, both phases are counted here before
anything is drawn for them, and answers are stored before they are sent; the
counters never fall, and what is written, and how often, never depends on them.
After a reset the bound epoch's phases go on from what is stored; what was counted
and not answered then is lost. When the state is missing or damaged all may have
been spent: the device is closed, for life.

The payload of the state: what is left of the allowance (a word of 4 bytes,
little-endian, below 2^30), alone before a Task was adopted, or 0 alone: closed.
Then, once there is a Task:

     4  its id, 8 bytes
    12  votes cast     16  estimates given     20  t that is bound, or 0   (words)
    24  each phase: 0 was not asked, 1 counted, 2 answered
    26  each phase: the entry that it was asked with
    28  1: there is a reference, the epoch of the last update that was asked for
    29  the reference, then the bound epoch, as Thresh or HeavyThresh wrote them
    then each phase: its report
"""

from tinyldp_device.ledger import FRESH, STORED, word_at
from tinyldp_device.state import StateError
from tinyldp_protocol.messages import BUDGET, LATE, LOST, UNKNOWN, set_word
from tinyldp_protocol.task import TaskError

TASK_AT = 4
COUNTS_AT = 12
T_AT = 20
PHASE_AT = 24
ENTRY_AT = 26
KNOWN_AT = 28
REFERENCE_AT = 29

_COUNTED = 1
_ANSWERED = 2
_CLOSED = b"\0\0\0\0"


class Lifetime:
    """The counters of one device, in its state.

    allowance: as provisioned, None where it was not. word: random, below 2^24; it
    makes it improbable that an old copy of a slot fits a state that was lost.
    t: the last one that is bound, or 0. data, bound_at: where the bound epoch goes.
    Raises TaskError when the Task costs more than is left; State's errors, and those
    of its slots, pass through: nothing must be drawn or sent then.
    """

    def __init__(self, state, task, allowance, word=0):
        if allowance is None:
            raise TaskError("This device was provisioned without an allowance, which a Task needs.")
        self._state = state
        self._task = task
        size = epoch_bytes(task)
        self.bound_at = REFERENCE_AT + size
        self._reports = self.bound_at + size
        try:
            old = state.load()
        except StateError:
            old = b""
        same = old[TASK_AT:COUNTS_AT] == task.id
        if not _whole(old, allowance) or (same and len(old) != state_bytes(task)):
            old = _CLOSED
            state.create(old, word << 4)
        self.closed = old == _CLOSED
        self.t = 0
        same = same and not self.closed
        self.data = bytearray(old if same else state_bytes(task))
        # What the slots will hold, where nothing so large should be looked for later.
        self._stored = None if task.items is None else bytearray(state_bytes(task) + 8)
        if same:
            self.t = word_at(old, T_AT)
        elif not self.closed:
            self._adopt(word_at(old, 0))

    def ask(self, t, phase, entry):
        """May t's phase, 0 or 1, be answered? This binds, counts and writes nothing.

        FRESH: when t is bound, after count(); STORED: report(phase) is to be sent again.
        Else the reason of a refusal.
        """
        if self.closed:
            return BUDGET
        if t < 1 or t > self._task.epochs or entry > phase:
            return UNKNOWN
        if t < self.t:
            return LATE
        if t == self.t:
            status = self.data[PHASE_AT + phase]
            if status:
                return STORED if status == _ANSWERED else LOST
            if not phase and self.data[PHASE_AT + 1]:
                return LATE
        return FRESH

    def bind(self, t):
        """The epoch that is put at bound_at is t's from now on."""
        self.t = t
        set_word(self.data, T_AT, t)
        self.data[PHASE_AT] = self.data[PHASE_AT + 1] = 0

    def known(self):
        """Whether there is a reference."""
        return self.data[KNOWN_AT] == 1

    def left(self, phase):
        """Whether another vote (phase 0) or estimate (phase 1) may say anything."""
        most = self._task.estimates if phase else self._task.votes
        return word_at(self.data, COUNTS_AT + 4 * phase) < most

    def update(self):
        """The bound epoch is the reference from now on."""
        self.data[KNOWN_AT] = 1
        for i in range(self.bound_at - REFERENCE_AT):
            self.data[REFERENCE_AT + i] = self.data[self.bound_at + i]

    def count(self, phase, entry, said):
        """Store that the bound epoch's phase is about to be drawn, and whether it says anything."""
        data = self.data
        at = COUNTS_AT + 4 * phase
        set_word(data, at, word_at(data, at) + (1 if said else 0))
        data[PHASE_AT + phase] = _COUNTED
        data[ENTRY_AT + phase] = entry
        self._save()

    def keep(self, phase, report):
        """Store the answer to what count() stored; only then may it be sent."""
        at = self._reports + phase * self._task.payload
        for i in range(self._task.payload):
            self.data[at + i] = report[i]
        self.data[PHASE_AT + phase] = _ANSWERED
        try:
            self._save()
        except Exception:
            self.data[PHASE_AT + phase] = _COUNTED
            raise

    def report(self, phase):
        """The bytes of the stored answer."""
        at = self._reports + phase * self._task.payload
        return bytes(self.data[at : at + self._task.payload])

    def entry(self, phase):
        """The entry that the stored answer was asked with."""
        return self.data[ENTRY_AT + phase]

    def _save(self):
        if self._stored is None:
            self._state.save(self.data)
        else:
            self._state.save_through(self.data, self._stored)

    def _adopt(self, left):
        task = self._task
        if task.epsilon > left:
            raise TaskError(
                "The Task costs %d for life, more than the %d that are left to the device."
                % (task.epsilon, left)
            )
        set_word(self.data, 0, left - task.epsilon)
        for i in range(8):
            self.data[TASK_AT + i] = task.id[i]
        self._save()


def provision(state, allowance, word=0):
    """Make the counters of a new device: an allowance of 1..2^30 - 1; word: as Lifetime's."""
    data = bytearray(4)
    set_word(data, 0, allowance)
    state.create(data, word << 4)


def epoch_bytes(task):
    """What Thresh, or HeavyThresh, writes of an epoch."""
    return 4 if task.items is None else 6 * task.items


def state_bytes(task):
    """The payload's size once such a Task was adopted."""
    return REFERENCE_AT + 2 * epoch_bytes(task) + 2 * task.payload


def _whole(data, allowance):
    if len(data) != 4 and len(data) < REFERENCE_AT:
        return False
    return data[3] < 64 and word_at(data, 0) <= allowance
