"""The mechanism that a Task names, and how many random words it takes.

Every mechanism has step(symbol), which gives what is released now (an integer,
or bytes that it overwrites at the next step) or None, and flush(), the same
after the last step.
"""

from tinyldp_device.switch import RanSwitch, StaSwitch
from tinyldp_protocol.task import CRR, CRR_BATCH, GRR, JITTERSORT, OUE, RANSWITCH, STASWITCH


def make_mechanism(task, entropy):
    """A fresh instance, which draws from entropy.word()."""
    mechanism = task.mechanism
    if mechanism == RANSWITCH:
        return RanSwitch(task, entropy)
    if mechanism == STASWITCH:
        return StaSwitch(task, entropy)
    # These are imported where they are used: a board holds what it runs.
    if mechanism == JITTERSORT:
        from tinyldp_device.jittersort import JitterSort

        return JitterSort(task, entropy)
    if mechanism == CRR or mechanism == CRR_BATCH:
        from tinyldp_device.conditional import make_crr

        return make_crr(task, entropy)
    return make_oracle(task, entropy)


def make_oracle(task, entropy):
    """A fresh frequency oracle, which draws from entropy.word()."""
    from tinyldp_device.oracles import Grr, Olh, Oue

    mechanism = task.mechanism
    if mechanism == GRR:
        return Grr(task, entropy)
    if mechanism == OUE:
        return Oue(task, entropy)
    return Olh(task, entropy)


def step_words(task):
    """Random words that a step takes at most, but for rare redraws."""
    return (1, 1, 2, 1, task.symbols, 3, 3, 3, 2, 2)[task.mechanism - 1]


def pool_words(task):
    """Size of a pool, in words, that holds a step's."""
    return max(64, step_words(task))


def small_pool_words(task):
    """The same where memory is scarce: the start-up test's few, or a step's."""
    return max(4, step_words(task))
