"""Studies of Thresh and HeavyThresh: what they state, and what they can't."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from tests.epochs_studies import HEAVY, THRESH, changed, load, paper
from tinyldp.epoch_study import EpochStream
from tinyldp.errors import UserError
from tinyldp.planning import choose
from tinyldp.study import Study
from tinyldp_protocol.task import HEAVYTHRESH, Task, write_file
from tinyldp_protocol.task import THRESH as MECHANISM


def settled(study: Study) -> tuple[object, ...]:
    s = study.settings
    assert s
    return s.profile, s.subgroups, s.smallest, s.votes, s.estimates, s.coordinates, s.items, s.polls


def test_a_whole_study(tmp_path: Path) -> None:
    study = load(tmp_path, THRESH)
    assert (study.mechanism, study.method, study.epsilon) == (MECHANISM, None, 4 << 16)
    assert (study.batch, study.resend, study.outbox, study.beacon) == (None, None, None, 100)
    assert (study.title, study.domain, study.seed, study.source) == ("Thresh", 2, 7, None)
    assert settled(study) == ("tuned", 1, 1000, 2, 2, None, None, None)
    assert study.settings
    assert (study.settings.failure, study.settings.ignore) == (Fraction(1, 10), 0)
    assert study.settings.failure_units == (1 << 30) // 10
    assert study.stream == EpochStream("means", (1, 9), (0.2, 0.7))


def test_a_whole_study_of_items(tmp_path: Path) -> None:
    study = load(tmp_path, HEAVY)
    assert (study.mechanism, study.title, study.domain) == (HEAVYTHRESH, "HeavyThresh", 100000)
    assert settled(study) == ("tuned", 1, 100000, 2, 2, 1024, 256, None)
    assert study.stream == EpochStream("heavy", (1, 5), heavy=5, weight=0.15, support=64)


def test_options(tmp_path: Path) -> None:
    more = """subgroups = 3
