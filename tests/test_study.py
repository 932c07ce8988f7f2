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
        ("[study]", "study = 1\n[fleet]\n[links]\n[x]", "study|x"),
        ("window = 8", "window = 2", "window must lie in 3..1024"),
        ("window = 8", "window = 999999999999999", "smaller than 2"),
        ('"ranswitch"', '"staswitch"', "window is RanSwitch's alone"),
        ('"ranswitch"', '"jitter"', "must be one of"),
        ("k = 3", "", r"\[privacy\] k is missing"),
        ("epsilon = 1.5", "epsilon = inf", "ordinary number"),
        ("epsilon = 1.5", "epsilon = 1e999999999", "ordinary number"),
        ("epsilon = 1.5", "epsilon = -1", "0 or more"),
        ("epsilon = 1.5", 'epsilon = "1"', "must be a number"),
        ("delta = 1e-6", "delta = 1", "below 1,"),
        ("bins = [1, 50, 200]", "bins = [1, 50, 50]", "bin edge"),
        ("bins = [1, 50, 200]", "bins = [1, 2.5]", "must be an integer, not 2.5"),
        ("bins = [1, 50, 200]", "bins = 3", "list of integers"),
        ("bins = [1, 50, 200]", "bins = [1]\ndomain = 3", "make a domain of 2, not 3"),
        ("bins = [1, 50, 200]", "", "domain is missing"),
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
