"""Studies of rounds: what they state, and what they can't."""

from pathlib import Path

import pytest

from tinyldp.errors import UserError
from tinyldp.planning import choose
from tinyldp.study import METHODS, Study, load_study
from tinyldp_protocol.task import GRR, LBA, LBD, OLH, OUE, Task, write_file

STUDY = """
[study]
name = "activity"
[mechanism]
name = "lba"
oracle = "grr"
[privacy]
epsilon = 1
w = 20
[values]
domain = 5
[timing]
tick = 100
[stream]
source = "recordings"
seed = 7
[fleet]
devices = 8
[links]
mqtt = "localhost:1883"
"""


def load(folder: Path, text: str = STUDY) -> Study:
    path = folder / "s.toml"
    path.write_text(text)
    return load_study(path)


def test_a_whole_study(tmp_path: Path) -> None:
    study = load(tmp_path)
    assert (study.method, study.mechanism, study.w, study.epsilon) == (LBA, GRR, 20, 1 << 16)
    assert (study.source, study.seed, study.devices) == ("recordings", 7, 8)
    assert (study.batch, study.resend, study.outbox, study.beacon) == (None, None, None, 100)
    assert study.title == "LBA"
    assert study.spends == tuple(1638 * j for j in range(1, 21))
    with pytest.raises(UserError, match="tinyldp plan"):
        study.task()


def test_the_smallest_study_leaves_the_oracle_to_the_planner(tmp_path: Path) -> None:
    for name, method in METHODS.items():
        study = load(
            tmp_path,
            f'[study]\nname="s"\n[mechanism]\nname="{name}"\n'
            "[privacy]\nepsilon=1\nw=20\n[values]\ndomain=2\n",
        )
        assert (study.method, study.mechanism, study.grid) == (method, None, None)
        assert (study.source, study.seed) == (None, None)
        task = choose(study)
        assert task.method == method
        study.check(task)


@pytest.mark.parametrize(
    ("oracle", "mechanism"), [("auto", None), ("grr", GRR), ("oue", OUE), ("olh", OLH)]
)
def test_oracles(tmp_path: Path, oracle: str, mechanism: int | None) -> None:
    assert load(tmp_path, STUDY.replace('"grr"', f'"{oracle}"')).mechanism == mechanism


