"""Frequencies of the oracles: unbiased, with the right variance, in intervals that cover."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, chi2, norm

from tests.collecting import rounds_task
from tests.estimating import make_oracle, make_reports, pack_olh
from tinyldp.coordinate import entry_task
from tinyldp.errors import UserError
from tinyldp.estimate import (
    expected_variance,
    frequencies,
    report_variance,
    support_chances,
    supports,
)
from tinyldp.estimate.chances import collision_chance
from tinyldp.estimate.tails import limits, saddle_tail, tail_sum
from tinyldp_protocol.hashing import PRIME
from tinyldp_protocol.task import GRR, LBA, OLH, OUE, SCALE, Task

# Each statistical test of what is right fails once in a million.
FALSE_ALARM = 1e-6

ORACLES = [
    make_oracle(GRR, 4, 1.0),
    make_oracle(GRR, 300, 3.0),
    make_oracle(OUE, 5, 1.0),
    make_oracle(OUE, 16, 4.0),
    make_oracle(OLH, 16, 1.0, 4),
    make_oracle(OLH, 40, 3.0, 300),
]
NAMES = [f"{ {GRR: 'grr', OUE: 'oue', OLH: 'olh'}[t.mechanism] }-{t.symbols}" for t in ORACLES]
each_oracle = pytest.mark.parametrize("task", ORACLES, ids=NAMES)


def plain_supports(task: Task, reports: np.ndarray) -> list[int]:
    """By the definition, one report and one value after the other."""
    counts = [0] * task.symbols
    for report in reports.tolist():
        for value in range(task.symbols):
            if task.mechanism == GRR:
                speaks = report == value
            elif task.mechanism == OUE:
                speaks = report[value // 8] >> value % 8 & 1
            else:
                a, b = report[0] + 256 * report[1], report[2] + 256 * report[3]
                bucket = report[4] + 256 * (report[5] if task.width == 6 else 0)
                speaks = (a + b * value) % PRIME % task.buckets == bucket
            counts[value] += bool(speaks)
    return counts


@each_oracle
def test_supports_by_the_definition(task: Task) -> None:
    rng = np.random.default_rng(1)
    reports = make_reports(task, rng.integers(0, task.symbols, 200), rng)
    assert supports(task, reports).tolist() == plain_supports(task, reports)
    assert supports(task, reports[:0]).tolist() == [0] * task.symbols


def test_supports_of_olh_over_many_chunks_and_all_keys() -> None:
    task = make_oracle(OLH, 3000, 1.0, 4)
    keys = np.arange(PRIME)
    reports = pack_olh(task, keys, keys[::-1], keys % 4)
    expected = [
        int(((keys + keys[::-1] * value) % PRIME % 4 == keys % 4).sum()) for value in (0, 1, 2999)
    ]
    assert supports(task, reports)[[0, 1, 2999]].tolist() == expected


def test_supports_of_grr_for_every_type_of_integer() -> None:
    task = make_oracle(GRR, 4, 1.0)
    for kind in (np.uint8, np.int8, np.uint16, np.int64, np.uint64):
        assert supports(task, np.array([0, 3, 3], dtype=kind)).tolist() == [1, 0, 0, 2]


@pytest.mark.parametrize(
    ("task", "reports", "sentence"),
    [
        (ORACLES[0], [0, 4], "outside 0..3"),
        (ORACLES[0], [0, -1], "outside 0..3"),
        (ORACLES[0], [0.5], "integers"),
        (ORACLES[0], [[1]], "shape"),
        (ORACLES[2], np.array([[32]], np.uint8), "no value"),
        (ORACLES[2], np.array([[1, 0]], np.uint8), "shape"),
        (ORACLES[2], [[1]], "bytes"),
        (ORACLES[4], np.array([[237, 127, 0, 0, 0]], np.uint8), "no device"),
        (ORACLES[4], np.array([[0, 0, 237, 127, 0]], np.uint8), "no device"),
        (ORACLES[4], np.array([[0, 0, 0, 0, 4]], np.uint8), "no device"),
        (ORACLES[5], np.array([[0, 0, 0, 0, 44, 1]], np.uint8), "no device"),
    ],
)
def test_wrong_reports(task: Task, reports: object, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as error:
        supports(task, reports)  # type: ignore[arg-type]
    assert str(error.value).count(".") <= 3
    assert str(error.value).endswith(".")


def test_last_valid_reports() -> None:
    supports(ORACLES[0], [3])
    supports(ORACLES[2], np.array([[31]], np.uint8))
    supports(ORACLES[4], np.array([[236, 127, 236, 127, 3]], np.uint8))
    supports(ORACLES[5], np.array([[0, 0, 0, 0, 43, 1]], np.uint8))


@pytest.mark.parametrize("buckets", [2, 3, 4, 7, 300, 4096])
def test_collisions_are_counted_exactly(buckets: int) -> None:
    sizes = np.bincount(np.arange(PRIME) % buckets)
    assert collision_chance(buckets) == Fraction(int((sizes**2).sum()), PRIME**2)
    assert collision_chance(buckets) > Fraction(1, buckets)


def test_collisions_over_every_key_of_a_small_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same formula with a small prime, against all keys: pairs of values, each way."""
    monkeypatch.setattr("tinyldp.estimate.chances.PRIME", 11)
    for buckets, (one, other) in itertools.product((2, 3, 5), ((0, 1), (3, 9), (10, 4))):
        same = sum(
            (a + b * one) % 11 % buckets == (a + b * other) % 11 % buckets
            for a in range(11)
            for b in range(11)
        )
        assert collision_chance(buckets) == Fraction(same, 121)


