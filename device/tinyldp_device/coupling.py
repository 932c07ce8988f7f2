"""What a released symbol may tell: a belief about the next one, and a coupling of it.

Integers throughout. A belief b is a number b_x for each of n symbols, in sum B = 2^15: at least 1
where the model can reach x, else 0. e = T / 2^10 with the Task's threshold T, f = 2^14 - e and
q = e / 2^14: what a step may give away is epsilon = -ln q. K = ceil(B q / (1 + q)); a symbol
with b_x < K is rare.

A coupling J has a row for each symbol. A row that is served sums up to served_x = b_x, another one
to served_x = 0; the columns sum up to the marginal P, all of it to S <= B. It is admissible when
J_xy <= b_x where P_y >= K, and J_xy K <= b_x P_y elsewhere. Then what Crr makes of it,

    M(y|x) = q P_y/S + (1-q) J_xy/b_x, or P_y/S where x is not served,

lies between q P_y/S and (P_y/S)/q for every x, and P/S is exactly the marginal of b: that is the
definition of epsilon in Sequence Information Privacy.

Rule 1, preserve: P = b. J is symmetric; off the diagonal J_xy <= b_x b_y div K, and each rare
symbol must give away what J_xx may not hold, own_x = b_x^2 div K. That is planned once: steps in
ascending order of the loss that a unit costs for each one given away, of equal ones in the order
double, triangle, single, then x, y, z:

    double    x, y, y   x < y   both give, as much as both must         loss_xy
    triangle  x, y, z   y < z   takes from J_yz half of what x must give away, so that y and z give
                                it to x instead      max(loss_xy + loss_xz - loss_yz, loss_yz)
    single    x, y, x   x < y   as much as one of them must         2 loss_xy

If a symbol still has too much, which is so for beliefs of a few units alone, the one with the
least belief is not served, and all is done again without it. Rule 2, least loss: minerror.py.
"""

from array import array

from tinyldp_protocol.task import MIN_ERROR

# What a belief sums up to, and a row of the model.
BELIEF = 1 << 15
MODEL = 1 << 14


