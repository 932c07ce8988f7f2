from array import array

from tinyldp_protocol.task import Task

BELIEF: int
MODEL: int

class Coupling:
    # The probability that a step depends on no reading, in 2^-14, and K.
    fresh: int
    kappa: int
    symbols: int
    # Of the next step, in units of 2^-15; joint: symbols * symbols, row by row.
    belief: array[int]
    served: array[int]
    marginal: array[int]
    total: int
    joint: array[int]
    plan: array[int]
    def __init__(self, task: Task) -> None: ...
    def make(self) -> None: ...
    def preserve(self) -> None: ...
    def update(self, y: int) -> None: ...

def planned(task: Task) -> array[int]: ...
def loss_of(task: Task, x: int, y: int) -> int: ...