def enumerate_grr(task: Task, values: list[int]) -> list[tuple[Fraction, np.ndarray]]:
    """Every outcome of all reports, with its probability and its support counts."""
    lie = Fraction(task.thresholds[0], SCALE)
    truth = 1 - (task.symbols - 1) * lie
    outcomes = []
    for reports in itertools.product(range(task.symbols), repeat=len(values)):
        chance = math.prod(truth if r == v else lie for r, v in zip(reports, values, strict=True))
        outcomes.append((Fraction(chance), supports(task, list(reports))))
    return outcomes


def enumerate_oue(task: Task, values: list[int]) -> list[tuple[Fraction, np.ndarray]]:
    lie = Fraction(task.thresholds[0], SCALE)
    outcomes = []
    for reports in itertools.product(range(1 << task.symbols), repeat=len(values)):
        chance = Fraction(1)
        for report, own in zip(reports, values, strict=True):
            for value in range(task.symbols):
                on = Fraction(1, 2) if value == own else lie
                chance *= on if report >> value & 1 else 1 - on
        array = np.array(reports, dtype=np.uint8)[:, None]
        outcomes.append((chance, supports(task, array)))
    return outcomes


@pytest.mark.parametrize(
    ("task", "values"),
    [
        (make_oracle(GRR, 3, 1.0), [0, 0, 2]),
        (make_oracle(GRR, 2, 0.3), [0, 1, 1, 1]),
        (make_oracle(OUE, 3, 1.0), [1, 1]),
    ],
)
def test_unbiased_and_variance_by_enumeration(task: Task, values: list[int]) -> None:
    """Exact: over every outcome, the mean is the truth and the variance the formula."""
    n = len(values)
    enumerate_all = enumerate_grr if task.mechanism == GRR else enumerate_oue
    outcomes = enumerate_all(task, values)
    assert sum(chance for chance, _ in outcomes) == 1
    truth = np.bincount(values, minlength=task.symbols) / n
    chances = np.array([float(chance) for chance, _ in outcomes])
    raw = np.array([frequencies(task, counts, n).frequencies for _, counts in outcomes])
    assert chances @ raw == pytest.approx(truth, abs=1e-12)
    p, q = map(float, support_chances(task))
    exact = (truth * p * (1 - p) + (1 - truth) * q * (1 - q)) / (n * (p - q) ** 2)
    assert chances @ (raw - truth) ** 2 == pytest.approx(exact, rel=1e-10)
    assert expected_variance(task, n) == pytest.approx(exact.mean(), rel=1e-12)


@each_oracle
def test_simulated_means_and_variances(task: Task) -> None:
    """Reports in the device's form; fails where p or q is 0.7 or 1.3 times the true one."""
    rng = np.random.default_rng(7)
    n, rounds = 2000, 150
    values = np.where(rng.random(n) < 0.3, 1, rng.integers(0, task.symbols, n))
    truth = np.bincount(values, minlength=task.symbols) / n
    raw = []
    for _ in range(rounds):
        raw.append(
            frequencies(task, supports(task, make_reports(task, values, rng)), n).frequencies
        )
    p, q = map(float, support_chances(task))
    shares = truth[:2]
    exact = (shares * p * (1 - p) + (1 - shares) * q * (1 - q)) / (n * (p - q) ** 2)
    found = np.array(raw)[:, :2]
    z = (found.mean(axis=0) - shares) / np.sqrt(exact / rounds)
    worst = norm.isf(FALSE_ALARM / 4)
    assert np.abs(z).max() < worst
    for factor in (0.7, 1.3):
        wrong = (found * factor - shares).mean(axis=0) / np.sqrt(exact / rounds)
        assert np.abs(wrong).max() > worst
    total = ((found - shares) ** 2 / exact).sum(axis=0)
    lowest, highest = chi2.ppf([FALSE_ALARM / 4, 1 - FALSE_ALARM / 4], rounds)
    assert ((total > lowest) & (total < highest)).all()
    for factor in (0.4, 2.5):
        assert not ((total * factor > lowest) & (total * factor < highest)).all()


