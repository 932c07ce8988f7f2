"""Study and Task files: what is read, and the one sentence for what is refused."""

import re

import pytest

from tinyldp.errors import UserError
from tinyldp.study import broker_address, load_study, load_task
from tinyldp_protocol.task import RANSWITCH, STASWITCH, write_file

STUDY = """
[study]
name = "wrist activity"
[mechanism]
name = "ranswitch"
threshold = 1_000_000
window = 8
[privacy]
k = 3
epsilon = 1.5
delta = 1e-6
[values]
bins = [1, 50, 200]
missing = 0
[timing]
tick = 100
batch = 4
[fleet]
devices = 6
[links]
serial = ["/dev/ttyACM0", "/dev/ttyACM1"]
mqtt = "localhost:1883"
"""


def load(tmp_path, text):
    path = tmp_path / "study.toml"
    path.write_text(text)
    return load_study(path)


def test_a_whole_study(tmp_path):
    study = load(tmp_path, STUDY)
    assert (study.name, study.mechanism, study.window, study.k) == (
        "wrist activity",
        RANSWITCH,
        8,
        3,
    )
    assert (study.epsilon, study.delta) == (3 << 15, 1073)
    assert (study.domain, study.bins, study.missing) == (4, (1, 50, 200), 0)
    assert (study.resend, study.beacon, study.outbox) == (50, 100, 16)
    assert (study.devices, study.mqtt) == (6, "localhost:1883")
    assert study.serial == ("/dev/ttyACM0", "/dev/ttyACM1")
    task = study.task()
    assert (task.symbols, task.thresholds, task.batch, len(task.id)) == (4, [1_000_000], 4, 8)


def test_the_smallest_study(tmp_path):
    study = load(
        tmp_path,
        '[study]\nname="s"\n[mechanism]\nname="staswitch"\nthreshold=9\n'
        "[privacy]\nk=4\n[values]\ndomain=2\n",
    )
    task = study.task()
    assert (task.mechanism, task.window, task.tick, task.batch) == (STASWITCH, 4, 1000, 1)
    assert (task.epsilon, task.bins, task.missing, study.serial) == (None, None, None, ())


