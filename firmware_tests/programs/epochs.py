# ruff: noqa
"""A device whose Task has epochs, on the unix port, with readings and words from files.

    epochs.py TASK WORDS READINGS FOLDER POOL LOOKS serial PORT
    epochs.py TASK WORDS READINGS FOLDER POOL LOOKS mqtt HOST:PORT

FOLDER holds its provisioned identity and allowance. Readings are 4-byte integers, WORDS
random bytes, POOL is how many words to draw at once. LOOKS: how often a step it looks for queries.
FOLDER/log: for each answer that is new its t, its phase and the number of the own epoch
that t is bound to, from 0.
"""

import gc
import sys

from player import open_link
from playing import play, recording, state
from tinyldp_device.entropy import Entropy, Replay
from tinyldp_device.epochs import Epochs
from tinyldp_device.identity import LifeIdentity
from tinyldp_device.ledger import FRESH
from tinyldp_device.lifetime import Lifetime
from tinyldp_device.rounds import RoundAgent
from tinyldp_protocol.task import read_file


class Logged:
    """What a RoundAgent asks, with a log of what it gave."""

    def __init__(self, epochs, rounds, log):
        self._epochs = epochs
        self._rounds = rounds
        self._log = log
        self._steps = 0
        self._t = 0
        self._own = -1
        self.report = epochs.report
        self.entry = epochs.entry
        self.checkpoint = epochs.checkpoint

    def step(self, symbol):
        self._steps += 1
        return self._epochs.step(symbol)

    def settle(self, t, phase, entry):
        result = self._epochs.settle(t, phase, entry)
        if result == FRESH:
            if t != self._t:
                self._t = t
                self._own = self._steps // self._rounds - 1
            self._log.write("%d %d %d\n" % (t, phase, self._own))
            self._log.flush()
        return result


def main(task_path, words_path, readings_path, folder, pool, looks, kind, where):
    with open(task_path, "rb") as file:
        task = read_file(file.read())
    identity = LifeIdentity(state(folder, "state"))
    entropy = Entropy(Replay(open(words_path, "rb")), int(pool), True)
    lifetime = Lifetime(state(folder, "lifetime"), task, identity.allowance)
    link = open_link(kind, where, task, identity.pseudonym, entropy.nonce)
    rounds = Logged(Epochs(task, entropy, lifetime), task.rounds, open(folder + "/log", "w"))
    agent = RoundAgent(task, entropy, link, identity.pseudonym, rounds)
    sample = recording(readings_path)
    gc.collect()
    play(agent, task.tick, sample, int(looks))


main(*sys.argv[1:])
