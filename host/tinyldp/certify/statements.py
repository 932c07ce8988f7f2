"""The sentences of certificates: to whom and to what the figures apply."""

from __future__ import annotations

from tinyldp.certify import staswitch
from tinyldp.figures import counted, in_a_row
from tinyldp_protocol.task import Task

STREAM_DEFINITION = (
    "For every set O of outputs, Pr[A(S) in O] <= e^epsilon Pr[A(S') in O] + delta"
    " (sets, not single outputs)."
)
ORACLE_DEFINITION = "For every set O of reports, Pr[A(x) in O] <= e^epsilon Pr[A(x') in O] + delta."
OLH_DEFINITION = (
    "For every hash key and every set O of reports with it,"
    " Pr[A(x) in O] <= e^epsilon Pr[A(x') in O] + delta."
)
ROUNDS_DEFINITION = (
    "For every set O of what the device answers and refuses,"
    " Pr[A(S) in O] <= e^epsilon Pr[A(S') in O] + delta, whatever is asked, in any order, also"
    " when it depends on earlier answers."
)
ORACLE_RELATION = "Any two values x and x' of one step."

RANSWITCH_METHOD = "Closed form, proved and tight, from the Task's integers."
JITTERSORT_METHOD = (
    "Finite sum over the two exchanged keys' law, from the Task's integers: proved for a whole"
    " order by keys, an upper bound for the order alone."
)
ORACLE_METHOD = "Transition probabilities, exact and tight, from the Task's integers."
OLH_METHOD = (
    "Transition probabilities given the hash key (which is drawn apart from the value and sent"
    " along), exact and tight, from the Task's integers."
)

STREAM_LIFETIME = (
    "Each value is released once, so epsilon and delta are the whole loss about one exchange,"
    " however long the segment; series that differ by r exchanges differ by up to r times epsilon,"
    " with delta times 1 + e^epsilon + ... + e^((r-1) epsilon). A pair of values lies in one"
    " segment, or it is not covered: a stop or a reset ends a segment, and which of two values"
    " came in the earlier segment is not hidden. Nothing else may be released about the same"
    " readings: stream mechanisms do not compose with others."
)

ROUNDS_METHOD = (
    "Transition probabilities of each entry, exact and tight, from the Task's integers, against"
    " the spend that the device's ledger charges for it; losses of answers add up, and the"
    " ledger lets the spends of no window of steps exceed epsilon."
)

EPOCHS_RELATION = (
    "Any two lives of one device under this Task: two series S and S' of data that differ in"
    " anything, from its first epoch to its last."
)
EPOCHS_DEFINITION = (
    "For every set O of all that the device ever answers and refuses,"
    " Pr[A(S) in O] <= e^epsilon Pr[A(S') in O] + delta, whatever is asked, in any order, also"
    " when it depends on earlier answers."
)
EPOCHS_METHOD = (
    "Transition probabilities of a vote, an estimate and a poll, exact, from the Task's integers."
    " Votes are cast in at most so many epochs of either life, estimates given in at most so many"
    " updates, and both are counted before anything is drawn; losses of answers add up. It is"
    " reached when more epochs than twice the votes can be voted in."
)

CRR_DEFINITION = (
    "For every set O of what may be released next, whatever was released before,"
    " Pr[Y in O | X = x] <= e^epsilon Pr[Y in O] + delta and"
    " Pr[Y in O] <= e^epsilon Pr[Y in O | X = x] + delta, with the law of Y by the device's belief"
    " (sequence information privacy, of one release)."
)
CRR_MODEL = (
    "The prior and the transitions of the Task are how the values come about. If they are not,"
    " what holds is the line 'wrong model': twice epsilon for each release, between any two values"
    " (local differential privacy), whatever is true."
)
CRR_BOOT = (
    "The belief is not stored: after each boot the device starts from the prior again, which is not"
    " what was known by then. For what it releases after any later start, only the line 'wrong"
    " model' is claimed."
)
CRR_PUBLIC = (
    "The prior and the transitions are part of the Task, which everyone may see: what they were"
    " estimated from must be public."
)

