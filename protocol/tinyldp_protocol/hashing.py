"""Pairwise-independent hashing of small numbers, the same on all sides.

Multilinear hashing (Carter and Wegman 1979) modulo a prime below 2^15, so that
every intermediate value lies below 2^30.
"""

PRIME = 32749


def multilinear(key, limbs):
    """key[0] + key[1] * limbs[0] + key[2] * limbs[1] + ... modulo PRIME.

    limbs: n numbers in [0, PRIME); key: n + 1 of them, or more. With a uniform
    key, two different inputs of one length have independent, uniform hashes.
    Allocates nothing.
    """
    total = key[0]
    for i in range(len(limbs)):
        total = (total + key[i + 1] * limbs[i]) % PRIME
    return total
