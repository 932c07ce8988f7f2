"""Nats in texts: at most is no less than it was, an average the nearest, and noise is nothing."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.crr_table_tasks import GAPS, MILD, RARE, table_task
from tests.test_simulate_crr_tables import reported
from tinyldp.certify.bounds import digits_up
from tinyldp.estimate.crr import decode
from tinyldp.report import report_data, text_report
from tinyldp.report.nats import mean_nats, most_nats
from tinyldp.simulate import CrrSimulation, simulate, text_simulation


@pytest.mark.parametrize(
    ("nats", "allowed", "said"),
    [
        (1.9996993, 2.0, "1.9997"),
        (407.9799, 500.0, "407.98"),
        (407.9800001, 500.0, "407.981"),
        (2.0000000001, 2.0, "2"),
        # That is more than rounding.
        (2.001, 2.0, "2.001"),
        (8e-17, 1.0, "0"),
        (0.0, 1.0, "0"),
    ],
)
def test_the_most_is_rounded_up(nats: float, allowed: float, said: str) -> None:
    assert most_nats(nats, allowed) == said


def test_what_is_written_is_no_less_than_it_was() -> None:
    rng = np.random.default_rng(0)
    for nats in (10 ** rng.uniform(-3, 4, 2000)).tolist():
        allowed = nats * float(rng.choice([1, 1.0000001, 2]))
        assert nats <= float(most_nats(nats, allowed)) <= float(digits_up(allowed))
        assert float(mean_nats(nats)) == pytest.approx(nats, rel=5e-4)
    means = [mean_nats(x) for x in (1.8774, 1.8776, 407.97, 8e-17, -9e-17)]
    assert means == ["1.877", "1.878", "408.0", "0", "0"]


def test_simulation_and_report_say_the_same() -> None:
    found = simulate(table_task(*GAPS, 2), 6, 20)
    assert isinstance(found, CrrSimulation)
    said = " ".join(text_simulation(found).split())
    most = float(re.findall(r"leakage of all of a device .*?([\d.]+) at most", said)[0])
    assert found.most[-1] <= most <= found.most[-1] * 1.00001
    data = report_data(reported(found.task, found.released).store)
    assert f"on average and {most:.6g} at most, where the table allows" in " ".join(
        text_report(data).split()
    )


def test_a_table_that_always_releases_the_same_tells_nothing() -> None:
    for chain, epsilon, constant in ((RARE, 1, True), (MILD, 1, False)):
        found = simulate(table_task(*chain, epsilon), 20, 40)
        assert isinstance(found, CrrSimulation)
        assert (len(np.unique(found.released)) == 1) == constant
        decoded = decode(found.task, found.released)
        for nats in (found.leakage, decoded.leakage, decoded.gain):
            assert nats.any() != constant
        said = " ".join(text_simulation(found).split())
        assert ("0 on average, 0 at most" in said) == constant
        assert ("; 0 learned" in said) == constant
