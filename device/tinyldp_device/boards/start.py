"""What a flashed board runs: its Task, identity, sample function and line, put together.

The board module gives source(), slots(), open_line(), for Tasks with a method
ledger_slots() and for Tasks with epochs lifetime_slots() (see boards/).
"""

import time

from tinyldp_device.agent import Agent, run
from tinyldp_device.entropy import Entropy, EntropyError
from tinyldp_device.identity import LifeIdentity, RoundIdentity
from tinyldp_device.links.serial import SerialLink
from tinyldp_device.mechanism import pool_words
from tinyldp_device.state import State, StateError
from tinyldp_protocol.messages import COUNTER_END
from tinyldp_protocol.task import TaskError, read_file

_SLICE = 50


class Clock:
    """MicroPython's clock, which looks after the line while it sleeps."""

    def __init__(self, line):
        self._line = line

    def ticks_ms(self):
        return time.ticks_ms()

    def ticks_add(self, ticks, delta):
        return time.ticks_add(ticks, delta)

    def ticks_diff(self, one, other):
        return time.ticks_diff(one, other)

    def sleep_ms(self, ms):
        while ms > 0:
            self._line.pump()
            time.sleep_ms(min(ms, _SLICE))
            ms -= _SLICE


def start(board, task_path, sample):
    """Run until the segment ends; says in one line why it does not start."""
    with open(task_path, "rb") as file:
        task = read_file(file.read())
    try:
        kind = RoundIdentity if task.epochs is None else LifeIdentity
        identity = kind(_state(board.slots()))
        entropy = Entropy(board.source(), pool_words(task))
        rounds = None
        if task.method is not None:
            rounds = _oracle_rounds(board, task, identity, entropy)
        elif task.epochs is not None:
            rounds = _epochs(board, task, identity, entropy)
    except TaskError as error:
        print("tinyldp: not started: %s" % error.args[0])
        return
    except StateError as error:
        print("tinyldp: not started: the stored state is %s; see tinyldp flash." % error.args[0])
        return
    except EntropyError as error:
        print("tinyldp: not started: the randomness is unfit (%s)." % error.args[0])
        return
    line = board.open_line()
    try:
        link = SerialLink(line)
        if rounds is None:
            agent = Agent(task, entropy, link, identity.pseudonym)
        else:
            from tinyldp_device.rounds import RoundAgent

            agent = RoundAgent(task, entropy, link, identity.pseudonym, rounds)
        if identity.ended:
            agent.health = COUNTER_END
        run(agent, task.tick, sample, Clock(line))  # type: ignore
    finally:
        line.close()


def _state(slots):
    first, second = slots
    return State(first, second)


# Imported where it is used: a board holds what it runs.
def _oracle_rounds(board, task, identity, entropy):
    from tinyldp_device.ledger import Ledger
    from tinyldp_device.oraclerounds import OracleRounds

    state = _state(board.ledger_slots())
    ledger = Ledger(state, task, identity.cap, identity.horizon, entropy.word())
    return OracleRounds(task, entropy, ledger)


def _epochs(board, task, identity, entropy):
    from tinyldp_device.epochs import Epochs
    from tinyldp_device.lifetime import Lifetime

    state = _state(board.lifetime_slots())
    return Epochs(task, entropy, Lifetime(state, task, identity.allowance, entropy.word()))
