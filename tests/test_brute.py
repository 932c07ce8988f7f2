"""The reference laws against figures found by hand, against each other, and with planted faults."""

from fractions import Fraction
from itertools import pairwise, permutations, product
from math import prod

import pytest

from tests.oracle.brute import jittersort, oracles, switching

F = Fraction
Q = F(3, 25)


def ranswitch_delta(W: int, k: int, q: F, exp_eps: F) -> F:
    """Closed form for RanSwitch."""
    p = 1 - (W - 1) * q
    apart = 1 - (1 - q) ** (k - 1)
    return apart + (1 - apart) * max(F(0), (p - exp_eps * q) / (p + q))


# Switching ---------------------------------------------------------------------------------------


def test_one_step_by_hand():
    """Three values, three slots, q = 1/10; only the first step draws nothing again."""
    law = switching.distribution("ranswitch", 3, 3, 1, "abc", scale=10)
    assert law == {
        ("a", "b", "c"): F(8, 10) * F(8, 9),
        ("a", "c", "b"): F(8, 10) * F(1, 9),
        ("b", "a", "c"): F(1, 10) * F(8, 9),
        ("b", "c", "a"): F(1, 10) * F(1, 9),
        ("c", "b", "a"): F(1, 10) * F(8, 9),
        ("c", "a", "b"): F(1, 10) * F(1, 9),
    }


def test_no_value_of_staswitch_is_too_late_by_hand():
    """k = 2, q = 1/4: a value one step late is released at once."""
    law = switching.distribution("staswitch", 2, 2, 1, "abc", scale=4)
    assert law == {
        ("a", "b", "c"): F(3, 4) * F(3, 4),
        ("a", "c", "b"): F(3, 4) * F(1, 4),
        ("b", "a", "c"): F(1, 4),
    }
    assert ("b", "c", "a") in switching.distribution("ranswitch", 2, 2, 1, "abc", scale=4)


def test_published_delta_of_ranswitch_fails():
    """k = 3, q = 1/10: "3 is among the first two released" has 19/100 against 0."""
    law = switching.distribution("ranswitch", 3, 3, 1, (1, 2, 3, 4, 5), scale=10)
    other = switching.distribution("ranswitch", 3, 3, 1, (1, 2, 5, 4, 3), scale=10)
    assert sum(p for released, p in law.items() if 3 in released[:2]) == F(19, 100)
    assert not any(3 in released[:2] for released in other)
    assert switching.delta(law, other, F(8)) == F(19, 100)


def test_published_epsilon_of_ranswitch_fails():
    """k = 2, q = 1/4: the whole stream (1, 2) has 3/4 against 1/4."""
    law = switching.distribution("ranswitch", 2, 2, 1, (1, 2), scale=4)
    other = switching.distribution("ranswitch", 2, 2, 1, (2, 1), scale=4)
    assert (law[1, 2], other[1, 2]) == (F(3, 4), F(1, 4))


def ring_buffer(kind: str, W: int, stream: range, draws: tuple[int, ...]) -> tuple | None:
    """Switch in a real ring with slot numbers; None if a draw points past the end."""
    n = len(stream)
    slots: list = [None] * W
    due_late = [0] * W
    for t in range(min(W, n)):
        slots[t] = stream[t]
    released = []
    for t, d in enumerate(draws):
        i = t % W
        if kind == "staswitch" and d > W - 1 - due_late[i]:
            d = 0
        if t + d >= n:
            return None
        j = (i + d) % W
        if d:
            slots[i], slots[j] = slots[j], slots[i]
            due_late[j] = due_late[i] + d
        released.append(slots[i])
        slots[i] = stream[t + W] if t + W < n else None
        due_late[i] = 0
    return tuple(released)


@pytest.mark.parametrize(("kind", "W"), [("ranswitch", 3), ("staswitch", 3), ("ranswitch", 4)])
def test_enumeration_agrees_with_a_ring_of_numbered_slots(kind: str, W: int):
    """The ring is stepped by slot number over all draws before the flush; compare prefixes."""
    n, scale = W + 3, 13
    stream = range(n)
    steps = n - W + 1
    prefixes: dict[tuple, F] = {}
    for draws in product(range(W), repeat=steps):
        released = ring_buffer(kind, W, stream, draws)
        assert released is not None
        chance = prod(
            (F(scale - W + 1, scale) if d == 0 else F(1, scale) for d in draws), start=F(1)
        )
        prefixes[released] = prefixes.get(released, F(0)) + chance
    enumerated: dict[tuple, F] = {}
    for released, chance in switching.distribution(
        kind, W, 2 if W > 3 else W, 1, stream, scale
    ).items():
        prefix = released[:steps]
        enumerated[prefix] = enumerated.get(prefix, F(0)) + chance
    assert enumerated == prefixes


