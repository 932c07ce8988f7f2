"""Couplings of whole blocks of symbols, for CRR_BATCH; the terms are those of coupling.py.

A block of v symbols is a number below n^v, its first symbol the most significant digit. What is
carried from block to block is a belief about the next L = memory symbols: n^L numbers, in sum
B = 2^15. By the model it becomes one about one more symbol, or about the next L ones: what
comes to each number, in 2^-14, is added up from the last number on, and with R numbers that can
be reached and c_j = B - (sum from j on >> 14), number j becomes

    (1 where it can be reached) + (c_i (B - R) >> 15) - (c_j (B - R) >> 15), i = j + 1

So the sum is B, and every block that can be reached has a unit at the least.

The rule is that of least loss, sparse: the r most probable blocks are kept, in order of their
belief (of equal ones the first), r K <= B for r > 1. Each other block goes, whole, to one that is
kept, in the order of the numbers: to the nearest by loss, of equal ones the more probable, as
long as any has less than K among those alone. Then the most probable one fills up to K what
still lacks; r is not possible where it keeps less than K for itself. Losses are scaled by
m = 1023 div the largest one of two symbols, and added up over the places. With D, the sum of
all units times their loss, and Q, the sum of P_y (s_y >> 14) >> 1, s_y the sum of b_x loss_xy,
a coupling costs f (D >> h) + e (Q >> h), with the least h >= 10 so that 2^h > 1023 w. Of the
numbers r from the count of frequent blocks (1 at the least) up to two more than can be filled up
with dropped units alone, every g-th is tried, g = their count div 6, plus 1; the first one that
costs least is made.
"""

from array import array

from tinyldp_device.coupling import BELIEF, MODEL, loss_of

# A block that can't be reached goes nowhere: its row is not served.
NOWHERE = 0xFFFF


