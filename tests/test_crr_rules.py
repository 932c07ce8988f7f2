"""The rules that make couplings: admissible always and exactly, and near what is best."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from tests.crr_beliefs import (
    ABSOLUTE,
    FRESH,
    HAMMING,
    LOSSES,
    SQUARED,
    cost_of,
    coupled,
    exceeding,
    kernel,
    least_kappa,
    loss_matrix,
    random_belief,
    shares,
    wrong,
)
from tinyldp_device.coupling import BELIEF, MODEL, Coupling
from tinyldp_protocol.task import MIN_ERROR, PRESERVE

RULES = (PRESERVE, MIN_ERROR)
# The least and the most noise that a Task may have, too.
EVERY_FRESH = (1, *sorted(FRESH.values()), MODEL - 1)
# Of the cost, over the largest loss: n symbols of which each number is rounded by one unit or less.
RESOLUTION = 8 / BELIEF
# All are rare with little noise, and the last ones can't be served.
SCANT = [11000, 10884, 10882, 1, 1]


def pairs(step: int) -> Iterator[list[int]]:
    """Beliefs about two symbols: around 0 and B/2 all, elsewhere one in `step`."""
    for first in range(1, BELIEF):
        near = min(first, BELIEF - first, abs(first - BELIEF // 2)) < 40
        if near or first % step == 0:
            yield [first, BELIEF - first]


def grid(symbols: int, parts: int) -> Iterator[list[int]]:
    """All beliefs in multiples of B / parts, and the same with a unit moved on."""
    unit = BELIEF // parts
    for others in product(range(parts + 1), repeat=symbols - 1):
        last = parts - sum(others)
        if last < 0 or max(*others, last) == parts:
            continue
        belief = [part * unit for part in (*others, last)]
        yield belief
        for x in range(symbols):
            moved = list(belief)
            moved[x] -= 1
            moved[(x + 1) % symbols] += 1
            if moved[x] > 0:
                yield moved


def check(belief: list[int], kind: type[Coupling] = Coupling) -> set[str]:
    """What is wrong with any coupling of a belief."""
    found = set()
    for rule in RULES:
        for loss in LOSSES if len(belief) > 2 else (HAMMING,):
            for fresh in EVERY_FRESH:
                found.add(wrong(coupled(belief, rule, loss, fresh, kind)))
    return found - {""}


def check_all(beliefs: Iterator[list[int]], kind: type[Coupling] = Coupling) -> set[str]:
    return set().union(*(check(belief, kind) for belief in beliefs))


def test_kappa_is_rounded_up() -> None:
    for fresh in EVERY_FRESH:
        assert coupled([1, BELIEF - 1], fresh=fresh).kappa == least_kappa(fresh)


def test_couplings_of_a_grid_are_admissible() -> None:
    assert check_all(pairs(500)) == set()
    assert check_all(grid(3, 8)) == set()
    assert check_all(grid(4, 4)) == set()


def test_couplings_of_random_beliefs_are_admissible() -> None:
    rng = np.random.default_rng(11)
    assert check_all(random_belief(rng, 8) for _ in range(80)) == set()


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_couplings_of_many_beliefs_are_admissible() -> None:
    assert check_all(pairs(1)) == set()
    assert check_all(grid(3, 64)) == set()
    assert check_all(grid(4, 16)) == set()
    assert check_all(grid(5, 8)) == set()
    rng = np.random.default_rng(12)
    assert check_all(random_belief(rng, 16) for _ in range(5000)) == set()


def test_what_is_admissible_keeps_the_bounds() -> None:
    """In fractions, for every row, also of symbols that the belief thinks impossible."""
    rng = np.random.default_rng(13)
    beliefs = [random_belief(rng, 6) for _ in range(60)]
    beliefs += [[BELIEF - 1, 1, 0], [0, 1, BELIEF - 1], [16384, 0, 16384, 0]]
    beliefs += [SCANT, [6553, 6553, 6553, 6554, 6553, 1, 1]]
    unserved = 0
    for belief in beliefs:
        for rule in RULES:
            for fresh in EVERY_FRESH:
                coupling = coupled(belief, rule, HAMMING, fresh)
                assert not exceeding(kernel(coupling), coupling), (belief, rule, fresh)
                unserved += coupling.total < BELIEF
    assert unserved


class LessNoise(Coupling):
    """K is rounded down."""

    def __init__(self, task) -> None:
        super().__init__(task)
        self.kappa -= 1


class Uncapped(Coupling):
    def _room(self, x: int, y: int) -> int:
        return BELIEF


class AllFrequent(Coupling):
    """The closed form of the paper, whatever is rare."""

    def _fit(self) -> int:
        for x in range(self.symbols):
            for y in range(self.symbols):
                self.joint[x * self.symbols + y] = self.served[x] if x == y else 0
        return -1


class Unserved(Coupling):
    """A symbol that can't be served tells the truth."""

    def _fit(self) -> int:
        Coupling.__dict__["_fit"](self)
        return -1


