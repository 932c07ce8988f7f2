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
from tinyldp_protocol.cbor import Malformed
from tinyldp_protocol.messages import COUNTER_END
from tinyldp_protocol.task import TaskError, read_file

_SLICE = 50
NO_ROOM = "the board's memory is too small: flash with --mpy, or plan a smaller Task."


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
    try:
        with open(task_path, "rb") as file:
            task = read_file(file.read())
        kind = RoundIdentity if task.epochs is None else LifeIdentity
        identity = kind(_state(board.slots()))
        entropy = Entropy(board.source(), pool_words(task))
        rounds = None
        if task.method is not None:
            rounds = _oracle_rounds(board, task, identity, entropy)
        elif task.epochs is not None:
            rounds = _epochs(board, task, identity, entropy)
    except TaskError as error:
        return _not_started(error.args[0])
    except StateError as error:
        return _not_started("the stored state is %s; see tinyldp flash." % error.args[0])
    except Malformed as error:
        return _not_started("what is stored is damaged (%s); see tinyldp flash." % error.args[0])
    except EntropyError as error:
        return _not_started("the randomness is unfit (%s)." % error.args[0])
    except OSError as error:
        return _not_started("the board's files can't be read or written (%s)." % error)
    except MemoryError:
        return _not_started(NO_ROOM)
    line = board.open_line()
    agent = None
    try:
        try:
            agent = _agent(task, entropy, SerialLink(line), identity, rounds)
        except MemoryError:
            # Said below, when the line is the console's again.
            pass
        if agent is not None:
            run(agent, task.tick, sample, Clock(line))  # type: ignore
    finally:
        line.close()
    if agent is None:
        _not_started(NO_ROOM)


def _not_started(why):
    print("tinyldp: not started: %s" % why)


def _agent(task, entropy, link, identity, rounds):
    if rounds is None:
        agent = Agent(task, entropy, link, identity.pseudonym)
    else:
        from tinyldp_device.rounds import RoundAgent

        agent = RoundAgent(task, entropy, link, identity.pseudonym, rounds)
    if identity.ended:
        agent.health = COUNTER_END
    return agent


def _state(slots):
    first, second = slots
    return State(first, second)


def _kept(board, slots):
    if not hasattr(board, slots):
        raise TaskError("The board file has no %s(), where what is spent would be kept." % slots)
    return _state(getattr(board, slots)())


# Imported where it is used: a board holds what it runs.
def _oracle_rounds(board, task, identity, entropy):
    from tinyldp_device.ledger import Ledger
    from tinyldp_device.oraclerounds import OracleRounds

    state = _kept(board, "ledger_slots")
    ledger = Ledger(state, task, identity.cap, identity.horizon, entropy.word())
    return OracleRounds(task, entropy, ledger)


def _epochs(board, task, identity, entropy):
    from tinyldp_device.epochs import Epochs
    from tinyldp_device.lifetime import Lifetime

    state = _kept(board, "lifetime_slots")
    return Epochs(task, entropy, Lifetime(state, task, identity.allowance, entropy.word()))
