"""Certificates of rounds: a window's loss, against any server, from every entry."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import pytest

from tests.collecting import rounds_task
from tinyldp.certify import (
    certificate_path,
    certify,
    load_certificate,
    rounds,
    text_certificate,
    write_certificate,
)
from tinyldp.certify.bounds import exp_bounds
from tinyldp.errors import UserError
from tinyldp.study import METHODS
from tinyldp_protocol.task import (
    GRR,
    LBA,
    LBD,
    LBU,
    LPA,
    LPD,
    LPU,
    LSP,
    OLH,
    OUE,
    SCALE,
    Task,
    write_file,
)

F = Fraction


def with_threshold(task: Task, entry: int, threshold: int) -> Task:
    thresholds = list(task.thresholds)
    thresholds[entry] = threshold
    numbers = {name: value for name, value in vars(task).items() if name not in ("width", "id")}
    other = Task(numbers | {"thresholds": thresholds})
    write_file(other)
    return other


@pytest.mark.parametrize("name", METHODS)
def test_epsilon_of_a_window(name: str) -> None:
    task = rounds_task(METHODS[name], w=4, epsilon=2.0)
    certificate = certify(task)
    assert certificate.within_target
    assert (certificate.epsilon, certificate.delta) == (2, 0)
    assert (certificate.per_window, certificate.w) == (2, 4)
    found = json.loads(json.dumps(certificate.to_json()))
    assert (found["mechanism"], found["oracle"], found["task_id"]) == (name, "grr", task.id.hex())
    assert (found["epsilon"], found["delta"], found["within_target"]) == (2.0, 0.0, True)
    assert found["target"] == {"epsilon": 2.0, "delta": None}
    assert found["lifetime"]["per_window"] == 2.0
    assert "there is no bound" in found["lifetime"]["statement"]
    assert found["warnings"] == []
    assert found["curve"][-1][1] == 0
    for i, entry in enumerate(found["entries"]):
        assert (entry["spend"], entry["threshold"]) == (task.spends[i], task.thresholds[i])
        truth = SCALE - 3 * task.thresholds[i]
        assert entry["epsilon"] == pytest.approx(math.log(truth / task.thresholds[i]), rel=1e-12)
        assert entry["epsilon"] <= task.spends[i] / 65536
        assert entry["holds"]
    assumed = " ".join(found["assumptions"])
    assert "need not be honest" in assumed
    assert "rollback of the whole storage" in assumed
    assert "do not compose with rounds" in assumed
    once = "at most once in any 4 steps" in found["lifetime"]["statement"]
    assert once == (METHODS[name] in (LSP, LPU, LPD, LPA))


def test_what_the_paper_prints() -> None:
    printed = {
        method: certify(rounds_task(method)).to_json()["paper"] for method in METHODS.values()
    }
    for method, claim in printed.items():
        assert (claim["epsilon"], claim["delta"], claim["holds"]) == (2.0, 0.0, True)
        assert ("misprint" in claim["statement"]) == (method == LBD)
        assert ("one step earlier" in claim["statement"]) == (method in (LPD, LPA))
    assert "2 epsilon/w" in printed[LBD]["statement"]
    assert "2.5 epsilon" in printed[LBD]["statement"]


@pytest.mark.parametrize("mechanism", [GRR, OUE, OLH])
@pytest.mark.parametrize("method", METHODS.values())
def test_one_step_less_noise_at_any_entry_is_outside(method: int, mechanism: int) -> None:
    own = {"buckets": 3} if mechanism == OLH else {}
    values = {GRR: 4, OUE: 2, OLH: 3}[mechanism]
    base = rounds_task(method)
    thresholds = [
        math.ceil(SCALE / (math.exp(spend / 65536) + values - 1)) for spend in base.spends
    ]
    task = rounds_task(method, mechanism=mechanism, thresholds=thresholds, **own)
    assert certify(task).within_target
    for entry, threshold in enumerate(thresholds):
        beyond = certify(with_threshold(task, entry, threshold - 1))
        assert not beyond.within_target
        assert beyond.to_json()["within_target"] is False
        assert [each.holds for each in beyond.entries or ()].count(False) == 1
        assert not (beyond.entries or ())[entry].holds
        assert beyond.epsilon > 2
        assert any(f"entry {entry}" in warning for warning in beyond.warnings)


def test_a_window_of_entries_that_lose_more() -> None:
    """Each answer loses half as much again: so does a window."""
    task = rounds_task(LBU, w=2, epsilon=1.0, symbols=2)
    loss = 1.5 * task.spends[0] / 65536
    beyond = certify(with_threshold(task, 0, round(SCALE / (math.exp(loss) + 1))))
    assert float(beyond.epsilon) == pytest.approx(1.5, rel=1e-5)
    assert beyond.per_window == beyond.epsilon
    assert not beyond.within_target
    text = text_certificate(beyond)
    assert "EXCEEDED" in text
    assert "MORE THAN THEIR SPEND" not in text_certificate(certify(task))
    assert "MORE THAN THEIR SPEND" in text


def exact_delta(truths: list[F], epsilon: F) -> F:
    """Delta of independent binary answers, each true with its probability; e^epsilon from below."""
    low = exp_bounds(epsilon)[0]
    total = F(0)
    for flips in itertools.product((0, 1), repeat=len(truths)):
        one, other = F(1), F(1)
        for flip, truth in zip(flips, truths, strict=True):
            one *= 1 - truth if flip else truth
            other *= truth if flip else 1 - truth
        total += max(F(0), one - low * other)
    return total


@pytest.mark.parametrize("w", [1, 2, 5])
def test_the_curve_is_above_the_exact_one(w: int) -> None:
    """Of LBU over two values, a whole window: the bound holds, and for one answer is tight."""
    task = rounds_task(LBU, w=w, epsilon=1.5, symbols=2)
    truth = 1 - F(task.thresholds[0], SCALE)
    for epsilon, delta in certify(task).curve:
        exact = exact_delta([truth] * w, epsilon)
        assert exact <= delta
        if w == 1:
            assert float(delta - exact) < 1e-6
    assert exact_delta([truth] * w, F(1)) > 0
    # A server that gets one answer too many exceeds it.
    assert exact_delta([truth] * (w + 1), F(3, 2)) > 0


def test_the_point_asked_for() -> None:
    task = rounds_task(LBA)
    certificate = certify(task, F(1))
    assert certificate.epsilon == 1
    assert certificate.delta == rounds.delta(F(2), F(1)) > 0
    assert certificate.within_target
    assert certify(task, F(3)).delta == 0


@pytest.mark.parametrize("method", [LBU, LBA, LPU])
def test_text_has_the_figures_and_fits_a_terminal(method: int) -> None:
    task = rounds_task(method, w=20, epsilon=1.0)
    text = text_certificate(certify(task))
    assert max(map(len, text.splitlines())) <= 88
    assert f"Task {task.id.hex()}" in text
    assert "over grr" in text
    assert "in 20 steps" in text
    flat = " ".join(text.split())
    assert "none more than its spend" in flat
    assert "rollback of the whole storage" in flat
    assert "LDP-IDS claims" in flat


def test_a_certificate_as_a_file(tmp_path: Path) -> None:
    task = rounds_task(LPA)
    path = tmp_path / "s.task"
    write_certificate(certify(task), certificate_path(path))
    assert load_certificate(path, task)["mechanism"] == "lpa"
    beyond = with_threshold(task, 0, task.thresholds[0] - 1)
    with pytest.raises(UserError, match="not of"):
        load_certificate(path, beyond)
    write_certificate(certify(beyond), certificate_path(path))
    with pytest.raises(UserError, match="gives away more than its target"):
        load_certificate(path, beyond)


def test_delta_of_any_pure_loss() -> None:
    assert rounds.delta(F(1), F(1)) == rounds.delta(F(1), F(2)) == 0
    assert float(rounds.delta(F(2), F(0))) == pytest.approx(math.tanh(1), rel=1e-12)
    assert rounds.delta(F(2), F(0)) > rounds.delta(F(2), F(1)) > rounds.delta(F(1), F(1, 2)) > 0
