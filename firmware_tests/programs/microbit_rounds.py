# ruff: noqa: F821
"""A round agent on the micro:bit: STEPS steps with the heap locked, or busy for BUSY ms each.

Put before it: STEPS, LOCKED, BUSY, and `def reading(i): ...`. At the end it listens until it
hears a frame that is damaged, and prints the least free heap after a collection, the messages
rejected before that, and the bytes taken from the line.
"""

import gc
import time

from counted import Counted
from micropython import heap_lock, heap_unlock

from tinyldp_device.boards.files import FileSlot
from tinyldp_device.boards.nrf51 import HardwareRng, open_serial
from tinyldp_device.entropy import Entropy
from tinyldp_device.identity import RoundIdentity
from tinyldp_device.ledger import Ledger
from tinyldp_device.mechanism import small_pool_words
from tinyldp_device.oraclerounds import OracleRounds
from tinyldp_device.smallrounds import SmallRoundAgent
from tinyldp_device.state import State


def play():
    # As smallrounds.run, but that each step comes as soon as the one before is over.
    i = 0
    free = 9999
    while True:
        agent.service()
        if i < STEPS:
            i += 1
            gc.collect()
            free = min(free, gc.mem_free())
            if BUSY:
                time.sleep_ms(BUSY)
            value = reading(i)
            if LOCKED:
                heap_lock()
            agent.tick(value)
            if LOCKED:
                heap_unlock()
            if i == STEPS:
                before = agent.line.rejected
                print("over")
        elif agent.line.rejected > before:
            print("end", free, before, port.taken)
            return
        else:
            time.sleep_ms(5)


task = None
identity = RoundIdentity(State(FileSlot("state0"), FileSlot("state1")))
entropy = Entropy(HardwareRng(), small_pool_words(task))
state = State(FileSlot("ledger0"), FileSlot("ledger1"))
ledger = Ledger(state, task, task.cap, task.horizon, entropy.word(), 1)
port = Counted(open_serial())
rounds = OracleRounds(task, entropy, ledger)
agent = SmallRoundAgent(task, entropy, port, identity.pseudonym, rounds)
play()
