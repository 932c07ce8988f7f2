"""What each LDP-IDS method may ask for at each step, in whole numbers.

Source: LDP-IDS (Ren et al. 2022), algorithms 1 to 4 and section 5.1, with what is
corrected there: the dissimilarity of LBD and LBA costs epsilon / (2w) at each step
(not "2 epsilon / w"), and who answered at step t-w+1 may be asked again after step t,
not during it. u = epsilon / (2w) is the unit of budgets.

Steps are numbered from 1, as there. Amounts are whole numbers of what is divided: LBD,
parts of a unit (2^s of them: the study's grid); LBA, units; LPD and LPA, devices. Any
w steps together spend no more than all of it.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from tinyldp.errors import UserError
from tinyldp.spends import method_spends, unit
from tinyldp_protocol.task import LBA, LBD, LPA, LPD, LPU, LSP, Task

# LBD and LPD spend at least so much on a publication, or nothing.
LEAST = 1


class Wanted(NamedTuple):
    """An entry of the Task, from so many different devices; None: from all of them."""

    entry: int
    users: int | None


class Potential(NamedTuple):
    """What a publication at this step would ask for, and its amount of the method's budget."""

    wanted: Wanted
    amount: int


class Uniform:
    """LBU: epsilon / w from everyone at every step."""

    adaptive = False

    def wanted(self, step: int, users: int) -> Wanted | None:
        """What is published at this step, or None."""
        return Wanted(0, None)


class Sampling:
    """LSP: all of epsilon from everyone, once in w steps."""

    adaptive = False

    def __init__(self, w: int) -> None:
        self._w = w

    def wanted(self, step: int, users: int) -> Wanted | None:
        return Wanted(0, None) if (step - 1) % self._w == 0 else None


class PopulationUniform:
    """LPU: w disjoint groups, which differ by one device at most; each gives all of epsilon."""

    adaptive = False

    def __init__(self, w: int) -> None:
        self._w = w

    def wanted(self, step: int, users: int) -> Wanted | None:
        return Wanted(0, step * users // self._w - (step - 1) * users // self._w)


class Distribution:
    """LBD and LPD: a publication gets half of what the last w-1 steps have left.

    entry: the one that costs a unit; parts: of how many parts of a unit entry j - 1 is worth j;
    both None for LPD.
    """

    adaptive = True
    nullified = False

    def __init__(self, w: int, entry: int | None = None, parts: int | None = None) -> None:
        self._w = w
        self._unit = entry
        # What all publications of w steps may spend; of devices that is half of them.
        self._all = None if parts is None else w * parts
        # What each of the last w-1 steps spent on publication.
        self._spent: deque[int] = deque(maxlen=w - 1)

    def dissimilarity(self, users: int) -> Wanted:
        if self._unit is None:
            return Wanted(0, users // (2 * self._w))
        return Wanted(self._unit, None)

    def potential(self, step: int, users: int) -> Potential | None:
        """What a publication may spend at this step; None when that is nothing."""
        population = self._all is None
        amount = ((users // 2 if self._all is None else self._all) - sum(self._spent)) // 2
        if amount < LEAST:
            return None
        return Potential(Wanted(0, amount) if population else Wanted(amount - 1, None), amount)

    def close(self, step: int, amount: int, users: int) -> None:
        """The step is over; amount, users: what a publication asked for, and of whom, or 0."""
        self._spent.append(users if self._all is None else amount)


class Absorption:
    """LBA and LPA: a publication absorbs the units of the skipped steps before it.

    The steps after it are nullified, one for each unit beyond the first. A unit is u, or
    population: a 2w-th of the devices.
    """

    adaptive = True

    def __init__(self, w: int, population: bool) -> None:
        self._w = w
        self._population = population
        self._last = 0
        self._units = 1
        self.nullified = False

    def dissimilarity(self, users: int) -> Wanted:
        return Wanted(0, users // (2 * self._w) if self._population else None)

    def potential(self, step: int, users: int) -> Potential | None:
        """What a publication may spend at this step; None when that is nothing."""
        nullified_until = self._last + self._units - 1
        self.nullified = step <= nullified_until
        if self.nullified:
            return None
        units = min(step - nullified_until, self._w)
        if not self._population:
            return Potential(Wanted(units - 1, None), units)
        wanted = units * (users // (2 * self._w))
        return Potential(Wanted(0, wanted), units) if wanted else None

    def close(self, step: int, amount: int, users: int) -> None:
        """The step is over; amount, users: what a publication asked for, and of whom, or 0."""
        if amount:
            self._last = step
            self._units = amount


Schedule = Uniform | Sampling | PopulationUniform | Distribution | Absorption


def make_schedule(task: Task) -> Schedule:
    """Raises UserError when the Task has no method, or not this method's spends."""
    method, w, epsilon = task.method, task.w, task.epsilon
    if method is None or w is None or epsilon is None:
        raise UserError("Rounds are coordinated for LBU, LSP, LBD, LBA, LPU, LPD and LPA only.")
    grid = _grid(w, len(task.spends)) if method == LBD else None
    if list(task.spends) != method_spends(method, epsilon, w, grid):
        raise UserError("The Task's spends are not those of its method, epsilon and w.")
    if method in (LBA, LPA):
        return Absorption(w, method == LPA)
    if grid is not None:
        return Distribution(w, task.spends.index(unit(epsilon, w)), 1 << grid)
    if method == LPD:
        return Distribution(w)
    if method == LSP:
        return Sampling(w)
    return PopulationUniform(w) if method == LPU else Uniform()


def fewest(task: Task) -> int:
    """So many devices fill each group that a method asks; the others ask all together."""
    if task.method in (LPU, LPD, LPA):
        return (task.w or 1) * (1 if task.method == LPU else 2)
    return 1


def _grid(w: int, spends: int) -> int:
    """LBD: the s that this number of spends belongs to; 0 if there is none."""
    # A window of one step has no room for a whole unit: it comes after the parts.
    return next((s for s in range(10) if spends == (w << s) // 2 + (w == 1)), 0)