def covered(task: Task, truth: float, n: int, spread: float = 1.0) -> tuple[int, float]:
    """(seeds of 1,000 whose interval covers, widest interval over its normal one).

    The normal interval has the variance at that seed's estimate. spread: factor on
    the half-widths, to show that the test can fail.
    """
    rng = np.random.default_rng(17)
    p, q = map(float, support_chances(task))
    m = round(truth * n)
    counts = rng.binomial(m, p, 1000) + rng.binomial(n - m, q, 1000)
    low, high = (limit / n for limit in limits(counts, n, p, q, 0.025))
    middle, half = (low + high) / 2, (high - low) / 2 * spread
    covers = (middle - half <= m / n) & (m / n <= middle + half)
    share = np.clip((counts / n - q) / (p - q), 0, 1)
    variance = (share * p * (1 - p) + (1 - share) * q * (1 - q)) / (n * (p - q) ** 2)
    normal = norm.isf(0.025) * np.sqrt(variance)
    return int(covers.sum()), float((half / normal).max())


@pytest.mark.parametrize("n", [10, 1000, 10**6])
@pytest.mark.parametrize("truth", [0, 0.01, 0.5, 1])
@each_oracle
def test_intervals_cover_and_are_narrow(task: Task, truth: float, n: int) -> None:
    """917 of 1,000: with 95 %, fewer come once in a million."""
    assert binom.cdf(916, 1000, 0.95) < 5e-6
    seeds, width = covered(task, truth, n)
    assert seeds >= 917
    if n >= 1000:
        assert width <= 1.5


def test_intervals_of_half_the_width_do_not_cover() -> None:
    assert covered(ORACLES[0], 0.5, 10**6, spread=0.7)[0] < 917


def test_a_binomial_would_be_too_wide() -> None:
    """Why the exact law: Clopper-Pearson's widths at p near 1 and f = 1/2."""
    p = float(support_chances(make_oracle(GRR, 2, 3.0))[0])
    assert 0.5 / math.sqrt(p * (1 - p)) > 1.5
    assert covered(make_oracle(GRR, 2, 3.0), 0.5, 1000)[1] < 1.15


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.27), (0.5, 0.001), (0.98, 0.02), (0.02, 0.01)])
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_limits_are_the_exact_ones(n: int, p: float, q: float) -> None:
    """Every m and every count: inside exactly if neither tail rules it out."""
    laws = []
    for m in range(n + 1):
        law = np.convolve(
            binom.pmf(np.arange(m + 1), m, p), binom.pmf(np.arange(n - m + 1), n - m, q)
        )
        laws.append(law)
        for count in range(n + 1):
            upper, lower = law[count:].sum(), law[: count + 1].sum()
            assert tail_sum(m, count, n, p, q, True) == pytest.approx(upper, abs=1e-12)
            assert tail_sum(m, count, n, p, q, False) == pytest.approx(lower, abs=1e-12)
    least, most = limits(np.arange(n + 1), n, p, q, 0.025)
    for m, law in enumerate(laws):
        inside = [least[count] <= m <= most[count] for count in range(n + 1)]
        assert law[inside].sum() >= 0.95
        for count in range(n + 1):
            possible = min(law[count:].sum(), law[: count + 1].sum()) > 0.025
            assert inside[count] >= possible


def test_approximate_tails_against_exact_sums() -> None:
    """Where the variance is 64 or more: right to 2e-4; nearer to 0 it would not do."""
    rng = np.random.default_rng(3)
    worst = 0.0
    crude = 0.0
    for _ in range(400):
        n = int(10 ** rng.uniform(2.5, 4.5))
        q = 10 ** rng.uniform(-4, -0.4)
        p = rng.uniform(q, 1)
        m = int(n * rng.choice([0, 0.02, rng.random(), 1]))
        variance = m * p * (1 - p) + (n - m) * q * (1 - q)
        for away in (-2.4, -1.96, 1.96, 2.4):
            count = round(m * p + (n - m) * q + away * math.sqrt(variance))
            if not 1 <= count < n:
                continue
            upper = away > 0
            exact = tail_sum(m, count, n, p, q, upper)
            near = saddle_tail(np.array([float(m)]), np.array([float(count)]), n, p, q, upper)[0]
            if not 0.003 < exact < 0.06:
                continue
            if variance >= 64:
                worst = max(worst, abs(near / exact - 1))
            else:
                crude = max(crude, abs(near / exact - 1))
    assert worst < 2e-4
    assert crude > 1e-3


