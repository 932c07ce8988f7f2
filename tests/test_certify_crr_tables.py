"""The certificate of a table: against whole series and random beliefs, and with planted faults."""

from __future__ import annotations

import dataclasses
import itertools
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.crr_table_tasks import (
    CHAINS,
    GAPS,
    MILD,
    RARE,
    STICKY,
    kernel_of,
    random_table,
    series_chance,
    series_leakage,
    table_task,
    with_table,
)
from tinyldp import cli
from tinyldp.certify import certify, crr_table
from tinyldp.certify.bounds import log_upper
from tinyldp.certify.crr_table import table_factor, table_fault, table_figures
from tinyldp.certify.text import text_certificate
from tinyldp.crr.steps import q_of
from tinyldp.crr.tables import Vertex, laws, vertices
from tinyldp.planning import crr_tables
from tinyldp.planning.crr_tables import make_table
from tinyldp_protocol.task import Task, read_file, write_file


def digits(number: int, n: int, w: int) -> list[int]:
    return [number // n**at % n for at in range(w)][::-1]


def chance_of(task: Task, state: int, values: list[int]) -> Fraction:
    """Of values after these L symbols."""
    chance = Fraction(1)
    for value in values:
        chance *= Fraction(task.transitions[state * task.symbols + value], 1 << 14)
        state = (state * task.symbols + value) % len(task.prior)
    return chance


def plain_factor(task: Task) -> Fraction:
    """The largest M / P or P / M, from the chain's own definition."""
    n, w, memory = task.symbols, task.block, task.memory or 1
    states = n**memory
    kernel = kernel_of(task)
    worst = Fraction(1)
    laws = [[Fraction(0)] * n**w for _ in range(memory)]
    for late, law in enumerate(laws):
        for x in range(n ** (late + w)):
            start, *rest = digits(x, n, late + w)
            for _ in range(memory - 1):
                start = start * n + rest.pop(0)
            law[x % n**w] += Fraction(task.prior[start], 1 << 15) * chance_of(task, start, rest)
    for state in range(states):
        laws.append([chance_of(task, state, digits(x, n, w)) for x in range(n**w)])
    for law in laws:
        assert sum(law) == 1
        for y in range(n**w):
            chance = sum(b * row[y] for b, row in zip(law, kernel, strict=True))
            for row in kernel:
                if row[y] or chance:
                    worst = max(worst, row[y] / chance, chance / row[y])
    return worst


@pytest.mark.parametrize("seed", range(12))
def test_the_factor_is_that_of_the_definition(seed: int) -> None:
    """Of any table; it is private exactly where no fault is found."""
    task = random_table(np.random.default_rng(seed))
    if task.symbols**task.block * len(task.prior) > 200:
        task = table_task(*RARE, 1.0, 3, memory=1)
    factor, count = table_factor(task)
    assert factor == plain_factor(task)
    assert count == (task.memory or 1) + len(task.prior)
    assert (table_fault(task) is None) == (factor <= 1 / q_of(task))


@pytest.mark.parametrize("epsilon", [0.5, 2])
@pytest.mark.parametrize("chain", CHAINS)
def test_three_blocks_tell_no_more_than_the_certificate(
    chain: tuple[list[int], list[int]], epsilon: float
) -> None:
    """All series of 6 steps, exactly. A table for another chain tells more, and is found out."""
    task = table_task(*chain, epsilon, w=5)
    certificate = certify(task)
    assert certificate.table is not None
    assert certificate.table.fault is None
    assert certificate.table.releases == 3
    bound = certificate.per_window
    assert bound is not None
    assert bound == 3 * log_upper(1 / q_of(task))
    assert log_upper(series_leakage(task, 3)) <= bound
    # As if one step said nothing of the next.
    other = table_task([1 << 14] * 2, [1 << 13] * 4, epsilon)
    assert other.table is not None
    mutant = with_table(task, other.table)
    assert table_fault(mutant) is not None
    assert log_upper(series_leakage(mutant, 3)) > bound


@pytest.mark.parametrize("chain", [RARE, STICKY, MILD, GAPS])
def test_each_release_tells_no_more_after_any_history(chain: tuple[list[int], list[int]]) -> None:
    """The exact belief after each of two releases; after a boot, too, where any state may be."""
    task = table_task(*chain, 1)
    n, w = task.symbols, task.block
    kernel, q = kernel_of(task), q_of(task)
    size = n**w
    first = [series_chance(task, digits(x, n, w)) for x in range(size)]
    after = [
        [Fraction(b, v.total) for b in v.weights] for v in vertices(task) if v.state is not None
    ]

    def told(law: list[Fraction]) -> None:
        for y in range(size):
            chance = sum(b * row[y] for b, row in zip(law, kernel, strict=True))
            for row in kernel:
                assert q * chance <= row[y] <= chance / q

    fronts = [first]
    for _ in range(2):
        following = []
        for law in fronts:
            told(law)
            for y in range(size):
                chances = [b * row[y] for b, row in zip(law, kernel, strict=True)]
                if not sum(chances):
                    continue
                last = [sum(chances[x] for x in range(size) if x % n == s) for s in range(n)]
                total = sum(last)
                following.append(
                    [sum(last[s] / total * after[s][x] for s in range(n)) for x in range(size)]
                )
        fronts = following
    for law in fronts:
        told(law)
    rng = np.random.default_rng(1)
    for _ in range(20):
        mixed = [Fraction(int(k), 1000) for k in rng.multinomial(1000, rng.dirichlet(np.ones(n)))]
        told([sum((mixed[s] * after[s][x] for s in range(n)), Fraction(0)) for x in range(size)])


def moved(task: Task, x: int, y: int, z: int, units: int) -> list[int]:
    """Units of row x from column z to column y."""
    assert task.table is not None
    table, size = list(task.table), task.symbols**task.block
    table[x * size + y] += units
    table[x * size + z] -= units
    return table


def at_the_edge(task: Task) -> tuple[list[int], list[int]]:
    """(a table that is private, the same but for one unit that makes it tell too much).

    The protocol takes both: their columns are within 2 epsilon.
    """
    size = task.symbols**task.block
    assert task.table is not None
    used = [y for y in range(size) if any(task.table[y::size])]
    for y, z, x in itertools.product(used, used, range(size)):
        if y == z:
            continue
        for units in range(1, 300):
            table = moved(task, x, y, z, units)
            if min(table) < 0:
                break
            if table_fault(task, table) is not None:
                return moved(task, x, y, z, units - 1), table
    raise AssertionError("no unit makes a difference")


@pytest.mark.parametrize("chain", [STICKY, MILD, GAPS])
def test_one_unit_too_many_is_a_fault(chain: tuple[list[int], list[int]], tmp_path: Path) -> None:
    task = table_task(*chain, 1, epsilon=1 << 16)
    good, bad = (with_table(task, table) for table in at_the_edge(task))
    assert sum(a != b for a, b in zip(good.table or (), bad.table or (), strict=True)) == 2
    # Devices take it, for their columns' bound holds.
    read_file(write_file(bad))
    assert certify(good).within_target
    assert plain_factor(good) <= 1 / q_of(task) < plain_factor(bad)
    certificate = certify(bad)
    assert certificate.table is not None
    assert "tells too much about block" in (certificate.table.fault or "")
    assert not certificate.within_target
    assert certificate.delta == 1
    assert {delta for _, delta in certificate.curve} == {1}
    assert "NOT KEPT" in text_certificate(certificate)
    assert any("only the line 'wrong model' holds" in text for text in certificate.warnings)
    path = tmp_path / "bad.task"
    path.write_bytes(write_file(bad))
    assert cli.main(["certify", str(path)]) == 1


@pytest.mark.parametrize("changed", ["prior", "transitions"])
def test_a_table_of_another_model_is_a_fault(changed: str) -> None:
    """With memory for the whole block the first one's law is the prior."""
    pairs = ([12000, 4384, 5000, 11384], [12000, 4384, 5000, 11384] * 2)
    task = table_task(*pairs, 1, memory=2)
    assert table_fault(task) is None
    other = {
        "prior": [32700, 8, 40, 20],
        "transitions": [16000, 384, 300, 16084] * 2,
    }[changed]
    fault = table_fault(with_table(task, task.table or (), **{changed: other}))
    assert fault is not None
    assert ("first block" in fault) == (changed == "prior")


def test_a_row_that_does_not_add_up_is_a_fault() -> None:
    task = table_task(*MILD, 1)
    table = list(task.table or ())
    table[table.index(max(table))] -= 1
    assert "does not add up" in (table_fault(task, table) or "")


def test_vertices_are_laws() -> None:
    for seed in range(8):
        task = random_table(np.random.default_rng(seed))
        found = list(vertices(task))
        assert [v.state for v in found] == [None, *range(len(task.prior))]
        assert all(sum(v.weights) == v.total for v in found)
        first, after = laws(task)
        assert np.allclose(first.sum(), 1)
        assert np.allclose(after.sum(axis=1), 1)


def test_what_the_certificate_says() -> None:
    certificate = certify(table_task(*RARE, 1, w=4, delta=1 << 10))
    text = " ".join(text_certificate(certificate).split())
    for words in (
        "each boot is like any other block",
        "wrong model",
        "incomplete last block of a segment are never released",
        "twice epsilon",
        "32 bytes as a device draws from it",
        "3 in all",
        "4 steps touch up to 3 blocks",
        "with delta",
        "the planner",
    ):
        assert words in text, words
    shown = json.loads(json.dumps(certificate.to_json()))
    found = shown["crr"]
    assert found["table"]["fault"] is None
    assert found["table"]["epsilon"] <= found["block"]["epsilon"]
    assert found["wrong_model"]["epsilon"] == pytest.approx(2 * found["block"]["epsilon"])
    assert found["sequence"]["releases"] == 3
    assert found["sequence"]["epsilon"] == pytest.approx(3 * found["block"]["epsilon"])
    assert shown["lifetime"]["per_window"] == found["sequence"]["epsilon"]


def test_delta_lowers_what_many_steps_tell() -> None:
    task = table_task(*MILD, 0.25, w=400, delta=1 << 20)
    figures = table_figures(task, Fraction(1, 1 << 10))
    assert figures.with_delta is not None
    assert figures.sequence is not None
    assert figures.with_delta < figures.sequence / 2
    assert dataclasses.replace(figures, factor=Fraction(0)).to_json()["table"]["epsilon"] is None


def test_the_planner_makes_the_same_table_again() -> None:
    task = table_task(*GAPS, 1)
    assert make_table(task).table == tuple(task.table or ())


def late_factor(task: Task, late: int) -> Fraction:
    """The largest M / P or P / M of the first block, after a boot that cut off so many steps.

    Of all series from the prior, of a Task with memory 2.
    """
    n, w = task.symbols, task.block
    kernel, law = kernel_of(task), [Fraction(0)] * n**w
    for values in itertools.product(range(n), repeat=late + w):
        chance = Fraction(task.prior[values[0] * n + values[1]], 1 << 15)
        for one, two, value in zip(values, values[1:], values[2:], strict=False):
            chance *= Fraction(task.transitions[(one * n + two) * n + value], 1 << 14)
        law[sum(value * n**at for at, value in enumerate(values[late:][::-1]))] += chance
    assert sum(law) == 1
    worst = Fraction(1)
    for y in range(n**w):
        chance = sum(b * row[y] for b, row in zip(law, kernel, strict=True))
        for row in kernel:
            if row[y]:
                worst = max(worst, row[y] / chance, chance / row[y])
    return worst


def test_a_boot_after_the_first_step_of_a_series(monkeypatch: pytest.MonkeyPatch) -> None:
    """The block after it is like none that follows two values, nor like the prior's own."""
    chain = [2000, 30256, 256, 256], [14000, 2384, 14000, 2384, 14000, 2384, 8000, 8384]
    task = table_task(*chain, 2, 2, memory=2)
    for late in range(4):
        assert late_factor(task, late) <= 1 / q_of(task)
    assert "start up to 1 step late" in certify(task).method
    # Of a planner that forgets that block: the certificate does not.
    with monkeypatch.context() as forgetting:
        for module in (crr_tables, crr_table):
            forgetting.setattr(module, "vertices", lambda task: filter(in_time, vertices(task)))
        forgotten = with_table(task, make_table(task).table)
        assert table_fault(forgotten) is None
    assert late_factor(forgotten, 1) > 2 / q_of(task)
    fault = table_fault(forgotten)
    assert fault is not None
    assert "in a first block that starts 1 step late" in fault
    assert not certify(forgotten).within_target


def in_time(vertex: Vertex) -> bool:
    return not vertex.late
