"""What a device has spent, by its own steps: it refuses, whoever asks.

Amounts are in 2^-16 of one epsilon, whatever the Task. In any task.w consecutive
steps a device spends at most task.epsilon, and in any `horizon` at most `cap`;
both were fixed when it was provisioned, and every Task debits the same ledger.

The host numbers its own steps by t. A t that is new is bound to the device's
present step, one t to a step; what it costs, in both its phases, is charged to
that step, whose value it is about, however late the second phase comes. While the
Task stays, t never goes back. Of another Task's t only the step it was bound to is
kept: after Tasks A, B and A, a t of A's that was answered before is new, is bound to
the step that is now, and is paid for once more. No window ever exceeds its budget.

A spend is in both slots of the state before anything is drawn for it, and an
answer before it is sent. After a reset the step goes on from the stored one, and
the first step of a boot still is that one, for nobody knows how long ago it was.
What was spent and not answered then is lost. When the state is missing or
damaged, as much as the cap may have been spent just now: a horizon is waited out.

Pre-charging spares flash: with `block` above 1, a spend of phase 0 is charged to
as many steps at once, if every window allows, and the steps to come need no
write of their own. What a reset leaves unused of it stays spent.

The payload of the state, words of 4 bytes, little-endian, below 2^30:

     0  horizon      4  block
     8  step        12  first step that may be charged
    16  step that is bound     20  t that it is bound to
    24  0 nothing is bound, 1 a step (to another Task's t), 2 a step and t
    25  each phase: 0 was not asked, 1 spent, 2 answered
    27  each phase: the entry, 2 bytes
    31  the Task's id, 8 bytes
    39  spends of the steps up to block - 1 from now, a word each: step x is
        number x modulo (horizon + block - 1)
    then each phase: its report
"""

from tinyldp_device.state import StateError
from tinyldp_protocol.messages import (
    BUDGET,
    COUNTER_MAX,
    EARLY,
    LATE,
    LOST,
    UNKNOWN,
    WAITING,
    set_word,
)
from tinyldp_protocol.task import TaskError

# What ask() gives besides the reasons of a refusal.
FRESH = 0
STORED = 8

BLOCK_AT = 4
STEP_AT = 8
WAIT_AT = 12
BOUND_AT = 16
T_AT = 20
BINDING_AT = 24
PHASE_AT = 25
ENTRY_AT = 27
TASK_AT = 31
RING_AT = 39

_SPENT = 1
_ANSWERED = 2
# The last step leaves room for the blocks that end after it.
LAST_STEP = COUNTER_MAX - 1024


