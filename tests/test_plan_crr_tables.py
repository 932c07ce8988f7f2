"""Planning of a table: what the study says, the linear program, its rounding, and its price."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.crr_table_tasks import CHAINS, GAPS, MILD, RARE, STICKY, table_task, with_table
from tests.crr_tasks import rows, shares
from tinyldp import cli
from tinyldp.certify import certify
from tinyldp.certify.crr_table import table_fault
from tinyldp.crr.lp import block_loss, least_loss, losses_of
from tinyldp.crr.steps import q_of
from tinyldp.crr.tables import TABLE_SCALE, long_run, table_of
from tinyldp.crr_study import RULE_NAMES, stand_in_table
from tinyldp.errors import UserError
from tinyldp.planning import crr_tables, plan
from tinyldp.planning.crr_table_costs import TableCosts, table_costs
from tinyldp.planning.crr_tables import make_table
from tinyldp.planning.crr_text import table_lines
from tinyldp.planning.krr import krr_kernel
from tinyldp.planning.outcome import text_plan
from tinyldp.study import load_study
from tinyldp_protocol.task import TABLE, Task

STUDY = """
[study]
name = "states"
[mechanism]
name = "crr-batch"
rule = "table"
block = 2
transitions = [[0.75, 0.25], [0.3, 0.7]]
[privacy]
epsilon = 1
w = 4
[values]
domain = 2
"""


def written(folder: Path, text: str = STUDY) -> Path:
    path = folder / "study.toml"
    path.write_text(text)
    return path


def expected(task: Task, kernel: np.ndarray) -> float:
    """Loss of a block in the long run."""
    losses = block_loss(losses_of(task), task.block)
    return float((long_run(task)[:, None] * kernel * losses).sum())


def test_a_study_makes_a_certified_task(tmp_path: Path) -> None:
    path = written(tmp_path)
    made = plan(path)
    assert made.task.rule == TABLE
    assert RULE_NAMES[TABLE] == "table"
    certificate = certify(made.task)
    assert certificate.within_target
    assert certificate.table is not None
    assert certificate.table.fault is None
    # The study takes any table for its own: the planner makes it.
    study = load_study(path)
    study.check(made.task)
    other = table_task(*RARE, 1)
    study.check(with_table(made.task, [TABLE_SCALE // 4] * 16))
    with pytest.raises(UserError, match="not of this study"):
        study.check(other)
    text = " ".join(text_plan(made).split())
    for words in ("after each start too", "The rule min_error", "k-RR at the same epsilon"):
        assert words in text
    shown = json.loads(json.dumps(made.to_json()))
    assert shown["integers"]["table"] == list(made.task.table or ())
    found = shown["crr"]
    assert found["optimum"] <= found["expected_loss"] <= found["optimum"] + found["rounding"] + 1e-9
    assert found["krr"]["blocks"] > found["expected_loss"]
    assert found["leakage"]["sequence"] == pytest.approx(3 * found["leakage"]["epsilon"])
    assert shown["latency_steps"] == 1


def test_the_least_loss_is_worked_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    solved = []
    best = crr_tables._Program.best

    def counted(program: crr_tables._Program) -> np.ndarray:
        solved.append(program)
        return best(program)

    monkeypatch.setattr(crr_tables._Program, "best", counted)
    made = plan(written(tmp_path))
    assert len(solved) == 1
    assert isinstance(made.crr, TableCosts)
    assert made.crr.optimum == make_table(made.task).optimum / 2


def test_all_integers_of_a_study_may_be_its_own(tmp_path: Path) -> None:
    text = STUDY.replace("epsilon = 1\n", "").replace("block = 2", "block = 2\nthreshold = 6172672")
    made = plan(written(tmp_path, text))
    assert made.task.thresholds[0] == 6172672
    assert table_fault(made.task) is None


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("block = 2", "block = 6", "room for 45: a block of 5 would do"),
        ('"crr-batch"', '"crr"', '"table" is for crr-batch alone'),
        ('"table"', '"preserve"', '"min_error" or "table" for crr-batch'),
        ("block = 2", "", "block is missing"),
    ],
)
def test_what_no_table_can_be_made_for(
    old: str, new: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = STUDY.replace(old, new)
    if '"crr"' in new:
        text = text.replace("block = 2\n", "")
    path = written(tmp_path, text)
    assert cli.main(["plan", str(path)]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.strip().splitlines()) == 1


def test_seven_symbols_have_no_table(tmp_path: Path) -> None:
    row = str([1 / 7] * 7)
    text = STUDY.replace("[[0.75, 0.25], [0.3, 0.7]]", str([row] * 7).replace("'", ""))
    text = text.replace("domain = 2", "domain = 7")
    with pytest.raises(UserError, match="no block for more than 6 symbols"):
        load_study(written(tmp_path, text))


def test_a_table_larger_than_the_board_s_memory_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, STUDY + "[fleet]\nboard_memory = 60\n")
    with pytest.raises(UserError, match="bytes of a board's memory"):
        plan(path)


@pytest.mark.parametrize("loss", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.3, 1, 3])
def test_values_that_do_not_depend_on_each_other_have_the_optimum_of_one_belief(
    epsilon: float, loss: int
) -> None:
    """All vertices are the same law then: the other linear program's."""
    prior, row = [16384, 8192, 8192], [8192, 4096, 4096]
    task = table_task(prior, row * 3, epsilon, loss=loss)
    made = make_table(task)
    law = np.outer(row, row).ravel() / (1 << 28)
    assert np.allclose(long_run(task), law)
    losses = block_loss(losses_of(task), 2)
    best = least_loss(law, float(q_of(task)), losses).cost
    assert made.optimum == pytest.approx(best, abs=1e-6)
    assert made.optimum - 1e-6 <= made.loss <= made.optimum * 1.01


