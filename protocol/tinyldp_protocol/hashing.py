"""Hashing of small numbers, the same on all sides; every value lies below 2^30.

Pairwise independent: multilinear hashing (Carter and Wegman 1979) modulo a prime
below 2^15. Keyed and mixing: HalfSipHash-2-4 (Aumasson and Bernstein's SipHash on
words of 32 bits), in limbs of 16 bits.
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


def halfsiphash(key, first, second, out):
    """HalfSipHash-2-4 of two numbers of 4 bytes each, all little-endian.

    key: 8 bytes; first and second lie in 0 .. 2^30 - 1. The 32 bits of the hash go to
    out, the lower 16 to out[0] and the upper 16 to out[1]. Allocates nothing.
    """
    # SipHash's v0 .. v3 are a .. d, the lower half first.
    a0 = key[0] | key[1] << 8
    a1 = key[2] | key[3] << 8
    b0 = key[4] | key[5] << 8
    b1 = key[6] | key[7] << 8
    c0 = a0 ^ 0x6765
    c1 = a1 ^ 0x6C79
    d0 = b0 ^ 0x6462
    d1 = b1 ^ 0x7465
    word0 = word1 = 0
    for i in range(10):
        if i == 0:
            word0 = first & 65535
            word1 = first >> 16
        elif i == 2:
            word0 = second & 65535
            word1 = second >> 16
        elif i == 4:
            # The message's length.
            word0 = 0
            word1 = 8 << 8
        elif i == 6:
            c0 ^= 0xFF
        if i < 6 and not i & 1:
            d0 ^= word0
            d1 ^= word1
        a0 += b0
        a1 = (a1 + b1 + (a0 >> 16)) & 65535
        a0 &= 65535
        n = b0
        b0 = ((b0 << 5 | b1 >> 11) & 65535) ^ a0
        b1 = ((b1 << 5 | n >> 11) & 65535) ^ a1
        c0 += d0
        c1 = (c1 + d1 + (c0 >> 16)) & 65535
        c0 &= 65535
        n = d0
        d0 = ((d0 << 8 | d1 >> 8) & 65535) ^ c0
        d1 = ((d1 << 8 | n >> 8) & 65535) ^ c1
        # By half a word to the left: the halves change places.
        n = a0
        a0 = a1 + d0
        a1 = (n + d1 + (a0 >> 16)) & 65535
        a0 &= 65535
        n = d0
        d0 = ((d0 << 7 | d1 >> 9) & 65535) ^ a0
        d1 = ((d1 << 7 | n >> 9) & 65535) ^ a1
        c0 += b0
        c1 = (c1 + b1 + (c0 >> 16)) & 65535
        c0 &= 65535
        n = b0
        b0 = ((b0 << 13 | b1 >> 3) & 65535) ^ c0
        b1 = ((b1 << 13 | n >> 3) & 65535) ^ c1
        n = c0
        c0 = c1
        c1 = n
        if i < 6 and i & 1:
            a0 ^= word0
            a1 ^= word1
    out[0] = b0 ^ d0
    out[1] = b1 ^ d1