@pytest.mark.parametrize("kind", [LessNoise, Uncapped, AllFrequent, Unserved])
def test_planted_faults_are_found(kind: type[Coupling]) -> None:
    rng = np.random.default_rng(14)
    beliefs = [random_belief(rng, 4, 4) for _ in range(30)] + [SCANT]
    assert "caps" in check_all(iter(beliefs), kind)


def test_planted_faults_exceed_the_bounds() -> None:
    for kind in (LessNoise, Uncapped, AllFrequent):
        rng = np.random.default_rng(14)
        beliefs = [random_belief(rng, 4, 4) for _ in range(30)]
        couplings = (coupled(belief, fresh=FRESH[0.5], kind=kind) for belief in beliefs)
        assert any(exceeding(kernel(coupling), coupling) for coupling in couplings), kind


def test_a_row_of_zero_belief_must_not_tell_the_truth() -> None:
    coupling = coupled([20000, BELIEF - 20000, 0])
    chances = kernel(coupling)
    assert not exceeding(chances, coupling)
    assert chances[2] == [chances[2][0], 1 - chances[2][0], 0]
    chances[2] = [0 * chances[2][0]] * 2 + [1 + 0 * chances[2][0]]
    assert exceeding(chances, coupling)


def best(belief: list[int], loss: int, fresh: int, keep: bool) -> float:
    """The least expected loss, over the largest one, by linear programming.

    keep: the marginal of what is released is the belief. J_xy stands for beta_x times the
    remapping kernel: J_xy <= beta_x P_y / kappa.
    """
    n = len(belief)
    q = fresh / MODEL
    beta = np.array(belief) / BELIEF
    table = loss_matrix(n, loss)
    costs = (1 - q) * table + q * (beta @ table)
    sums = np.kron(np.eye(n), np.ones(n))
    # Caps do not depend on x where beta_x = 0, whose row is empty.
    caps = np.eye(n * n) - (1 + q) / q * np.kron(beta[:, None], np.tile(np.eye(n), n))
    columns = np.tile(np.eye(n), n)
    more = {"A_ub": caps, "b_ub": np.zeros(n * n)}
    if keep:
        most = np.minimum(1, beta * (1 + q) / q)
        more = {"bounds": np.stack([np.zeros(n * n), np.outer(beta, most).ravel()], 1)}
        # One of the columns follows from the others.
        sums = np.concatenate([sums, columns[1:]])
        beta = np.concatenate([beta, beta[1:]])
    found = linprog(costs.ravel(), A_eq=sums, b_eq=beta, method="highs", **more)
    assert found.status == 0
    return found.fun / table.max()


def test_the_reference_is_the_best_of_known_cases() -> None:
    """mechanisms' worked examples, epsilon 1, to the digits given."""
    fresh = 6028
    assert best([31130, 1638], HAMMING, fresh, False) == pytest.approx(0.05, abs=1e-3)
    assert best([31130, 1638], HAMMING, fresh, True) == pytest.approx(0.0864, abs=2e-4)


