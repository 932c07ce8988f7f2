"""Plans of CRR: the target is met with no more noise than needed, and costs are what they are."""

import json
import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from tests.crr_studies import STUDY, crr_study, crr_task, kernel, write_crr
from tinyldp.audit import audit
from tinyldp.certify import certify
from tinyldp.certify.bounds import exp_bounds
from tinyldp.cli import main
from tinyldp.crr.device import device_policy
from tinyldp.crr.lp import loss_matrix
from tinyldp.crr.model import PRIOR_SCALE, ROW_SCALE
from tinyldp.crr.steps import Step, expected_loss, share_of
from tinyldp.errors import UserError
from tinyldp.planning import choose, crr_costs, krr, plan, text_plan
from tinyldp.planning.board_memory import mechanism_bytes
from tinyldp.planning.crr_costs import costs_of
from tinyldp.simulate import simulate
from tinyldp.study import load_task
from tinyldp_protocol.task import Task

PRIOR = "prior = [0.4, 0.35, 0.25]"


@pytest.mark.parametrize(
    "epsilon", ["0.0001", "0.1", "0.5", "0.6931471805599453", "1", "2.5", "4", "9.7", "20"]
)
def test_the_least_share_that_meets_the_target(tmp_path, epsilon):
    """e = ceil(2^14 e^-epsilon): one less would tell too much, unless there is none less."""
    task = choose(crr_study(tmp_path, STUDY.replace("epsilon = 1", f"epsilon = {epsilon}")))
    share = share_of(task)
    assert task.thresholds == [share << 10]
    target = Fraction(task.epsilon or 0, 1 << 16)
    low, high = exp_bounds(-target)
    assert Fraction(share, ROW_SCALE) >= high
    assert share == 1 or Fraction(share - 1, ROW_SCALE) < low
    assert certify(task).within_target


def test_an_epsilon_below_the_resolution(tmp_path):
    with pytest.raises(UserError, match=r"epsilon must be 0.00007630 or more .* is 0.00002\."):
        choose(crr_study(tmp_path, STUDY.replace("epsilon = 1", "epsilon = 0.00002")))
    # A study's is rounded down to 1/65536: what is named is enough nevertheless, and -ln q isn't.
    with pytest.raises(UserError, match=r"epsilon must be 0.00007630 or more .* is 0.00007\."):
        choose(crr_study(tmp_path, STUDY.replace("epsilon = 1", "epsilon = 0.0000610371")))
    choose(crr_study(tmp_path, STUDY.replace("epsilon = 1", "epsilon = 0.0000763")))


def test_tables_that_are_too_large_for_the_board(tmp_path):
    text = STUDY + "[fleet]\nboard_memory = {}\n"
    need = mechanism_bytes(choose(crr_study(tmp_path, text.format(100_000))))
    choose(crr_study(tmp_path, text.format(need)))
    sentence = rf"tables of 3 symbols take {need} bytes .* and there are {need - 1} for them"
    with pytest.raises(UserError, match=sentence):
        choose(crr_study(tmp_path, text.format(need - 1)))


def test_plan_writes_a_task_that_certifies(tmp_path):
    planned = plan(write_crr(tmp_path, STUDY.replace("epsilon = 1", "epsilon = 1\nw = 10")))
    task = load_task(tmp_path / "crr.task")
    assert task.id == planned.task.id
    certificate = certify(task)
    assert certificate.within_target
    assert planned.crr is not None
    assert planned.epsilon == pytest.approx(float(certificate.epsilon))
    # The plan's bound does not look at histories, and so is no smaller.
    assert certificate.per_window is not None
    assert planned.crr.sequence_epsilon is not None
    assert float(certificate.per_window) <= planned.crr.sequence_epsilon
    content = json.loads(json.dumps(planned.to_json()))
    assert content["mechanism"] == "crr"
    assert content["integers"]["prior"] == task.prior
    assert set(content["crr"]) == {
        *("expected_loss", "standard_error", "optimum", "gap", "largest_gap", "compared"),
        "beliefs",
        *("rarest_over_kappa", "krr", "leakage", "table_bytes", "warnings"),
    }
    text = text_plan(planned)
    for word in ("CRR, preserve with hamming loss", "linear program"):
        assert word in text


def test_k_rr_beside_it_has_the_same_guarantees_as_in_a_simulation(tmp_path):
    """Of a step, twice that whatever the model, and a sequence of all w steps, where it can be."""
    path = write_crr(tmp_path, STUDY.replace("epsilon = 1", "epsilon = 1\nw = 10"))
    planned = plan(path)
    assert planned.crr is not None
    krr_losses = planned.to_json()["crr"]["krr"]
    played = simulate(path, devices=20_000, steps=5).to_json()
    assert krr_losses["same_epsilon"] == pytest.approx(played["krr_loss"], abs=0.01)
    assert krr_losses["double_epsilon"] == pytest.approx(played["krr_double_loss"], abs=0.01)
    assert krr_losses["sequence_steps"] == 10
    text = text_plan(planned)
    assert "k-RR with epsilon 0.9999 a step: 0.4239." in text
    assert "k-RR with twice that, which CRR guarantees whatever the model: 0.2131." in text
    assert "of which a sequence of 10 steps tells as much" in text


