"""hashing: literal vectors, and what holds for every key."""

from helpers import unhex

from tinyldp_protocol.hashing import GROUPS, PRIME, group, halfsiphash, multilinear

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


# Task, block, item, hash: of protocol/vectors/signs.json. The first one is published.
SIGNS = (
    ("0001020304050607", 50462976, 117835012, "d0b8848f"),
    ("0000000000000000", 0, 0, "4a7c189b"),
    ("ffffffffffffffff", 0, 0, "0c2d2a44"),
    ("0000000000000000", 1, 0, "61cd3895"),
    ("0000000000000000", 0, 1, "194f3d27"),
    ("7461736b2d696421", 3, 7, "c29dc611"),
    ("7461736b2d696421", 7, 3, "471eed92"),
    ("7461736b2d696421", 1023, 1048575, "e750d61c"),
    ("ffffffffffffffff", 1073741823, 1073741823, "85c697dd"),
    ("457c769f39d86441", 734, 60828, "4412b27d"),
    ("ff0d21d7db0b3377", 510, 108744, "aaa7f744"),
    ("3b6aa1e68d682728", 231, 779707, "5ea408a4"),
    ("a2e81478007152de", 504, 798507, "f6f4fc4c"),
    ("68e9338b87fe1a1a", 510, 27502, "b241db9f"),
    ("20db2ebba29a7b37", 835, 586117, "aa8d6fc3"),
    ("b1829c2e219c95ea", 797, 334714, "9f349051"),
    ("768b0dc357d311cc", 147, 291016, "cf7f6d11"),
)


def test_signs():
    out = [0, 0]
    for task, block, item, expected in SIGNS:
        halfsiphash(unhex(task), block, item, out)
        found = bytes([out[0] & 255, out[0] >> 8, out[1] & 255, out[1] >> 8])
        assert found == unhex(expected), (task, block, item)
