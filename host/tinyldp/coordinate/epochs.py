"""The host's half of Thresh and HeavyThresh: ask for votes, decide, ask for estimates.

    ask = coordinator.begin()           votes: phase 0
    while ask:
        reports = get(ask)
        ask = coordinator.heard(coordinator.tally(ask, reports), len(reports))
    coordinator.decision

Source: Joseph et al. 2018, algorithms Thresh and HeavyThresh, with what is corrected there:
the first update is forced, and updates end with the estimates that a device may give. In
each epoch t = 1, 2, ... everyone is asked for a vote (phase 0) and an estimate (phase 1),
whether or not there is an update, so that nobody can tell from a device's silence; entry 1 of
phase 1 is an update, entry 0 is none.

An update is made iff the share of votes for it is above T/N + sqrt(ln(10 epochs/failure) / 2n),
with the vote's threshold T over N = 2^24, n votes and the Task's failure: compared as exact
rationals, but for the logarithm, which is rounded up, toward no update. While nothing is
published, an update is made if there is any vote at all. After `estimates` updates devices
have nothing left to say: the last estimate stands.

What holds between updates: a device that votes no at t, and has votes left, has moved by no
more than the least level whose votes count at t; one that votes yes has moved by anything.
`drift` bounds with this how far the fleet's mean may be from the estimate's. Devices whose
votes are used up say no whatever happened, and may have moved by anything: whoever used up all
of V votes cast one in an epoch besides the V - 1 in which most were cast, so that no more
devices have than votes were cast in the others together.
After an update that no answer came of, devices may compare with that epoch; after one that was
voted for when estimates were used up, those that voted may have no votes left. Nothing bounds how
far the mean is from the estimate that stands then, until the next update.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tinyldp.coordinate.coordinator import PUBLISHED, UNANSWERED, Ask
from tinyldp.errors import UserError
from tinyldp.estimate.heavy import means_of
from tinyldp.estimate.mean import Mean, mean
from tinyldp_device.epochs import polled
from tinyldp_protocol.task import HEAVYTHRESH, SCALE, THRESH, Task

# What became of an epoch, besides PUBLISHED and UNANSWERED (nobody voted, or nobody answered
# an update); with all but PUBLISHED the last estimate stands.
HELD = "held"  # too few votes
EXHAUSTED = "exhausted"  # an update was voted for, but devices have no estimates left
EPOCH_OUTCOMES = (PUBLISHED, HELD, EXHAUSTED, UNANSWERED)

VOTE, ESTIMATE = 0, 1
_FAILURE_UNIT = 1 << 30
# More than the relative error of a float's logarithm.
_UP = 1 + Fraction(1, 1 << 50)
CONFIDENCE = 0.95
# Of two limits that the votes give; 97.5 % of both together, each of one side.
_EACH = 0.975


class Standing(NamedTuple):
    """The estimate that stands: published at t, from n answers.

    release: (1,) the mean for Thresh, raw; (w,) means of z for HeavyThresh. low, high: 95 %
    limits of the mean at t, None for HeavyThresh. bounded: whether votes bound how
    far the mean is from it (see above).
    """

    t: int
    n: int
    release: npt.NDArray[np.float64]
    low: float | None
    high: float | None
    bounded: bool = True


@dataclass(frozen=True)
class EpochDecision:
    """What an epoch came to.

    update: whether an update was asked for. ones: votes for it among votes_n; needed: the
    share that an update takes, None without a vote. n: answers to the estimate. published:
    whether release is this epoch's; release: of the estimate that stands (see Standing),
    empty before the first. estimate_t, estimate_n: the epoch that it is of, and its answers;
    estimate_low, estimate_high: limits that hold the mean of that epoch with 95 %. low, high:
    limits that hold the mean of this epoch with 95 %, drift included (see above). All four are
    None for HeavyThresh and before the first estimate. drift: how far the mean (HeavyThresh: an
    item's hashed frequency) may have moved since, 0 at an update. poll: share of devices that
    have votes left, in an epoch that asks. outcome: one of EPOCH_OUTCOMES.
    """

    t: int
    users: int
    update: bool
    ones: int
    votes_n: int
    needed: float | None
    n: int
    published: bool
    release: npt.NDArray[np.float64]
    estimate_t: int | None
    estimate_n: int
    estimate_low: float | None
    estimate_high: float | None
    low: float | None
    high: float | None
    drift: float
    poll: Mean | None
    outcome: str


class EpochCoordinator:
    """Runs a Task of epochs, one after the other, from t = start on.

    users: how many devices there are; may be set between epochs. updates, standing: how many
    updates were asked for before `start`, and what stands of them. cast: (ones, votes) of each
    epoch before. decision: of the last epoch, None while one is open. last: the last t of the
    Task.
    Raises UserError when the Task is none of epochs.
    """

    two_phases = True

    def __init__(
        self,
        task: Task,
        users: int,
        start: int = 1,
        *,
        updates: int = 0,
        standing: Standing | None = None,
        cast: Sequence[tuple[int, int]] = (),
    ) -> None:
        if task.epochs is None:
            raise UserError("Epochs are coordinated for Thresh and HeavyThresh only.")
        self._task = task
        self._log = _UP * Fraction(math.log(10 * task.epochs * _FAILURE_UNIT / task.failure))
        self.users = users
        self.last = task.epochs
        self._t = start - 1
        self.updates = updates
        self.standing = standing
        self._cast = list(cast)
        self._asked: Ask | None = None
        self._votes = (0, 0, 0)
        self.decision: EpochDecision | None = None

    def begin(self) -> Ask:
        """Open the next epoch: ask for its votes."""
        if self._asked is not None:
            raise RuntimeError("the epoch before has not been heard")
        if self._t >= self.last:
            raise RuntimeError("the Task's epochs are over")
        self._t += 1
        self.decision = None
        self._asked = Ask(self._t, VOTE, 0, None)
        return self._asked

    def tally(self, ask: Ask, reports: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """What heard() wants to know of reports, (n, width) uint8; tallies may be added.

        Phase 0: (2,) votes in favour, and answers to the poll that say votes are left.
        Phase 1: (1,) the ones; HeavyThresh: (w,) signs + less signs - of each coordinate.
        Raises UserError for a report that no device can have sent.
        """
        return tally(self._task, ask.t, ask.phase, reports)

    def heard(self, counts: npt.ArrayLike, n: int) -> Ask | None:
        """Take in what answered the last query; what to ask next, or None: see decision.

        counts: the tally of the n answers. Raises ValueError for what cannot be one.
        """
        asked = self._asked
        if asked is None:
            raise RuntimeError("nothing was asked")
        found = np.asarray(counts)
        size = 2 if asked.phase == VOTE else _size(self._task)
        if found.shape != (size,) or found.dtype.kind not in "iu":
            raise ValueError(f"counts must be {size} integers")
        signed = asked.phase == ESTIMATE and self._task.mechanism == HEAVYTHRESH
        if n < 0 or (np.abs(found).sum() if signed else found.max()) > n:
            raise ValueError("counts must be those of n answers")
        if not signed and found.min() < 0:
            raise ValueError("counts must not be negative")
        self._asked = None
        if asked.phase == VOTE:
            return self._voted(int(found[0]), int(found[1]), n)
        self._estimated(asked.entry == 1, found.astype(np.int64), n)
        return None

    def _voted(self, ones: int, live: int, n: int) -> Ask:
        self._votes = (ones, live, n)
        wanted = n > 0 and (self.standing is None or self._passed(ones, n))
        update = wanted and self.updates < self._task.estimates
        self._wanted = wanted
        # Counted before it is asked, as on the devices: those that answered may be lost.
        self.updates += update
        self._asked = Ask(self._t, ESTIMATE, int(update), None)
        return self._asked

    def _passed(self, ones: int, n: int) -> bool:
        above = Fraction(ones, n) - Fraction(self._task.thresholds[0], SCALE)
        return above > 0 and above * above * 2 * n > self._log

    def _estimated(self, update: bool, counts: npt.NDArray[np.int64], n: int) -> None:
        published = update and n > 0
        if published:
            self.standing = _standing(self._task, self._t, counts, n)
        elif self._wanted and self.standing is not None:
            self.standing = self.standing._replace(bounded=False)
        ones, live, voters = self._votes
        if published:
            outcome = PUBLISHED
        elif update or not voters:
            outcome = UNANSWERED
        else:
            outcome = EXHAUSTED if self._wanted else HELD
        self.decision = self._decision(ones, live, voters, update, published, n, outcome)

    def _decision(
        self,
        ones: int,
        live: int,
        voters: int,
        update: bool,
        published: bool,
        n: int,
        outcome: str,
    ) -> EpochDecision:
        task, standing = self._task, self.standing
        needed = poll = low = high = None
        if voters:
            needed = task.thresholds[0] / SCALE + math.sqrt(float(self._log) / (2 * voters))
            if polled(task, self._t):
                poll = mean(task.thresholds[2], live, voters)
        drift = 0.0 if published else self._drift(ones, voters)
        self._cast.append((ones, voters))
        if standing is not None and standing.low is not None and standing.high is not None:
            low, high = standing.low, standing.high
            if not published:
                # Half of what may fail is left to the votes.
                low, high = _limits(task, standing, (1 + CONFIDENCE) / 2)
                low, high = max(0.0, low - drift), min(1.0, high + drift)
        return EpochDecision(
            t=self._t,
            users=self.users,
            update=update,
            ones=ones,
            votes_n=voters,
            needed=needed,
            n=n,
            published=published,
            release=np.empty(0) if standing is None else standing.release,
            estimate_t=None if standing is None else standing.t,
            estimate_n=0 if standing is None else standing.n,
            estimate_low=None if standing is None else standing.low,
            estimate_high=None if standing is None else standing.high,
            low=low,
            high=high,
            drift=drift,
            poll=poll,
            outcome=outcome,
        )

    def _drift(self, ones: int, voters: int) -> float:
        """At most this, with 97.5 %: see above. Of a share that is, 1 is all there can be."""
        if not voters or (self.standing is not None and not self.standing.bounded):
            return 1.0
        task = self._task
        # The power of two that divides t; above it, levels count.
        twos = (self._t & -self._t).bit_length() - 1
        level = task.levels[max(0, len(task.levels) - 1 - twos)]
        scale = task.rounds * (task.symbols - 1 if task.mechanism == THRESH else 1)
        yes = mean(task.thresholds[0], ones, voters, _EACH).high
        free = min(1.0, yes + self._used_up(voters))
        return min(1.0, (1 - free) * min(1.0, level / scale) + free)

    def _used_up(self, voters: int) -> float:
        """No greater a share of `voters` has used up its votes before, but for (1 - _EACH) / 2."""
        task = self._task
        most = task.votes - 1
        rest = sorted(self._cast, key=lambda each: each[0] - each[1] * task.thresholds[0] / SCALE)
        rest = rest[: max(0, len(rest) - most)]
        votes = sum(n for _, n in rest)
        if not votes:
            return 0.0
        # Which epochs are left out was chosen by what came of them.
        wrong = (1 - _EACH) / math.comb(len(self._cast), most)
        share = mean(task.thresholds[0], sum(ones for ones, _ in rest), votes, 1 - wrong).high
        return min(1.0, share * votes / voters)


def tally(task: Task, t: int, phase: int, reports: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """See EpochCoordinator.tally."""
    array = np.asarray(reports)
    if array.ndim != 2 or array.shape[1] != task.width or array.dtype != np.uint8:
        raise UserError(f"Reports of this Task must be bytes, {task.width} each.")
    heavy = task.mechanism == HEAVYTHRESH
    where = array[:, 1] + array[:, 2].astype(np.int64) * 256 if heavy else None
    most = 3 if phase == VOTE and polled(task, t) else 1
    if len(array) and array[:, 0].max() > most:
        raise UserError("A report sets a bit that stands for nothing.")
    places = task.coordinates if phase == ESTIMATE else 1
    if where is not None and len(array) and where.max() >= places:
        raise UserError("A report names a coordinate that there is not.")
    bits = array[:, 0]
    if phase == VOTE:
        return np.array([(bits & 1).sum(dtype=np.int64), (bits >> 1).sum(dtype=np.int64)])
    if where is None:
        return np.array([bits.sum(dtype=np.int64)])
    signs = 2 * bits.astype(np.int64) - 1
    total = np.zeros(_size(task), dtype=np.int64)
    np.add.at(total, where, signs)
    return total


def _size(task: Task) -> int:
    return 1 if task.mechanism == THRESH else task.coordinates


def _standing(task: Task, t: int, counts: npt.NDArray[np.int64], n: int) -> Standing:
    if task.mechanism == HEAVYTHRESH:
        return Standing(t, n, means_of(task, counts, n), None, None)
    found = mean(task.thresholds[1], int(counts[0]), n, CONFIDENCE)
    return Standing(t, n, np.array([found.mean]), found.low, found.high)


def _limits(task: Task, standing: Standing, confidence: float) -> tuple[float, float]:
    """Of a mean that was published, with another confidence."""
    threshold = task.thresholds[1]
    share = (float(standing.release[0]) * (SCALE - 2 * threshold) + threshold) / SCALE
    found = mean(threshold, round(share * standing.n), standing.n, confidence)
    return found.low, found.high