@pytest.mark.parametrize(
    ("kind", "W", "k", "n"),
    [
        ("ranswitch", 2, 2, 6),
        ("ranswitch", 3, 3, 7),
        ("ranswitch", 5, 2, 6),
        ("ranswitch", 4, 4, 6),
        ("staswitch", 2, 2, 8),
        ("staswitch", 3, 3, 7),
        ("staswitch", 4, 4, 7),
    ],
)
@pytest.mark.parametrize("fault", [None, "flush stays"])
def test_joint_steps_agree_with_all_paths(kind: str, W: int, k: int, n: int, fault: str | None):
    """The stepwise pair law gives the same delta as whole output distributions, in both orders."""
    switch = switching.make_switch(kind, W, k, 3, 23, fault)
    law = switching.distribution(kind, W, k, 3, range(n), 23, fault)
    for i, j in switching.neighbours(n, k):
        exchanged = list(range(n))
        exchanged[i], exchanged[j] = j, i
        other = switching.distribution(kind, W, k, 3, exchanged, 23, fault)
        for exp_eps in (F(1), F(5, 4), F(4)):
            both = switching.delta(law, other, exp_eps), switching.delta(other, law, exp_eps)
            pairs = switching.pair_law(switch, n, i, j)
            assert switching.pairs_delta(pairs, exp_eps) == max(both)


@pytest.mark.parametrize(("W", "k"), [(2, 2), (3, 3), (4, 4), (3, 2), (5, 3), (7, 4)])
def test_ranswitch_has_its_closed_form(W: int, k: int):
    """From `long_enough` on, at, below and above the loss ln(p/q), and not one value earlier."""
    scale = 31
    p, q = F(scale - 3 * (W - 1), scale), F(3, scale)
    n = switching.long_enough("ranswitch", W, k)
    for exp_eps in (F(1), F(2), p / q, p / q + 1):
        expected = ranswitch_delta(W, k, q, exp_eps)
        for length in (n, n + 2):
            found = switching.worst_delta("ranswitch", W, k, 3, exp_eps, length, scale)
            assert found == expected
    assert switching.worst_delta("ranswitch", W, k, 3, F(2), n - 1, scale) < ranswitch_delta(
        W, k, q, F(2)
    )


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("threshold", [2, 7])
def test_staswitch_has_converged(k: int, threshold: int):
    """From `long_enough` on the worst delta is that of (k-1, 2k-2), whatever the length."""
    n = switching.long_enough("staswitch", k, k)
    switch = switching.make_switch("staswitch", k, k, threshold, 41)
    pairs = sorted(switching.pair_law(switch, n, k - 1, 2 * k - 2))
    for longer in range(n, 3 * k + 5):
        assert sorted(switching.pair_law(switch, longer, k - 1, 2 * k - 2)) == pairs
        for exp_eps in (F(1), F(3), F(41 - (k - 1) * threshold, threshold) - F(1, 2), F(20)):
            found = switching.worst_delta("staswitch", k, k, threshold, exp_eps, longer, 41)
            assert found == switching.pairs_delta(pairs, exp_eps)
    assert sorted(switching.pair_law(switch, n - 1, k - 1, 2 * k - 2)) != pairs


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("exp_eps", [F(1), F(3), F(40)])
@pytest.mark.parametrize("kind", ["ranswitch", "staswitch"])
def test_no_switch_beats_the_bound_for_all(kind: str, k: int, exp_eps: F):
    """Any permutation with look-ahead k-1 has delta >= (k-1)/(e^epsilon + k^2 - 1)."""
    bound = F(k - 1) / (exp_eps + k * k - 1)
    for threshold in (1, 3, 9):
        n = switching.long_enough(kind, k, k)
        assert switching.worst_delta(kind, k, k, threshold, exp_eps, n, 40) >= bound