@pytest.mark.parametrize("epsilon", ["0.1", "0.30000000000000001", "0.3", "1"])
def test_targets_are_exact_and_rounded_down(tmp_path, epsilon):
    from fractions import Fraction

    study = load(tmp_path, STUDY.replace("epsilon = 1.5", f"epsilon = {epsilon}"))
    exact = Fraction(epsilon) * 65536
    assert study.epsilon is not None
    assert study.epsilon <= exact < study.epsilon + 1


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("threshold = 1_000_000", "threshold = 0.06", "must be an integer, not 0.06: what a dev"),
        ("threshold = 1_000_000", "threshold = true", "threshold must be an integer"),
        ("threshold = 1_000_000", "threshold = 3_000_000", "threshold must lie in 1..2097152"),
        ("threshold = 1_000_000", "treshold = 1", "treshold is unknown; the nearest known is thr"),
        ("[privacy]", "[privcy]", r"\[privcy\] is unknown; the nearest known is privacy"),
        ("[privacy]", "[foo]", r"\[foo\] is unknown; known are study, mechanism, privacy, values"),
        ("delta = 1e-6", "delta = 1e-6\nq = 1", "q is unknown; known are epsilon, delta, k, w.$"),
        ("[study]", "study = 1\n[fleet]\n[links]\n[x]", "study|x"),
        ("window = 8", "window = 2", "window must lie in 3..1024"),
        ("window = 8", "window = 999999999999999", "smaller than 2"),
        ("window = 8", "window = 1" + 26 * "0", "but is 10{23}…\\.$"),
        ("window = 8", "window = 0x" + 5000 * "f", "but is thousands of digits long"),
        ('"ranswitch"', '"staswitch"', "window is not StaSwitch's to choose"),
        ('"ranswitch"', '"jitter"', "must be one of"),
        ("k = 3", "", r"\[privacy\] k is missing"),
        ("epsilon = 1.5", "epsilon = inf", "ordinary number"),
        ("epsilon = 1.5", "epsilon = 1e999999999", "ordinary number"),
        ("epsilon = 1.5", "epsilon = -1", "epsilon must be above 0, but is -1"),
        ("epsilon = 1.5", "epsilon = 0", "epsilon must be above 0, but is 0"),
        ("epsilon = 1.5", "epsilon = 0.00001", "epsilon must be 2.-16 or more"),
        ("epsilon = 1.5", "epsilon = 16384", "epsilon must be below 16384"),
        ("epsilon = 1.5", "epsilon = true", "epsilon must be a number"),
        ("epsilon = 1.5", "", "epsilon is missing: a delta alone is no target"),
        ("epsilon = 1.5", 'epsilon = "1"', "must be a number"),
        ("delta = 1e-6", "delta = 1", "below 1,"),
        ("delta = 1e-6", "delta = -1e-9", "0 or more and below 1,"),
        ("delta = 1e-6", "delta = 1e-12", "delta must be 0, or 2.-30 or more"),
        ("delta = 1e-6", "delta = 1e-6\nw = 4", "w is for GRR, OUE, OLH and CRR alone, not"),
        ("delta = 1e-6", "delta = 1e-6\nepsilom = 1", "epsilom is unknown; the nearest .* epsilon"),
        ("k = 3", "k = 1", "k must be 2 or more, but is 1"),
        ("k = 3", "k = 3.0", "k must be an integer, not 3.0"),
        ("k = 3", "k = -2", "k must be 2 or more"),
        ("window = 8", "buckets = 8", "buckets is for OLH alone, not for RanSwitch"),
        ("window = 8", "weights = [8]", "weights is for JitterSort alone, not for RanSwitch"),
        ("threshold = 1_000_000", "threshold = 0", "threshold must be 1 or more"),
        (
            "threshold = 1_000_000",
            "threshold = 16777216",
            "threshold must be below its scale, 2.24",
        ),
        ("threshold = 1_000_000", "threshold = 99999999999", "smaller than 2.30"),
        ("bins = [1, 50, 200]", "bins = [1, 50, 50]", "bin edge"),
        ("bins = [1, 50, 200]", "bins = [1, 2.5]", "must be an integer, not 2.5"),
        ("bins = [1, 50, 200]", "bins = 3", "list of integers"),
        ("bins = [1, 50, 200]", "bins = [1]\ndomain = 3", "make a domain of 2, not 3"),
        ("bins = [1, 50, 200]", "", "domain is missing"),
        ("bins = [1, 50, 200]", "domain = 1", "domain must be 2 or more, but is 1"),
        ("bins = [1, 50, 200]", "domain = 65537", "domain must be 65536 or less"),
        ("bins = [1, 50, 200]", "domain = 4.0", "domain must be an integer, not 4.0"),
        ('"wrist activity"', "7", "name must be text"),
        ("missing = 0", "missing = 5", "missing must lie in 0..3"),
        ("tick = 100", "tick = 0", "tick must be a millisecond or more"),
        ("batch = 4", "batch = 236", "batch must lie in 1..235"),
        ("devices = 6", "devices = 0", "devices must be 1 or more"),
        ('mqtt = "localhost:1883"', 'mqtt = "localhost"', "host:port"),
        ('mqtt = "localhost:1883"', 'mqtt = "localhost:70000"', "1..65535"),
        ('"/dev/ttyACM1"', '"/dev/ttyACM0"', "twice"),
        ('"/dev/ttyACM1"', "7", "list of ports"),
        ("[study]", "[study", "no TOML file"),
    ],
)
def test_bad_studies_get_one_sentence(tmp_path, old, new, sentence):
    assert old in STUDY
    with pytest.raises(UserError, match=sentence) as error:
        load(tmp_path, STUDY.replace(old, new))
    assert str(error.value).startswith(str(tmp_path))
    assert "\n" not in str(error.value)
    assert re.search(r"[.!]$", str(error.value))


SHORT = """
[study]
name = "s"
[mechanism]
name = "{name}"
{options}
[privacy]
{privacy}
[values]
domain = {domain}
"""


