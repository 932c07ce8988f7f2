"""What becomes of missing readings is said by plan and certificate, of every kind of Task."""

from pathlib import Path

import pytest

from tests.epochs_studies import THRESH, load
from tests.planning_studies import make_study
from tinyldp.certify import certify
from tinyldp.certify.text import text_certificate
from tinyldp.planning import choose
from tinyldp.planning.outcome import assess, text_plan
from tinyldp.study import Study

AMONG = "as symbol 0, like the lowest readings"
NAMED = "as symbol 3, and estimates count it"
ALONE = "as symbol 4, which no reading has"


def study(folder: Path, kind: str, rest: str = "") -> Study:
    if kind == "thresh":
        return load(folder, THRESH)
    privacy = {"grr": "epsilon = 1", "ranswitch": "epsilon = 4\ndelta = 0.125\nk = 5"}
    domain = 5 if "bins" in rest else 16
    return make_study(folder, kind, privacy.get(kind, "epsilon = 1\nw = 4"), "", domain, rest)


@pytest.mark.parametrize(
    ("kind", "values", "said"),
    [
        *((kind, "", AMONG) for kind in ("ranswitch", "grr", "lba", "thresh")),
        ("grr", "missing = 3", NAMED),
        ("lpa", "bins = [1, 2, 3]\nmissing = 4", ALONE),
    ],
)
def test_said(tmp_path: Path, kind: str, values: str, said: str) -> None:
    stated = study(tmp_path, kind, values)
    task = choose(stated)
    plan = assess(stated, task, tmp_path / "a.task")
    assert said in text_plan(plan)
    assert plan.to_json()["missing"] == (task.missing or 0)
    certificate = certify(task)
    assert said in " ".join(text_certificate(certificate).split())
    assert said in certificate.to_json()["assumptions"][-1]