@pytest.mark.parametrize("k", [2, 3, 4])
def test_staswitch_regularities(k: int):
    """Infinite ratios: at most 1-(1-q)^(2(k-1)); the largest finite one is known for k = 2, 4.

    Far from the flush: there it is larger, though delta is not.
    """
    p, q = 1 - (k - 1) * F(3, 40), F(3, 40)
    switch = switching.make_switch("staswitch", k, k, 3, 40)
    largest = F(1)
    for i, j in switching.neighbours(3 * k, k):
        law = switching.pair_law(switch, 5 * k, i, j)
        assert sum(a for a, b in law if b == 0) <= 1 - (1 - q) ** (2 * (k - 1))
        largest = max(largest, *(max(a / b, b / a) for a, b in law if a and b))
    assert (largest == (1 - q) ** 2 / (q * (p + q))) == (k != 3)


def test_displacement_of_ranswitch():
    """P_j = q(1-q)^(k-1+j) for 0 < |j| < k and P_0 = p(1-q)^(k-1)."""
    k, q = 4, Q
    law = switching.displacement_law("ranswitch", k, k, 3, 16, 8, scale=25)
    assert sum(law.values()) == 1
    for j in (-3, -2, -1, 1, 2, 3):
        assert law[j] == q * (1 - q) ** (k - 1 + j)
    assert law[0] == (1 - 3 * q) * (1 - q) ** (k - 1)


def test_displacement_of_staswitch():
    """k = 4, q = .12: the independence approximation is within 2 % of the exact law."""
    law = switching.displacement_law("staswitch", 4, 4, 3, 80, 40, scale=25)
    published = (0.0879, 0.0898, 0.0897, 0.4688, 0.0851, 0.0880, 0.0907)
    assert sorted(law) == [-3, -2, -1, 0, 1, 2, 3]
    assert sum(law.values()) == 1
    assert sum(j * p for j, p in law.items()) == pytest.approx(0, abs=1e-9)
    for j, figure in zip(range(-3, 4), published, strict=True):
        assert float(law[j]) == pytest.approx(figure, rel=0.02)


@pytest.mark.parametrize("k", [3, 4])
def test_flush_that_stays_is_seen(k: int):
    """It costs RanSwitch its guarantee: at ln(p/q) there is more than 1-(1-q)^(k-1).

    (k = 2 has nothing to draw again but at the last value.)
    """
    p, q = F(31 - 3 * (k - 1), 31), F(3, 31)
    n = switching.long_enough("ranswitch", k, k) + 2
    found = switching.worst_delta("ranswitch", k, k, 3, p / q, n, 31, "flush stays")
    assert found > ranswitch_delta(k, k, q, p / q)


@pytest.mark.parametrize("k", [3, 4])
def test_age_that_does_not_travel_is_seen(k: int):
    """It breaks the cap on delay and changes delta."""
    n = switching.long_enough("staswitch", k, k)
    deltas = [
        switching.worst_delta("staswitch", k, k, 3, F(4), n, 31, fault)
        for fault in (None, "age stays")
    ]
    assert deltas[0] != deltas[1]
    late = [
        max(t - v for released in law for t, v in enumerate(released))
        for law in (
            switching.distribution("staswitch", k, k, 3, range(2 * k), 31, fault)
            for fault in (None, "age stays")
        )
    ]
    assert late[0] == k - 1 < late[1]


# JitterSort --------------------------------------------------------------------------------------


def test_two_values_by_hand():
    """c = (2, 1)/4: the second is first if its key is smaller (1/16) or wins a tie (1/4 halved)."""
    law = jittersort.distribution((2, 1), "ab", scale=4)
    assert law == {("a", "b"): F(13, 16), ("b", "a"): F(3, 16)}
    assert jittersort.worst_order_delta((2, 1), 2, F(1), 2, scale=4) == F(10, 16)
    assert jittersort.worst_order_delta((2, 1), 2, F(4), 2, scale=4) == F(1, 16)


def test_pairs_by_hand():
    """c = (2, 1)/4, one apart: 7/16 can come of one stream only, 3/16 more is 1/4 against 1/16."""
    assert jittersort.worst_pairs_delta((2, 1), 2, F(4), scale=4) == F(7, 16)
    assert jittersort.worst_pairs_delta((2, 1), 2, F(1), scale=4) == F(10, 16)
    assert jittersort.worst_pairs_delta((2, 1), 4, F(9), scale=4) == 1


