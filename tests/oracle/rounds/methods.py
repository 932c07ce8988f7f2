"""What each method asks, decides and releases, one step after the other.

Every step looks at the whole past. Budgets are integers of `unit` (epsilon/(2w) in ledger units) or
numbers of users, everything else is a `Fraction`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tests.oracle.brute import SCALE

DISSIMILARITY, PUBLICATION = 0, 1
Estimate = tuple[Fraction, ...]
Supports = Sequence[int]


@dataclass(frozen=True)
class Setting:
    """A study of one method: d values, the oracle's lie threshold for each spend it may ask for.

    `unit` and spends are in ledger units; `grid` parts of a unit are the least that LBD spends.
    `collision` is how probably OLH hashes two values into one of its `buckets`: 1/buckets, if its
    hash is ideal.
    """

    method: str
    oracle: str
    d: int
    w: int
    unit: int
    thresholds: dict[int, int]
    buckets: int = 0
    collision: Fraction = Fraction(0)
    grid: int = 1
    least_users: int = 1
    scale: int = SCALE


@dataclass(frozen=True)
class Asked:
    """A query: everyone (None) or so many users, who each answer with this spend."""

    phase: int
    spend: int
    users: int | None


@dataclass(frozen=True)
class Step:
    """What happened in one step; `parts` (LBD: of the grid), units or users went to publication.

    `answers` belong to `asked`. Without a dissimilarity `dis` is None, without anything to publish
    with `err` is None. `published` is whether the release is a new one.
    """

    asked: tuple[Asked, ...]
    answers: tuple[int, ...]
    dis: Fraction | None
    err: Fraction | None
    parts: int
    published: bool
    release: Estimate


Ask = Callable[[Asked], tuple[Supports, int]]


# The oracles ------------------------------------------------------------------------------------


def probabilities(setting: Setting, spend: int) -> tuple[Fraction, Fraction]:
    """p and q: how probably a report speaks for its true value, and for any other value."""
    lie = Fraction(setting.thresholds[spend], setting.scale)
    if setting.oracle == "grr":
        return 1 - (setting.d - 1) * lie, lie
    if setting.oracle == "oue":
        return Fraction(1, 2), lie
    assert setting.oracle == "olh"
    p = 1 - (setting.buckets - 1) * lie
    return p, setting.collision * p + (1 - setting.collision) * lie


def estimate(setting: Setting, spend: int, supports: Supports, n: int) -> Estimate:
    """Raw frequencies: unbiased, neither clipped nor projected."""
    p, q = probabilities(setting, spend)
    return tuple((Fraction(int(count), n) - q) / (p - q) for count in supports)


def variance(setting: Setting, spend: int, n: int) -> Fraction:
    """Variance of an estimate from n answers, as a mean over the domain."""
    p, q = probabilities(setting, spend)
    return q * (1 - q) / (n * (p - q) ** 2) + (1 - p - q) / (setting.d * n * (p - q))


def dissimilarity(
    setting: Setting, spend: int, supports: Supports, n: int, release: Estimate
) -> Fraction:
    """Squared distance to the last release without what noise adds to it; may be negative."""
    current = estimate(setting, spend, supports, n)
    squares = [(c - r) ** 2 for c, r in zip(current, release, strict=True)]
    return sum(squares, Fraction(0)) / setting.d - variance(setting, spend, n)


# The past ---------------------------------------------------------------------------------------


def last_release(setting: Setting, past: Sequence[Step]) -> Estimate:
    """Before the first publication: nothing."""
    return past[-1].release if past else (Fraction(0),) * setting.d


def recently(setting: Setting, past: Sequence[Step]) -> int:
    """Parts spent on publications in the last w-1 steps, the current one not among them."""
    first = max(0, len(past) - (setting.w - 1))
    return sum(step.parts for step in past[first:])


def rested(setting: Setting, past: Sequence[Step], users: int) -> int:
    """Users whom none of the last w-1 steps has asked: those of step t-w+1 return after step t."""
    first = max(0, len(past) - (setting.w - 1))
    return max(0, users - sum(q.users or 0 for step in past[first:] for q in step.asked))


def absorbed(setting: Setting, past: Sequence[Step]) -> int:
    """Units that LBA and LPA have for this step: 0 when it is nullified.

    Steps are numbered from 1; step 0 stands for a publication of 1 unit before them all.
    """
    t = len(past) + 1
    last, units = 0, 1
    for number, step in enumerate(past, 1):
        if step.parts:
            last, units = number, step.parts
    nullified = units - 1
    if t - last <= nullified:
        return 0
    return min(t - (last + nullified), setting.w)


# One step of each method ------------------------------------------------------------------------


def only(setting: Setting, past: Sequence[Step], query: Asked | None, ask: Ask) -> Step:
    """A step without dissimilarity: its query is the publication, or there is none."""
    release = last_release(setting, past)
    if query is None or query.users == 0:
        return Step((), (), None, None, 0, False, release)
    supports, n = ask(query)
    if n > 0:
        release = estimate(setting, query.spend, supports, n)
    parts = query.spend // setting.unit if query.users is None else query.users
    return Step((query,), (n,), None, None, parts, n > 0, release)


def lbu(setting: Setting, past: Sequence[Step], users: int, ask: Ask) -> Step:
    """Everyone spends epsilon/w in each step."""
    return only(setting, past, everyone(DISSIMILARITY, 2 * setting.unit, users), ask)


def lsp(setting: Setting, past: Sequence[Step], users: int, ask: Ask) -> Step:
    """Everyone spends epsilon, in every w-th step, beginning with the first."""
    sample = everyone(DISSIMILARITY, 2 * setting.w * setting.unit, users)
    return only(setting, past, sample if len(past) % setting.w == 0 else None, ask)


def lpu(setting: Setting, past: Sequence[Step], users: int, ask: Ask) -> Step:
    """One of w disjoint groups spends epsilon in each step; together they are all users."""
    t = len(past) + 1
    size = t * users // setting.w - (t - 1) * users // setting.w
    size = min(size, rested(setting, past, users))
    return only(setting, past, Asked(DISSIMILARITY, 2 * setting.w * setting.unit, size), ask)


def everyone(phase: int, spend: int, users: int) -> Asked:
    """A query for all users; for nobody, if there are none."""
    return Asked(phase, spend, None if users else 0)


def adaptive(
    setting: Setting, past: Sequence[Step], ask: Ask, first: Asked, second: Asked, parts: int
) -> Step:
    """Measure how far off the last release is, and publish a new one if that is the lesser error.

    `second` is the query of the publication, which costs `parts`; 0 parts: no publication.
    """
    release = last_release(setting, past)
    if first.users == 0:
        return Step((), (), None, None, 0, False, release)
    supports, n = ask(first)
    if n == 0:
        return Step((first,), (0,), None, None, 0, False, release)
    dis = dissimilarity(setting, first.spend, supports, n, release)
    if parts == 0:
        return Step((first,), (n,), dis, None, 0, False, release)
    # Everyone: as many answers are to be expected as just came. Of others nothing is known yet.
    expected = n if second.users is None else second.users
    err = variance(setting, second.spend, expected)
    if not dis > err:
        return Step((first,), (n,), dis, err, 0, False, release)
    supports, came = ask(second)
    if came > 0:
        release = estimate(setting, second.spend, supports, came)
    return Step((first, second), (n, came), dis, err, parts, came > 0, release)


def lbd(setting: Setting, past: Sequence[Step], users: int, ask: Ask) -> Step:
    """Half of what the last w-1 steps left of the w units for publications."""
    parts = (setting.w * setting.grid - recently(setting, past)) // 2
    first = everyone(DISSIMILARITY, setting.unit, users)
    second = everyone(PUBLICATION, parts * setting.unit // setting.grid, users)
    return adaptive(setting, past, ask, first, second, parts)


def lba(setting: Setting, past: Sequence[Step], users: int, ask: Ask) -> Step:
    """A unit for each step, saved up while nothing is published, paid back afterwards."""
    units = absorbed(setting, past)
    first = everyone(DISSIMILARITY, setting.unit, users)
    second = everyone(PUBLICATION, units * setting.unit, users)
    return adaptive(setting, past, ask, first, second, units)


def lpd(setting: Setting, past: Sequence[Step], users: int, ask: Ask) -> Step:
    """Half of what the last w-1 steps left of the half of users that is for publications."""
    free = rested(setting, past, users)
    measuring = min(users // (2 * setting.w), free)
    group = min((users // 2 - recently(setting, past)) // 2, free - measuring)
    if group < setting.least_users:
        group = 0
    everything = 2 * setting.w * setting.unit
    first = Asked(DISSIMILARITY, everything, measuring)
    second = Asked(PUBLICATION, everything, group)
    return adaptive(setting, past, ask, first, second, group)


def lpa(setting: Setting, past: Sequence[Step], users: int, ask: Ask) -> Step:
    """LBA with N/(2w) users as the unit."""
    free = rested(setting, past, users)
    unit = users // (2 * setting.w)
    measuring = min(unit, free)
    units = absorbed(setting, past)
    group = min(units * unit, free - measuring)
    everything = 2 * setting.w * setting.unit
    first = Asked(DISSIMILARITY, everything, measuring)
    second = Asked(PUBLICATION, everything, group)
    return adaptive(setting, past, ask, first, second, units if group else 0)


METHODS = {"lbu": lbu, "lsp": lsp, "lbd": lbd, "lba": lba, "lpu": lpu, "lpd": lpd, "lpa": lpa}


def run(
    setting: Setting, users: Sequence[int], answer: Callable[[int, Asked], tuple]
) -> list[Step]:
    """All steps; `users` are known in each. `answer(step, query)` gives support counts and n."""
    past: list[Step] = []
    for number, known in enumerate(users):

        def ask(query: Asked, number: int = number) -> tuple[Supports, int]:
            return answer(number, query)

        past.append(METHODS[setting.method](setting, past, known, ask))
    return past


# What must hold ---------------------------------------------------------------------------------


def window_sums(steps: Sequence[Step], w: int) -> list[int]:
    """Ledger units that someone who answers everything spends in each window of w steps."""
    spent = [sum(query.spend for query in step.asked) for step in steps]
    return [sum(spent[max(0, t - w + 1) : t + 1]) for t in range(len(spent))]


def window_users(steps: Sequence[Step], w: int) -> list[int]:
    """Users asked in each window of w steps: at most all of them, or one is asked twice."""
    asked = [sum(query.users or 0 for query in step.asked) for step in steps]
    return [sum(asked[max(0, t - w + 1) : t + 1]) for t in range(len(asked))]


def take(
    pool: list[int], resting: list[list[int]], groups: Sequence[int], w: int
) -> list[list[int]]:
    """Users of one step, group by group, out of the pool; those of step t-w+1 return after it."""
    taken = [[pool.pop(0) for _ in range(size)] for size in groups]
    resting.append([user for group in taken for user in group])
    if len(resting) == w:
        pool.extend(resting.pop(0))
    return taken