def random_chain(rng: np.random.Generator, n: int, memory: int) -> tuple[list[int], list[int]]:
    size = n**memory
    return shares(rng, size, 1 << 15, 1, 1.0), rows(rng, size, n, bool(rng.integers(2)))


@pytest.mark.parametrize("epsilon", [0.2, 0.5, 1, 2, 4, 9])
@pytest.mark.parametrize(("n", "block", "memory"), [(2, 2, 1), (2, 3, 2), (3, 2, 1), (4, 2, 2)])
def test_a_table_is_never_worse_than_k_rr_of_blocks(
    n: int, block: int, memory: int, epsilon: float
) -> None:
    """And private, with what rounding costs being little (a unit of 2^15 for each block)."""
    rng = np.random.default_rng([n, block, memory, int(10 * epsilon)])
    for _ in range(2):
        bare = table_task(
            *random_chain(rng, n, memory), epsilon, block,
            table=stand_in_table(n**block), memory=memory, loss=int(rng.integers(1, 4)),
        )  # fmt: skip
        made = make_table(bare)
        task = with_table(bare, made.table)
        assert table_fault(task) is None
        own = expected(task, table_of(task) / TABLE_SCALE)
        assert own == pytest.approx(made.loss)
        krr = expected(task, krr_kernel(n**block, -float(np.log(float(q_of(task))))))
        # k-RR's own lies are no whole units.
        units = n ** (2 * block) / TABLE_SCALE
        assert made.optimum <= krr + 1e-7
        assert own <= krr + units * float(losses_of(task).max()) * block
        assert made.optimum - 1e-6 <= own <= made.optimum + 0.5 * units * losses_of(task).max()
        if epsilon < 9:
            assert own <= krr


def test_the_largest_tables_are_private() -> None:
    """36 blocks, after 36 states; and 32."""
    rng = np.random.default_rng(5)
    told: list[tuple[int, int]] = []
    task = table_task(*random_chain(rng, 6, 1), 1, table=stand_in_table(36), loss=2)
    made = make_table(task, lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1]
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert table_fault(task, made.table) is None
    task = table_task(*random_chain(rng, 2, 2), 2, 5, memory=2)
    assert table_fault(task) is None


@pytest.mark.soak
@pytest.mark.parametrize("epsilon", [0.5, 2, 6])
def test_the_largest_tables_with_memory_are_private(epsilon: float) -> None:
    rng = np.random.default_rng(int(epsilon))
    for n, block, memory in ((6, 2, 2), (2, 5, 5), (5, 2, 2), (3, 3, 3)):
        task = table_task(*random_chain(rng, n, memory), epsilon, block, memory=memory)
        assert table_fault(task) is None