def sorted_law(weights: tuple[int, ...], n: int, scale: int) -> dict[tuple, F]:
    """Sort the whole stream by key, ties in uniform order: no heap, no time."""
    jitter = jittersort.jitter(weights, scale)
    law: dict[tuple, F] = {}
    for offsets in product(jitter, repeat=n):
        keys = [t + z for t, z in enumerate(offsets)]
        chance = prod((F(jitter[z], scale) for z in offsets), start=F(1))
        orders = [
            order
            for order in permutations(range(n))
            if all(keys[a] <= keys[b] for a, b in pairwise(order))
        ]
        for order in orders:
            law[order] = law.get(order, F(0)) + chance / len(orders)
    return law


@pytest.mark.parametrize(("weights", "n"), [((2, 1), 5), ((5, 1), 4), ((3, 2, 1), 4)])
def test_heap_gives_the_order_of_a_full_sort(weights: tuple[int, ...], n: int):
    scale = weights[0] + 2 * sum(weights[1:])
    heap = jittersort.distribution(weights, range(n), scale)
    assert heap == {order: p for order, p in sorted_law(weights, n, scale).items() if p}


def set_law(weights: tuple[int, ...], stream: list[int], scale: int) -> dict[tuple, F]:
    """Law of the set of (value, key) pairs, all keys enumerated."""
    jitter = jittersort.jitter(weights, scale)
    law: dict[tuple, F] = {}
    for offsets in product(jitter, repeat=len(stream)):
        pairs = tuple(
            sorted((v, t + z) for t, (v, z) in enumerate(zip(stream, offsets, strict=True)))
        )
        law[pairs] = prod((F(jitter[z], scale) for z in offsets), start=F(1))
    return law


@pytest.mark.parametrize("exp_eps", [F(1), F(3, 2), F(4)])
def test_pairs_agree_with_whole_sets(exp_eps: F):
    for weights, scale in (((2, 1), 4), ((4, 2, 1), 10)):
        law = set_law(weights, [0, 1, 2], scale)
        for exchanged, distance in (([1, 0, 2], 1), ([2, 1, 0], 2)):
            other = set_law(weights, exchanged, scale)
            expected = jittersort.pairs_delta(weights, distance, exp_eps, scale)
            assert switching.delta(law, other, exp_eps) == expected
            assert switching.delta(other, law, exp_eps) == expected


@pytest.mark.parametrize(("weights", "k"), [((2, 1), 2), ((3, 2, 1), 3), ((7, 4, 2), 4)])
@pytest.mark.parametrize("exp_eps", [F(1), F(2), F(6)])
def test_order_tells_less_than_the_pairs(weights: tuple[int, ...], k: int, exp_eps: F):
    """And delta grows with the stream; repeated values stay below distinct ones."""
    scale = weights[0] + 2 * sum(weights[1:])
    deltas = [jittersort.worst_order_delta(weights, k, exp_eps, n, scale) for n in range(k, 7)]
    assert deltas == sorted(deltas)
    assert deltas[-1] <= jittersort.worst_pairs_delta(weights, k, exp_eps, scale)
    law = jittersort.distribution(weights, "aabab", scale)
    other = jittersort.distribution(weights, "abaab", scale)
    distinct = jittersort.order_delta(weights, 5, 1, 2, exp_eps, scale)
    assert switching.delta(law, other, exp_eps) <= distinct


def test_order_is_symmetric():
    """Both orders of two neighbouring streams have one delta."""
    law = jittersort.distribution((3, 2, 1), (0, 1, 2, 3), scale=9)
    other = jittersort.distribution((3, 2, 1), (0, 3, 2, 1), scale=9)
    expected = jittersort.order_delta((3, 2, 1), 4, 1, 3, F(2), scale=9)
    assert switching.delta(law, other, F(2)) == switching.delta(other, law, F(2)) == expected


def test_ties_by_arrival_are_seen():
    """c = (2, 1)/4: all of the tie's 1/4 then speaks for the order of arrival, 15/16 to 1/16."""
    fault = "ties by arrival"
    law = jittersort.distribution((2, 1), "ab", 4, fault)
    assert law == {("a", "b"): F(15, 16), ("b", "a"): F(1, 16)}
    for weights in ((2, 1), (3, 2, 1)):
        scale = weights[0] + 2 * sum(weights[1:])
        sound = jittersort.worst_order_delta(weights, 2, F(4), 5, scale)
        assert jittersort.worst_order_delta(weights, 2, F(4), 5, scale, fault) > sound


