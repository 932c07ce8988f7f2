"""hashing: literal vectors, and what holds for every key."""

from helpers import unhex

from tinyldp_protocol.hashing import GROUPS, PRIME, group, multilinear

# key, limbs, hash.
VECTORS = (
    ((5,), (), 5),
    ((0, 1), (7,), 7),
    ((1, 1), (32748,), 0),
    ((32748, 32748), (32748,), 0),
    ((32748, 32747), (32748,), 1),
    ((3, 5, 7), (11, 13), 149),
    ((31415, 9265, 3589), (7932, 3846), 15855),
    ((12345, 23456, 7), (32748, 1), 21645),
    ((32748,) * 9, (32748,) * 8, 7),
    # A longer key than is needed.
    ((3, 5, 7, 9), (11, 13), 149),
)


def test_vectors():
    for key, limbs, found in VECTORS:
        assert multilinear(key, limbs) == found, (key, limbs)
        assert multilinear(list(key), list(limbs)) == found


# Task, pseudonym, group: of protocol/vectors/groups.json.
PLACES = (
    ("0000000000000000", "0000000000000000", 2204409),
    ("0000000000000000", "ffffffffffffffff", 13222236),
    ("ffffffffffffffff", "0000000000000000", 4834049),
    ("ffffffffffffffff", "ffffffffffffffff", 4862401),
    ("7461736b2d696421", "736f6d65626f6479", 6305754),
    ("7461736b2d696421", "736f6d65626f647a", 2283430),
    ("7461736b2d696422", "736f6d65626f6479", 6529081),
    ("457c769f39d86441", "99c0e5bdbcfbc85b", 5542353),
    ("37ce91cbde1fc1b0", "ea6b44f130436dd7", 3518823),
)


def test_groups():
    assert GROUPS == 512 * PRIME == 16767488
    for task, pseudonym, place in PLACES:
        assert group(unhex(task), unhex(pseudonym)) == place, (task, pseudonym)


def test_each_pair_of_hashes_has_one_key():
    """Of two inputs; so with a uniform key their hashes are uniform and independent."""
    for one, other in ((0, 1), (0, 32748), (7, 8), (32747, 32748)):
        for first, second in ((0, 0), (0, 1), (32748, 5), (1234, 32748)):
            # first = a + b * one and second = a + b * other, solved for a and b.
            b = (second - first) * inverse(other - one) % PRIME
            a = (first - b * one) % PRIME
            assert multilinear((a, b), (one,)) == first
            assert multilinear((a, b), (other,)) == second


def inverse(n):
    """By Fermat: n^(PRIME - 2), each product below 2^30."""
    result = 1
    for place in range(14, -1, -1):
        result = result * result % PRIME
        if (PRIME - 2) >> place & 1:
            result = result * (n % PRIME) % PRIME
    return result


def test_the_prime_is_one():
    for n in range(2, 182):
        assert PRIME % n
    assert PRIME < 1 << 15
    assert (PRIME - 1) * (PRIME - 1) + PRIME - 1 < 1 << 30