def short(name, options="", privacy="k = 3", domain=16):
    return SHORT.format(name=name, options=options, privacy=privacy, domain=domain)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (short("jitter"), '"jittersort", "grr".* not "jitter"; the nearest known is jittersort'),
        (short("ranswitch"), "must hide: give the target, .* epsilon and delta, or .* threshold"),
        (short("jittersort"), "must hide: give the target, .* epsilon and delta, or .* weights"),
        (
            short("grr", privacy=""),
            r"must hide: give the target, \[privacy\] epsilon, or .*threshold",
        ),
        (short("olh", privacy=""), "or the integers, .* threshold and buckets"),
        (short("staswitch", privacy="k = 3\nepsilon = 2"), "delta is missing: StaSwitch needs"),
        (short("staswitch", privacy="epsilon = 2\ndelta = 0.1"), "k is missing"),
        (
            short("grr", privacy="epsilon = 2\ndelta = 0.1"),
            "without exception: state epsilon alone",
        ),
        (
            short("oue", privacy="epsilon = 2\nk = 3"),
            "k is for RanSwitch, StaSwitch and Jitter.* OUE",
        ),
        (short("oue", "window = 3", "epsilon = 2"), "window is for RanSwitch and JitterSort alone"),
        (short("grr", "buckets = 3", "epsilon = 2"), "buckets is for OLH alone, not for GRR"),
        (short("jittersort", "threshold = 3"), "threshold is not for JitterSort, .* weights"),
        (short("olh", "threshold = 3", ""), "buckets is missing"),
        (short("olh", "threshold = 3\nbuckets = 1", ""), "buckets must lie in 2..4096"),
        (short("olh", "threshold = 8388608\nbuckets = 2", ""), "threshold must lie in 1..8388607"),
        (short("grr", "threshold = 1048576", ""), "threshold must lie in 1..1048575"),
        (short("oue", "threshold = 8388608", ""), "threshold must lie in 1..8388607"),
        (
            short("oue", privacy="epsilon = 1", domain=1881),
            "1880 or less for OUE .a report has a bit",
        ),
        (short("olh", privacy="epsilon = 1", domain=32750), "32749 or less for OLH"),
        (short("grr", privacy="epsilon = 1\nw = 0"), "w must lie in 1..1024"),
        (short("jittersort", "window = 8"), "window must be odd and in 3..1023 .* but is 8"),
        (short("jittersort", "window = 1025"), "window must be odd and in 3..1023"),
        (short("jittersort", "weights = [16777216]"), "weights must be 2..512 integers"),
        (short("jittersort", "weights = [16777216, 0]"), "weights must all be 1 or more, not 0"),
        (short("jittersort", "weights = [16777213, 1]"), "2.24, but make up 16777215"),
        (short("jittersort", "weights = [16777213, 1.5]"), "must be an integer, not 1.5"),
        (short("jittersort", "weights = [16777214, 1]\nwindow = 5"), "make a window of 3, not 5"),
        (short("jittersort", "weights = 3"), "weights must be a list of integers"),
        (
            short("ranswitch", "window = 2", "k = 3\nepsilon = 1\ndelta = 0.5"),
            "window must lie in 3",
        ),
        (short("ranswitch", "", "k = 1025\nepsilon = 1\ndelta = 0.5"), "k must lie in 2..1024"),
    ],
)
def test_wrong_targets_and_integers_get_one_sentence(tmp_path, text, sentence):
    with pytest.raises(UserError, match=sentence) as error:
        load(tmp_path, text)
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(".")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (short("ranswitch", "window = 9", "k = 3\nepsilon = 1\ndelta = 0.5"), (1, 9, None)),
        (short("ranswitch", "", "k = 3\nepsilon = 1\ndelta = 0.5"), (1, 3, None)),
        (short("staswitch", "", "k = 3\nepsilon = 1\ndelta = 0.5"), (2, 3, None)),
        (short("jittersort", "", "k = 3\nepsilon = 1\ndelta = 0.5"), (3, None, None)),
        (short("jittersort", "window = 9", "k = 3\nepsilon = 1\ndelta = 0.5"), (3, 9, None)),
        (short("grr", "", "epsilon = 1"), (4, None, None)),
        (short("olh", "", "epsilon = 1"), (6, None, None)),
        (short("olh", "buckets = 7", "epsilon = 1\nw = 9"), (6, None, 7)),
    ],
)
def test_targets_leave_integers_to_the_planner(tmp_path, text, expected):
    study = load(tmp_path, text)
    assert (study.mechanism, study.window, study.buckets) == expected
    assert study.thresholds is None
    with pytest.raises(UserError, match="tinyldp plan"):
        study.task()


