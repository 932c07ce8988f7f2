"""The rule of least loss for a coupling (rule 2 of coupling.py).

A unit that goes from x to y costs w_xy = f l_xy + u_y: the loss, scaled to l_xy = loss_xy m with
m = 1023 div the largest loss, and what y costs when it is sampled, u_y = (e (s_y >> 10)) >> 5,
where s_y is the sum of b_x l_xy over all x. The symbols with b_x > 0 are kept one by one: first
the one with the least s_y, then the most probable of the others (of equal ones the first). r of
them are kept in candidate number r, all others are dropped; P_y >= K for all that are kept, so
that r K <= B for r > 1. J_xx = b_x to begin with. Pairs come in ascending order of their loss,
then x, then y, x < y:

    1  of each pair with one dropped, that fills up the other to K, as far as it goes
    2  what is left of a dropped x goes to the kept y with the least w_xy, the first of equals
    3  of each pair that is kept, the one that has more than K fills up the other from its own

Candidate 0 is rule 1's coupling, if it serves all. The one with the least cost, the sum of
J_xy (w_xy >> 9), is made; of equal ones the first.
"""

from array import array

from tinyldp_device.coupling import BELIEF, MODEL, loss_of


class MinError:
    """Makes couplings of least loss in a Coupling of its own."""

    def __init__(self, task, coupling):
        n = task.symbols
        self._coupling = coupling
        self._loss = array("H", bytearray(2 * n * n))
        self._pairs = array("H", bytearray(n * (n - 1)))
        self._sampled = array("I", [0] * n)
        self._kept = bytearray(n)
        largest = 1
        for x in range(n):
            for y in range(n):
                self._loss[x * n + y] = loss_of(task, x, y)
                largest = max(largest, self._loss[x * n + y])
        for i in range(n * n):
            self._loss[i] *= 1023 // largest
        at = 0
        for i in range(len(coupling.plan)):
            step = coupling.plan[i]
            # The singles of rule 1 are in this order.
            if step & 31 == step >> 10:
                self._pairs[at] = step
                at += 1

    def make(self):
        """Make the coupling of the present belief."""
        coupling = self._coupling
        coupling.preserve()
        self._sample()
        least = 0x3FFFFFFF
        if coupling.total == BELIEF:
            least = self._cost()
        best = 0
        count = 0
        while self._keep(count):
            count += 1
            self._fill()
            cost = self._cost()
            if cost < least:
                least = cost
                best = count
        if not best:
            coupling.preserve()
            return
        self._sample()
        for count in range(best):
            self._keep(count)
        self._fill()

    def _sample(self):
        """What each symbol costs when it is sampled; none is kept."""
        coupling = self._coupling
        n = coupling.symbols
        for y in range(n):
            cost = 0
            for x in range(n):
                cost += coupling.belief[x] * self._loss[x * n + y]
            self._sampled[y] = cost
            self._kept[y] = 0

    def _keep(self, count):
        """Keep one more symbol than `count`, or give False."""
        coupling = self._coupling
        if count and (count + 1) * coupling.kappa > BELIEF:
            return False
        belief = coupling.belief
        best = -1
        for x in range(coupling.symbols):
            if belief[x] and not self._kept[x]:
                if best < 0:
                    best = x
                elif count:
                    if belief[x] > belief[best]:
                        best = x
                elif self._sampled[x] < self._sampled[best]:
                    best = x
        if best < 0:
            return False
        self._kept[best] = 1
        return True

    def _cost_of(self, x, y):
        """w_xy."""
        coupling = self._coupling
        fresh = coupling.fresh
        sampled = fresh * (self._sampled[y] >> 10) >> 5
        return (MODEL - fresh) * self._loss[x * coupling.symbols + y] + sampled

    def _cost(self):
        """That of the present coupling."""
        n = self._coupling.symbols
        cost = 0
        for x in range(n):
            for y in range(n):
                units = self._coupling.joint[x * n + y]
                if units:
                    cost += units * (self._cost_of(x, y) >> 9)
        return cost

    def _fill(self):
        """The coupling in which the present symbols are kept."""
        coupling = self._coupling
        n = coupling.symbols
        joint = coupling.joint
        marginal = coupling.marginal
        kept = self._kept
        for i in range(n * n):
            joint[i] = 0
        coupling.total = BELIEF
        for x in range(n):
            coupling.served[x] = coupling.belief[x]
            # Of a dropped one, what is left of it, for the time being.
            marginal[x] = coupling.belief[x]
            if kept[x]:
                joint[x * n + x] = coupling.belief[x]
        self._level(False)
        for x in range(n):
            if not kept[x]:
                best = -1
                for y in range(n):
                    if kept[y] and (best < 0 or self._cost_of(x, y) < self._cost_of(x, best)):
                        best = y
                joint[x * n + best] += marginal[x]
                marginal[best] += marginal[x]
                marginal[x] = 0
        self._level(True)

    def _level(self, among):
        """Fill up those that are kept to K: from each other, or else from dropped ones."""
        coupling = self._coupling
        n = coupling.symbols
        joint = coupling.joint
        marginal = coupling.marginal
        kappa = coupling.kappa
        for i in range(len(self._pairs)):
            x = self._pairs[i] >> 5 & 31
            y = self._pairs[i] & 31
            if self._kept[x] + self._kept[y] != 1 + among:
                continue
            if self._kept[x] and (marginal[x] < marginal[y] if among else True):
                x, y = y, x
            spare = marginal[x]
            if among:
                spare = min(joint[x * n + x], marginal[x] - kappa)
            units = min(spare, kappa - marginal[y])
            if units > 0:
                marginal[x] -= units
                marginal[y] += units
                joint[x * n + y] += units
                if among:
                    joint[x * n + x] -= units
