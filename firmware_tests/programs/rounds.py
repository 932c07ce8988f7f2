# ruff: noqa
"""A device that answers in rounds and plays a recording, on the unix port.

    rounds.py TASK READINGS FOLDER LOOKS serial PORT
    rounds.py TASK READINGS FOLDER LOOKS mqtt HOST:PORT

FOLDER holds its provisioned identity, and its ledger or counters for life. Readings are
4-byte integers, -2^31 for a missing one. LOOKS: how often a step it looks for queries; from a few on, two
phases fit into one step. 1: agent.run() plays it, as on a board.
"""

import gc
import sys
import time

from player import open_link
from playing import play, recording, state
from tinyldp_device.agent import run
from tinyldp_device.entropy import Entropy, Urandom
from tinyldp_device.identity import LifeIdentity, RoundIdentity
from tinyldp_device.mechanism import pool_words
from tinyldp_device.rounds import RoundAgent
from tinyldp_protocol.task import read_file


# Imported where they are used, as on a board.
def make_ledger(task, entropy, folder, identity):
    from tinyldp_device.ledger import Ledger
    from tinyldp_device.oraclerounds import OracleRounds

    cap, horizon = identity.cap, identity.horizon
    ledger = Ledger(state(folder, "ledger"), task, cap, horizon, entropy.word())
    return OracleRounds(task, entropy, ledger)


def make_epochs(task, entropy, folder, identity):
    from tinyldp_device.epochs import Epochs
    from tinyldp_device.lifetime import Lifetime

    stored = state(folder, "lifetime")
    return Epochs(task, entropy, Lifetime(stored, task, identity.allowance, entropy.word()))


def main(task_path, readings_path, folder, looks, kind, where):
    with open(task_path, "rb") as file:
        task = read_file(file.read())
    stored = state(folder, "state")
    identity = RoundIdentity(stored) if task.epochs is None else LifeIdentity(stored)
    entropy = Entropy(Urandom(), pool_words(task))
    made = make_ledger if task.epochs is None else make_epochs
    rounds = made(task, entropy, folder, identity)
    link = open_link(kind, where, task, identity.pseudonym, entropy.nonce)
    agent = RoundAgent(task, entropy, link, identity.pseudonym, rounds)
    sample = recording(readings_path)
    gc.collect()
    if looks == "1":
        run(agent, task.tick, sample, time)
    else:
        play(agent, task.tick, sample, int(looks))


main(*sys.argv[1:])