# Frequency oracles -------------------------------------------------------------------------------


def expected_variance(p: F, q: F, n: int, d: int) -> F:
    """Variance averaged over the domain; exact, since the frequencies sum to 1."""
    return q * (1 - q) / (n * (p - q) ** 2) + (1 - p - q) / (d * n * (p - q))


def test_matrices_by_hand():
    assert oracles.grr(3, 1, 10) == [
        {0: F(8, 10), 1: F(1, 10), 2: F(1, 10)},
        {0: F(1, 10), 1: F(8, 10), 2: F(1, 10)},
        {0: F(1, 10), 1: F(1, 10), 2: F(8, 10)},
    ]
    assert oracles.oue(2, 1, 10)[0] == {
        (0, 0): F(9, 20),
        (0, 1): F(1, 20),
        (1, 0): F(9, 20),
        (1, 1): F(1, 20),
    }
    # (1 + 2v) % 5 % 2 for v = 0, 1, 2: 1, 1, 0.
    assert oracles.olh(3, 2, 1, (1, 2), 10, prime=5) == [
        {0: F(1, 10), 1: F(9, 10)},
        {0: F(1, 10), 1: F(9, 10)},
        {0: F(9, 10), 1: F(1, 10)},
    ]


def test_rows_are_laws():
    for matrix in (
        oracles.grr(5, 999_999),
        oracles.oue(4, 999_999),
        oracles.olh(6, 3, 999_999, (12, 30_000)),
        oracles.olh_keyed(3, 2, 1, 5, 7),
    ):
        assert all(sum(row.values()) == 1 for row in matrix)


def test_likelihood_ratios():
    """GRR and OLH: truth over lie; OUE: (1-q)/q, as the true bit is kept with 1/2."""
    T, N = 1_000_003, 1 << 24
    assert oracles.largest_ratio(oracles.grr(4, T)) == F(N - 3 * T, T)
    assert oracles.largest_ratio(oracles.oue(3, T)) == F(N - T, T)
    assert oracles.largest_ratio(oracles.olh_keyed(3, 2, T, 5)) == F(N - T, T)
    assert oracles.largest_ratio(oracles.olh(3, 2, T, (7, 0))) == 1
    assert oracles.largest_ratio([{0: F(1)}, {1: F(1)}]) is None


def test_collision_probability_by_enumeration():
    """Every pair of values, every key, for small primes; about 1/g for the real one."""
    for prime, g in ((5, 2), (7, 3), (11, 4)):
        for v, w in ((0, 1), (1, 4), (2, 3)):
            equal = sum(
                oracles.olh_hash(v, g, (a, b), prime) == oracles.olh_hash(w, g, (a, b), prime)
                for a, b in product(range(prime), range(prime))
            )
            assert F(equal, prime**2) == oracles.collision_probability(g, prime)
    assert float(oracles.collision_probability(4)) == pytest.approx(1 / 4, rel=1e-8)


@pytest.mark.parametrize("name", ["grr", "oue", "olh"])
@pytest.mark.parametrize("users", [(0,), (0, 0, 2), (2, 1, 1, 0)])
def test_estimates_are_unbiased_with_the_known_variance(name: str, users: tuple[int, ...]):
    d, n, scale = 3, len(users), 11
    if name == "grr":
        laws = oracles.support_laws(oracles.grr(d, 2, scale), lambda r: oracles.grr_supports(d, r))
        p, q = F(7, 11), F(2, 11)
    elif name == "oue":
        laws = oracles.support_laws(oracles.oue(d, 2, scale), lambda r: oracles.oue_supports(d, r))
        p, q = F(1, 2), F(2, 11)
    else:
        prime, g = 7, 2
        matrix = oracles.olh_keyed(d, g, 2, prime, scale)
        laws = oracles.support_laws(matrix, lambda r: oracles.olh_supports(d, g, r, prime))
        same = oracles.collision_probability(g, prime)
        p = F(9, 11)
        q = same * p + (1 - same) * F(2, 11)
    for x, v in product(range(d), repeat=2):
        assert oracles.support_probability(laws, x, v) == (p if x == v else q)
    means, variances = oracles.estimate_moments(laws, users, p, q)
    assert means == [F(users.count(v), n) for v in range(d)]
    assert sum(variances) / d == expected_variance(p, q, n, d)
    wrong, _ = oracles.estimate_moments(laws, users, p, q + F(1, 100))
    assert wrong != means