smallest_subgroup = 300
failure = 0.01
ignore = 0.05
polls = 4
poll_epsilon = 0.25
epochs"""
    study = load(tmp_path, changed(THRESH, ("epochs", more)))
    assert settled(study) == ("tuned", 3, 300, 2, 2, None, None, 4)
    assert study.settings
    assert study.settings.poll_epsilon == Fraction(1, 4)
    assert (study.settings.failure, study.settings.ignore) == (Fraction(1, 100), Fraction(1, 20))
    study = load(tmp_path, paper(THRESH))
    assert settled(study) == ("paper", 1, 1000, None, None, None, None, None)
    study = load(
        tmp_path, changed(HEAVY, ("dictionary", "coordinates = 64\nitems = 64\ndictionary"))
    )
    assert settled(study)[5:7] == (64, 64)
    study = load(tmp_path, changed(HEAVY, ("rounds = 4096", "rounds = 100")))
    assert settled(study)[6] == 100
    few = changed(HEAVY, ("dict", "items = 9\ndict"), ("support = 64", ""), ("= 5\n", "= 4\n"))
    assert (load(tmp_path, few).stream or EpochStream("", ())).support == 9
    groups = changed(THRESH, ("means = [0.2, 0.7]", "means = [0, 1]\ngroups = [0.25]"))
    assert load(tmp_path, groups).stream == EpochStream("means", (1, 9), (0, 1), (0.25,))
    assert load(tmp_path, THRESH.partition("[stream]")[0] + "[fleet]\ndevices = 5").stream is None


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("epochs = 16", "", r"\[mechanism\] epochs is missing"),
        ("epochs = 16", "epochs = 1", r"epochs must lie in 2\.\.16384, but is 1"),
        ("epochs = 16", "epochs = 16385", "epochs must lie in"),
        ("epochs = 16", "epochs = 16.5", "must be an integer, not 16.5"),
        ("rounds = 8192", "", "rounds is missing"),
        ("rounds = 8192", "rounds = 1", r"rounds must lie in 2\.\.1048576"),
        ("rounds = 8192", "rounds = 1048577", r"rounds must lie in 2\.\.1048576"),
        ("domain = 2", "domain = 4000", r"rounds must be 4195 or less with 4000 symbols"),
        ("domain = 2", "domain = 65537", "domain must be 65536 or less for Thresh"),
        ("domain = 2", "domain = 1", "domain must be 2 or more"),
        ("domain = 2", "", "domain is missing"),
        ("votes = 2\n", "", r"votes is missing: Thresh with profile = \"tuned\" needs votes and"),
        ("estimates = 2", "", "estimates is missing"),
        ("votes = 2\n", "votes = 0\n", r"votes must lie in 1\.\.16, the epochs, but is 0"),
        ("votes = 2\n", "votes = 17\n", r"votes must lie in 1\.\.16"),
        ("estimates = 2", "estimates = 17", r"estimates must lie in 1\.\.16"),
        (
            "votes = 2\n",
            'votes = 2\nprofile = "paper"\n',
            "votes and estimates follow from the other settings",
        ),
        ("votes = 2\n", 'votes = 2\nprofile = "papers"\n', "the nearest known is paper"),
        ("votes = 2\n", "votes = 2\nsubgroups = 0\n", r"subgroups must lie in 1\.\.1000"),
        ("votes = 2\n", "votes = 2\nsubgroups = 2\n", "smallest_subgroup is missing"),
        (
            "votes = 2\n",
            "votes = 2\nsmallest_subgroup = 0\n",
            r"must lie in 1\.\.1000 for 1 subgroup of",
        ),
        (
            "votes = 2\n",
            "votes = 2\nsubgroups = 2\nsmallest_subgroup = 501\n",
            r"must lie in 1\.\.500 for 2 subgroups",
        ),
        ("votes = 2\n", "votes = 2\nfailure = 0\n", "failure must be below 1, and 2.-30 or more"),
        ("votes = 2\n", "votes = 2\nfailure = 1\n", "failure must be below 1"),
        ("votes = 2\n", 'votes = 2\nfailure = "0.1"\n', "failure must be a number"),
        ("votes = 2\n", "votes = 2\nignore = -0.1\n", "ignore must be 0 or more and below 1"),
        ("votes = 2\n", "votes = 2\nignore = 1\n", "ignore must be 0 or more and below 1"),
        ("votes = 2\n", "votes = 2\npolls = 2\n", "poll_epsilon is missing: polls alone"),
        ("votes = 2\n", "votes = 2\npoll_epsilon = 2\n", "polls is missing: poll_epsilon alone"),
        (
            "votes = 2\n",
            "votes = 2\npolls = 17\npoll_epsilon = 0.1\n",
            r"polls must lie in 1\.\.16",
        ),
        ("votes = 2\n", "votes = 2\npolls = 0\npoll_epsilon = 0.1\n", r"polls must lie in 1\.\.16"),
        ("votes = 2\n", "votes = 2\npolls = 2\npoll_epsilon = 0\n", "poll_epsilon must be above 0"),
        ("votes = 2\n", "votes = 2\ndictionary = 9\n", "dictionary is for HeavyThresh alone"),
        ("votes = 2\n", "votes = 2\nitems = 9\n", "items is for HeavyThresh alone"),
        ("votes = 2\n", "votes = 2\nvote = 9\n", "vote is unknown; the nearest known is votes"),
        ("votes = 2\n", "votes = 2\nthreshold = 9\n", "threshold is not for Thresh: it follows"),
        ("votes = 2\n", "votes = 2\nweights = [9]\n", "weights is not for Thresh"),
        ("votes = 2\n", "votes = 2\nwindow = 9\n", "window is not for Thresh: it has epochs"),
        ("votes = 2\n", 'votes = 2\noracle = "grr"\n', "oracle is not for Thresh"),
        ("votes = 2\n", "votes = 2\ngrid = 1\n", "grid is not for Thresh"),
        ("votes = 2\n", "votes = 2\nbuckets = 3\n", "buckets is not for Thresh"),
        ("epsilon = 4", "", r"\[privacy\] epsilon is missing"),
        ("epsilon = 4", "epsilon = 0", "epsilon must be above 0"),
        ("epsilon = 4", "epsilon = 4\ndelta = 0.1", "delta is not for Thresh: .*epsilon alone"),
        ("epsilon = 4", "epsilon = 4\nk = 2", "k is not for Thresh: .* whole life"),
        ("epsilon = 4", "epsilon = 4\nw = 2", "w is not for Thresh: .* whole life"),
        ("tick = 100", "batch = 2", "batch is not for Thresh: each answer"),
        ("tick = 100", "resend = 2", "resend is not for Thresh"),
        ("tick = 100", "outbox = 2", "outbox is not for Thresh"),
        ("tick = 100", "tick = 0", "tick must be a millisecond or more"),
        ("devices = 1000", "", r"devices, on which the thresholds of Thresh depend, is missing"),
        ("devices = 1000", "devices = 0", "devices must be 1 or more"),
        ('"means"', '"lns"', r'source must be "means" for Thresh, not "lns"'),
        ('source = "means"\n', "", "source is missing: means is a part of one"),
        ("means = [0.2, 0.7]", "", r"\[stream\] means is missing"),
        ("means = [0.2, 0.7]", "means = 3", "means must be a list of numbers"),
        ("means = [0.2, 0.7]", 'means = ["a", 1]', "means must be a number"),
        ("[0.2, 0.7]", "[0.2, 1.7]", r"means must lie in 0\.\.1, but one is 1.7"),
        ("[0.2, 0.7]", "[0.2]", "one of means for each of at, but there are 1 mean for 2 epochs"),
        ("at = [1, 9]", "at = [2, 9]", "epochs that ascend, the first of them 1"),
        ("at = [1, 9]", "at = [1, 1]", "epochs that ascend"),
        ("at = [1, 9]", "at = []", "epochs that ascend"),
        ("at = [1, 9]", "at = [1, 17]", "at names epoch 17, and there are 16 epochs"),
        ("at = [1, 9]", "at = [1, 9]\ngroups = [0.5, 0.5]", "2 groups for 1 change\\."),
        ("at = [1, 9]", "at = [1, 9]\ngroups = [1.5]", "groups must be above 0 and no more than 1"),
        ("at = [1, 9]", "at = [1, 9]\ngroups = [0]", "groups must be above 0"),
        ("at = [1, 9]", "at = [1, 9]\nheavy = 2", 'heavy is not for source = "means"'),
        ("seed = 7", "seed = -7", "seed must be 0 or more"),
    ],
)
def test_wrong_studies_get_one_sentence(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as error:
        load(tmp_path, changed(THRESH, (old, new)))
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(".")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("dictionary = 100000", "", r"\[mechanism\] dictionary is missing"),
        ("dictionary = 100000", "dictionary = 1", "dictionary must be 2 or more"),
        ("= 100000\n[p", "= 1048577\n[p", "dictionary must be 1048576 or less for HeavyThresh"),
        ("votes = 2\n", "votes = 2\ncoordinates = 1\n", r"coordinates must lie in 2\.\.32768"),
        ("votes = 2\n", "votes = 2\ncoordinates = 32769\n", r"coordinates must lie in 2\.\.32768"),
        ("votes = 2\n", "votes = 2\nitems = 0\n", r"items must lie in 1\.\.1024"),
        ("votes = 2\n", "votes = 2\nitems = 1025\n", r"items must lie in 1\.\.1024"),
        ("rounds = 4096", "rounds = 9\nitems = 10", r"items must lie in 1\.\.9"),
        ("[fleet]", "[values]\ndomain = 5\n[fleet]", "domain is not for HeavyThresh"),
        ("[fleet]", "[values]\nbins = [5]\n[fleet]", "bins is not for HeavyThresh"),
        ("[fleet]", "[values]\nmissing = 100000\n[fleet]", "missing must lie in 0"),
        ('"heavy"', '"means"', r'source must be "heavy" for HeavyThresh'),
        ("heavy = 5", "heavy = 0", r"heavy must lie in 1\.\.64"),
        ("heavy = 5", "heavy = 65", r"heavy must lie in 1\.\.64"),
        ("support = 64", "support = 1", r"support must lie in 2\.\."),
        ("support = 64", "support = -1", r"support must lie in 2\.\.100000, but is -1"),
        ("support = 64", "support = 100001", r"support must lie in 2\.\.100000"),
        ("votes = 2\n", "votes = 2\nitems = 63\n", "support must be 63 or less, the items of a"),
        ("support = 64", "support = 257", "support must be 256 or less, the items of a device's"),
        ("weight = 0.15", "weight = 0.21", "the heavy items' no more than 1 together"),
        ("weight = 0.15", "weight = 0", "weight must be above 0"),
        ("weight = 0.15", "means = [0.15]", 'means is not for source = "heavy"'),
    ],
)
def test_wrong_studies_of_items(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as error:
        load(tmp_path, changed(HEAVY, (old, new)))
    assert str(error.value).endswith(".")


@pytest.mark.parametrize(
    "key", ["epochs = 16", 'profile = "tuned"', "votes = 2", "items = 3", "poll_epsilon = 1"]
)
@pytest.mark.parametrize("name", ["ranswitch", "grr", "lba"])
def test_what_only_epochs_have(tmp_path: Path, name: str, key: str) -> None:
    text = f'[study]\nname="s"\n[mechanism]\nname="{name}"\n{key}\n[values]\ndomain=2\n'
    with pytest.raises(UserError, match=f"is for Thresh and HeavyThresh alone, not for {name}"):
        load(tmp_path, text + "[privacy]\nepsilon=1\n")
    text = text.replace(key, "") + "[privacy]\nepsilon=1\n[stream]\nat=[1]\n"
    with pytest.raises(UserError, match="at is for Thresh and HeavyThresh alone"):
        load(tmp_path, text)


@pytest.mark.parametrize("text", [THRESH, HEAVY, paper(THRESH, ("1000", "20000"))])
def test_a_task_is_checked_against_its_study(tmp_path: Path, text: str) -> None:
    study = load(tmp_path, text)
    task = choose(study)
    study.check(task)
    # What only a simulation reads may change.
    load(tmp_path, changed(text, ("at = [1, ", "at = [1, 6, " if False else "at = [1, "))).check(
        task
    )
    for old, new, sentence in (
        ("epochs = ", "epochs = 1", "epochs is"),
        (
            "votes = 2\nestimates = 2",
            "votes = 2\nestimates = 3",
            "estimates is 2, and the study's 3",
        ),
        ("epsilon = 4", "epsilon = 0.5", "epsilon is"),
        ("rounds = ", "rounds = 1", "rounds is"),
    ):
        if old in text:
            with pytest.raises(UserError, match=sentence):
                load(tmp_path, changed(text, (old, new))).check(task)


def test_a_task_that_costs_more_is_of_another_study(tmp_path: Path) -> None:
    study = load(tmp_path, THRESH)
    task = choose(study)
    numbers = {name: value for name, value in vars(task).items() if name not in ("width", "id")}
    for epsilon, fits in ((task.epsilon, True), (4 << 16, True), ((4 << 16) + 1, False)):
        other = Task(numbers | {"epsilon": epsilon})
        write_file(other)
        if fits:
            study.check(other)
        else:
            with pytest.raises(UserError, match="its epsilon is"):
                study.check(other)
