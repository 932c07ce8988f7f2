"""CRR, conditional randomized response: noise where what was released leaves a doubt.

Instantaneous release of Sequence Information Privacy, on integers: see coupling.py for what
a step gives away. With N = 2^24 and the Task's threshold T, words u, v:

    u < T, or x is not served: y is sampled from the marginal P, of S units
    else                       y is sampled from row x of the coupling J, of b_x units

A symbol is sampled from s units with the first v for which v div (N div s) < s: that is the number
of the unit, counted through the symbols from 0 on. Then the belief is updated, with y alone.
"""

from tinyldp_device.coupling import Coupling
from tinyldp_protocol.task import SCALE


class Crr:
    """Releases a symbol for each one. Nothing allocates.

    A symbol is below task.symbols: Quantizer maps any reading to one. coupling: that of the
    next step, made of the belief about it.
    """

    def __init__(self, task, entropy):
        self._threshold = task.thresholds[0]
        self._entropy = entropy
        self.coupling = Coupling(task)
        self.coupling.make()

    def step(self, symbol):
        """The symbol that is released for this one: two words, but for rare redraws."""
        coupling = self.coupling
        units = coupling.marginal
        total = coupling.total
        y = 0
        if self._entropy.word() >= self._threshold and coupling.served[symbol]:
            units = coupling.joint
            total = coupling.served[symbol]
            y = symbol * coupling.symbols
        share = SCALE // total
        unit = total
        while unit >= total:
            unit = self._entropy.word() // share
        while unit >= units[y]:
            unit -= units[y]
            y += 1
        y %= coupling.symbols
        coupling.update(y)
        coupling.make()
        return y

    def flush(self):
        """Nothing is held back."""
        return None
