"""What simulated devices do follows the exact laws, and no law 30 % beside them."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from tests.fit import fit
from tests.simulating import FALSE_ALARM, make_task
from tinyldp.laws import Law, displacement_law
from tinyldp.simulate import oracles, streams
from tinyldp.simulate.words import DrawnWords
from tinyldp_protocol.hashing import PRIME
from tinyldp_protocol.task import GRR, JITTERSORT, OLH, OUE, RANSWITCH, SCALE, STASWITCH, Task

DEVICES = 200_000
WRONG = (0.7, 1.3)


def stream_task(mechanism: int, factor: float = 1.0) -> Task:
    """factor: of q, or of JitterSort's epsilon."""
    k = 6
    if mechanism != JITTERSORT:
        thresholds = [round(factor * 0.08 * SCALE)]
        return make_task(mechanism, window=k, k=k, symbols=16, thresholds=thresholds)
    middle = 12
    falling = np.exp(-factor * 2.0 / (2 * (k - 1)) * np.arange(1, middle + 1))
    side = [int(n) for n in falling / (1 + 2 * falling.sum()) * SCALE]
    thresholds = [SCALE - 2 * sum(side), *side]
    return make_task(mechanism, window=2 * middle + 1, k=k, symbols=16, thresholds=thresholds)


def law_of(task: Task) -> Law:
    law = displacement_law(task)
    assert law is not None
    return law


def displaced(task: Task, latest: int) -> Counter[int]:
    """How far one value of each device was moved; latest + 1: not released by then.

    One value a device, so that they are independent; far from both ends.
    """
    step = 6 * task.window
    steps = step + latest + task.window + 1
    seen: Counter[int] = Counter()
    for block, start in enumerate(range(0, DEVICES, streams.DEVICES)):
        n = min(streams.DEVICES, DEVICES - start)
        fleet = streams.make_fleet(task, n, DrawnWords(n, np.random.SeedSequence([7, block])))
        origins = streams.origins_of(fleet.feed(np.zeros((steps, n), dtype=np.uint16)))
        rows = np.nonzero((origins == step).T)[1]
        moved, counts = np.unique(rows - step, return_counts=True)
        seen.update(dict(zip(moved.tolist(), counts.tolist(), strict=True)))
    seen[latest + 1] += DEVICES - seen.total()
    return seen


@pytest.mark.parametrize("mechanism", [RANSWITCH, STASWITCH, JITTERSORT])
def test_displacements_follow_the_law(mechanism: int) -> None:
    task = stream_task(mechanism)
    latest = 30 if mechanism == RANSWITCH else task.window - 1
    seen = displaced(task, latest)
    if mechanism != RANSWITCH:
        assert seen[latest + 1] == 0
    if mechanism == STASWITCH:
        assert seen[latest] > 0
    assert fit(seen, law_of(task), latest) > FALSE_ALARM
    for factor in WRONG:
        assert fit(seen, law_of(stream_task(mechanism, factor)), latest) < FALSE_ALARM


@pytest.mark.parametrize("value", [0, 3, 6])
def test_grr_reports_follow_the_law(value: int) -> None:
    threshold = 1_500_000
    task = make_task(GRR, symbols=7, thresholds=[threshold])
    words = DrawnWords(DEVICES, np.random.SeedSequence([8, value]))
    seen = np.bincount(oracles.draw(task, np.full(DEVICES, value), words), minlength=7)

    def p_value(lie: float) -> float:
        law = np.full(7, lie / SCALE)
        law[value] = 1 - 6 * lie / SCALE
        return float(chisquare(seen, DEVICES * law).pvalue)

    assert p_value(threshold) > FALSE_ALARM
    for factor in WRONG:
        assert p_value(factor * threshold) < FALSE_ALARM


def test_every_bit_of_oue_follows_the_law() -> None:
    threshold = 3_000_000
    symbols = 19
    task = make_task(OUE, symbols=symbols, thresholds=[threshold])
    for value in (0, 7, 8, 18):
        words = DrawnWords(DEVICES, np.random.SeedSequence([9, value]))
        reports = oracles.draw(task, np.full(DEVICES, value), words)
        bits = np.unpackbits(reports, axis=1, bitorder="little")
        assert not bits[:, symbols:].any()
        for bit, count in enumerate(bits[:, :symbols].sum(axis=0).tolist()):
            rate = 0.5 if bit == value else threshold / SCALE
            assert binomtest(count, DEVICES, rate).pvalue > FALSE_ALARM / symbols
            for factor in WRONG:
                assert binomtest(count, DEVICES, factor * rate).pvalue < FALSE_ALARM
        # Independent: the correlation of each pair is normal with deviation 1 / sqrt(n).
        pairs = np.asarray(np.corrcoef(bits[:, :symbols].T))[np.triu_indices(symbols, 1)]
        assert np.abs(pairs).max() < 6.5 / math.sqrt(DEVICES)


def test_olh_reports_follow_the_law() -> None:
    threshold = 2_500_000
    task = make_task(OLH, symbols=500, buckets=4, thresholds=[threshold])
    rng = np.random.default_rng(10)
    values = rng.integers(0, 500, DEVICES)
    words = DrawnWords(DEVICES, np.random.SeedSequence(10))
    reports = oracles.draw(task, values, words).astype(np.int64)
    a = reports[:, 0] | reports[:, 1] << 8
    b = reports[:, 2] | reports[:, 3] << 8
    for key in (a, b):
        assert 0 <= key.min() <= key.max() < PRIME
        # 7 * 4678 + 3 residues below the prime: in seven classes all but three.
        classes = np.bincount(key[key < 7 * 4678] // 4678)
        assert chisquare(classes).pvalue > FALSE_ALARM
    buckets = (a + b * values) % PRIME % 4
    seen = np.bincount((reports[:, 4] - buckets) % 4, minlength=4)

    def p_value(lie: float) -> float:
        law = np.array([1 - 3 * lie / SCALE, *[lie / SCALE] * 3])
        return float(chisquare(seen, DEVICES * law).pvalue)

    assert p_value(threshold) > FALSE_ALARM
    for factor in WRONG:
        assert p_value(factor * threshold) < FALSE_ALARM


def test_drawn_words_are_uniform_in_each_byte() -> None:
    words = DrawnWords(100_001, np.random.SeedSequence(11))
    rows = np.stack([words.row() for _ in range(4)])
    assert rows.max() < SCALE
    devices = np.arange(0, 100_001, 2)
    fresh = words.again(devices)
    assert len(fresh) == len(devices)
    for drawn in (*rows, fresh):
        for shift in (0, 8, 16):
            assert chisquare(np.bincount(drawn >> shift & 255)).pvalue > FALSE_ALARM
    # One word of a device says nothing about its next, nor about its neighbour's.
    joint = np.bincount((rows[0] >> 20) * 16 + (rows[1] >> 20), minlength=256)
    assert chisquare(joint).pvalue > FALSE_ALARM
    joint = np.bincount((rows[2, :-1] >> 20) * 16 + (rows[2, 1:] >> 20), minlength=256)
    assert chisquare(joint).pvalue > FALSE_ALARM