def best_of_family(belief: list[int], loss: int, fresh: int) -> float:
    """The best C_r: truth with 1 - s for the r most probable, else a sample of beta_y s_y."""
    n = len(belief)
    q = fresh / MODEL
    beta = np.array(belief) / BELIEF
    table = loss_matrix(n, loss)
    order = np.argsort(-beta, kind="stable")
    possible = int((beta > 0).sum())
    costs = []
    for r in range(1, possible + 1):
        kept = np.zeros(n, bool)
        kept[order[:r]] = True
        least = beta[kept].min()
        rest = beta[~kept].sum()

        def allowed(s: float, least=least, rest=rest, every=r == possible) -> bool:
            a = s * (1 - rest) + rest
            slack = 1e-13
            return (
                min(s * s, s) / a >= q - slack
                and (every or 1 / a <= 1 / q + slack)
                and 1 - s + s * s * least / a <= least / q + slack
            )

        low, high = 0.0, 1.0
        if not allowed(high):
            continue
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (low, middle) if allowed(middle) else (middle, high)
        weights = beta * np.where(kept, high, 1)
        costs.append((np.outer(weights, weights) / weights.sum() * table).sum())
    return min(costs) / table.max()


def gaps(count: int, most: int, seed: int) -> dict[tuple[int, float], list[float]]:
    """By loss and epsilon: costs of min_error above the best, for beliefs of up to `most`."""
    rng = np.random.default_rng(seed)
    found: dict[tuple[int, float], list[float]] = {}
    for _ in range(count):
        belief = random_belief(rng, most)
        for loss, (epsilon, fresh) in product(LOSSES, FRESH.items()):
            gap = cost_of(coupled(belief, MIN_ERROR, loss, fresh), loss)
            gap -= best(belief, loss, fresh, False)
            assert gap > -RESOLUTION
            if min(belief) >= least_kappa(fresh):
                assert gap < 1e-3, (belief, loss, epsilon)
            found.setdefault((loss, epsilon), []).append(gap)
    return found


def check_min_error(count: int, most: int, seed: int) -> None:
    found = gaps(count, most, seed)
    for (loss, epsilon), each in found.items():
        print(f"min_error loss {loss} epsilon {epsilon}: {max(each):.4f} {np.mean(each):.5f}")
    assert max(found[HAMMING, 1]) < 0.08
    assert max(found[HAMMING, 2] + found[HAMMING, 4]) < 0.025
    # What others' gaps were found to be, and half as much again.
    assert max(found[HAMMING, 0.5]) < 0.1
    assert max(found[ABSOLUTE, 1]) < 0.06
    assert max(found[SQUARED, 1]) < 0.1


def check_preserve(count: int, most: int, seed: int) -> None:
    """Never above the best C_r, nor far from the best that keeps the marginal."""
    rng = np.random.default_rng(seed)
    gap: dict[tuple[int, float], list[float]] = {}
    for _ in range(count):
        belief = random_belief(rng, most)
        for loss, (epsilon, fresh) in product(LOSSES, FRESH.items()):
            coupling = coupled(belief, PRESERVE, loss, fresh)
            kept = [abs(p - b) for p, b in zip(coupling.marginal, belief, strict=True)]
            assert max(kept) < len(belief)
            cost = cost_of(coupling, loss)
            assert cost <= best_of_family(belief, loss, fresh) + RESOLUTION, (belief, loss, fresh)
            gap.setdefault((loss, epsilon), []).append(cost - best(belief, loss, fresh, True))
            if min(belief) >= least_kappa(fresh):
                assert abs(gap[loss, epsilon][-1]) < 1e-3
    for (loss, epsilon), each in gap.items():
        print(f"preserve loss {loss} epsilon {epsilon}: {max(each):.4f} {np.mean(each):.5f}")
        assert min(each) > -RESOLUTION
        assert max(each) < 0.03


def test_min_error_is_near_the_best() -> None:
    check_min_error(25, 6, 21)


def test_preserve_is_near_the_best() -> None:
    check_preserve(40, 6, 22)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_thousand_beliefs() -> None:
    check_preserve(1000, 6, 23)
    check_min_error(1000, 8, 24)


def test_frequent_symbols_tell_the_truth_when_they_may() -> None:
    for rule in RULES:
        for n in (2, 3, 4):
            for loss in LOSSES:
                fresh = FRESH[4]
                coupling = coupled(shares(n, BELIEF), rule, loss, fresh)
                assert [coupling.joint[x * n + x] for x in range(n)] == list(coupling.belief)