ENTROPY = (
    "The device's random words are uniform, independent and secret: who can predict or repeat"
    " them (weak entropy, a test source, a rolled-back device) sees through all of the noise."
)
SERVER = (
    "The server need not be honest: the device runs the Task that it was provisioned with, and"
    " nothing that a server sends changes what is drawn or released."
)
HOSTILE_SERVER = (
    "The server need not be honest: whatever it asks, repeats, reorders or renumbers, in either"
    " phase and under any Task, the device's own ledger refuses what would take a window beyond"
    " epsilon. A refusal costs nothing and depends on no value."
)
LEDGER = (
    "The ledger's storage: what was spent is written before anything is drawn, a spend without"
    " an answer is never drawn again, and lost or damaged storage counts as a window spent."
    " A rollback of the whole storage to an older state is outside the guarantee: who can do"
    " that gets the spends since then once more (and can read the sensor)."
)
ANY_SERVER = (
    "The server need not be honest: whatever it asks, repeats, reorders or renumbers, an epoch of"
    " the device's own is answered for once, and an update that is announced falsely is one of the"
    " estimates that a device may give, and no more. A refusal depends on no value."
)
COUNTERS = (
    "The device's storage: what it says is counted there before anything is drawn, whether or not"
    " the counter moves, an answer is drawn once, and lost or damaged storage counts as a life"
    " spent. A rollback of the whole storage to an older state is outside the guarantee: who can"
    " do that is told as much once more (and can read the sensor)."
)
ALLOWANCE = (
    "The whole loss is charged to the device's allowance for life when it starts with the Task,"
    " and never given back; a Task that comes back after another one is charged again. Other"
    " kinds of Tasks are charged elsewhere or not at all: they do not compose with this one."
)
FULL_TABLE = (
    "How many different items there were in an epoch shows in nothing that is sent: those that"
    " found no room in the table change what is counted, not what is said of it."
)
UNDERCHARGED = (
    "The device would be charged less than it loses: a Task's epsilon is what is taken from its"
    " allowance for life."
)
OWN_STEPS = (
    "Steps are the device's own, as far as it can vouch for them, whatever numbers the server"
    " gives them; a value is what the device read in one step."
)
ONE_LEDGER = (
    "Every Task with rounds on this device is charged to the same ledger, which remembers the"
    " numbers of the present one alone: what was asked under a Task before another came is, when"
    " it comes back and asks again, about another step, and paid for again. Stream mechanisms, and"
    " oracles that release at every step, are not charged: they do not compose with rounds."
)
ORDER_ONLY = (
    "What is hidden is the order, not the values: everyone sees exactly which values occurred,"
    " and how often."
)
HASH_KEYS = (
    "Each report has a hash key of its own, drawn apart from the value; the key is public, and"
    " the figures hold whatever it is."
)


def missing(task: Task) -> str:
    """What becomes of a reading that there is not; nothing that is sent tells it apart."""
    said = (
        "A reading that is missing or late, or whose sensor fails, is sent as symbol"
        f" {task.missing or 0:,}"
    )
    if task.missing is None:
        return (
            f"{said}, like the lowest readings, and estimates count it among them: a sensor that"
            " always fails looks like one that always reads the lowest, unless [values] missing"
            " names another symbol."
        )
    if task.bins is not None and len(task.bins) == task.symbols - 2:
        return f"{said}, which no reading has: its share is that of missing readings."
    return f"{said}, and estimates count it among the readings of that symbol, if there are any."


def stream_relation(k: int) -> str:
    steps = "neighbouring steps" if k == 2 else f"steps less than {k} apart"
    return (
        f"Two series S and S' of one segment that differ by exchanging the values of two {steps}."
    )


def staswitch_method(k: int) -> str:
    method = (
        "Both runs side by side as one chain, exact, from the Task's integers, from the all-fresh"
        " buffer at the largest distance; what was left undecided (below 2^-60) is part of delta."
    )
    if k <= staswitch.COMPARED_K:
        return method + " That this start is the worst was found by comparing all of them."
    return (
        method + f" That this start is the worst was found by comparing all of them for k up to"
        f" {staswitch.COMPARED_K}; for k = {k} it is taken over from there, not proved."
    )


