"""Cut the power at each block write of a life on littlefs; print what came up.

Arguments: thresh or heavythresh; how many bytes of the block that was being written
arrive. Prints a line for each device that counts less than it said, says something
twice or in two ways, and then how many cuts there were and how often an answer was
found stored or lost after one.
"""

import sys

from cut_flash import Flash, cut_again, formatted, mounted, unplugged
from helpers import Generator, epoch_task

from tinyldp_device.epochs import Epochs
from tinyldp_device.ledger import FRESH, STORED, word_at
from tinyldp_device.lifetime import COUNTS_AT, Lifetime, provision
from tinyldp_protocol import messages as m

EPOCHS = 4
Flash.arrives = int(sys.argv[2])
task = epoch_task(rounds=2)
if sys.argv[1] == "heavythresh":
    task = epoch_task(rounds=20, items=20, coordinates=2, symbols=1000, levels=[0] * 4)
found = {"stored": 0, "lost": 0}


class Life(Generator):
    """What a device went through, which lends it its words."""

    def __init__(self):
        Generator.__init__(self, 5)
        self.votes = 0
        self.estimates = 0
        self.counts = (0, 0)
        self.drawn = set()
        self.kept = {}
        self.now = None

    def copy(self):
        other = Life()
        other.votes = self.votes
        other.estimates = self.estimates
        other.counts = self.counts
        other.drawn = set(self.drawn)
        other.kept = dict(self.kept)
        return other

    def boot(self, state):
        self.lifetime = Lifetime(state, task, task.epsilon)
        self.epochs = Epochs(task, self, self.lifetime)
        self.epochs._thresh = Overheard(self.epochs._thresh, self)

    def word(self):
        self.drawn.add(self.now)
        self.counts = self.counted()
        return Generator.word(self)

    def counted(self):
        data = self.lifetime.data
        return word_at(data, COUNTS_AT), word_at(data, COUNTS_AT + 4)

    def asked(self, t, phase):
        self.now = (t, phase)
        again = self.now in self.drawn
        result = self.epochs.settle(t, phase, phase)
        if result == FRESH and again:
            complain("drawn again")
        if result == FRESH or result == STORED:
            report = self.epochs.report(phase)
            if self.kept.setdefault(self.now, report) != report:
                complain("another answer")
        return result

    def lives(self, first):
        for t in range(first, EPOCHS + 1):
            for i in range(task.rounds):
                self.epochs.step((2 * (t & 1) + i * (t & 1) * 7) % task.symbols)
            self.asked(t, 0)
            self.asked(t, 1)


class Overheard:
    """A Thresh, of which is noted what it says."""

    def __init__(self, thresh, life):
        self.thresh = thresh
        self.life = life
        self.step = thresh.step
        self.take = thresh.take
        self.difference = thresh.difference
        self.votes = thresh.votes

    def __getattr__(self, name):
        return getattr(self.thresh, name)

    def vote(self, report, yes, poll):
        self.life.votes += 1 if yes else 0
        self.thresh.vote(report, yes, poll)

    def estimate(self, report, data, at, said):
        self.life.estimates += 1 if said else 0
        self.thresh.estimate(report, data, at, said)


cut = None


def complain(what):
    print("cut", cut, what)


def compare(life):
    """What a device says after a cut, beside what it went through."""
    lifetime = life.lifetime
    if lifetime.closed:
        complain("closed")
        return
    counted = life.counted()
    if counted[0] < life.counts[0] or counted[1] < life.counts[1]:
        complain("counts less")
    for t, phase in life.drawn:
        if t > lifetime.t:
            complain("t went back")
        elif t == lifetime.t:
            kept = (t, phase) in life.kept
            result = life.asked(t, phase)
            if result == STORED:
                found["stored"] += 1
            elif kept:
                complain("an answer is gone")
            elif result == m.LOST:
                found["lost"] += 1
    life.lives(lifetime.t + 1)
    if life.votes > task.votes or life.estimates > task.estimates:
        complain("said more than it may")
    if not lifetime.closed and lifetime.t < EPOCHS:
        complain("stopped answering")


first, state = formatted()
provision(state, task.epsilon)
unplugged()
n = 0
complete = False
while not complete:
    flash = Flash(bytearray(first.data))
    life = Life()
    flash.power = 1 << 20
    state = mounted(flash)
    flash.power = flash.writes + n
    try:
        life.boot(state)
        life.lives(1)
        complete = True
    except Exception:
        pass
    data = flash.data
    unplugged()
    for again, after in cut_again(data):
        cut = (n, again)
        other = life.copy()
        try:
            other.boot(mounted(Flash(bytearray(after))))
            compare(other)
        except Exception as error:
            complain(repr(error))
        unplugged()
    n += 1
print(n - 1, found["stored"], found["lost"])
