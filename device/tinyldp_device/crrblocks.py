"""CRR_BATCH: conditional randomized response of whole blocks, in place of single symbols.

Batched release of Sequence Information Privacy, on integers: see blocks.py. A block of
w = task.block symbols is released with its last one, as crr.py does it, with two words; from then
on one of its symbols leaves a step. What a block gives away is the Task's epsilon.
"""

from tinyldp_device.blocks import NOWHERE, BlockCoupling
from tinyldp_protocol.task import SCALE


class CrrBlocks:
    """Releases a symbol for each one, w - 1 steps later. Nothing allocates.

    A symbol is below task.symbols: Quantizer maps any reading to one. coupling: that of the next
    block.
    """

    def __init__(self, task, entropy):
        self._threshold = task.thresholds[0]
        self._entropy = entropy
        self._taken = 0
        self._block = 0
        self._left = 0
        self._released = 0
        self.coupling = BlockCoupling(task)
        self.coupling.make(task.block)

    def step(self, symbol):
        """The symbol that is released now, or None in the first w - 1 steps."""
        coupling = self.coupling
        self._block = self._block * coupling.symbols + symbol
        self._taken += 1
        if self._taken == coupling.block:
            self._release()
            coupling.make(coupling.block)
        return self._next()

    def flush(self):
        """After the last step: one more symbol, or None when all are released."""
        if not self._left and self._taken:
            # The last block is a short one.
            self.coupling.make(self._taken)
            self._release()
        return self._next()

    def _next(self):
        """The next symbol of what was released, or None."""
        if not self._left:
            return None
        self._left -= 1
        n = self.coupling.symbols
        return self._released // n**self._left % n

    def _release(self):
        """Release the block that was taken in."""
        coupling = self.coupling
        x = self._block
        units = coupling.marginal
        total = 1 << 15
        told = -1
        if self._entropy.word() >= self._threshold and coupling.target[x] != NOWHERE:
            units = coupling.fill
            total = coupling.belief[x]
            if x != coupling.kept[0]:
                told = coupling.target[x]
        share = SCALE // total
        unit = total
        while unit >= total:
            unit = self._entropy.word() // share
        # A word is drawn for what is told, too, and all units are counted: else the time would tell
        # it from what is sampled.
        k = 0
        for i in range(coupling.count):
            unit -= units[i]
            # 1 until that is below 0, without a branch.
            k += (unit >> 15) + 1
        if told >= 0:
            k = told
        self._released = coupling.kept[k]
        self._left = self._taken
        self._taken = 0
        self._block = 0
        coupling.update(k)