@pytest.mark.parametrize("source", ["lns", "sin", "log", "recordings", "steps.csv", "a/B.CSV"])
def test_sources(tmp_path: Path, source: str) -> None:
    assert load(tmp_path, STUDY.replace('"recordings"', f'"{source}"')).source == source


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"lba"', '"lbaa"', 'must be one of .*"lba".*the nearest known is lba'),
        ('"grr"', '"gr"', 'must be one of "grr", "oue", "olh", "auto", not "gr"'),
        ('"grr"', "3", "oracle must be text"),
        ("w = 20", "", r"\[privacy\] w is missing"),
        ("w = 20", "w = 0", r"\[privacy\] w must lie in 1\.\.1024, but is 0"),
        ("w = 20", "w = 1025", r"\[privacy\] w must lie in 1\.\.1024, but is 1025"),
        ("w = 20", "w = 513", "LBA has a spend for each of w steps"),
        ("w = 20", "w = 20\nk = 3", r"\[privacy\] k is not for LBA: .*\[privacy\] w"),
        ("w = 20", "w = 20\ndelta = 0.1", "delta is not for LBA: .*epsilon alone"),
        ("epsilon = 1", "", r"\[privacy\] epsilon is missing"),
        ("epsilon = 1", "epsilon = 0.0006", r"must be 40/65536 or more for w = 20"),
        ("epsilon = 1", "epsilon = 0", "epsilon must be above 0"),
        ("epsilon = 1", "epsilon = 16384", "epsilon must be below 16384"),
        ("tick = 100", "tick = 0", "tick must be a millisecond or more"),
        ("tick = 100", "batch = 2", "batch is not for LBA: each answer is sent by itself"),
        ("tick = 100", "resend = 2", "resend is not for LBA"),
        ("tick = 100", "outbox = 2", "outbox is not for LBA"),
        ("tick = 100", "beacon = 0", "beacon must lie in 1"),
        ('"grr"', '"grr"\nthreshold = 5', "threshold is not for LBA: rounds state a target"),
        ('"grr"', '"grr"\nweights = [5]', "weights is not for LBA"),
        ('"grr"', '"grr"\nwindow = 5', r"window is not for LBA: .*\[privacy\] w"),
        ('"grr"', '"grr"\nbuckets = 5', 'buckets is for oracle = "olh" alone'),
        ('"grr"', '"olh"\nbuckets = 1', "buckets must lie in 2..4096"),
        ('"grr"', '"grr"\ngrid = 2', "grid is for LBD alone, not for LBA"),
        ('"grr"', '"grr"\ngird = 2', "gird is unknown; the nearest known is grid"),
        ('"lba"', '"lbd"\ngrid = 10', "grid must lie in 0..9, but is 10"),
        ('"lba"', '"lbd"\ngrid = -1', "grid must lie in 0..9"),
        ('"lba"', '"lbd"\ngrid = 6', "grid 6 makes LBD 640 spends for w = 20"),
        ("domain = 5", "domain = 1", "domain must be 2 or more"),
        ("domain = 5", "domain = 65537", "must be 65536 or less for LBA over GRR"),
        ("domain = 5", "", "domain is missing"),
        ('"recordings"', '"lnss"', "source must be .*the nearest known is lns"),
        ('"recordings"', "1", "source must be text"),
        ("seed = 7", "seed = -1" + 26 * "0", "seed must be smaller than 2.30, but is -10{22}…"),
        ("seed = 7", "seed = -7", "seed must be 0 or more"),
        ("seed = 7", "seeds = 7", "seeds is unknown; the nearest known is seed"),
        ("[stream]", "[streams]", "streams. is unknown; the nearest known is stream"),
        ('name = "lba"\noracle = "grr"', 'name = "grr"', "w is for|is for rounds alone"),
    ],
)
def test_wrong_studies_get_one_sentence(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    assert STUDY.count(old) == 1
    with pytest.raises(UserError, match=sentence) as error:
        load(tmp_path, STUDY.replace(old, new))
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(".")


@pytest.mark.parametrize("key", ['oracle = "grr"', "grid = 2"])
@pytest.mark.parametrize("name", ["ranswitch", "grr"])
def test_what_only_rounds_have(tmp_path: Path, name: str, key: str) -> None:
    text = f'[study]\nname="s"\n[mechanism]\nname="{name}"\n{key}\n[values]\ndomain=2\n'
    with pytest.raises(UserError, match="is for rounds alone"):
        load(tmp_path, text + "[privacy]\nepsilon=1\n")


def test_reports_leave_less_room_in_answers(tmp_path: Path) -> None:
    most = STUDY.replace('"grr"', '"oue"').replace("domain = 5", "domain = 1848")
    assert load(tmp_path, most).domain == 1848
    with pytest.raises(UserError, match=r"1848 or less for LBA over OUE \(a report has a bit"):
        load(tmp_path, most.replace("1848", "1849"))
    with pytest.raises(UserError, match="32749 or less for LBA over OLH"):
        load(tmp_path, most.replace("oue", "olh").replace("1848", "32750"))


def test_a_task_is_checked_against_its_study(tmp_path: Path) -> None:
    study = load(tmp_path)
    task = choose(study)
    study.check(task)
    load(tmp_path, STUDY.replace('"grr"', '"auto"')).check(task)
    # What only a simulation reads may change.
    load(tmp_path, STUDY.replace("seed = 7", "seed = 8").replace("recordings", "lns")).check(task)
    for old, new, words in [
        ("epsilon = 1", "epsilon = 2", "its epsilon is 1, and the study's 2"),
        ("w = 20", "w = 19", "its w is 20, and the study's 19"),
        ('"lba"', '"lbu"', "its method is LBA, and the study's LBU"),
        ('"grr"', '"oue"', "its mechanism is GRR, and the study's OUE"),
        ("domain = 5", "domain = 6", "its domain is 5, and the study's 6"),
        ("tick = 100", "tick = 101", "its tick is 100, and the study's 101"),
    ]:
        with pytest.raises(UserError, match=words + ".*tinyldp plan"):
            load(tmp_path, STUDY.replace(old, new)).check(task)
    numbers = {name: value for name, value in vars(task).items() if name not in ("width", "id")}
    numbers["spends"] = [spend - 1 for spend in task.spends]
    other = Task(numbers)
    write_file(other)
    with pytest.raises(UserError, match="its spends are not the study's"):
        study.check(other)
    stream = (
        '[study]\nname="s"\n[mechanism]\nname="grr"\n[privacy]\nepsilon=1\n[values]\ndomain=5\n'
    )
    with pytest.raises(UserError, match="its method is LBA, and the study has no rounds"):
        load(tmp_path, stream).check(task)
    with pytest.raises(UserError, match="it has no rounds, and the study's method is LBA"):
        study.check(choose(load(tmp_path, stream)))


def test_grids(tmp_path: Path) -> None:
    def spends(w: int, epsilon: str = "1", grid: str = "") -> tuple[int, ...]:
        text = STUDY.replace('"lba"', f'"lbd"\n{grid}').replace("w = 20", f"w = {w}")
        study = load(tmp_path, text.replace("epsilon = 1", f"epsilon = {epsilon}"))
        assert study.method == LBD
        found = study.spends
        assert found is not None
        return found

    assert len(spends(20)) == 40
    assert len(spends(20, grid="grid = 0")) == 10
    assert len(spends(256)) == 512
    # Where there is no room for four parts, two or one.
    assert len(spends(257)) == 257
    assert len(spends(1024)) == 512
    # A unit of 3/65536 has two parts, and one of 1/65536 none.
    assert spends(4, "0.00037384") == (1, 3, 4, 6)
    assert spends(4, "0.000123") == (1, 2)
    with pytest.raises(UserError, match="grid can't be 2 here"):
        spends(4, "0.00037384", "grid = 2")
    # The unit itself is there, whatever the grid, for the dissimilarity.
    assert spends(1) == (8192, 16384, 32768)
    assert spends(1, grid="grid = 0") == (32768,)


def test_what_does_not_take_rounds_says_so(tmp_path: Path) -> None:
    from tinyldp.audit import audit
    from tinyldp.replay import replay

    task = choose(load(tmp_path))
    with pytest.raises(UserError, match=r"An audit of segments takes .*, not LBA, whose devices"):
        audit(task, "cpython")
    with pytest.raises(UserError, match=r"A replay takes Tasks .*, not LBA"):
        replay(task, bytes(10_000), [1, 2, 3])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"lba"', '"LBA"', "the nearest known is lba"),
        ("tick = 100", "tick = 100\nbeacon = 0", r"\[timing\] beacon must lie in 1"),
        ("domain = 5", "domain = 5\nmissing = 9", r"\[values\] missing must lie in 0"),
    ],
)
def test_sentences_name_section_and_key(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        load(tmp_path, STUDY.replace(old, new))
