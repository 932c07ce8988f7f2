"""A device that answers on real files, and stops at one write, to be killed there.

    ledger_killed.py WRITE ARRIVES   up to that write, of which so many bytes arrive
    ledger_killed.py                 what it says after that, asked again and for more

Prints "write" for each one, "cut", and what leaves: "answer STEP T PHASE ENTRY REPORT",
"refusal STEP T PHASE REASON"; STEP counts the ticks of this run.
"""

import sys
import time

from helpers import FakeLink, round_task

from tinyldp_device.boards.files import FileSlot
from tinyldp_device.entropy import Entropy, Urandom
from tinyldp_device.ledger import Ledger
from tinyldp_device.oraclerounds import OracleRounds
from tinyldp_device.rounds import RoundAgent
from tinyldp_device.state import State
from tinyldp_protocol import messages as m
from tinyldp_protocol.hashing import GROUPS

power = int(sys.argv[1]) if len(sys.argv) > 1 else -1
arrives = int(sys.argv[2]) if len(sys.argv) > 2 else 0


class Slot(FileSlot):
    def write(self, data):
        global power
        if power == 0:
            FileSlot.write(self, data[:arrives])
            print("cut")
            while True:
                time.sleep(1)
        power -= 1
        FileSlot.write(self, data)
        print("write")


task = round_task(w=4)
ledger = Ledger(State(Slot("ledger0"), Slot("ledger1")), task, task.epsilon, task.w)
link = FakeLink()
entropy = Entropy(Urandom(), 64)
agent = RoundAgent(task, entropy, link, b"somebody", OracleRounds(task, entropy, ledger))
step = 0


def tick():
    global step
    agent.tick(step % 5)
    step += 1


def ask(t, phase, entry):
    query = bytearray(m.put_query(None, 0, task.id, t, phase, entry, 0, GROUPS))
    m.put_query(query, 0, task.id, t, phase, entry, 0, GROUPS)
    link.incoming.append(query)
    agent.service()
    for message in link.take():
        kind = m.check(message, len(message), 1)
        if kind == m.ANSWER:
            t = m.get_word(message, m.SEQUENCE_AT)
            print("answer", step, t, message[m.PHASE_AT], message[m.ENTRY_AT], message[-1])
        elif kind == m.REFUSAL:
            t = m.get_word(message, m.SEQUENCE_AT)
            print("refusal", step, t, message[m.PHASE_AT], message[m.REASON_AT])


if power >= 0:
    # 2 and 2 of 8 in one step, 4 in the next: the window is full.
    tick()
    ask(10, 0, 0)
    ask(10, 1, 0)
    tick()
    ask(11, 0, 1)
    tick()
    ask(12, 0, 0)
else:
    # Asked before the first step, too.
    for _ in range(8):
        for t in (10, 11):
            for phase in (0, 1):
                for entry in (0, 1, 2):
                    ask(t, phase, entry)
        for entry in (2, 1, 0):
            ask(20 + step, 0, entry)
            ask(20 + step, 1, entry)
        tick()
print("end")
