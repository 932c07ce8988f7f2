"""Raw readings to symbols, by the Task's integer bins: always total."""


class Quantizer:
    """Maps any reading to a symbol in 0..symbols-1.

    With bins, the symbol is the number of edges that are not above the reading;
    without, the reading itself, clamped. What is no integer (None, a float, an
    error's leftovers) becomes the Task's symbol for missing, or 0.
    """

    def __init__(self, task):
        self._bins = task.bins
        self._top = task.symbols - 1 if task.bins is None else len(task.bins)
        self._missing = 0
        if task.missing is not None:
            self._missing = task.missing

    def symbol(self, reading):
        """Allocates nothing, raises nothing."""
        # Not isinstance: True is an int on CPython alone.
        if type(reading) is not int:
            return self._missing
        bins = self._bins
        low = 0
        high = self._top
        if bins is None:
            if reading < 0:
                return 0
            if reading > high:
                return high
            return reading
        while low < high:
            middle = (low + high) >> 1
            if reading < bins[middle]:
                high = middle
            else:
                low = middle + 1
        return low
