"""What runs on a micro:bit whose Task has epochs, after its integers have been written in."""

import time

from sample import sample

from tinyldp_device.boards.files import FileSlot
from tinyldp_device.boards.nrf51 import HardwareRng, open_serial
from tinyldp_device.entropy import Entropy
from tinyldp_device.epochs import Epochs
from tinyldp_device.identity import LifeIdentity
from tinyldp_device.lifetime import Lifetime
from tinyldp_device.mechanism import small_pool_words
from tinyldp_device.smallrounds import SmallRoundAgent, run
from tinyldp_device.state import State
from tinyldp_protocol.messages import COUNTER_END

task = None
identity = LifeIdentity(State(FileSlot("state0"), FileSlot("state1")))
entropy = Entropy(HardwareRng(), small_pool_words(task))
state = State(FileSlot("lifetime0"), FileSlot("lifetime1"))
lifetime = Lifetime(state, task, identity.allowance, entropy.word())
rounds = Epochs(task, entropy, lifetime)
agent = SmallRoundAgent(task, entropy, open_serial(), identity.pseudonym, rounds)
if identity.ended:
    agent.health = COUNTER_END
run(agent, task.tick, sample, time)