def test_a_sequence_of_k_rr_that_is_cut_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(krr, "_MOST", 3**4)
    text = STUDY.replace("epsilon = 1", "epsilon = 1\nw = 10")
    said = text_plan(plan(write_crr(tmp_path, text)))
    assert "a sequence of 4 steps (10 would take too long) tells as much, 4" in said


def test_a_block_s_epsilon_is_spread_over_its_steps(tmp_path):
    text = STUDY.replace('name = "crr"', 'name = "crr-batch"\nblock = 2')
    said = text_plan(plan(write_crr(tmp_path, text)))
    assert "k-RR with epsilon 0.4999 a step, a block's 0.9999 over its 2: " in said


def test_a_trained_plan_warns_that_its_series_must_be_public(tmp_path):
    (tmp_path / "t.csv").write_text("value\n" + "0\n1\n2\n2\n1\n0\n0\n" * 20)
    rows = STUDY[STUDY.index("transitions") :].splitlines()[0]
    text = STUDY.replace(PRIOR, "").replace(rows, 'train = "t.csv"')
    planned = plan(write_crr(tmp_path, text))
    assert "Warning: The prior and the transitions were estimated" in text_plan(planned)
    assert "must be public" in planned.to_json()["crr"]["warnings"][0]
    assert plan(write_crr(tmp_path)).to_json()["crr"]["warnings"] == []


def chain(stay: Fraction, epsilon: float, rule: int = 1) -> Task:
    """Two states, of which the present one stays with this probability."""
    share = math.ceil(ROW_SCALE * math.exp(-epsilon))
    same = min(ROW_SCALE - 1, round(stay * ROW_SCALE))
    rows = [same, ROW_SCALE - same, ROW_SCALE - same, same]
    return crr_task([PRIOR_SCALE // 2] * 2, rows, share, rule)


@pytest.mark.parametrize("rule", [1, 2])
@pytest.mark.parametrize("stay", [Fraction(n, 100) for n in (50, 60, 70, 80, 90, 95, 99)])
@pytest.mark.parametrize("epsilon", [0.5, 1, 2, 4])
def test_never_worse_than_k_rr_at_an_equal_guarantee(monkeypatch, rule, stay, epsilon):
    """Neither at the same epsilon a step nor at the same leakage of a sequence.

    Where no value is rare CRR is the optimum of a step. The false alarm of 4 standard errors:
    below 10^-3 for all settings together.
    """
    monkeypatch.setattr(crr_costs, "_HISTORY", 400)
    monkeypatch.setattr(crr_costs, "_COMPARED", 5)
    task = chain(stay, epsilon, rule)
    costs = costs_of(task, device_policy(task))
    assert costs.krr_sequence is not None
    slack = 4 * costs.spread + 1e-3
    assert costs.loss <= costs.krr + slack
    assert costs.loss <= costs.krr_sequence + slack
    assert costs.gap is not None
    if costs.rarest >= 1:
        assert costs.gap < 1e-3
    # Independent steps are where k-RR that tells as much is the optimum, too.
    if stay == Fraction(1, 2):
        assert costs.loss == pytest.approx(costs.krr_sequence, abs=1e-3)


def test_there_are_rare_values_and_none(monkeypatch):
    """So that the test above looks at both."""
    monkeypatch.setattr(crr_costs, "_HISTORY", 100)
    plain, rare = chain(Fraction(3, 5), 2), chain(Fraction(99, 100), 1)
    assert costs_of(plain, device_policy(plain)).rarest >= 1
    assert costs_of(rare, device_policy(rare)).rarest < 1


class Half:
    """A policy that releases more noise than it must: half of what is served is not."""

    def __init__(self, task: Task) -> None:
        self._policy = device_policy(task)

    def _noisy(self, step: Step) -> Step:
        # All rows unserved: the law of all.
        return Step(step.belief, step.belief, tuple({} for _ in step.rows), step.memory)

    def first(self) -> Step:
        return self._noisy(self._policy.first())

    def ends(self, step: Step) -> list[Step]:
        return []

    def after(self, step: Step, released: int) -> Step:
        return self.first()


def test_a_rule_that_releases_too_much_noise_is_seen_by_its_gap(monkeypatch):
    monkeypatch.setattr(crr_costs, "_HISTORY", 100)
    task = chain(Fraction(4, 5), 1)
    good, bad = costs_of(task, device_policy(task)), costs_of(task, Half(task))
    assert good.gap is not None
    assert bad.gap is not None
    assert good.gap < 0.001
    assert bad.gap > 0.2


@pytest.mark.parametrize("loss", [1, 2, 3])
def test_the_expected_loss_is_that_of_the_kernel(loss):
    task = crr_task(
        [31000, 1500, 268], [15400, 900, 84, 2000, 14000, 384, 500, 500, 15384], 6028, 1, loss
    )
    policy = device_policy(task)
    losses = loss_matrix(loss, 3)
    for step in (policy.first(), policy.after(policy.first(), 1)):
        exact = sum(
            Fraction(b, PRIOR_SCALE) * m * int(losses[x, y])
            for x, (b, row) in enumerate(zip(step.belief, kernel(step, 6028), strict=True))
            for y, m in enumerate(row)
        )
        assert expected_loss(step, 6028, losses) == pytest.approx(float(exact))


def brute_leakage(prior: np.ndarray, rows: np.ndarray, m: np.ndarray, steps: int) -> float:
    """All pairs of sequences, in floats."""
    n = len(prior)

    def series(length: int) -> Iterator[tuple[int, ...]]:
        return iter(np.ndindex(*([n] * length)))

    worst = 0.0
    for y in series(steps):
        law, given = 0.0, []
        for x in series(steps):
            chance = prior[x[0]] * np.prod([rows[a, b] for a, b in pairwise(x)])
            if chance:
                given.append(float(np.prod([m[a, b] for a, b in zip(x, y, strict=True)])))
                law += chance * given[-1]
        worst = max(worst, math.log(max(given) / law), math.log(law / min(given)))
    return worst


@pytest.mark.parametrize("n", [2, 3])
def test_what_a_sequence_of_k_rr_tells_is_exact(n):
    rng = np.random.default_rng(n)
    prior, rows = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(n), n)
    rows[0, 1] = 0
    rows[0] /= rows[0].sum()
    m = krr.krr_kernel(n, 1.3)
    assert m.sum(axis=1) == pytest.approx(1)
    for steps in (1, 2, 4):
        assert krr.sequence_leakage(prior, rows, m, steps) == pytest.approx(
            brute_leakage(prior, rows, m, steps)
        )


def test_k_rr_is_matched_to_the_budget():
    prior, rows = np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.1, 0.9]])
    found = krr.match_sequence(prior, rows, 1.0, 8)
    assert found.steps == 8
    assert found.budget == 8
    assert found.epsilon > 1
    told = krr.sequence_leakage(prior, rows, krr.krr_kernel(2, found.epsilon), 8)
    assert told == pytest.approx(8, abs=1e-6)
    more = krr.sequence_leakage(prior, rows, krr.krr_kernel(2, found.epsilon / 0.7), 8)
    assert more > 8


