from collections.abc import Sequence

PRIME: int

def multilinear(key: Sequence[int], limbs: Sequence[int]) -> int: ...
