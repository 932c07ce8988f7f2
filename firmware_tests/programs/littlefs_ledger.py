"""Cut the power at each block write of a ledger's life on littlefs; print what came up.

Arguments: the horizon; how many bytes of the block that was being written arrive.
Prints a line for each ledger that says less than was spent, or that waits, and then
how many cuts there were and how often an answer was found stored or lost after one.
"""

import sys

from cut_flash import Flash, cut_again, formatted, mounted, unplugged
from helpers import round_task

from tinyldp_device.ledger import FRESH, STORED, Ledger, provision
from tinyldp_protocol import messages as m

HORIZON = int(sys.argv[1])
Flash.arrives = int(sys.argv[2])
task = round_task(w=HORIZON)
found = {"stored": 0, "lost": 0}


def boot(state):
    return Ledger(state, task, task.epsilon, HORIZON)


class Life:
    """What a device went through: real steps, what was drawn in them, what was stored."""

    def __init__(self):
        self.now = 0
        self.drawn = []
        self.kept = {}

    def lived(self, ledger):
        for t in range(5):
            ledger.step()
            self.now = ledger.now
            for phase, entry in ((0, 0), (1, 0)) if t & 1 else ((0, 1),):
                self.draw(ledger, t, phase, entry)
            ledger.checkpoint()

    def draw(self, ledger, t, phase, entry):
        result = ledger.ask(t, phase, entry)
        if result == FRESH:
            self.drawn.append((self.now, task.spends[entry]))
            ledger.keep(phase, bytes([t]))
            self.kept[t, phase] = t
        return result

    def spent(self):
        return sum([spend for step, spend in self.drawn if self.now - step < HORIZON])


def complain(cut, what):
    print("cut", cut, what)


def compare(ledger, life, cut):
    """What a ledger says after a cut, beside what the device went through."""
    t = ledger.t
    for phase in range(2):
        result = ledger.ask(t, phase, 0) if t >= 0 else None
        if result == STORED:
            found["stored"] += 1
            if ledger.report(phase) != bytes([t]):
                complain(cut, "another answer")
        elif (t, phase) in life.kept:
            complain(cut, "an answer is gone")
        elif result == m.LOST:
            found["lost"] += 1
        elif result == FRESH:
            complain(cut, "drawn without a value")
    if t >= 0 and life.kept and t < max([key[0] for key in life.kept]):
        complain(cut, "t went back")
    # The first step is the one in which the power was cut.
    ledger.step()
    for _ in range(HORIZON + 1):
        for entry in (2, 1, 0):
            for phase in range(2):
                if life.draw(ledger, 100 + life.now, phase, entry) == m.WAITING:
                    complain(cut, "waits")
                if life.spent() > task.epsilon:
                    complain(cut, "spent less than before")
        ledger.step()
        life.now += 1


first, state = formatted()
provision(state, HORIZON)
unplugged()
n = 0
complete = False
while not complete:
    flash = Flash(bytearray(first.data))
    life = Life()
    ledger = boot(mounted(flash))
    flash.power = flash.writes + n
    try:
        life.lived(ledger)
        complete = True
    except Exception:
        pass
    data = flash.data
    unplugged()
    for again, after in cut_again(data):
        copied = Life()
        copied.now = life.now
        copied.drawn = list(life.drawn)
        copied.kept = dict(life.kept)
        try:
            compare(boot(mounted(Flash(bytearray(after)))), copied, (n, again))
        except Exception as error:
            complain((n, again), repr(error))
        unplugged()
    n += 1
print(n - 1, found["stored"], found["lost"])
