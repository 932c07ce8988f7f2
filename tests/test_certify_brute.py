"""Certificates against brute force, on random settings: equal, or for JitterSort not below.

The brute force is tests/oracle/brute, which shares no code with what it checks.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from types import ModuleType

import pytest

from tests.certifying import oracle
from tests.collecting import make_task
from tests.faults import planted
from tests.oracle.brute import jittersort, oracles, switching
from tinyldp.certify import certify, issue
from tinyldp.certify import jittersort as certified_jittersort
from tinyldp.certify import oracles as certified_oracles
from tinyldp.certify import ranswitch as certified_ranswitch
from tinyldp.certify import staswitch as certified_staswitch
from tinyldp.certify.bounds import exp_bounds, log_upper
from tinyldp_protocol.task import GRR, JITTERSORT, OLH, OUE, RANSWITCH, SCALE, STASWITCH, Task

SETTINGS = 200


def threshold(rng: random.Random, slots: int) -> int:
    """Any probability up to 1/slots, small and coarse ones as often as others."""
    unit = rng.choice((1, SCALE >> 12, SCALE >> 6))
    most = SCALE // slots // unit
    return unit * rng.randint(1, rng.choice((most, max(1, most // 20))))


def epsilon(rng: random.Random) -> int:
    """From nothing to beyond the largest finite ratio, in 2^-16."""
    return rng.randint(1, rng.choice((1, 4, 10)) << 16)


def weights(rng: random.Random, reach: int) -> list[int]:
    """A law over -reach..reach, of any shape; falling away from the middle half of the time."""
    outer = [threshold(rng, 2 * reach + 1) for _ in range(reach)]
    if rng.random() < 0.5:
        outer.sort(reverse=True)
    return [SCALE - 2 * sum(outer), *outer]


def check_switching(seed: int, kind: str) -> None:
    rng = random.Random(seed)
    k = rng.choice((2, 3, 3, 4))
    wide = rng.randint(0, 2) if kind == "ranswitch" and k < 4 else 0
    task = make_task(
        mechanism=RANSWITCH if kind == "ranswitch" else STASWITCH,
        window=k + wide,
        k=k,
        thresholds=[threshold(rng, k + wide)],
        epsilon=epsilon(rng),
    )
    low, high = exp_bounds(Fraction(int(task.epsilon or 0), 1 << 16))
    length = switching.long_enough(kind, k + wide, k)

    def enumerated(factor: Fraction) -> Fraction:
        return switching.worst_delta(kind, k + wide, k, task.thresholds[0], factor, length)

    certificate = certify(task)
    # Nothing is rounded but e^epsilon, and that upward.
    assert certificate.delta == enumerated(low)
    assert certificate.delta >= enumerated(high)
    for point, delta in certificate.curve[1::3]:
        assert delta == enumerated(exp_bounds(point)[0])


def check_jittersort(seed: int) -> None:
    rng = random.Random(seed)
    reach = rng.choice((1, 1, 1, 2))
    k = rng.choice((2, 3, 4))
    task = make_task(
        mechanism=JITTERSORT,
        window=2 * reach + 1,
        k=k,
        thresholds=weights(rng, reach),
        epsilon=epsilon(rng),
    )
    low, high = exp_bounds(Fraction(int(task.epsilon or 0), 1 << 16))
    certificate = certify(task)
    assert certificate.delta == jittersort.worst_pairs_delta(task.thresholds, k, low)
    length = k + 2 if reach == 1 else k + 1
    assert certificate.delta >= jittersort.worst_order_delta(task.thresholds, k, high, length)


def check_oracle(task: Task, matrix: list[oracles.Row]) -> None:
    certificate = certify(task)
    ratio = oracles.largest_ratio(matrix)
    assert ratio is not None
    assert certificate.epsilon == log_upper(ratio)
    zero = Fraction(0)
    for point, delta in certificate.curve:
        low = exp_bounds(point)[0]
        worst = max(
            sum((max(zero, p - low * other.get(y, zero)) for y, p in row.items()), zero)
            for row in matrix
            for other in matrix
        )
        assert delta == worst


def check_oracles(seed: int) -> None:
    rng = random.Random(seed)
    d = rng.randint(2, 5)
    grr = oracle(GRR, symbols=d, thresholds=[threshold(rng, d + 1)])
    check_oracle(grr, oracles.grr(d, grr.thresholds[0]))
    d = rng.randint(2, 4)
    oue = oracle(OUE, symbols=d, thresholds=[threshold(rng, 3)])
    check_oracle(oue, oracles.oue(d, oue.thresholds[0]))
    g = rng.randint(2, 5)
    olh = oracle(OLH, symbols=d, buckets=g, thresholds=[threshold(rng, g + 1)])
    # This key gives neighbouring values different hashes; another gives away no more.
    check_oracle(olh, oracles.olh(d, g, olh.thresholds[0], (0, 1)))
    other = oracles.olh(d, g, olh.thresholds[0], (rng.randrange(oracles.PRIME), 7))
    assert log_upper(oracles.largest_ratio(other) or Fraction(1)) <= certify(olh).epsilon


def check_ranswitch(seed: int) -> None:
    check_switching(seed, "ranswitch")


def check_staswitch(seed: int) -> None:
    check_switching(seed, "staswitch")


CHECKS = [check_ranswitch, check_staswitch, check_jittersort, check_oracles]


def run(check: Callable[[int], None], first: int = 0, settings: int = SETTINGS) -> None:
    for seed in range(first, first + settings):
        check(seed)


@pytest.mark.parametrize("check", CHECKS)
def test_certificates_agree_with_enumeration(check) -> None:
    run(check)


@pytest.mark.soak
@pytest.mark.parametrize("check", CHECKS)
def test_many_certificates_agree_with_enumeration(check) -> None:
    run(check, SETTINGS, 10 * SETTINGS)


@pytest.mark.parametrize(
    ("check", "module", "old", "new"),
    [
        (check_ranswitch, certified_ranswitch, "exp_bounds(epsilon)[0]", "exp_bounds(epsilon)[1]"),
        (check_ranswitch, certified_ranswitch, "** (k - 1)", "** (window - 1)"),
        (check_ranswitch, certified_ranswitch, "** (k - 1)", "** (k - 2)"),
        (check_ranswitch, certified_ranswitch, "factor * q) / (p + q)", "factor * q)"),
        (check_ranswitch, certified_ranswitch, "return 1 - unseen + ", "return q + "),
        (check_ranswitch, certified_ranswitch, "1 - (window - 1) * q", "1 - (window - 2) * q"),
        (check_staswitch, certified_staswitch, "exp_bounds(epsilon)[0]", "exp_bounds(epsilon)[1]"),
        # The mechanism: what lateness does, and that it travels with the value.
        (check_staswitch, certified_staswitch, "(k - 1 - late) * threshold", "(k - 1) * threshold"),
        (check_staswitch, certified_staswitch, "late = (buffer & _SLOT) + ahead", "late = ahead"),
        # The other run.
        (check_staswitch, certified_staswitch, "at_b = late + b\n", "at_b = other_b\n"),
        (check_staswitch, certified_staswitch, "at_a = late + a\n", "at_a = other_a\n"),
        (check_staswitch, certified_staswitch, "b, other_a + b, (stay", "b, other_b, (stay"),
        (check_staswitch, certified_staswitch, "(switch, stay[other_a])", "(switch, stay[late])"),
        (check_staswitch, certified_staswitch, "ratio[1] * there)", "ratio[1] * here)"),
        # What is counted.
        (
            check_staswitch,
            certified_staswitch,
            "range(last, last - distance, -1)",
            "range(1, 0, -1)",
        ),
        (check_staswitch, certified_staswitch, "factor / ratio)", "factor / ratio) / 2"),
        (check_staswitch, certified_staswitch, "total = self.impossible +", "total ="),
        (
            check_jittersort,
            certified_jittersort,
            "exp_bounds(epsilon)[0]",
            "exp_bounds(epsilon)[1]",
        ),
        (check_jittersort, certified_jittersort, "min(k - 1, len(law))", "max(1, min(k - 2, 4))"),
        (check_jittersort, certified_jittersort, "SCALE**2 - mass[-1] ** 2", "SCALE - mass[-1]"),
        (check_jittersort, certified_jittersort, "zip(law[m:], law,", "zip(law[1:], law,"),
        (check_jittersort, certified_jittersort, "many -= 1", "many //= 2"),
        (check_oracles, certified_oracles, "else task.symbols) - 1)", "else task.symbols))"),
        (check_oracles, certified_oracles, "(1 - lie) / 2, lie / 2", "Fraction(1, 2), lie"),
        (check_oracles, certified_oracles, "exp_bounds(epsilon)[0]", "exp_bounds(epsilon)[1]"),
    ],
)
def test_a_fault_in_what_certifies_is_seen(
    monkeypatch: pytest.MonkeyPatch, check, module: ModuleType, old: str, new: str
) -> None:
    name = module.__name__.rpartition(".")[2]
    monkeypatch.setattr(issue, name, planted(module, old, new))
    with pytest.raises(AssertionError):
        run(check)
