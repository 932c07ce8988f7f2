"""What runs on a micro:bit that is asked, after the builder has written the Task's integers in."""

import time

from sample import sample

from tinyldp_device.boards.files import FileSlot
from tinyldp_device.boards.nrf51 import HardwareRng, open_serial
from tinyldp_device.entropy import Entropy
from tinyldp_device.identity import RoundIdentity
from tinyldp_device.ledger import Ledger
from tinyldp_device.mechanism import small_pool_words
from tinyldp_device.oraclerounds import OracleRounds
from tinyldp_device.smallrounds import SmallRoundAgent, run
from tinyldp_device.state import State, StateError
from tinyldp_protocol.messages import COUNTER_END

task = None
identity = RoundIdentity(State(FileSlot("state0"), FileSlot("state1")))
entropy = Entropy(HardwareRng(), small_pool_words(task))
if identity.cap != task.cap or identity.horizon != task.horizon:
    raise StateError("another allowance")
state = State(FileSlot("ledger0"), FileSlot("ledger1"))
ledger = Ledger(state, task, task.cap, task.horizon, entropy.word(), 1)
rounds = OracleRounds(task, entropy, ledger)
agent = SmallRoundAgent(task, entropy, open_serial(), identity.pseudonym, rounds)
if identity.ended:
    agent.health = COUNTER_END
run(agent, task.tick, sample, time)