def test_integers_of_every_mechanism(tmp_path):
    study = load(tmp_path, short("jittersort", "weights = [16777212, 1, 1]"))
    assert (study.window, study.task().thresholds) == (5, [16777212, 1, 1])
    task = load(tmp_path, short("olh", "threshold = 100\nbuckets = 300", "w = 5")).task()
    assert (task.buckets, task.w, task.thresholds, task.width) == (300, 5, [100], 6)
    task = load(tmp_path, short("oue", "threshold = 100", "", 80)).task()
    assert (task.width, task.window, task.k) == (10, None, None)
    assert load(tmp_path, short("grr", "threshold = 100", "epsilon = 2")).task().epsilon == 2 << 16


def test_a_task_is_checked_against_its_study(tmp_path):
    study = load(tmp_path, STUDY)
    task = study.task()
    study.check(task)
    path = tmp_path / "study.task"
    path.write_bytes(write_file(task))
    study.check(load_task(path))
    for old, new, words in [
        ("k = 3", "k = 4", "its k is 3, and the study's 4"),
        ("epsilon = 1.5", "epsilon = 2.5", "its epsilon is 1.5, and the study's 2.5"),
        ("delta = 1e-6", "", "its delta is .*, and the study's none"),
        ("threshold = 1_000_000", "threshold = 999", "its threshold is 1000000, and .* 999"),
        ("bins = [1, 50, 200]", "bins = [1, 50, 201]", "its bins are not the study's"),
        ("bins = [1, 50, 200]", "domain = 5", "its domain is 4, and the study's 5"),
        ("missing = 0", "missing = 1", "its missing is 0, and the study's 1"),
        ("batch = 4", "batch = 5", "its batch is 4, and the study's 5"),
        ("tick = 100", "tick = 101", "its tick is 100"),
        ("window = 8", "window = 9", "its window is 8"),
    ]:
        assert old in STUDY
        with pytest.raises(UserError, match=words + ".*tinyldp plan") as error:
            load(tmp_path, STUDY.replace(old, new)).check(task)
        assert "\n" not in str(error.value)
    with pytest.raises(UserError, match="its mechanism is RanSwitch, and the study's GRR"):
        load(tmp_path, short("grr", "threshold = 100", "epsilon = 2")).check(task)


def test_planned_integers_may_be_any_that_a_check_meets(tmp_path):
    target = "k = 3\nepsilon = 1\ndelta = 0.9"
    study = load(tmp_path, short("jittersort", "", target))
    task = load(tmp_path, short("jittersort", "weights = [16777214, 1]", target)).task()
    study.check(task)
    with pytest.raises(UserError, match="its window is 3, and the study's 5"):
        load(tmp_path, short("jittersort", "window = 5", target)).check(task)
    other = load(tmp_path, short("jittersort", "weights = [16777214, 1]", "k = 3\nepsilon = 1"))
    with pytest.raises(UserError, match=r"its delta is none, and the study's 0\.9;"):
        study.check(other.task())
    olh = load(tmp_path, short("olh", "threshold = 9\nbuckets = 3", "epsilon = 1")).task()
    load(tmp_path, short("olh", "", "epsilon = 1")).check(olh)
    with pytest.raises(UserError, match="its buckets is 3, and the study's 4"):
        load(tmp_path, short("olh", "buckets = 4", "epsilon = 1")).check(olh)


def test_files_that_are_none(tmp_path):
    with pytest.raises(UserError, match="can't be read"):
        load_study(tmp_path / "absent.toml")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\0")
    with pytest.raises(UserError, match="not text"):
        load_study(tmp_path / "binary")
    with pytest.raises(UserError, match="can't be read"):
        load_task(tmp_path)


def test_task_files(tmp_path):
    task = load(tmp_path, STUDY).task()
    path = tmp_path / "study.task"
    file = write_file(task)
    path.write_bytes(file)
    assert load_task(path).id == task.id
    for damaged in (b"", b"no Task", file[:-1], bytes([file[0] ^ 1]) + file[1:]):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="no Task file"):
            load_task(path)


def test_broker_addresses():
    assert broker_address("[::1]:1883") == ("::1", 1883)
    for bad in ("", ":1883", "host:", "host:x", "host:-1", "host:0", "host:٣"):
        with pytest.raises(UserError):
            broker_address(bad)
