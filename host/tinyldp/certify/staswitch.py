"""StaSwitch's exact privacy: two neighbouring streams, run side by side.

Two streams of distinct values differ by exchanging u (position i) and v (position
j = i + m). What one run releases forces the other run's draw, so both runs make one
chain, and the likelihood ratio of what was released so far is known all along. Its
state is the lateness of the k slots' values, and in what the other run differs:

    u alone has arrived   in nothing; whoever releases u has given itself away
    a pair of slots       one holds u (or what took its place) and the other v, in
                          the other run the other way round, each with its lateness
    one slot              the same value, with another lateness
    nothing               decided: all that follows is equally probable

The ratio changes only where a pair is resolved and where a value with two
latenesses stays; so it takes finitely many values, and with the mass of each

    delta(epsilon) = Pr[no such output in the other run]
                     + sum over ratios r of Pr[r] max(0, 1 - e^epsilon / r).

All masses are exact. From k = 8 on some states recur at ratio 1: the chain is
stopped when less than 2^-60 is undecided, and that is added to delta.

The start is the all-fresh buffer in which u has just taken the last slot, with
m = k-1: numerically the worst of all starts and distances for k <= 6, and never
exceeded by an end of the stream; taken to be the worst for k >= 7.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from tinyldp.certify.bounds import ceil_to, exp_bounds, log_upper
from tinyldp.errors import UserError
from tinyldp_protocol.task import SCALE

MAX_K = 9
# Largest k for which every start, distance and end was compared with the one used here.
COMPARED_K = 6
# The chain is stopped when less than 2^-_UNDECIDED is undecided.
_UNDECIDED = 60
# Latenesses of a buffer: one integer with 4 bits a slot, the current slot lowest.
_BITS = 4
_SLOT = (1 << _BITS) - 1


@dataclass(frozen=True)
class Law:
    """Law of the likelihood ratio, what is released under one stream against the other.

    impossible: probability of outputs that the other stream can't give.
    finite: (ratio, probability) by falling ratio. undecided: probability left
    when the chain was stopped. All of them make up 1.
    """

    impossible: Fraction
    finite: tuple[tuple[Fraction, Fraction], ...]
    undecided: Fraction

    def delta(self, factor: Fraction) -> Fraction:
        """delta where e^epsilon = factor >= 1; the undecided mass counts in full."""
        total = self.impossible + self.undecided
        for ratio, mass in self.finite:
            if ratio <= factor:
                break
            total += mass * (1 - factor / ratio)
        return total


def delta(k: int, threshold: int, epsilon: Fraction) -> Fraction:
    """A delta, rounded up by less than 2^-59, for which it is (epsilon, delta)-private.

    k: slots; neighbours exchange two values less than k apart; threshold: 2^24 q;
    epsilon >= 0. Raises UserError for k > 9.
    """
    return law(k, threshold).delta(exp_bounds(epsilon)[0])


def natural_epsilon(k: int, threshold: int) -> Fraction:
    """Logarithm of the largest finite ratio, rounded up to 2^-16."""
    return ceil_to(log_upper(law(k, threshold).finite[0][0]), 1 << 16)


@lru_cache(maxsize=64)
def law(k: int, threshold: int) -> Law:
    """The law of the likelihood ratio, from which the whole curve follows.

    Raises UserError for k > 9, ValueError unless 0 < q <= p.
    """
    if k > MAX_K:
        raise UserError(
            f"StaSwitch can be certified for k up to {MAX_K} only, and here k is {k}: take"
            " RanSwitch or JitterSort, whose certificates know no such limit."
        )
    if k < 2 or not 0 < threshold * k <= SCALE:
        raise ValueError("StaSwitch is certified for k >= 2 and 0 < q <= p only")
    return law_from(k, threshold, 0, k - 1)


def buffers(k: int) -> list[int]:
    """All buffers that a stream reaches, as law_from takes them; the all-fresh one is first."""
    found = [0]
    known = {0}
    for buffer in found:
        late = buffer & _SLOT
        for after in (buffer >> _BITS, *(_switched(buffer, d) for d in range(1, k - late))):
            if after not in known:
                known.add(after)
                found.append(after)
    return found


def law_from(k: int, threshold: int, buffer: int, distance: int) -> Law:
    """The law for u in the last slot of a buffer, and v `distance` steps (1..k-1) behind it.

    buffer: one of `buffers`. To compare starts; `law` has the one that decides.
    """
    chain = _Chain(k, threshold, buffer)
    chain.await_partner(distance)
    while chain.undecided() << _UNDECIDED > chain.scale:
        chain.step()
    scale = chain.scale
    finite: defaultdict[Fraction, Fraction] = defaultdict(Fraction)
    for (here, there), mass in chain.decided.items():
        finite[Fraction(here, there)] += Fraction(mass, scale)
    return Law(
        Fraction(chain.impossible, scale),
        tuple(sorted(finite.items(), reverse=True)),
        Fraction(chain.undecided(), scale),
    )


class _Chain:
    """Both runs, from the start on. Masses are integers over `scale`, which grows with each step.

    fresh: buffer -> mass, while u waits for v to arrive.
    pairs: (buffer, a, b, other_a, other_b) -> mass; slots a < b are exchanged, and
    other_* is the lateness that the other run has there.
    singles: (buffer, slot, other, ratio) -> mass; the slot's value is `other` late
    in the other run. A ratio is a pair of integers.
    decided: ratio -> mass. impossible: mass of what the other run can't release.
    """

    def __init__(self, k: int, threshold: int, buffer: int) -> None:
        self._k = k
        self._switch = threshold
        # By lateness of the current value: switches beyond k-1 stay.
        self._stay = [SCALE - (k - 1 - late) * threshold for late in range(k)]
        self.scale = 1
        self.impossible = 0
        self.decided: dict[tuple[int, int], int] = {}
        self._fresh: dict[int, int] = {buffer: 1}
        self._pairs: dict[tuple[int, int, int, int, int], int] = {}
        self._singles: dict[tuple[int, int, int, tuple[int, int]], int] = {}

    def undecided(self) -> int:
        return sum(self._fresh.values()) + sum(self._pairs.values()) + sum(self._singles.values())

    def await_partner(self, distance: int) -> None:
        """The steps until v takes the last slot."""
        last = self._k - 1
        for u in range(last, last - distance, -1):
            self._rescale()
            fresh: defaultdict[int, int] = defaultdict(int)
            for buffer, mass in self._fresh.items():
                late = buffer & _SLOT
                fresh[buffer >> _BITS] += mass * self._stay[late]
                for ahead in range(1, self._k - late):
                    if ahead == u:
                        self.impossible += mass * self._switch
                    else:
                        fresh[_switched(buffer, ahead)] += mass * self._switch
            self._fresh = fresh
        a = last - distance
        self._pairs = {(buffer, a, last, 0, 0): mass for buffer, mass in self._fresh.items()}
        self._fresh = {}

    def step(self) -> None:
        """One release of every run that is not decided."""
        self._rescale()
        pairs, singles = self._pairs, self._singles
        self._pairs = defaultdict(int)
        self._singles = defaultdict(int)
        for (buffer, a, b, other_a, other_b), mass in pairs.items():
            if a:
                self._pass_pair(buffer, a, b, other_a, other_b, mass)
            else:
                self._meet_pair(buffer, b, other_a, other_b, mass)
        for (buffer, slot, other, ratio), mass in singles.items():
            if slot:
                self._pass_single(buffer, slot, other, ratio, mass)
            else:
                self._meet_single(buffer, other, ratio, mass)

    def _rescale(self) -> None:
        self.scale *= SCALE
        self.impossible *= SCALE
        for ratio in self.decided:
            self.decided[ratio] *= SCALE

    def _pass_pair(
        self, buffer: int, a: int, b: int, other_a: int, other_b: int, mass: int
    ) -> None:
        """The current value w is in neither slot of the pair."""
        pairs = self._pairs
        late = buffer & _SLOT
        pairs[buffer >> _BITS, a - 1, b - 1, other_a, other_b] += mass * self._stay[late]
        mass *= self._switch
        for ahead in range(1, self._k - late):
            at_a, at_b = other_a, other_b
            # The other run releases the same value from the pair's other slot, and w goes there.
            if ahead == a:
                at_b = late + b
                if at_b >= self._k:
                    self.impossible += mass
                    continue
            elif ahead == b:
                at_a = late + a
            pairs[_switched(buffer, ahead), a - 1, b - 1, at_a, at_b] += mass

    def _meet_pair(self, buffer: int, b: int, other_a: int, other_b: int, mass: int) -> None:
        """u is current here, v in the other run; the other one of them is in slot b."""
        late = buffer & _SLOT
        stay, switch = self._stay, self._switch
        # u is released: the other run switches for it, and v goes to slot b.
        if other_a + b < self._k:
            self._resolve(buffer >> _BITS, b, other_a + b, (stay[late], switch), mass * stay[late])
        else:
            self.impossible += mass * stay[late]
        mass *= switch
        for ahead in range(1, self._k - late):
            after = _switched(buffer, ahead)
            if ahead == b:
                # v is released: the other run stays, its u is in slot b since ever.
                self._resolve(after, b, other_b, (switch, stay[other_a]), mass)
            elif other_a + ahead >= self._k:
                self.impossible += mass
            elif ahead < b:
                self._pairs[after, ahead - 1, b - 1, other_a + ahead, other_b] += mass
            else:
                self._pairs[after, b - 1, ahead - 1, other_b, other_a + ahead] += mass

    def _resolve(
        self, after: int, slot: int, other: int, ratio: tuple[int, int], mass: int
    ) -> None:
        """Both runs now have the same values; `after` is the buffer one step on."""
        slot -= 1
        if after >> _BITS * slot & _SLOT == other:
            self.decided[ratio] = self.decided.get(ratio, 0) + mass
        else:
            self._singles[after, slot, other, ratio] += mass

    def _pass_single(
        self, buffer: int, slot: int, other: int, ratio: tuple[int, int], mass: int
    ) -> None:
        """The current value is as late in both runs."""
        singles = self._singles
        late = buffer & _SLOT
        singles[buffer >> _BITS, slot - 1, other, ratio] += mass * self._stay[late]
        mass *= self._switch
        for ahead in range(1, self._k - late):
            if ahead == slot:
                self.decided[ratio] = self.decided.get(ratio, 0) + mass
            else:
                singles[_switched(buffer, ahead), slot - 1, other, ratio] += mass

    def _meet_single(self, buffer: int, other: int, ratio: tuple[int, int], mass: int) -> None:
        """The current value is `other` late in the other run."""
        late = buffer & _SLOT
        here, there = self._stay[late], self._stay[other]
        final = (ratio[0] * here, ratio[1] * there)
        self.decided[final] = self.decided.get(final, 0) + mass * here
        mass *= self._switch
        for ahead in range(1, self._k - late):
            if other + ahead < self._k:
                self._singles[_switched(buffer, ahead), ahead - 1, other + ahead, ratio] += mass
            else:
                self.impossible += mass


def _switched(buffer: int, ahead: int) -> int:
    """The buffer one step after the current value went `ahead` slots ahead."""
    at = _BITS * ahead
    late = (buffer & _SLOT) + ahead
    return (buffer & ~(_SLOT << at) | late << at) >> _BITS