def test_limits_meet_where_one_method_follows_the_other() -> None:
    """The exact limits and the approximate ones, for the same counts."""
    n, p, q = 4000, 0.5, 0.02
    counts = np.arange(60, 300, 3)
    least, most = limits(counts, n, p, q, 0.025)
    for count, low, high in zip(counts.tolist(), least, most, strict=True):
        if low >= 1:
            assert tail_sum(math.ceil(low), count, n, p, q, True) > 0.025 * 0.998
            assert tail_sum(math.ceil(low) - 1, count, n, p, q, True) < 0.025
        if 0 < high < n:
            assert tail_sum(math.floor(high), count, n, p, q, False) > 0.025 * 0.998
            assert tail_sum(math.floor(high) + 1, count, n, p, q, False) < 0.025


def test_estimate_is_raw() -> None:
    task = make_oracle(OUE, 5, 1.0)
    estimate = frequencies(task, [0, 1000, 0, 0, 0], 1000)
    assert estimate.frequencies.min() < 0
    assert estimate.frequencies.max() > 1
    assert (estimate.low >= 0).all()
    assert (estimate.high <= 1).all()
    assert (estimate.low <= estimate.high).all()
    assert (estimate.variances > 0).all()
    assert (estimate.n, estimate.confidence) == (1000, 0.95)


def test_wider_for_more_confidence() -> None:
    task = make_oracle(GRR, 4, 1.0)
    widths = []
    for confidence in (0.5, 0.9, 0.95, 0.9999):
        estimate = frequencies(task, [300, 300, 200, 200], 1000, confidence)
        widths.append(estimate.high[0] - estimate.low[0])
    assert widths == sorted(widths)
    assert len(set(widths)) == 4


@pytest.mark.parametrize(
    ("counts", "n", "confidence", "sentence"),
    [
        ([0, 0, 0, 0], 0, 0.95, "There are no reports"),
        ([0, 0, 0, 0], -3, 0.95, "There are no reports"),
        ([1, 0, 0], 1, 0.95, "4 integers"),
        ([1.0, 0, 0, 0], 1, 0.95, "4 integers"),
        ([2, 0, 0, 0], 1, 0.95, "outside 0..1"),
        ([-1, 0, 0, 0], 1, 0.95, "outside 0..1"),
        ([1, 0, 0, 0], 1, 1.0, "confidence"),
        ([1, 0, 0, 0], 1, 0.2, "confidence"),
        ([1, 0, 0, 0], 1, math.nan, "confidence"),
    ],
)
def test_wrong_counts(counts: list, n: int, confidence: float, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        frequencies(make_oracle(GRR, 4, 1.0), counts, n, confidence)


def test_only_for_oracles() -> None:
    from tests.collecting import make_task

    for call in (
        support_chances,
        lambda task: supports(task, [1]),
        lambda task: expected_variance(task, 5),
    ):
        with pytest.raises(UserError, match="GRR, OUE and OLH"):
            call(make_task())


def test_rounds_are_estimated_by_entry() -> None:
    """Of many thresholds the first one would be a silent mistake."""
    task = rounds_task(LBA)
    for call in (
        support_chances,
        report_variance,
        lambda task: expected_variance(task, 5),
        lambda task: frequencies(task, [5, 0, 0, 0], 5),
    ):
        with pytest.raises(ValueError, match="entry_task"):
            call(task)
        assert call(entry_task(task, 1)) is not None


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("symbols", [2, 16, 128])
def test_expected_variance_in_epsilon(symbols: int, epsilon: float) -> None:
    """Near the formulas in epsilon, which the integers approach from the private side."""
    n = 1000
    e = math.exp(epsilon)
    grr = (symbols - 2 + e) / (n * (e - 1) ** 2) + (symbols - 2) / (symbols * n * (e - 1))
    oue = 4 * e / (n * (e - 1) ** 2) + 1 / (symbols * n)
    for mechanism, formula in ((GRR, grr), (OUE, oue)):
        found = expected_variance(make_oracle(mechanism, symbols, epsilon), n)
        assert formula * (1 - 1e-12) <= found <= formula * 1.005
    with pytest.raises(UserError, match="no reports"):
        expected_variance(make_oracle(GRR, symbols, epsilon), 0)
