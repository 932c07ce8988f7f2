"""The oracles' loss: figures, the edge at which truth is no more probable than a lie."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from tests.certifying import oracle
from tinyldp.certify import oracles
from tinyldp_protocol.task import GRR, OLH, OUE, RANSWITCH, SCALE

F = Fraction


def grr_threshold(d: int, epsilon: float) -> int:
    return math.ceil(SCALE / (math.exp(epsilon) + d - 1))


@pytest.mark.parametrize(("d", "epsilon"), [(2, 1.0), (4, 1.0), (16, 2.0), (100, 0.5)])
def test_grr_rounded_up_is_just_within_epsilon(d: int, epsilon: float) -> None:
    threshold = grr_threshold(d, epsilon)
    ratio = oracles.ratio(oracle(GRR, symbols=d, thresholds=[threshold]))
    assert ratio == F(SCALE - (d - 1) * threshold, threshold)
    assert math.exp(epsilon) * (1 - d / threshold * 2) < ratio <= math.exp(epsilon)
    less_noise = oracles.ratio(oracle(GRR, symbols=d, thresholds=[threshold - 1]))
    assert less_noise > math.exp(epsilon)


def test_oue_ratio_is_that_of_two_bits() -> None:
    threshold = math.ceil(SCALE / (math.e + 1))
    task = oracle(OUE, symbols=40, thresholds=[threshold])
    assert oracles.ratio(task) == F(SCALE - threshold, threshold)
    assert math.exp(1) * (1 - 1e-6) < oracles.ratio(task) <= math.e


def test_olh_ratio_is_that_of_its_buckets() -> None:
    """The alphabet's size plays no part."""
    ratios = {
        oracles.ratio(oracle(OLH, symbols=d, buckets=4, thresholds=[grr_threshold(4, 1.0)]))
        for d in (2, 16, 30_000)
    }
    assert ratios == {oracles.ratio(oracle(GRR, symbols=4, thresholds=[grr_threshold(4, 1.0)]))}


def test_delta_falls_to_nothing_at_the_loss() -> None:
    task = oracle(GRR, symbols=4, thresholds=[grr_threshold(4, 1.0)])
    # At epsilon = 0 it is the total variation distance.
    lie = F(task.thresholds[0], SCALE)
    assert oracles.delta(task, F(0)) == 1 - 4 * lie
    assert oracles.delta(task, F(1, 2)) > 0
    assert oracles.delta(task, F(1)) == 0


@pytest.mark.parametrize("lies", [SCALE // 8, SCALE // 7])
def test_truth_no_more_probable_than_a_lie(lies: int) -> None:
    """A Task refuses this itself; the certificate does not rely on it."""
    task: Any = SimpleNamespace(mechanism=GRR, symbols=8, thresholds=[lies])
    with pytest.raises(ValueError, match="more probable"):
        oracles.ratio(task)


def test_a_stream_is_no_oracle() -> None:
    task: Any = SimpleNamespace(mechanism=RANSWITCH, symbols=8, thresholds=[5])
    with pytest.raises(ValueError, match="no frequency oracle"):
        oracles.ratio(task)
