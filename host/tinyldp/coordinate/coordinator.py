"""The seven methods of LDP-IDS, step by step: ask, hear, decide.

    ask = coordinator.begin()
    while ask:
        supports, n = get(ask)
        ask = coordinator.heard(supports, n)
    coordinator.decision

Source: LDP-IDS (Ren et al. 2022); see schedules for what each method may spend. At each
step of an adaptive method (LBD, LBA, LPD, LPA), nullified ones included:

dis  mean_k (c_k - r_k)^2 - V(first entry, n) with c the raw estimate of the n answers to
     the dissimilarity query and r the last release: unbiased, so it may be negative.
     Nothing is clipped or projected before.
err  V(second entry, n), with n the devices that a publication would ask, LBD and LBA: those
     that answered the dissimilarity query.

A new release is published iff dis > err. V is the variance of an estimate averaged over the
domain (estimate.report_variance), with the entry's integers. Everything is compared as
exact rationals; Decision has the nearest floats. Before the first publication the release
is 0 for every value.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tinyldp.coordinate.entries import entry_task
from tinyldp.coordinate.estimates import difference, estimate, nothing
from tinyldp.coordinate.schedules import Absorption, Distribution, Potential, Wanted, make_schedule
from tinyldp.errors import UserError
from tinyldp.estimate import report_variance, supports
from tinyldp_protocol.messages import COUNTER_MAX
from tinyldp_protocol.task import GRR, LPA, LPD, LPU, Task

# What became of a step. With all but the first the last release stands.
PUBLISHED = "published"
SIMILAR = "similar"  # dis <= err
NULLIFIED = "nullified"  # LBA, LPA: these steps' budget is spent already
SPENT = "spent"  # nothing is left to publish with
UNANSWERED = "unanswered"  # nobody was there to ask, or answered; what was asked for is spent
SKIPPED = "skipped"  # LSP between its samples
OUTCOMES = (PUBLISHED, SIMILAR, NULLIFIED, SPENT, UNANSWERED, SKIPPED)


class Ask(NamedTuple):
    """A query of step t: an entry of the Task, from so many different devices, None: all.

    phase: 0 for the dissimilarity, or all that is asked in this step; 1 for the publication.
    """

    t: int
    phase: int
    entry: int
    users: int | None


@dataclass(frozen=True)
class Decision:
    """What a step came to.

    release: (d,) raw frequencies, this step's estimate. outcome: one of OUTCOMES.
    dis, err: as above, None where there was none. units: ledger units (2^-16 of an epsilon)
    that each device spent that was asked for a publication, 0 if none was asked, and
    dissimilarity_units likewise. users: devices that there were. *_users: devices asked for
    the dissimilarity and for the publication; *_n: of these, how many answered.
    """

    t: int
    published: bool
    release: npt.NDArray[np.float64]
    dis: float | None
    err: float | None
    units: int
    dissimilarity_units: int
    users: int
    dissimilarity_users: int
    dissimilarity_n: int
    publication_users: int
    publication_n: int
    outcome: str


class _Round(NamedTuple):
    """A query that was asked, and how many answered."""

    units: int = 0
    users: int = 0
    n: int = 0


class Coordinator:
    """Runs the method of a round-based Task, one step after the other, from t = start on.

    users: how many devices there are; may be set between steps. Nobody is asked for more than
    w steps' epsilon if groups are taken in circular order and rest (groups.Circle).
    decision: of the last step, None while one is open. last: the last t that there is.
    two_phases: whether a step may ask twice. Raises UserError when the Task has no method, or
    other spends than the method's.
    """

    last = COUNTER_MAX

    def __init__(self, task: Task, users: int, start: int = 0) -> None:
        self._task = task
        self._schedule = make_schedule(task)
        self._oracles = [entry_task(task, entry) for entry in range(len(task.thresholds))]
        self._variances = [report_variance(oracle) for oracle in self._oracles]
        self.users = users
        self._start = start
        self._t = start - 1
        self._release = nothing(task.symbols)
        self._asked: Ask | None = None
        # Devices that each of the last w-1 steps has asked, where groups are asked.
        self._groups: deque[int] = deque(maxlen=(task.w or 1) - 1)
        self._population = task.method in (LPU, LPD, LPA)
        self.decision: Decision | None = None
        self._reset()

    def _reset(self) -> None:
        self._dis: Fraction | None = None
        self._err: Fraction | None = None
        self._rounds = [_Round(), _Round()]
        self._potential: Potential | None = None
        self._taken = 0

    @property
    def two_phases(self) -> bool:
        return self._schedule.adaptive

    @property
    def _step(self) -> int:
        return self._t - self._start + 1

    def begin(self) -> Ask | None:
        """Open the next step; what to ask, or None when its decision is made already."""
        if self._asked is not None:
            raise RuntimeError("the step before has not been heard")
        self._t += 1
        self.decision = None
        self._reset()
        schedule = self._schedule
        if isinstance(schedule, Distribution | Absorption):
            return self._ask(0, schedule.dissimilarity(self.users))
        wanted = schedule.wanted(self._step, self.users)
        if wanted is None:
            return self._decide(SKIPPED)
        return self._ask(1, wanted)

    def tally(self, ask: Ask, reports: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """(d,) support counts of reports, (n, width) uint8; those of several may be added.

        Raises UserError for a report that no device can have sent.
        """
        oracle = self._oracles[ask.entry]
        array = np.asarray(reports)
        if array.ndim != 2 or array.shape[1] != oracle.width or array.dtype != np.uint8:
            raise UserError(f"Reports of this Task must be bytes, {oracle.width} each.")
        if oracle.mechanism == GRR:
            array = np.ascontiguousarray(array).view(f"<u{oracle.width}")[:, 0]
        return supports(oracle, array)

    def heard(self, supports: npt.ArrayLike, n: int) -> Ask | None:
        """Take in what answered the last query; what to ask next, or None: see decision.

        supports: (d,) support counts of the n answers (their tally). Raises ValueError for what
        cannot be counts of n answers.
        """
        asked = self._asked
        if asked is None:
            raise RuntimeError("nothing was asked")
        counts = np.asarray(supports)
        if counts.shape != (self._task.symbols,) or counts.dtype.kind not in "iu":
            raise ValueError("supports must be one integer for each symbol")
        if n < 0 or (counts.size and not 0 <= counts.min() <= counts.max() <= n):
            raise ValueError("supports must lie in 0..n")
        self._asked = None
        for_release = asked.phase == 1 or not self._schedule.adaptive
        self._rounds[for_release] = self._rounds[for_release]._replace(n=n)
        return self._heard(asked.entry, counts, n, for_release)

    def _heard(
        self, entry: int, counts: npt.NDArray[np.integer], n: int, for_release: bool
    ) -> Ask | None:
        if for_release:
            if not n:
                return self._decide(UNANSWERED)
            self._release = estimate(self._oracles[entry], counts, n)
            return self._decide(PUBLISHED)
        schedule = self._schedule
        assert isinstance(schedule, Distribution | Absorption)
        self._potential = potential = schedule.potential(self._step, self.users)
        if n:
            fresh = estimate(self._oracles[entry], counts, n)
            self._dis = difference(fresh, self._release) - self._variances[entry] / n
        if schedule.nullified:
            return self._decide(NULLIFIED)
        if not self._rounds[0].users:
            # No budget is used up where nobody can be asked: devices are fewer than groups.
            return self._decide(UNANSWERED)
        if potential is None:
            return self._decide(SPENT)
        if self._dis is None:
            return self._decide(UNANSWERED)
        users = self._free(potential.wanted.users)
        if users == 0:
            return self._decide(SPENT)
        self._err = self._variances[potential.wanted.entry] / (users or n)
        if self._dis <= self._err:
            return self._decide(SIMILAR)
        return self._ask(1, potential.wanted)

    def _free(self, users: int | None) -> int | None:
        """So many of them as no step of this window has asked; None stays all.

        Bites only after `users` has changed: the methods' own sums hold otherwise.
        """
        if users is None:
            return None
        return max(0, min(users, self.users - sum(self._groups) - self._taken))

    def _ask(self, kind: int, wanted: Wanted) -> Ask | None:
        """Ask for the dissimilarity (kind 0) or a release (1), or go on if nobody is there."""
        users = self._free(wanted.users)
        self._taken += users or 0
        asked = self.users if users is None else users
        units = self._task.spends[wanted.entry] if asked else 0
        self._rounds[kind] = _Round(units, asked)
        if not asked:
            nobody = np.zeros(self._task.symbols, dtype=np.int64)
            return self._heard(wanted.entry, nobody, 0, kind == 1)
        self._asked = Ask(self._t, kind if self._schedule.adaptive else 0, wanted.entry, users)
        return self._asked

    def _decide(self, outcome: str) -> None:
        first, second = self._rounds
        if isinstance(self._schedule, Distribution | Absorption):
            asked = self._potential if second.users else None
            self._schedule.close(self._step, asked.amount if asked else 0, second.users)
        if self._population:
            self._groups.append(self._taken)
        self.decision = Decision(
            t=self._t,
            published=outcome == PUBLISHED,
            release=self._release.floats(),
            dis=None if self._dis is None else float(self._dis),
            err=None if self._err is None else float(self._err),
            units=second.units,
            dissimilarity_units=first.units,
            users=self.users,
            dissimilarity_users=first.users,
            dissimilarity_n=first.n,
            publication_users=second.users,
            publication_n=second.n,
            outcome=outcome,
        )