class Ledger:
    """The spends of one device, in its state.

    cap, horizon: as provisioned, None or 0 where they were not. word: random, below 2^24;
    it makes it improbable that an old copy of a slot fits a ledger that was lost.
    block: where it is given, a ledger of other blocks counts as damaged.
    t: the last one that is bound, or -1. now: the device's present step; bound: the step
    that t, or another Task's, is bound to, or -1.
    Raises TaskError when the Task is above them; State's errors, and those of its
    slots, pass through: nothing must be drawn or sent then.
    """

    def __init__(self, state, task, cap, horizon, word=0, block=None):
        if not cap or not horizon:
            raise TaskError("This device was provisioned without a ledger, which the Task needs.")
        if task.epsilon > cap or task.w > horizon:
            raise TaskError(
                "The Task spends up to %d in %d steps, more than the device's %d in %d."
                % (task.epsilon, task.w, cap, horizon)
            )
        self._state = state
        self._task = task
        self._cap = cap
        self._horizon = horizon
        try:
            old = state.load()
        except StateError:
            old = b""
        if _horizon(old) != horizon or (block and word_at(old, BLOCK_AT) != block):
            old = _empty(horizon, block or 1, horizon)
            state.create(old, word << 4)
        self._block = block or word_at(old, BLOCK_AT)
        self._steps = horizon + self._block - 1
        self._reports = RING_AT + 4 * self._steps
        data = bytearray(self._reports + 2 * task.payload)
        same = old[TASK_AT : TASK_AT + 8] == task.id and len(old) == len(data)
        for i in range(len(data) if same else self._reports):
            data[i] = old[i]
        self._data = data
        self.now = word_at(data, STEP_AT)
        self.t = -1
        self.bound = -1
        if data[BINDING_AT]:
            self.bound = word_at(data, BOUND_AT)
            if data[BINDING_AT] > 1 and same:
                self.t = word_at(data, T_AT)
        if self.t < 0:
            data[PHASE_AT] = 0
            data[PHASE_AT + 1] = 0
        for i in range(8):
            data[TASK_AT + i] = task.id[i]
        self._saved = self.now
        # Whether a step of this boot has begun, and whether it has no t.
        self._begun = False
        self._free = False
        # What the bound step may still be charged with; -1 where its value is gone.
        self._left = -1
        # What the steps until then were charged with already.
        self._prepaid = 0
        self._until = -1

    def step(self):
        """The next own step begins; False when there is none. Allocates nothing."""
        if self.now >= LAST_STEP:
            self._free = False
            return False
        if self._begun:
            self.now += 1
            set_word(self._data, self._place(self.now + self._block - 1), 0)
            self._free = True
        else:
            self._begun = True
            self._free = self.bound != self.now
        return True

    def ask(self, t, phase, entry):
        """May t's phase, 0 or 1, be answered with this entry of the Task's?

        FRESH: it is paid for, and what is drawn now must be handed to keep(). When
        `t` has changed, it is bound to the step that is now.
        STORED: report(phase) is to be sent again, for entry(phase).
        Else the reason of a refusal, which costs nothing.
        """
        task = self._task
        data = self._data
        if entry >= len(task.spends):
            return UNKNOWN
        if t < self.t:
            return LATE
        spend = task.spends[entry]
        size = 1
        if t == self.t:
            status = data[PHASE_AT + phase]
            if status:
                return STORED if status == _ANSWERED else LOST
            if self._left < 0 or self.now - self.bound >= task.w:
                return LATE
            if spend > self._left:
                return BUDGET
        else:
            if self.now < word_at(data, WAIT_AT):
                return WAITING
            if not self._free:
                return EARLY
            ahead = self._block > 1 and not phase
            if ahead and self.now <= self._until and spend <= self._prepaid:
                size = 0
            elif ahead and self._room(self._block) >= spend:
                size = self._block
            elif self._room(1) < spend:
                return BUDGET
            self._free = False
            self.bound = self.now
            self.t = t
            data[PHASE_AT + 1 - phase] = 0
        for i in range(size):
            at = self._place(self.bound + i)
            set_word(data, at, word_at(data, at) + spend)
        data[PHASE_AT + phase] = _SPENT
        data[ENTRY_AT + 2 * phase] = entry & 255
        data[ENTRY_AT + 2 * phase + 1] = entry >> 8
        if self.bound == self.now:
            self._left = self._room(1)
        if size:
            self._save()
        # What is charged ahead may be used only once it is stored.
        if size > 1:
            self._prepaid = spend
            self._until = self.now + size - 1
        return FRESH

    def keep(self, phase, report):
        """Store the answer to what ask() paid for; only then may it be sent."""
        at = self._reports + phase * self._task.payload
        for i in range(self._task.payload):
            self._data[at + i] = report[i]
        self._data[PHASE_AT + phase] = _ANSWERED
        try:
            self._save()
        except Exception:
            self._data[PHASE_AT + phase] = _SPENT
            raise

    def report(self, phase):
        """The bytes of the stored answer."""
        at = self._reports + phase * self._task.payload
        return bytes(self._data[at : at + self._task.payload])

    def entry(self, phase):
        """The entry that the stored answer was paid with."""
        at = ENTRY_AT + 2 * phase
        return self._data[at] | self._data[at + 1] << 8

    def checkpoint(self):
        """Once for each step: stores how far it has come, four times in a horizon."""
        if self.now - self._saved > self._horizon >> 2:
            self._save()

    def _place(self, step):
        return RING_AT + 4 * (step % self._steps)

    def _room(self, size):
        """What `size` steps from now on may each be charged with, by every window."""
        task = self._task
        room = COUNTER_MAX
        for ahead in range(self._block):
            left = self._cap
            for back in range(self._horizon):
                left -= word_at(self._data, self._place(self.now + ahead - back))
                if back == task.w - 1:
                    part = (left - self._cap + task.epsilon) // min(ahead + 1, size, task.w)
                    room = min(room, part)
            room = min(room, left // min(ahead + 1, size))
        return room

    def _save(self):
        data = self._data
        set_word(data, STEP_AT, self.now)
        data[BINDING_AT] = 0
        if self.bound >= 0:
            data[BINDING_AT] = 1
            set_word(data, BOUND_AT, self.bound)
        if self.t >= 0:
            data[BINDING_AT] = 2
            set_word(data, T_AT, self.t)
        self._state.save(data)
        self._saved = self.now


def provision(state, horizon, block=1, word=0):
    """Make the ledger of a new device, from which nothing was spent; word: as Ledger's.

    horizon: steps, 1..1024; block: steps, at most the horizon. Raises ValueError else.
    """
    if not 1 <= horizon <= 1024 or not 1 <= block <= horizon:
        raise ValueError("a horizon is 1..1024 steps, a block at most the horizon")
    state.create(_empty(horizon, block, 0), word << 4)


def _empty(horizon, block, wait):
    """A ledger without spends, which refuses all before step `wait`."""
    data = bytearray(RING_AT + 4 * (horizon + block - 1))
    set_word(data, 0, horizon)
    set_word(data, BLOCK_AT, block)
    set_word(data, WAIT_AT, wait)
    return data


def _horizon(data):
    """The horizon of a whole ledger, or -1."""
    if len(data) < RING_AT:
        return -1
    horizon = word_at(data, 0)
    block = word_at(data, BLOCK_AT)
    if not 0 < block <= horizon or len(data) < RING_AT + 4 * (horizon + block - 1):
        return -1
    return horizon


def word_at(buf, pos):
    """Read 4 bytes, little-endian, that need no check: they are the ledger's own, or had it."""
    return buf[pos] | buf[pos + 1] << 8 | buf[pos + 2] << 16 | buf[pos + 3] << 24
