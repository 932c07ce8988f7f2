"""Blocks by a table where frames were lost: what comes after is smoothed, too, and reported."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from tests.crr_table_tasks import GAPS, MILD, STICKY, kernel_of, series_chance, table_task
from tests.faults import planted
from tests.test_report import render
from tests.test_simulate_crr_tables import reported
from tinyldp.crr.tables import table_of
from tinyldp.errors import UserError
from tinyldp.estimate import crr, crr_blocks
from tinyldp.estimate.crr import decode, known_steps, population
from tinyldp.report import report_data, text_report, write_csv
from tinyldp.simulate import CrrSimulation, simulate
from tinyldp_protocol.task import SCALE, Task

# What arrives of four blocks of two steps: none of the second; not the first; half of the second.
LOSSES = {
    "a block": [1, 1, 0, 0, 1, 1, 1, 1],
    "the start": [0, 0, 0, 0, 1, 1, 1, 1],
    "a part": [1, 1, 0, 1, 1, 1, 1, 1],
    "the end of one and the start of the next": [1, 1, 1, 0, 0, 1, 1, 1],
    "the end": [1, 1, 1, 1, 1, 1, 0, 1],
}


def by_brute_force(task: Task, released: list[int], here: list[int]) -> np.ndarray:
    """(T, n) posteriors by Bayes' theorem: of all series, and all releases that can have been."""
    n, steps = task.symbols, len(released)
    kernel = kernel_of(task)
    found = np.zeros((steps, n))
    told = []
    for at in range(0, steps, 2):
        seen = [released[at + i] if here[at + i] else None for i in range(2)]
        possible = [
            y
            for y in range(n * n)
            if all(s in (None, symbol) for s, symbol in zip(seen, divmod(y, n), strict=True))
        ]
        told.append([float(sum(row[y] for y in possible)) for row in kernel])
    for values in itertools.product(range(n), repeat=steps):
        chance = float(series_chance(task, values))
        for at, of_block in enumerate(told):
            chance *= of_block[values[2 * at] * n + values[2 * at + 1]]
        found[range(steps), values] += chance
    return found / found.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("chain", [STICKY, MILD])
