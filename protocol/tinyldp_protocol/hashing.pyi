from collections.abc import Sequence

PRIME: int
GROUPS: int

def multilinear(key: Sequence[int], limbs: Sequence[int]) -> int: ...
def group(seed: Sequence[int], pseudonym: Sequence[int]) -> int: ...