def test_an_audit_says_in_one_sentence_that_it_does_not_attack_crr():
    with pytest.raises(UserError, match="does not attack CRR"):
        audit(chain(Fraction(4, 5), 1), "cpython")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(list(arguments))
    caught = capsys.readouterr()
    return code, caught.out + caught.err


def test_from_the_command_line_to_a_certificate(tmp_path, capsys):
    study = write_crr(tmp_path)
    assert run(capsys, "plan", str(study))[0] == 0
    task = str(tmp_path / "crr.task")
    code, text = run(capsys, "certify", task)
    assert code == 0
    assert "epsilon 1: met" in text
    code, text = run(capsys, "certify", task, "--json")
    assert code == 0
    assert json.loads(text)["crr"]["belief"]["fault"] is None
    # Stated integers that tell more than the target.
    write_crr(tmp_path, STUDY.replace(PRIOR, f"{PRIOR}\nthreshold = 1048576"))
    code, text = run(capsys, "plan", str(study))
    assert code == 0
    assert "MORE THAN THE TARGET (epsilon 1)" in text
    code, text = run(capsys, "certify", task)
    assert code == 1
    assert "epsilon 1: EXCEEDED" in text


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (PRIOR, "prior = [0.6, 0.4, 0]", "prior must be above 0"),
        ("[0.3, 0.4, 0.3]", "[0.3, 0.4, 0.4]", "transitions: the row of symbol 1 must sum to 1"),
        ("domain = 3", "domain = 3\n[fleet]\nboard_memory = 9", "bytes of a board's memory"),
        (PRIOR, f'{PRIOR}\ntrain = "t.csv"', "prior can't be given beside train"),
    ],
)
def test_bad_input_is_one_sentence_on_the_command_line(tmp_path, capsys, old, new, sentence):
    study = write_crr(tmp_path, STUDY.replace(old, new))
    code, text = run(capsys, "plan", str(study))
    assert code == 2
    assert sentence in text
    assert text.count("\n") == 1
    assert not (tmp_path / "crr.task").exists()
