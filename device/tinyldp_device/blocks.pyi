from array import array

from tinyldp_protocol.task import Task

NOWHERE: int

class BlockCoupling:
    # The probability that a block depends on no reading, in 2^-14, and K.
    fresh: int
    kappa: int
    symbols: int
    # The belief about the next `memory` symbols: whoever sets it calls make() then.
    carried: array[int]
    # Of a whole block, and of the one that is coupled.
    block: int
    length: int
    # symbols^length numbers in units of 2^-15, and places in kept.
    size: int
    belief: array[int]
    target: array[int]
    # The first `count` are in use.
    count: int
    kept: array[int]
    marginal: array[int]
    fill: array[int]
    def __init__(self, task: Task) -> None: ...
    def joint(self, x: int, k: int) -> int: ...
    def make(self, length: int) -> None: ...
    def update(self, k: int) -> None: ...
