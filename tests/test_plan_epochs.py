"""Planning Thresh and HeavyThresh: integers, what can't work, what it costs."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.epochs_studies import HEAVY, THRESH, changed, load, paper
from tinyldp import cli
from tinyldp.certify import certify, epochs
from tinyldp.errors import UserError
from tinyldp.planning import choose, plan, text_plan
from tinyldp.planning.epochs import every, margin, update_chance
from tinyldp.planning.epochs_costs import epoch_costs
from tinyldp.simulate.epochs import simulate_epochs
from tinyldp.study import load_study
from tinyldp_protocol.task import SCALE, Task


def losses(task: Task) -> tuple[float, ...]:
    return tuple(math.log((SCALE - one) / one) for one in task.thresholds)


def test_tuned_spends_what_it_is_given(tmp_path: Path) -> None:
    for epsilon in ("4", "1.3", "0.7"):
        for votes, estimates in ((2, 2), (1, 3), (4, 2)):
            text = changed(
                THRESH,
                ("epsilon = 4", f"epsilon = {epsilon}"),
                ("votes = 2\nestimates = 2", f"votes = {votes}\nestimates = {estimates}"),
                ("devices = 1000", "devices = 100000"),
            )
            task = choose(load(tmp_path, text))
            a, b = losses(task)
            assert a == pytest.approx(float(epsilon) / (4 * votes), abs=1e-5)
            assert b == pytest.approx(float(epsilon) / (2 * estimates), abs=1e-5)
            certified = certify(task)
            assert certified.within_target
            assert certified.epsilon <= Fraction(epsilon)
            # One step less noise in either, and it would cost more than was stated.
            numbers = {n: v for n, v in vars(task).items() if n not in ("width", "id")}
            for i in (0, 1):
                thresholds = list(task.thresholds)
                thresholds[i] -= 1
                share = Fraction(int(Fraction(epsilon) * 65536), 2 * 65536)
                said = epochs.disclosures(Task(numbers | {"thresholds": thresholds}))
                assert said[i].total > share >= epochs.disclosures(task)[i].total


def test_the_papers_figures(tmp_path: Path) -> None:
    """a, b and the caps of n = 20,000, epsilon = 2, computed by hand from the formulas."""
    study = load(tmp_path, paper(THRESH, ("devices = 1000", "devices = 20000"), ("= 4\n", "= 2\n")))
    task = choose(study)
    a, b = losses(task)
    spread = 20000 * math.log(12 * 16 / 0.1)
    assert a == pytest.approx(
        4 * math.sqrt(2 * spread) / (20000 - 3 / math.sqrt(2) * spread**0.5), 1e-5
    )
    q = math.sqrt(math.log(1920) / 40000)
    r = 4 * math.sqrt(math.log(12 * 20000 * 16 / 0.1) / 16384)
    assert b == pytest.approx(2 * q / (r - q), rel=1e-5)
    assert (a, b) == (pytest.approx(0.11471, rel=1e-4), pytest.approx(0.23532, rel=1e-4))
    assert (task.votes, task.estimates) == (4, 2)
    # Charged is what it costs, not the epsilon that it was made for.
    assert (task.epsilon or 0) / 65536 == pytest.approx(8 * a + 2 * b, abs=2e-5)
    assert certify(task).within_target


def test_levels(tmp_path: Path) -> None:
    task = choose(load(tmp_path, THRESH))
    unit = 2 * math.sqrt(math.log(12 * 1000 * 16 / 0.1) / (2 * 8192))
    assert list(task.levels) == [math.floor(i * unit * 8192) for i in range(1, 6)]
    robust = choose(load(tmp_path, changed(THRESH, ("votes", "ignore = 0.1\nvotes"))))
    assert list(robust.levels) == [math.floor((i * unit + 0.1) * 8192) for i in range(1, 6)]
    several = choose(load(tmp_path, changed(THRESH, ("domain = 2", "domain = 5"))))
    assert list(several.levels) == [math.floor(i * unit * 4 * 8192) for i in range(1, 6)]
    heavy = choose(load(tmp_path, HEAVY))
    inner = 16 * 1024 * 100000 * 8 / 0.1
    tau = 2 * math.sqrt(2 * math.log(inner) / (1024 * 4096))
    found = [math.floor(i * tau * math.sqrt(1024) * 4096) for i in range(1, 5)]
    assert list(heavy.levels) == found
    # What can't be reached is at the most that can: nothing is above that.
    short = changed(THRESH, ("rounds = 8192", "rounds = 256"), ("0.2, 0.7", "0, 1"))
    assert list(choose(load(tmp_path, short)).levels[-2:]) == [256, 256]


def test_polls_are_paid_for_first(tmp_path: Path) -> None:
    more = "polls = 4\npoll_epsilon = 0.25\nvotes"
    task = choose(load(tmp_path, changed(THRESH, ("votes", more))))
    a, b, c = losses(task)
    assert c == pytest.approx(0.25, rel=1e-5)
    assert (a, b) == (pytest.approx(3 / 8, rel=1e-5), pytest.approx(3 / 4, rel=1e-5))
    assert task.polls == 4
    assert certify(task).epsilon <= 4
    with pytest.raises(UserError, match="leaves nothing of epsilon 4"):
        choose(load(tmp_path, changed(THRESH, ("votes", "polls = 16\npoll_epsilon = 0.25\nvotes"))))


# What can't work: the study, the reason, what is offered.
DEGENERATE = {
    "n = 2000, epsilon 1, tuned": (
        changed(THRESH, ("= 1000", "= 2000"), ("= 4\n", "= 1\n"), ("votes = 2", "votes = 4")),
        "even if all devices vote for an update there is none",
        "votes = 2",
    ),
    "n = 2000, epsilon 1, paper": (
        paper(THRESH, ("= 1000", "= 2000"), ("= 4\n", "= 1\n")),
        "no vote is allowed: with the paper's noise each costs 0.4",
        'profile = "tuned", votes = 2 and estimates = 2',
    ),
    "n = 50,000, epsilon 1, paper": (
        paper(THRESH, ("= 1000", "= 50000"), ("= 4\n", "= 1\n")),
        "there is no second estimate: each device may give 1",
        'profile = "tuned", votes = 2 and estimates = 2',
    ),
    "a small subgroup, paper": (
        paper(THRESH, ("epochs", "subgroups = 9\nsmallest_subgroup = 100\nepochs")),
        "needs a smallest subgroup of more than",
        "64,000 devices, 6,400 of them in the smallest subgroup",
    ),
    "R below Q": (
        paper(THRESH, ("rounds = 8192", "rounds = 1000000")),
        "needs R above Q, and R is 0.0108 and Q 0.0615",
        'profile = "tuned", votes = 2 and estimates = 2',
    ),
    "short epochs": (
        changed(THRESH, ("rounds = 8192", "rounds = 64")),
        "epochs of 64 rounds are too short for the change at epoch 9",
        "rounds = 256",
    ),
    "short epochs, and no change is named": (
        changed(THRESH.replace("[stream]", "[x]"), ("rounds = 8192", "rounds = 16")).replace(
            THRESH[THRESH.index("[stream]") : THRESH.index("[fleet]")].replace("[stream]", "[x]"),
            "",
        ),
        "even the lowest level is as large as a change can be",
        "rounds = 32",
    ),
    "a change that is over too soon": (
        changed(THRESH, ("[0.2, 0.7]", "[0.2, 0.3, 0.2]"), ("at = [1, 9]", "at = [1, 9, 11]")),
        "the change at epoch 9 is over before it is voted on",
        "rounds = ",
    ),
    "one estimate": (
        changed(THRESH, ("estimates = 2", "estimates = 1")),
        "there is no second estimate",
        "estimates = 2",
    ),
    "a change that is to be ignored": (
        changed(THRESH, ("votes", "ignore = 0.5\nvotes")),
        "too short for the change at epoch 9",
        "ignore = 0",
    ),
    "a subgroup too small to be heard": (
        changed(THRESH, ("epochs", "subgroups = 2\nsmallest_subgroup = 200\nepochs")),
        "even if all of the smallest subgroup vote",
        "votes = 1",
    ),
    "no epsilon to speak of": (
        changed(THRESH, ("epsilon = 4", "epsilon = 0.0001")),
        "and no setting near to it works",
        "",
    ),
    "few devices with items": (
        changed(HEAVY, ("devices = 100000", "devices = 300"), ("= 4\n", "= 1\n")),
        "even if all devices vote",
        "epsilon = 4 and 19,000 devices",
    ),
    "noise of items": (
        changed(HEAVY, ("devices = 100000", "devices = 1000")),
        "what is published would be noise: from 1,000 devices with 2 estimates from epsilon 4 "
        "shares of items are estimated within 0.415, and the heavy ones have 0.15",
        "20,000 devices",
    ),
    "noise of items whose shares are not known": (
        changed(
            HEAVY.replace(HEAVY[HEAVY.index("[stream]") : HEAVY.index("[fleet]")], ""),
            ("devices = 100000", "devices = 120"),
        ),
        "and none has more than 1",
        "epsilon = 8",
    ),
    "noise of a mean": (
        changed(THRESH, ("estimates = 2", "estimates = 16"), ("devices = 1000", "devices = 300")),
        "the mean, in 0 to 1, is estimated within 0.906",
        "estimates = 8",
    ),
    "short epochs with items": (
        changed(HEAVY, ("rounds = 4096", "rounds = 64")),
        "too short for the change at epoch 5",
        "rounds = 128",
    ),
}


def mended(text: str, offer: str) -> str:
    """The study with what a sentence offers."""
    for key, value in re.findall(r"(\w+) = ([\w.\"]+)", offer):
        section = "privacy" if key == "epsilon" else "mechanism"
        text = re.sub(rf"(?m)^{key} = .*\n", "", text)
        text = text.replace(f"[{section}]\n", f"[{section}]\n{key} = {value}\n")
    devices = re.search(r"([\d,]+) devices", offer)
    if devices:
        number = devices[1].replace(",", "")
        text = re.sub(r"(?m)^devices = .*$", f"devices = {number}", text)
        smallest = re.search(r"([\d,]+) of them", offer)
        if smallest:
            number = smallest[1].replace(",", "")
            text = re.sub(r"(?m)^smallest_subgroup = .*$", f"smallest_subgroup = {number}", text)
    return text


@pytest.mark.parametrize("name", DEGENERATE)
def test_what_cannot_work_is_refused_with_what_does(tmp_path: Path, name: str) -> None:
    text, reason, offered = DEGENERATE[name]
    study = load(tmp_path, text)
    with pytest.raises(UserError) as error:
        choose(study)
    sentence = str(error.value)
    assert sentence.endswith(".")
    assert reason in sentence
    if not offered:
        return
    offer = sentence.partition("; it works with ")[2].removesuffix(".")
    assert offered in offer
    # It does.
    works = load(tmp_path, mended(text, offer))
    task = choose(works)
    assert update_chance(works, task.thresholds[0]) >= 0.95
    costs = epoch_costs(works, task)
    assert len(costs.changes) == len(works.stream.at) - 1 if works.stream else not costs.changes


@pytest.mark.parametrize(
    "name", ["n = 2000, epsilon 1, tuned", "n = 2000, epsilon 1, paper", "short epochs"]
)
def test_what_is_offered_finds_the_change(tmp_path: Path, name: str) -> None:
    """Each run misses with probability below 0.06: more than 4 of 12 with less than 4e-4."""
    text = DEGENERATE[name][0]
    with pytest.raises(UserError) as error:
        choose(load(tmp_path, text))
    study = load(tmp_path, mended(text, str(error.value).partition("works with ")[2][:-1]))
    task = choose(study)
    found = 0
    for seed in range(12):
        result = simulate_epochs(task, study.devices or 0, seed, stream=study.stream)
        updates = list(result.updates)
        found += len(updates) == 2 and updates[0] == 1 and 9 <= updates[1] <= 16
    assert found >= 8


def test_every_setting_that_is_known_to_work(tmp_path: Path) -> None:
    for n, epsilon, votes, estimates in (
        (1000, 4, 2, 2), (2000, 2, 4, 2), (2000, 2, 4, 3), (10000, 1, 4, 2), (10000, 1, 4, 3)
    ):  # fmt: skip
        text = changed(
            THRESH,
            ("= 1000", f"= {n}"),
            ("= 4\n", f"= {epsilon}\n"),
            ("votes = 2\nestimates = 2", f"votes = {votes}\nestimates = {estimates}"),
        )
        assert choose(load(tmp_path, text)).votes == votes
    choose(load(tmp_path, paper(THRESH, ("= 1000", "= 20000"), ("= 4\n", "= 2\n"))))
    choose(load(tmp_path, HEAVY))


@pytest.mark.parametrize(("factor", "held"), [(1.0, True), (0.7, False), (1.3, False)])
def test_the_chance_of_an_update(tmp_path: Path, factor: float, held: bool) -> None:
    """By 40,000 draws of all votes, at a chance of a half or so: a false alarm 1e-6."""
    text = changed(THRESH, ("= 1000", "= 2000"), ("= 4\n", "= 2\n"), ("votes = 2", "votes = 5"))
    study = load(tmp_path, text)
    lie = choose(study).thresholds[0] / SCALE
    chance = update_chance(study, round(lie * SCALE))
    assert 0.3 < chance < 0.9
    share = 1 - lie
    drawn = np.random.default_rng(3).binomial(2000, share, 40000) / 2000
    found = float(np.mean(drawn > lie + margin(study)))
    # And what a normal law leaves out, of steps of 1/2000.
    allowed = 4.9 * math.sqrt(chance * (1 - chance) / 40000) + 0.03
    assert (abs(found - factor * chance) <= allowed) == held


def test_in_which_epochs_a_difference_is_voted_on() -> None:
    levels = [10, 20, 30]
    found = [every(levels, d) for d in (10, 10.5, 20, 21, 30, 31, 1000)]
    assert found == [None, 4, 4, 2, 2, 1, 1]


def test_costs(tmp_path: Path) -> None:
    study = load(tmp_path, changed(THRESH, ("at = [1, 9]", "at = [1, 10]"), ("0.7", "0.32")))
    task = choose(study)
    costs = epoch_costs(study, task)
    # Above the first two of the levels .0593, .1188, ...
    ((change, delay),) = costs.changes
    assert (change.at, change.every, change.first) == (10, 8, 16)
    assert delay == costs.delay == pytest.approx(6, abs=1e-6)
    assert [row.every for row in costs.levels] == [16, 8, 4, 2, 1]
    assert [row.delay for row in costs.levels] == pytest.approx([7.5, 3.5, 1.5, 0.5, 0], abs=1e-6)
    gap = 1 - 2 * task.thresholds[1] / SCALE
    assert costs.deviation == pytest.approx(0.5 / gap / math.sqrt(1000))
    assert costs.interval == pytest.approx(1.96 * costs.deviation)
    assert costs.always == task.levels[-1] / 8192
    assert costs.lifetime == pytest.approx(4, rel=1e-5)
    none = epoch_costs(replace(study, stream=None), task)
    assert none.changes == ()
    assert none.delay == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("new", ["0.311", "0.3135", "0.33"])
@pytest.mark.parametrize(("factor", "held"), [(1.0, True), (0.7, False), (1.3, False)])
def test_delays_near_a_level(
    tmp_path: Path, new: str, factor: float, held: bool, delays: dict[str, list[int]]
) -> None:
    """By 100 simulated fleets: a false alarm 1e-4.

    Of changes by .11 to .13 more and more devices exceed the level .1188, and vote in epoch 8
    already; all exceed .0593, and vote in epoch 16.
    """
    text = changed(THRESH, ("at = [1, 9]", "at = [1, 6]"), ("0.7", new))
    study = load(tmp_path, text)
    task = choose(study)
    ((_, delay),) = epoch_costs(study, task).changes
    assert delay is not None
    if new not in delays:
        found = []
        for seed in range(100):
            run = simulate_epochs(task, 1000, seed, stream=study.stream, stream_seed=seed)
            later = [t - 6 for t in run.updates if t >= 6]
            found += later[:1]
        delays[new] = found
    found = delays[new]
    allowed = 3.9 * max(1.2, float(np.std(found))) / math.sqrt(len(found))
    assert (abs(np.mean(found) - factor * delay) <= allowed) == held


@pytest.fixture(scope="module")
def delays() -> dict[str, list[int]]:
    return {}


def test_a_plan_for_people_and_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.toml"
    for text, name in ((THRESH, "thresh"), (HEAVY, "heavythresh")):
        path.write_text(text)
        made = plan(path)
        assert cli.main(["plan", str(path), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found == made.to_json()
        assert found["mechanism"] == name
        assert found["epsilon"] == found["lifetime_loss"] == pytest.approx(4, rel=1e-5)
        assert found["delta"] == 0
        assert found["detection_delay"] == pytest.approx(0, abs=1e-6)
        assert set(found["integers"]) == {"epsilon", "thresholds", "votes", "estimates", "levels"}
        assert set(found["error"]) == {"deviation", "interval"}
        # What everyone votes on in each epoch, which bounds no error.
        assert found["update"]["always_above"] == found["levels"][-1]["change"]
        assert found["levels"][-1]["every"] == 1
        assert found["communication"]["answers_per_epoch"] == 2
        shown = text_plan(made)
        for part in ("2 votes and 2 estimates", "whole life", "allowance for life", "1 in 4"):
            assert part in shown
        assert "1 of means" not in shown
        assert cli.main(["certify", str(tmp_path / "s.task")]) == 0
        shown = capsys.readouterr().out
        assert "2 in either life, 4 of epsilon 0.5 each: 2" in shown
        load_study(path).check(made.task)


def test_the_memory_grows_with_the_table(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    sizes = []
    for items in (128, 256):
        path.write_text(changed(HEAVY, ("dictionary", f"items = {items}\ndictionary")))
        sizes.append(plan(path).device_bytes)
    # Two tables as they are counted, two in the counters' payload, of 6 bytes an item.
    assert sizes[1] - sizes[0] == 4 * 6 * 128


def test_a_change_for_which_nothing_is_left_is_said_not_to_be_found(tmp_path: Path) -> None:
    """The first of three takes the second estimate; and a group may be too small to be heard."""
    path = tmp_path / "study.toml"
    path.write_text(BUDGET)
    costs = plan(path, tmp_path / "a.task").to_json()
    assert [change["delay"] is None for change in costs["changes"]] == [False, True, True]
    path.write_text(
        BUDGET.replace("estimates = 2", "estimates = 4").replace("votes = 2", "votes = 3")
    )
    costs = plan(path, tmp_path / "b.task").to_json()
    assert not any(change["delay"] is None for change in costs["changes"])
    few = BUDGET.replace("[0.2, 0.7, 0.2, 0.7]", "[0.2, 0.7]").replace("[1, 5, 9, 13]", "[1, 9]")
    path.write_text(few + "groups = [0.001]\n")
    costs = plan(path, tmp_path / "c.task").to_json()
    assert [change["delay"] for change in costs["changes"]] == [None]


@pytest.mark.parametrize(
    ("polls", "sentence"),
    [
        ("poll_epsilon = 1e90", "leaves nothing of epsilon"),
        ("poll_epsilon = 1e-9", "poll_epsilon 1e-09 is too small"),
    ],
)
def test_a_poll_that_costs_too_much_or_says_nothing_is_refused(
    polls: str, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "study.toml"
    path.write_text(BUDGET.replace("estimates = 2", f"estimates = 2\npolls = 2\n{polls}"))
    with pytest.raises(UserError, match=sentence):
        plan(path, tmp_path / "a.task")


BUDGET = """
[study]
name = "budget"
[mechanism]
name = "thresh"
epochs = 16
rounds = 8192
votes = 2
estimates = 2
[values]
domain = 2
[privacy]
epsilon = 6
[fleet]
devices = 4000
[stream]
source = "means"
means = [0.2, 0.7, 0.2, 0.7]
at = [1, 5, 9, 13]
"""


def test_plan_and_simulation_give_one_figure_for_items(tmp_path: Path) -> None:
    """What the host bounds from answers, as is expected: some per cent off."""
    study = load(tmp_path, changed(HEAVY, ("devices = 100000", "devices = 20000")))
    task = choose(study)
    planned = epoch_costs(study, task).interval
    result = simulate_epochs(task, 20_000, 1, stream=study.stream, epochs=1)
    assert [found.error for found in result.found] == pytest.approx([planned], rel=0.05)