def flush(mechanism: str) -> str:
    if mechanism == "jittersort":
        return "Start and end of a segment give away no more: they, too, release in order of keys."
    if mechanism == "staswitch":
        return (
            "At a segment's end the cap is applied, then a switch past the end is drawn again;"
            " that never gave away more than going on, wherever it was computed (k up to"
            f" {staswitch.COMPARED_K}), but is not proved."
        )
    return "At a segment's end a switch past the end is drawn again, which keeps the guarantee."


def rounds_relation(w: int) -> str:
    return (
        f"Two series S and S' of one device that differ in any values of {in_a_row(w)} (w-event)."
    )


def rounds_lifetime(w: int, once: bool) -> str:
    text = (
        f"epsilon bounds any {in_a_row(w)}, and only these: every"
        f" {counted(w, 'step')} may lose as"
        " much again, without end, so over a lifetime there is no bound."
    )
    if not once:
        return text
    return f"A device answers at most once in any {counted(w, 'step')}. {text}"


def oracle_lifetime(w: int | None) -> str:
    text = (
        "The loss is per report, and reports add up: n of them lose up to n times epsilon, so over"
        " a lifetime there is no bound."
    )
    if w is None:
        return text
    times = "" if w == 1 else f"{w} times "
    return f"Any {in_a_row(w)} may lose up to {times}epsilon (w-event). " + text


def crr_relation(block: int | None) -> str:
    what = "the value of the step" if block is None else f"the {block} values of the block"
    return (
        f"What is known of {what} before and after its release, for whoever knows the model and all"
        " that was released before. Not all that is ever told of it: later releases tell of it"
        " again, as far as values follow each other, and what each adds comes on top."
    )


def crr_method(depth: int, sampled: int, bounded: bool) -> str:
    beyond = ", and no further."
    if bounded:
        beyond = (
            "; beyond them by a bound for any number of releases, as any two beliefs come closer"
            " with each step of the chain (Birkhoff's contraction)."
        )
    return (
        "Proved for every belief from the device's rule; checked in integers, with the device's own"
        f" code, for all that may be released in up to {depth} releases and along {sampled:,} steps"
        " of longer histories. Drift from the exact belief: rational arithmetic, rounded outward,"
        f" along the same histories{beyond}"
    )


def crr_lifetime(w: int | None, block: int | None) -> str:
    unit = "step" if block is None else "block"
    text = (
        f"epsilon is of one {unit}, of what its release adds; what releases tell adds up, also of"
        " one and the same value, so over a lifetime there is no bound. What is released about the"
        " same readings by other mechanisms adds to it."
    )
    if w is None:
        return text
    return (
        f"Any {in_a_row(w)} of the device's first run may tell up to the line"
        f" 'in {counted(w, 'step')}' together. {text}"
    )


def crr_no_bound(block: int | None) -> str:
    why = "the transitions are not all positive, or too small for integers over 2^15"
    if block is not None:
        why = "a block's own belief is rounded more coarsely than the bound of single steps allows"
    return (
        "How far the device's integer belief may drift from the exact one in the long run is not"
        f" bounded here ({why}): beyond the histories that were looked at, only the line 'wrong"
        " model' is proved."
    )


def crr_fault(fault: str) -> str:
    return (
        f"The device does not do what is certified: {fault}. No figure of this certificate holds."
    )


def table_fault(fault: str) -> str:
    return (
        f"The Task's table does not keep to epsilon: {fault}. Of this certificate only the line "
        "'wrong model' holds."
    )


def epochs_lifetime(steps: int) -> str:
    return (
        f"epsilon is the whole loss of a device under this Task, of all its {steps:,} steps; after"
        " the last epoch, or once its votes and estimates are used up, what it sends tells nothing"
        " more. The loss of another Task adds to it, within the allowance for life that the device"
        " was provisioned with."
    )
