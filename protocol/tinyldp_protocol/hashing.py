"""Pairwise-independent hashing of small numbers, the same on all sides.

Multilinear hashing (Carter and Wegman 1979) modulo a prime below 2^15, so that
every intermediate value lies below 2^30.
"""

PRIME = 32749
GROUPS = 512 * PRIME

# Lag-4 multiply-with-carry (Marsaglia) in base 2^16: FACTOR * 2^64 - 1 is a safe prime.
_FACTOR = 15459


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


def group(seed, pseudonym):
    """Where a device stands on the circle 0 .. GROUPS - 1.

    seed: 8 bytes, a Task's id; pseudonym: 8 bytes. Two multilinear hashes of the
    pseudonym's bytes, of 9 numbers each for a key: the first one times 512, plus the
    second one divided by 64. The keys are numbers 16 to 33 of the generator that the
    seed's four 16-bit numbers (little-endian) start with a carry of 1, modulo PRIME.
    """
    state = [seed[i] | seed[i + 1] << 8 for i in range(0, 8, 2)]
    carry = 1
    key = []
    for i in range(34):
        carry += _FACTOR * state[i & 3]
        state[i & 3] = carry & 65535
        carry >>= 16
        if i > 15:
            key.append(state[i & 3] % PRIME)
    return multilinear(key, pseudonym) * 512 + multilinear(key[9:], pseudonym) // 64
