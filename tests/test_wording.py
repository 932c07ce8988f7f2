"""Sentences about one of something are in the singular."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.crr_tasks import sticky
from tests.epochs_studies import THRESH, changed
from tests.epochs_studies import load as load_epochs
from tinyldp.certify import certify, text_certificate
from tinyldp.certify.text import _line
from tinyldp.errors import UserError
from tinyldp.figures import counted, fixed, percent
from tinyldp.planning import choose, plan, text_plan
from tinyldp.planning.crr_text import described
from tinyldp.report import columns
from tinyldp.simulate import simulate, text_simulation

PLURAL = re.compile(r"(?<![\d.,^])1 (?:consecutive )?[a-z]+s\b")
STUDY = """
[study]
name = "one"
[mechanism]
name = "{name}"
[privacy]
{privacy}
[values]
domain = 2
[fleet]
devices = 1
"""


def test_a_number_with_its_noun() -> None:
    assert [counted(n, "step") for n in (0, 1, 2, 1000)] == [
        "0 steps",
        "1 step",
        "2 steps",
        "1,000 steps",
    ]
    assert counted(1, "entry", "entries") == "1 entry"
    assert counted(3, "entry", "entries") == "3 entries"
    assert PLURAL.search("a report in 1 steps")


@pytest.mark.parametrize(
    ("name", "privacy"),
    [
        ("grr", "epsilon = 1\nw = 1"),
        ("lbu", "epsilon = 1\nw = 1"),
        ("lpu", "epsilon = 1\nw = 3"),
        ("ranswitch", "epsilon = 4\ndelta = 0.9\nk = 2"),
        ("staswitch", "epsilon = 4\ndelta = 0.9\nk = 2"),
    ],
)
def test_studies_of_one(tmp_path: Path, name: str, privacy: str) -> None:
    path = tmp_path / "one.toml"
    text = STUDY.format(name=name, privacy=privacy)
    if "switch" in name:
        text += "[timing]\noutbox = 1\n"
    path.write_text(text)
    planned = plan(path)
    said = [text_plan(planned), text_certificate(certify(planned.task))]
    if name != "lpu":
        said.append(text_simulation(simulate(path, steps=60)))
    for text in said:
        assert not PLURAL.search(text), text


@pytest.mark.parametrize("more", ["", "-batch"])
def test_crr_of_one_step(tmp_path: Path, more: str) -> None:
    """One step, one device; and nobody takes the epsilon of a release for all that is told."""
    path = tmp_path / "one.toml"
    text = STUDY.format(name="crr" + more, privacy="epsilon = 1\nw = 1\ndelta = 0.01")
    model = "transitions = [[0.8, 0.2], [0.3, 0.7]]\n" + ("block = 2\n" if more else "")
    path.write_text(text.replace("[privacy]", model + "[privacy]"))
    planned = plan(path)
    certificate = certify(planned.task)
    told = text_plan(planned), text_certificate(certificate)
    for said in (*told, text_simulation(simulate(path, steps=60))):
        assert not PLURAL.search(re.sub(r"\n {10,}", " ", said)), said
    for said in told:
        assert "ater releases tell of" in " ".join(said.split())


def test_a_refusal_for_one(tmp_path: Path) -> None:
    one = "votes = 2\npolls = 1\npoll_epsilon = 4\n"
    with pytest.raises(UserError, match="poll_epsilon 4 in 1 poll leaves nothing"):
        choose(load_epochs(tmp_path, changed(THRESH, ("votes = 2\n", one))))


@pytest.mark.parametrize(
    ("x", "digits", "text"),
    [(-0.0004, 2, "-0.04"), (-0.0004, 0, "0"), (-0.00001, 1, "0.0"), (0.126, 1, "12.6")],
)
def test_no_minus_before_a_zero(x: float, digits: int, text: str) -> None:
    assert percent(x, digits) == text
    assert fixed(100 * x, digits) == text


def test_cells_of_reports_have_no_minus_before_a_zero() -> None:
    """Of all columns that show shares and means."""
    step = {"t": 1, "since": 1, "frequencies": [-1e-6], "low": [0.0], "high": [-1e-6]}
    table = {"followed": [0], "names": None, "confidence": 0.95, "steps": [step]}
    (row,) = columns.round_rows(table)
    assert row["value 0"] == "0.0 (0.0 to 0.0) %"
    poll = dict.fromkeys(("poll", "poll_low", "poll_high"), -1e-6)
    (row,) = columns.epoch_rows({"steps": [poll]})
    assert row["live"] == "0 % (0 to 0)"
    keys = {"mean", "low", "high", "share", "frequency"}
    for table, text in (
        (columns.EPOCH_STEPS, "0.000"),
        (columns.CURVE, "0.000"),
        (columns.ITEMS, "0.00 %"),
    ):
        for column in table:
            if column.key in keys:
                of_share = column.key == "share"
                assert column.cell({column.key: -1e-6}) == ("0.00 %" if of_share else text)


@pytest.mark.parametrize("steps", [1, 400, 1000, 1_000_000])
def test_a_long_label_is_apart_from_its_figure(steps: int) -> None:
    label = f"in {counted(steps, 'step')}"
    assert _line(label, "epsilon 199.9").split() == [*label.split(), "epsilon", "199.9"]


def test_crr_is_told_in_plain_words() -> None:
    """Terms of the proofs are not what a reader of a plan or certificate knows."""
    task = sticky(3, 1, 0.9)
    certificate = text_certificate(certify(task))
    said = " ".join([*certificate.split(), described(task)])
    assert "of releases that were followed" in said
    assert "drawn without a look at the value" in said
    for term in ("tell nothing", "histories: reached", "them Birkhoff"):
        assert term not in said
