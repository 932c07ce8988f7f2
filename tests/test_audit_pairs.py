"""The inputs of an audit: neighbours by the certificate's own relation."""

from __future__ import annotations

import numpy as np
import pytest

from tests.collecting import make_task
from tinyldp.audit.pairs import every_value, oracle_pair, stream_pairs
from tinyldp.audit.streams import lower_bounds, places
from tinyldp_device.quantize import Quantizer
from tinyldp_protocol.task import GRR, JITTERSORT, OUE, STASWITCH, Task

STREAMS = [
    make_task(symbols=2),
    make_task(symbols=3, window=9, thresholds=[1000]),
    make_task(symbols=256, window=20, thresholds=[1000]),
    make_task(symbols=3000, window=30, thresholds=[1000]),
    make_task(symbols=4, bins=[-5, 0, 7]),
    make_task(symbols=4, bins=[-5, 7], missing=3),
    make_task(symbols=2, bins=[-5], missing=1),
    make_task(mechanism=STASWITCH, window=7, k=7, symbols=256, thresholds=[1000]),
    make_task(mechanism=JITTERSORT, k=6, symbols=64),
]


def symbols(task: Task, readings: tuple[int | None, ...]) -> list[int]:
    """What the device makes of readings."""
    quantizer = Quantizer(task)
    return [quantizer.symbol(reading) for reading in readings]


@pytest.mark.parametrize("task", STREAMS, ids=lambda task: f"{task.mechanism}-{task.symbols}")
def test_streams_exchange_two_values_as_far_apart_as_neighbours_may_be(task: Task) -> None:
    pairs = stream_pairs(task)
    steps = len(pairs[0].symbols)
    for pair in pairs:
        i, j = pair.at
        assert j - i == task.k - 1
        first, second = (symbols(task, one.readings) for one in (pair.first, pair.second))
        assert first == list(pair.symbols)
        assert first[i] != first[j]
        assert second == list(pair.exchanged)
        second[i], second[j] = second[j], second[i]
        assert first == second
        if task.bins is not None and len(task.bins) == task.symbols - 2:
            assert task.missing not in first
        assert (len(set(first)) == steps) == (task.symbols >= steps)
    where = {pair.where: pair.at for pair in pairs}
    assert where["start"][0] == 0
    assert where["end"][1] == steps - 1
    assert task.window <= where["inside"][0]
    assert where["inside"][1] < steps - task.window


def test_an_oracle_gets_its_extreme_values_and_all_of_them() -> None:
    task = make_task(mechanism=OUE, symbols=5, bins=[0, 10, 20], missing=4)
    pair = oracle_pair(task, 7)
    assert (symbols(task, pair.first.readings), pair.first.times) == ([0], 7)
    assert (symbols(task, pair.second.readings), pair.second.times) == ([3], 7)
    assert pair.values == (0, 3)
    every, values = every_value(task, 50)
    assert values == (0, 1, 2, 3, 4)
    assert tuple(symbols(task, every.readings)) == values
    assert every.steps == 50


def test_of_a_large_alphabet_a_part_is_played() -> None:
    task = make_task(mechanism=GRR, symbols=1000, thresholds=[1000])
    every, values = every_value(task, 10)
    assert len(every.readings) == 11
    assert every.times == 1
    assert values[0] == 0
    assert values[-2:] == (999, 0)
    assert len(every_value(make_task(mechanism=GRR, symbols=2), 1)[1]) == 3


def test_places_of_values() -> None:
    task = make_task(symbols=2, window=3)
    inside = stream_pairs(task)[1]
    released = np.zeros((2, len(inside.symbols)), np.int64)
    released[0, 4] = released[1, 6] = 1
    # The other is the filler as well.
    assert places(inside, released).tolist() == [[4, -1], [6, -1]]
    distinct = stream_pairs(make_task(symbols=256, window=3))[1]
    order = np.arange(len(distinct.symbols))[np.newaxis, ::-1]
    i, j = distinct.at
    last = len(distinct.symbols) - 1
    assert places(distinct, order).tolist() == [[last - i, last - j]]
    assert places(distinct, order, [0, 3]).tolist() == [[last, last - 3]]


def test_bounds_of_samples_with_a_known_law() -> None:
    """Two places, first with 3/4 or else 1/4; a sure sign of one side with .05."""
    rng = np.random.default_rng(8)

    def sample(likely: float) -> np.ndarray:
        found = np.where(rng.random((20_000, 1)) < likely, 3, 5).repeat(2, axis=1)
        found[rng.random(20_000) < 0.05, 1] = 9 if likely > 0.5 else 8
        return found

    first, second = sample(0.75), sample(0.25)
    # By the simulation, and, where that shows nothing, by the device's own segments.
    for simulation in ((sample(0.75), sample(0.25)), (first[:9], first[:9])):
        epsilon, delta = lower_bounds(first, second, simulation, 0.0, 0.05, 1e-6)
        # At delta = .05 the rest: .95 * .75 against .95 * .25; at epsilon = 0 what is left of .525.
        assert 0.9 * np.log(3) < epsilon < np.log(3)
        assert 0.45 < delta < 0.525
    same = lower_bounds(first, sample(0.75), (first, second), 0.0, 0.05, 1e-6)
    assert same[0] == 0
    nothing = first[:0], second[:0]
    assert lower_bounds(*nothing, nothing, 1.0, 0.0, 1e-6) == (0.0, 0.0)