class Coupling:
    """The belief of one device, at first the Task's prior, and a coupling of it.

    belief, served, marginal: arrays of n. total: sum of the marginal. joint: array of n * n,
    row by row. plan: the steps of rule 1. make() makes the coupling, update(y) the next belief;
    neither allocates.
    """

    def __init__(self, task):
        n = task.symbols
        fresh = task.thresholds[0] >> 10
        self.symbols = n
        self.fresh = fresh
        self.kappa = (BELIEF * fresh + MODEL + fresh - 1) // (MODEL + fresh)
        self.total = BELIEF
        self.belief = array("H", task.prior)
        self.served = array("H", bytearray(2 * n))
        self.marginal = array("H", bytearray(2 * n))
        self.joint = array("H", bytearray(2 * n * n))
        self._transitions = array("H", task.transitions)
        self.plan = planned(task)
        # What the diagonal may hold; also the posterior.
        self._own = array("H", bytearray(2 * n))
        self._rule = task.rule
        if task.rule == MIN_ERROR:
            # Imported where it is used: a board holds what it runs.
            from tinyldp_device.minerror import MinError

            self._least = MinError(task, self)

    def make(self):
        """Make the coupling of the present belief."""
        if self._rule == MIN_ERROR:
            self._least.make()
        else:
            self.preserve()

    def preserve(self):
        """Make it by rule 1."""
        n = self.symbols
        for x in range(n):
            self.served[x] = self.belief[x]
        excess = self._fit()
        while excess >= 0:
            self.served[excess] = 0
            excess = self._fit()
        self.total = 0
        for x in range(n):
            self.marginal[x] = self.served[x]
            self.total += self.served[x]
        if not self.total:
            # Then nobody is served: all is sampled from the belief.
            for x in range(n):
                self.marginal[x] = self.belief[x]
            self.total = BELIEF

    def _fit(self):
        """Couple those that are served; give the symbol that can't be, or -1."""
        n = self.symbols
        served = self.served
        joint = self.joint
        own = self._own
        for i in range(n * n):
            joint[i] = 0
        rare = False
        for x in range(n):
            joint[x * n + x] = own[x] = served[x]
            if served[x] < self.kappa:
                own[x] = served[x] * served[x] // self.kappa
                rare = rare or own[x] < served[x]
        if rare:
            self._give()
        excess = -1
        for x in range(n):
            if joint[x * n + x] > own[x]:
                if excess < 0 or served[x] < served[excess]:
                    excess = x
        return excess

    def _give(self):
        """Follow the plan."""
        n = self.symbols
        joint = self.joint
        own = self._own
        for i in range(len(self.plan)):
            step = self.plan[i]
            x = step >> 10
            y = step >> 5 & 31
            z = step & 31
            held = joint[x * n + x]
            units = held - own[x]
            if z == x:
                other = joint[y * n + y]
                units = min(max(units, other - own[y]), held, other)
            elif z == y:
                units = min(units, joint[y * n + y] - own[y])
            else:
                units = min(units >> 1, joint[y * n + z])
                if units > 0:
                    units = min(units, self._room(x, z))
            if units > 0:
                units = min(units, self._room(x, y))
                if z != x and z != y:
                    self._move(y, z, -units)
                    self._move(x, z, units)
                self._move(x, y, units)

    def _room(self, x, y):
        """How many units more J_xy may hold."""
        return self.served[x] * self.served[y] // self.kappa - self.joint[x * self.symbols + y]

    def _move(self, x, y, units):
        """From J_xx and J_yy to J_xy and J_yx."""
        n = self.symbols
        joint = self.joint
        joint[x * n + y] += units
        joint[y * n + x] += units
        joint[x * n + x] -= units
        joint[y * n + y] -= units

    def update(self, y):
        """After y was released: the belief about what follows.

        The posterior of x is (e b_x + f g_x + 2^13) >> 14, g_x = J_xy S div P_y, or b_x where x is
        not served; the next belief of x' is the sum of posterior_x * transition_xx', plus
        2^13, >> 14. What is not 0 before it is rounded becomes 1 at the least, and what then lacks
        in B, or is too much, goes to the largest number, the first of equal ones.
        """
        n = self.symbols
        fresh = self.fresh
        belief = self.belief
        posterior = self._own
        for x in range(n):
            posterior[x] = share = belief[x]
            if self.served[x]:
                share = self.joint[x * n + y] * self.total // self.marginal[y]
            if belief[x]:
                share = fresh * belief[x] + (MODEL - fresh) * share
                posterior[x] = max(1, share + (MODEL >> 1) >> 14)
        _complete(posterior)
        for y in range(n):
            share = 0
            for x in range(n):
                share += posterior[x] * self._transitions[x * n + y]
            belief[y] = 0
            if share:
                belief[y] = max(1, share + (MODEL >> 1) >> 14)
        _complete(belief)


def _complete(shares):
    """Give to the largest what all lack, or take from it."""
    lacking = BELIEF
    largest = 0
    for x in range(len(shares)):
        lacking -= shares[x]
        if shares[x] > shares[largest]:
            largest = x
    shares[largest] += lacking


def planned(task):
    """The steps of rule 1 in their order, 5 bits for each of x, y and z."""
    n = task.symbols
    plan = array("H", bytearray(n * n * (n - 1)))
    at = 0
    # Nearly in order already.
    for kind in range(3):
        for x in range(n):
            for y in range(n):
                for z in range(n):
                    if z == x or z == y:
                        wanted = x < y and kind == (2 if z == x else 0)
                    else:
                        wanted = x != y and y < z and kind == 1
                    if wanted:
                        plan[at] = x << 10 | y << 5 | z
                        at += 1
    # Shell's sort: in place, for there may be no room for the keys.
    gap = at
    while gap > 1:
        gap = gap * 5 // 11 or 1
        for i in range(gap, at):
            step = plan[i]
            key = _key(task, step)
            while i >= gap and _key(task, plan[i - gap]) > key:
                plan[i] = plan[i - gap]
                i -= gap
            plan[i] = step
    return plan


def _key(task, step):
    """What a step costs, its kind, and itself."""
    x = step >> 10
    y = step >> 5 & 31
    z = step & 31
    loss = loss_of(task, x, y)
    if z == y:
        loss <<= 2
    elif z == x:
        loss = loss << 3 | 2
    else:
        other = loss_of(task, y, z)
        loss = max(other, loss + loss_of(task, x, z) - other) << 2 | 1
    return loss << 15 | step


def loss_of(task, x, y):
    """What it costs, by the Task's loss, when y is released for x: 0..1023."""
    if task.loss == 4:
        return task.costs[x * task.symbols + y]
    difference = abs(x - y)
    if task.loss == 3:
        return difference * difference
    return min(1, difference) if task.loss == 1 else difference
