"""What runs on a micro:bit, after the builder has written the Task's integers into it."""

import time

from sample import sample

from tinyldp_device.boards.files import FileSlot
from tinyldp_device.boards.nrf51 import HardwareRng, open_serial
from tinyldp_device.entropy import Entropy
from tinyldp_device.identity import Identity
from tinyldp_device.mechanism import small_pool_words
from tinyldp_device.small import SmallAgent, run
from tinyldp_device.state import State
from tinyldp_protocol.messages import COUNTER_END

task = None
identity = Identity(State(FileSlot("state0"), FileSlot("state1")))
entropy = Entropy(HardwareRng(), small_pool_words(task))
agent = SmallAgent(task, entropy, open_serial(), identity.pseudonym)
if identity.ended:
    agent.health = COUNTER_END
run(agent, task.tick, sample, time)