class BlockCoupling:
    """The belief of one device about its next block, and a coupling of it.

    belief, target: of size = n^length blocks. kept, marginal: the count blocks that can be
    released, and their units. target: which of them a block goes to, by its place in kept; only
    kept[0] goes to all, fill[k] units of it. update() leaves them undefined until make(). Nothing
    allocates but the constructor.
    """

    def __init__(self, task):
        n = task.symbols
        memory = task.memory or 1
        fresh = task.thresholds[0] >> 10
        self.symbols = n
        self.fresh = fresh
        self.kappa = (BELIEF * fresh + MODEL + fresh - 1) // (MODEL + fresh)
        self.block = task.block
        self.length = 0
        self.size = n**task.block
        self.count = 0
        self._memory = memory
        self._states = n**memory
        self._transitions = array("H", task.transitions)
        self.carried = array("H", task.prior)
        zeros = bytearray(2 * self.size)
        self.belief = array("H", zeros)
        self.target = array("H", zeros)
        most = min(self.size, BELIEF // self.kappa)
        zeros = bytearray(2 * most)
        self.kept = array("H", zeros)
        self.marginal = array("H", zeros)
        self.fill = array("H", zeros)
        self._sampled = array("I", bytearray(4 * most))
        self._loss = array("H", bytearray(2 * n * n))
        largest = 1
        for i in range(n * n):
            self._loss[i] = loss_of(task, i // n, i % n)
            largest = max(largest, self._loss[i])
        for i in range(n * n):
            self._loss[i] *= 1023 // largest
        self._shift = 10
        while 1023 * task.block >> self._shift:
            self._shift += 1

    def joint(self, x, k):
        """Units that go from block x to kept[k]."""
        if x == self.kept[0]:
            return self.fill[k]
        return self.belief[x] if self.target[x] == k else 0

    def make(self, length):
        """Make the coupling of a block of so many symbols, 1 to task.block."""
        self._foresee(length)
        least = self._rank()
        most = self.count
        best = 0
        cheapest = 0x3FFFFFFF
        step = (most - least) // 6 + 1
        count = least
        while count <= most:
            if self._couple(count):
                cost = self._cost()
                if cost < cheapest:
                    cheapest = cost
                    best = count
            count += step
        self._couple(best)

    def _foresee(self, length):
        """The belief about the next block."""
        n = self.symbols
        belief = self.belief
        self.length = length
        self.size = n**length
        states = self._states
        if length < self._memory:
            others = states // self.size
            for o in range(self.size):
                belief[o] = 0
                for i in range(o * others, o * others + others):
                    belief[o] += self.carried[i]
            return
        for i in range(states):
            belief[i] = self.carried[i]
        while states < self.size:
            states *= n
            self._follow(belief, belief, states, 1)

    def _follow(self, source, result, size, ways):
        """One more symbol: `size` numbers, each of which comes from so many of the source's."""
        reached = 0
        for j in range(size):
            if self._coming(source, j, ways):
                reached += 1
        total = 0
        # c_j of the number before, from the last one on.
        before = BELIEF - reached
        # The first numbers of the result are where the source is.
        for j in range(size - 1, -1, -1):
            coming = self._coming(source, j, ways)
            total += coming
            after = (BELIEF - (total >> 14)) * (BELIEF - reached) >> 15
            result[j] = before - after + (1 if coming else 0)
            before = after

    def _coming(self, source, j, ways):
        """What comes to number j, in 2^-14."""
        n = self.symbols
        stride = self._states // n
        total = 0
        for way in range(ways):
            i = way * stride + j // n
            total += source[i] * self._transitions[i % self._states * n + j % n]
        return total

    def _rank(self):
        """Put the most probable blocks first in kept; the least number of them that is tried."""
        belief = self.belief
        target = self.target
        for x in range(self.size):
            target[x] = NOWHERE
        lacking = 0
        left = BELIEF
        beyond = 0
        frequent = 1
        self.count = 0
        while beyond < 2 and (not self.count or (self.count + 1) * self.kappa <= BELIEF):
            best = -1
            for x in range(self.size):
                if belief[x] and target[x] == NOWHERE and (best < 0 or belief[x] > belief[best]):
                    best = x
            if best < 0:
                break
            target[best] = self.count
            self.kept[self.count] = best
            self._sampled[self.count] = 0
            self.count += 1
            left -= belief[best]
            if belief[best] >= self.kappa:
                frequent = self.count
            else:
                lacking += self.kappa - belief[best]
            if lacking > left:
                beyond += 1
        for k in range(self.count):
            for x in range(self.size):
                self._sampled[k] += belief[x] * self._distance(x, self.kept[k])
        return frequent

    def _distance(self, x, y):
        """The loss when block y is released for x."""
        n = self.symbols
        total = 0
        while x != y:
            total += self._loss[x % n * n + y % n]
            x //= n
            y //= n
        return total

    def _couple(self, count):
        """Keep so many blocks; False where that is not possible."""
        belief = self.belief
        target = self.target
        marginal = self.marginal
        self.count = count
        for x in range(self.size):
            target[x] = NOWHERE
        lacking = 0
        for k in range(count):
            target[self.kept[k]] = k
            marginal[k] = belief[self.kept[k]]
            self.fill[k] = 0
            if marginal[k] < self.kappa:
                lacking += 1
        for x in range(self.size):
            if belief[x] and target[x] == NOWHERE:
                k = self._nearest(x, lacking)
                target[x] = k
                if marginal[k] < self.kappa and marginal[k] + belief[x] >= self.kappa:
                    lacking -= 1
                marginal[k] += belief[x]
        own = belief[self.kept[0]]
        for k in range(1, count):
            units = self.kappa - marginal[k]
            if units > 0:
                own -= units
                marginal[k] += units
                marginal[0] -= min(units, marginal[0])
                self.fill[k] = units
        self.fill[0] = max(0, own)
        return own >= 0 and marginal[0] >= self.kappa

    def _nearest(self, x, lacking):
        """The place in kept where block x goes."""
        best = -1
        least = 0
        for k in range(self.count):
            if not lacking or self.marginal[k] < self.kappa:
                distance = self._distance(x, self.kept[k])
                if best < 0 or distance < least:
                    best = k
                    least = distance
        return best

    def _cost(self):
        """That of the present coupling."""
        told = 0
        sampled = 0
        top = self.kept[0]
        for x in range(self.size):
            if self.belief[x] and x != top:
                told += self.belief[x] * self._distance(x, self.kept[self.target[x]])
        for k in range(self.count):
            told += self.fill[k] * self._distance(top, self.kept[k])
            sampled += self.marginal[k] * (self._sampled[k] >> 14) >> 1
        told = (MODEL - self.fresh) * (told >> self._shift)
        return told + self.fresh * (sampled >> self._shift)

    def update(self, k):
        """After kept[k] was released: the belief about the symbols that follow.

        As coupling.py has it: the posterior of a block, e b_x + f g_x with g_x = J_xy B div P_y,
        counts for its last L symbols; they become numbers in sum B as above, but that the largest
        one, the first of equals, takes what is lacking for each g_x was rounded down.
        """
        n = self.symbols
        if self.length < self._memory:
            # The last block of all.
            return
        carried = self.carried
        total = 0
        before = 0
        largest = 0
        sum_of_all = 0
        reached = 0
        for s in range(self._states):
            if self._posterior(s, k):
                reached += 1
        for s in range(self._states):
            posterior = self._posterior(s, k)
            total += posterior
            after = (total >> 14) * (BELIEF - reached) >> 15
            carried[s] = after - before + (1 if posterior else 0)
            before = after
            sum_of_all += carried[s]
            if carried[s] > carried[largest]:
                largest = s
        carried[largest] += BELIEF - sum_of_all
        for _ in range(self._memory):
            # There is room: a block is as long as what is carried, or longer.
            self._follow(carried, self.belief, self._states, n)
            for s in range(self._states):
                carried[s] = self.belief[s]

    def _posterior(self, s, k):
        """Of all blocks that end with the symbols s, in 2^-14."""
        total = 0
        # Not a range: one with a step that is no constant is allocated.
        x = s
        while x < self.size:
            units = self.belief[x]
            if units:
                share = self.joint(x, k) * BELIEF // self.marginal[k]
                total += self.fresh * units + (MODEL - self.fresh) * share
            x += self._states
        return total
