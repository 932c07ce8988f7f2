"""CRR_BATCH by a table (rule 3): a block is released for a block, with probabilities of the Task.

A block of w = task.block symbols is a number x below S = symbols^w, its first symbol the most
significant digit; M(y|x) = table[S x + y] / 2^15. With one word u it is released as the first y for
which the numbers of row x, added up from y = 0 on, exceed u >> 9.

A certificate says whether q P(y) <= M(y|x) <= P(y) / q, with q = e^-epsilon = T / 2^24, for all x
and y and each law b that the Task's model gives to a block. P(y), the sum of b(x) M(y|x), is linear
in b: what holds after each last symbol (or memory of them) holds for every belief. None is kept, so
that a reboot changes nothing. Without any model, q^2 M(y|z) <= M(y|x): other Tasks are refused.

The symbols of an incomplete last block are never released: the table says nothing of them.
"""

from array import array


class CrrTable:
    """Releases a symbol for each one, w - 1 steps later. Nothing allocates.

    A symbol is below task.symbols: Quantizer maps any reading to one.
    """

    def __init__(self, task, entropy):
        self._entropy = entropy
        self._symbols = task.symbols
        self._length = task.block
        self._blocks = task.symbols**task.block
        self._table = array("H", task.table)
        self._taken = 0
        self._block = 0
        self._left = 0
        self._released = 0

    def step(self, symbol):
        """The symbol that is released now, or None in the first w - 1 steps."""
        self._block = self._block * self._symbols + symbol
        self._taken += 1
        if self._taken == self._length:
            self._release()
        return self.flush()

    def flush(self):
        """After the last step: one more symbol, or None when those of whole blocks are released."""
        if not self._left:
            return None
        self._left -= 1
        return self._released // self._symbols**self._left % self._symbols

    def _release(self):
        """Release the block that was taken in."""
        row = self._block * self._blocks
        unit = self._entropy.word() >> 9
        # How long this takes depends on what is released alone.
        y = 0
        while unit >= self._table[row + y]:
            unit -= self._table[row + y]
            y += 1
        self._released = y
        self._left = self._length
        self._taken = 0
        self._block = 0