def test_the_long_run_starts_from_the_prior() -> None:
    """A chain of two parts that are never left, and one that goes round between two."""
    half = 1 << 13
    apart = [half, half, 0, 0] * 2 + [0, 0, half, half] * 2
    prior = [20000, 4576, 4096, 4096]
    starts = long_run(table_task(prior, apart, 1)).reshape(4, 4).sum(axis=1)
    assert np.allclose(starts, [0.375, 0.375, 0.125, 0.125])
    around = [0, 0, half, half] * 2 + [half, half, 0, 0] * 2
    starts = long_run(table_task(prior, around, 1)).reshape(4, 4).sum(axis=1)
    assert np.allclose(starts, [0.375, 0.375, 0.125, 0.125])
    # Blocks of three steps begin in either part in turn.
    odd = table_task([16000, 500, 16000, 268], [half, half] * 2 + [half] * 4, 1, 3, memory=2)
    assert long_run(odd).sum() == pytest.approx(1)


@pytest.mark.parametrize("chain", [*CHAINS, GAPS])
def test_the_long_run_is_the_average_of_blocks(chain: tuple[list[int], list[int]]) -> None:
    task = table_task(*chain, 1)
    n = task.symbols
    step = np.array(task.transitions).reshape(n, n) / (1 << 14)
    law, total = np.array(task.prior) / (1 << 15), np.zeros(n * n)
    for _ in range(20_000):
        total += (law[:, None] * step).ravel()
        law = law @ step @ step
    assert np.allclose(total / 20_000, long_run(task), atol=1e-3)


def test_without_a_margin_rounding_is_not_private(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is lost to rounding is not lost in vain: no table but plain ones is left without it."""
    task = table_task(*MILD, 1)
    made = make_table(task)
    monkeypatch.setattr(crr_tables, "_MARGINS", (0.0,))
    bare = make_table(task)
    assert table_fault(task, bare.table) is None
    assert bare.loss > made.loss + 0.01


def test_units_are_moved_to_where_they_cost_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a large epsilon, where few units are left for lies; and what is not private is dropped."""
    task = table_task(*random_chain(np.random.default_rng(4), 3, 1), 6)
    made = make_table(task)
    monkeypatch.setattr(crr_tables, "improved", lambda table, *_: table)
    plain = make_table(task)
    assert table_fault(task, made.table) is None
    assert made.optimum <= made.loss < plain.loss
    only_truth = np.eye(9, dtype=np.int64) * TABLE_SCALE
    monkeypatch.setattr(crr_tables, "improved", lambda *_: only_truth)
    assert make_table(task).table == plain.table


def test_a_table_that_tells_nothing_is_said_to(tmp_path: Path) -> None:
    text = STUDY.replace("[[0.75, 0.25], [0.3, 0.7]]", "[[0.9, 0.1], [0.8, 0.2]]")
    made = plan(written(tmp_path, text.replace("epsilon = 1", "epsilon = 0.1")))
    assert "releases the same block whatever is measured" in text_plan(made)
    assert "1 of 4 blocks" in text_plan(made)


def test_beside_other_rules(tmp_path: Path) -> None:
    """A printed table of losses; a table is better than min_error for some, worse for others."""
    study = load_study(written(tmp_path))
    lines = ["chain    epsilon   table  min_error  k-RR of blocks  of steps"]
    better = []
    for name, chain in (("mild", MILD), ("rare", RARE), ("sticky", STICKY)):
        for epsilon in (0.5, 1, 2):
            task = table_task(*chain, epsilon, 3 if name == "mild" else 2)
            # What the optimum is has no say here.
            found = table_costs(study, task, 0.0)
            assert found.loss <= found.krr_block
            better.append((name, found.loss < found.min_error))
            lines.append(
                f"{name:8} {epsilon:7} {found.loss:7.4f} {found.min_error:10.4f} "
                f"{found.krr_block:15.4f} {found.krr:9.4f}"
            )
            said = "less loss than the table" in " ".join(table_lines(task, found))
            assert said == (found.min_error < found.loss)
    print("\n".join(lines))
    assert ("mild", True) in better
    assert ("sticky", False) in better


def test_an_epsilon_that_no_threshold_has_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, STUDY.replace("epsilon = 1", "epsilon = 0.00003"))
    with pytest.raises(UserError, match="for CRR, whose shares are counted"):
        plan(path)


def test_the_least_epsilon_has_a_table(tmp_path: Path) -> None:
    made = plan(written(tmp_path, STUDY.replace("epsilon = 1", "epsilon = 0.0001")))
    assert q_of(made.task) == Fraction(16383, 16384)
    assert table_fault(made.task) is None