@pytest.mark.parametrize("lost", LOSSES)
def test_what_follows_a_loss_is_smoothed(chain: tuple[list[int], list[int]], lost: str) -> None:
    task = table_task(*chain, 2)
    table = table_of(task)
    rng = np.random.default_rng(4)
    blocks = rng.choice(np.flatnonzero(table.any(axis=0)), 4)
    released = np.stack([blocks // 2, blocks % 2], axis=1).ravel().tolist()
    here = LOSSES[lost]
    expected = by_brute_force(task, released, here)
    # What did not arrive has no say.
    given = np.where(here, released, 77)
    found = decode(task, [given, released], [here, [1] * 8])
    known = 6 if lost == "the end" else 8
    if known == 6:
        expected = by_brute_force(task, released[:6], here[:6])
    assert found.known[0].tolist() == [step < known for step in range(8)]
    assert found.posterior[0, :known] == pytest.approx(expected)
    assert np.isnan(found.posterior[0, known:]).all()
    assert found.posterior[1] == pytest.approx(by_brute_force(task, released, [1] * 8))
    for at in range(0, known, 2):
        none = not any(here[at : at + 2])
        assert (found.leakage[0, at] == 0) == none
        assert (found.gain[0, at] == 0) == none
    epsilon = -math.log(task.thresholds[0] / SCALE)
    assert found.leakage[0, :known].max() <= epsilon + 1e-9
    faulty = planted(crr_blocks, "ahead[devices] = chain.last(law)", "pass")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crr, "smoothed_blocks", faulty.smoothed_blocks)
        other = decode(task, [given], [here]).posterior[0, :known]
    assert np.abs(other - expected).max() > 1e-3


def test_shares_over_a_loss_cover_the_truth() -> None:
    """56 shares within 5.5 deviations: false alarms: 3e-6.

    800 devices lose a quarter of their frames, all of them that of the steps 20 to 23.
    """
    task = table_task(*MILD, 1)
    found = simulate(task, 800, 60, 3)
    assert isinstance(found, CrrSimulation)
    rng = np.random.default_rng(5)
    present = np.ones((800, 60), np.bool_)
    # Frames of 4 steps.
    present &= np.repeat(rng.random((800, 15)) > 0.25, 4, axis=1)
    present[:, 20:24] = False
    shares = population(task, found.released, present, range(56), confidence=1 - 3.8e-8)
    low, high = shares.smoothed_low[:, 1], shares.smoothed_high[:, 1]
    truth = (found.original == 1).mean(axis=0)[:56]
    for factor in (0.7, 1.0, 1.3):
        missed = (factor * truth < low) | (factor * truth > high)
        assert missed.any() == (factor != 1.0)
    assert np.isnan(shares.released[20:24]).all()
    assert shares.released[:20].sum(axis=1) == pytest.approx(np.ones(20))
    # Who lost the last frame is not known there.
    assert shares.devices[0] > shares.devices[-1] > 700
    whole = population(task, found.released, steps=range(56))
    assert (shares.spreads[20:24] > whole.spreads[20:24]).all()
    assert (shares.total < whole.total).all()
    with pytest.raises(UserError, match="anything is there from step 12 on"):
        population(task, found.released[:, :20], present[:, :20] & (np.arange(20) < 12))


def test_who_claims_to_have_lost_far_more_than_it_sent_is_followed_no_further() -> None:
    task = table_task(*MILD, 1)
    present = np.zeros((3, 40_000), np.bool_)
    present[:, :4] = True
    present[0, 10_000:10_002] = True
    present[1:, 30_000:30_002] = True
    present[2, 4:8_000] = True
    known = known_steps(task, present, False)
    assert known.sum(axis=1).tolist() == [10_002, 4, 30_002]


def test_a_report_goes_on_after_a_loss(tmp_path: Path) -> None:
    task = table_task(*GAPS, 1)
    found = simulate(task, 6, 20)
    assert isinstance(found, CrrSimulation)
    store = reported(task, found.released)
    present = np.ones((6, 20), np.bool_)
    present[:2, 8:12] = False
    present[2, :4] = False
    # Of the last one nothing of use arrives.
    present[5] = np.arange(20) == 3
    for boot, here in enumerate(present, 1):
        store.kept[boot] = (np.where(here, found.released[boot - 1], 0), here)
    data = report_data(store.store)
    assert json.loads(json.dumps(data)) == data
    (table,) = data["crr"]
    assert (table["segments"], table["cut"], table["steps_in_all"]) == (5, 3, 20)
    assert {row["devices"] for row in table["steps"]} == {5}
    expected = decode(task, found.released[:5], present[:5])
    for step, row in enumerate(table["steps"]):
        smoothed = expected.posterior[:, step].mean(axis=0)
        assert row["smoothed"] == pytest.approx(smoothed[table["followed"]])
    assert " ".join(text_report(data).split()).count("Of 3 segments some releases were lost") == 1
    _, page = render(store, tmp_path, data=data)
    assert "The releases that arrived, 16 steps" in page.words
    assert "No whole block of it is there" in page.words
    assert "belief" not in page.words
    write_csv(store.store, tmp_path / "csv", data)
    lines = (tmp_path / "csv").glob("*-smoothed.csv")
    rows = {path.name: path.read_text().splitlines() for path in lines}
    assert len(rows) == 5
    first = next(text for name, text in rows.items() if name.startswith("0" * 16))
    assert len(first) == 21
    assert [line.split(",")[1] == "" for line in first[1:]] == [not x for x in present[0]]

    # Of one device alone, or where all lost the same, there is a step at which nothing arrived.
    for boot in list(store.kept)[1:]:
        store.kept[boot] = (found.released[boot - 1], present[0])
    data = report_data(store.store)
    assert data["crr"][0]["steps"][9]["released"] == [None] * 3
    render(store, tmp_path, data=data)
    for boot in store.kept:
        store.kept[boot] = (found.released[boot - 1], present[5])
    (table,) = report_data(store.store)["crr"]
    assert table["problem"] == "Of no segment a whole block has arrived: nothing can be smoothed."
