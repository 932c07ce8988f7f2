"""The planner: targets are met, with no less noise than needed, and refusals say what would do."""

import json
import math
import random
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.planning_studies import make_study, study_text, write_study
from tinyldp.certify import certify, jittersort, ranswitch, staswitch
from tinyldp.certify.bounds import exp_bounds
from tinyldp.errors import UserError
from tinyldp.estimate import expected_variance
from tinyldp.planning import choose, plan, text_plan
from tinyldp.planning.coupled import coupled_chain
from tinyldp.study import load_task
from tinyldp_protocol.task import SCALE, Task, write_file

TARGETS = 500
KEYS = {
    "task_id",
    "mechanism",
    "integers",
    "epsilon",
    "delta",
    "expected_displacement",
    "latency_steps",
    "device_bytes",
    "missing",
    "variance",
    "task",
    "bytes",
}


def changed(task: Task, **changes: int | list[int]) -> Task:
    """The same Task with other integers."""
    numbers: dict[str, Any] = {
        name: value for name, value in vars(task).items() if name not in ("width", "id")
    }
    other = Task(numbers | changes)
    write_file(other)
    return other


def met(task: Task, epsilon: Decimal, delta: Decimal) -> bool:
    """Whether the public certificate keeps the target as a person wrote it.

    An oracle's epsilon is a logarithm, certified a hair (2^-100) above.
    """
    certificate = certify(task)
    return (
        certificate.within_target
        and certificate.epsilon <= Fraction(epsilon) + Fraction(1, 1 << 99)
        and certificate.delta <= Fraction(delta)
    )


def decimals(rng: random.Random, low: float, high: float) -> Decimal:
    """A number as people write it, spread over the orders of magnitude."""
    digits = rng.choice([1, 2, 3, 6])
    return Decimal(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.{digits}g}")


def feasible(
    tmp_path: Path, count: int, draw: Callable[[], tuple[str, str, str, int, Decimal, Decimal]]
):
    """(Task, epsilon, delta) of the first `count` random targets that can be met."""
    found = 0
    while found < count:
        name, privacy, mechanism, domain, epsilon, delta = draw()
        study = make_study(tmp_path, name, privacy, mechanism, domain)
        try:
            task = choose(study)
        except UserError:
            continue
        found += 1
        yield task, epsilon, delta


def stream_targets(rng: random.Random, name: str, largest_k: int):
    def draw():
        k = rng.randint(2, largest_k)
        epsilon = decimals(rng, 0.5 if name == "jittersort" else 0.05, 12)
        # From about what can be reached on: few are refused, which takes the longest.
        if name == "jittersort":
            delta = decimals(rng, 2e-4, 0.9)
        else:
            least = 1 - (1 - 1 / (math.exp(epsilon) + k - 1)) ** (k - 1)
            delta = min(decimals(rng, least, 1), Decimal("0.9999"))
        window = ""
        if name == "ranswitch" and rng.random() < 0.3:
            window = f"window = {rng.randint(k, 4 * k)}"
        privacy = f"k = {k}\nepsilon = {epsilon:f}\ndelta = {delta:f}"
        return name, privacy, window, 16, epsilon, delta

    return draw


@pytest.mark.parametrize(("name", "largest_k"), [("ranswitch", 40), ("staswitch", 4)])
def test_switches_meet_random_targets_and_barely(tmp_path: Path, name: str, largest_k: int) -> None:
    rng = random.Random(4)
    tight = 0
    draw = stream_targets(rng, name, largest_k)
    for task, epsilon, delta in feasible(tmp_path, TARGETS, draw):
        assert met(task, epsilon, delta)
        (threshold,) = task.thresholds
        if threshold > 1:
            assert not met(changed(task, thresholds=[threshold - 1]), epsilon, delta)
            tight += 1
    assert tight > 0.95 * TARGETS


def test_jittersort_meets_random_targets_with_least_latency(tmp_path: Path) -> None:
    rng = random.Random(5)
    draw = stream_targets(rng, "jittersort", 8)
    for task, epsilon, delta in feasible(tmp_path, TARGETS, draw):
        assert met(task, epsilon, delta)
        half = task.window // 2 - 1
        if half and delta < 0.5:
            # One slot less on either side: the full slope, which is best, isn't enough.
            assert task.epsilon is not None
            exact = Fraction(task.epsilon, 1 << 16)
            slope = float(exact) / (2 * (task.k - 1))
            law = [math.exp(-slope * j) for j in range(half + 1)]
            scale = SCALE / (2 * sum(law) - law[0])
            weights = [max(1, round(scale * part)) for part in law]
            weights[0] = SCALE - 2 * sum(weights[1:])
            assert jittersort.delta(weights, task.k, exact) > Fraction(delta) * Fraction(99, 100)


@pytest.mark.parametrize("name", ["grr", "oue", "olh"])
def test_oracles_meet_random_targets_and_barely(tmp_path: Path, name: str) -> None:
    rng = random.Random(6)

    def draw():
        epsilon = decimals(rng, 0.01, 12)
        domain = rng.choice([2, 3, 16, rng.randint(2, 1880)])
        buckets = f"buckets = {rng.randint(2, 40)}" if name == "olh" and rng.random() < 0.3 else ""
        return name, f"epsilon = {epsilon:f}", buckets, domain, epsilon, Decimal(0)

    for task, epsilon, delta in feasible(tmp_path, TARGETS, draw):
        assert met(task, epsilon, delta)
        (threshold,) = task.thresholds
        if threshold > 1:
            assert not met(changed(task, thresholds=[threshold - 1]), epsilon, delta)


@pytest.mark.soak
def test_staswitch_meets_random_targets_for_larger_k(tmp_path: Path) -> None:
    rng = random.Random(7)
    draw = stream_targets(rng, "staswitch", 7)
    for task, epsilon, delta in feasible(tmp_path, TARGETS, draw):
        assert met(task, epsilon, delta)
        (threshold,) = task.thresholds
        if threshold > 1:
            assert not met(changed(task, thresholds=[threshold - 1]), epsilon, delta)


@pytest.mark.soak
@pytest.mark.parametrize("k", [8, 9])
def test_staswitch_at_its_largest_k(tmp_path: Path, k: int) -> None:
    task = choose(make_study(tmp_path, "staswitch", f"k = {k}\nepsilon = 5\ndelta = 0.3"))
    (threshold,) = task.thresholds
    assert staswitch.delta(k, threshold, Fraction(5)) <= Fraction(3, 10)
    assert staswitch.delta(k, threshold - 1, Fraction(5)) > Fraction(3, 10)


@pytest.mark.parametrize(
    ("name", "staying", "cost"), [("ranswitch", 0.93608, 0.3145), ("staswitch", 0.93597, 0.3010)]
)
def test_figures_of_the_switches(tmp_path: Path, name: str, staying: float, cost: float) -> None:
    planned = plan(write_study(tmp_path, name, "k = 5\nepsilon = 4\ndelta = 0.125"))
    assert 1 - 4 * planned.task.thresholds[0] / SCALE == pytest.approx(staying, abs=6e-6)
    assert planned.expected_displacement == pytest.approx(cost, abs=6e-5)
    assert planned.latency_steps == 4
    assert (planned.epsilon, planned.variance) == (4, None)
    assert planned.delta is not None
    assert 0.12499 < planned.delta <= 0.125


@pytest.mark.parametrize(
    ("k", "delta", "latency"), [(5, "1e-3", 60), (10, "1e-2", 92), (5, "1e-6", 116)]
)
def test_figures_of_jittersort(tmp_path: Path, k: int, delta: str, latency: int) -> None:
    planned = plan(write_study(tmp_path, "jittersort", f"k = {k}\nepsilon = 2\ndelta = {delta}"))
    assert planned.latency_steps == latency == planned.task.window - 1
    assert planned.delta is not None
    assert planned.delta <= float(delta)


def refusal(tmp_path: Path, *arguments: object) -> str:
    """The sentence, without the file's name."""
    path = write_study(tmp_path, *arguments)
    with pytest.raises(UserError) as error:
        plan(path)
    text = str(error.value)
    assert text.startswith(f"{path}: ")
    assert text.endswith(".")
    assert "\n" not in text
    assert not path.with_suffix(".task").exists()
    return text.removeprefix(f"{path}: ")


def test_refusals_with_their_figures(tmp_path: Path) -> None:
    text = refusal(tmp_path, "ranswitch", "k = 10\nepsilon = 2\ndelta = 0.01")
    # The limit of any mechanism with this look-ahead: 9 / (e^2 + 99), rounded down.
    assert f"below {math.floor(9e5 / (math.exp(2) + 99)) / 1e5:.4g}" in text
    assert "JitterSort meets the target with a latency of 92 steps" in text
    text = refusal(tmp_path, "staswitch", "k = 5\nepsilon = 2\ndelta = 0.45")
    assert "RanSwitch meets the target with a latency of 4 steps" in text
    text = refusal(tmp_path, "staswitch", "k = 10\nepsilon = 2\ndelta = 0.01")
    assert "k up to 9 only" in text
    assert "latency of 92 steps" in text
    text = refusal(tmp_path, "grr", "epsilon = 1", "", 7000)
    assert "every domain up to 5418 works" in text
    plan(write_study(tmp_path, "grr", "epsilon = 1", "", 5418)).path.unlink()
    refusal(tmp_path, "grr", "epsilon = 1", "", 5419)
    text = refusal(tmp_path, "olh", "epsilon = 0.01", "buckets = 900")
    assert "up to 438 buckets work" in text
    text = refusal(tmp_path, "jittersort", "k = 5\nepsilon = 2\ndelta = 1e-8")
    assert "resolution of weights over 2^24" in text
    text = refusal(tmp_path, "jittersort", "k = 900\nepsilon = 0.1\ndelta = 0.01")
    assert "RanSwitch can't meet it either" in text
    text = refusal(tmp_path, "jittersort", "k = 10\nepsilon = 2\ndelta = 0.1", "window = 3")
    assert "nor anything near it" in text


@pytest.mark.parametrize(
    ("name", "privacy", "option"),
    [
        ("ranswitch", "k = 10\nepsilon = {}\ndelta = {}", ""),
        ("ranswitch", "k = 3\nepsilon = {}\ndelta = {}", "window = 5"),
        ("staswitch", "k = 5\nepsilon = {}\ndelta = {}", ""),
        ("jittersort", "k = 5\nepsilon = {}\ndelta = {}", "window = 21"),
        ("jittersort", "k = 5\nepsilon = {}\ndelta = {}", ""),
    ],
)
def test_what_a_refusal_offers_can_be_had(
    tmp_path: Path, name: str, privacy: str, option: str
) -> None:
    """And a slightly better point near it can't."""
    delta = "1e-9" if option == "" and name == "jittersort" else "0.01"
    text = refusal(tmp_path, name, privacy.format(2, delta), option)
    offered = re.findall(r"epsilon (\S+) with delta ([-\d.e]+)", text.split("nearest is")[1])
    assert offered
    for epsilon, reached in offered:
        plan(write_study(tmp_path, name, privacy.format(epsilon, reached), option)).path.unlink()
        better = f"{0.98 * float(epsilon):.12f}", f"{0.98 * float(reached):.12f}"
        if reached == delta:
            refusal(tmp_path, name, privacy.format(better[0], reached), option)
        else:
            refusal(tmp_path, name, privacy.format(epsilon, better[1]), option)
    for other, window, latency in re.findall(
        r"(JitterSort|RanSwitch)(?: with a window of (\d+))? meets \D+ (\d+) steps", text
    ):
        option = f"window = {window}" if window else ""
        planned = plan(write_study(tmp_path, other.lower(), privacy.format(2, delta), option))
        assert planned.latency_steps == int(latency)
        planned.path.unlink()


@pytest.mark.parametrize("k", [2, 3, 4, 5, 6])
def test_the_guide_to_staswitch_is_right(k: int) -> None:
    rng = random.Random(k)
    for _ in range(4):
        threshold = rng.randint(1, SCALE // k)
        exact = staswitch.law(k, threshold)
        guide = coupled_chain(k).law(threshold)
        assert guide.impossible == pytest.approx(float(exact.impossible), abs=1e-12)
        for factor in (1, 2.5, 40, 1e6):
            delta = guide.delta(factor)
            assert delta == pytest.approx(float(exact.delta(Fraction(factor))), abs=1e-12)
            if guide.impossible < delta < 1:
                assert guide.factor(delta) == pytest.approx(factor, rel=1e-6) or factor == 1


def test_olh_takes_the_buckets_of_least_variance(tmp_path: Path) -> None:
    for epsilon, domain in (("0.5", 16), ("1", 300), ("3", 16), ("5", 1000)):
        task = choose(make_study(tmp_path, "olh", f"epsilon = {epsilon}", "", domain))
        least = expected_variance(task, 1)
        low, _ = exp_bounds(Fraction(task.epsilon or 0, 1 << 16))
        for buckets in range(2, 400):
            threshold = math.ceil(SCALE / (low + buckets - 1))
            other = changed(task, buckets=buckets, thresholds=[threshold])
            assert expected_variance(other, 1) >= least * (1 - 1e-9)


@pytest.mark.parametrize(
    ("name", "privacy", "option"),
    [
        ("ranswitch", "k = 5\nepsilon = 4", "threshold = 268_113"),
        ("ranswitch", "k = 5", "threshold = 268_113\nwindow = 9"),
        ("staswitch", "k = 4", "threshold = 1000000"),
        ("staswitch", "k = 12\nepsilon = 1", "threshold = 1000000"),
        ("jittersort", "k = 2\nepsilon = 2", "weights = [8388608, 4194304]"),
        ("jittersort", "k = 2", "weights = [8388608, 4194304]"),
        ("grr", "w = 10", "threshold = 1000"),
        ("oue", "epsilon = 1\nw = 10", "threshold = 6000000"),
        ("olh", "epsilon = 0.1", "threshold = 6000000\nbuckets = 2"),
    ],
)
def test_integers_are_taken_as_they_are(
    tmp_path: Path, name: str, privacy: str, option: str
) -> None:
    rest = "[fleet]\ndevices = 1000"
    path = write_study(tmp_path, name, privacy, option, 16, rest)
    planned = plan(path)
    result = planned.to_json()
    assert set(result) == KEYS
    assert json.loads(json.dumps(result)) == result
    assert path.with_suffix(".task").stat().st_size == result["bytes"]
    assert load_task(path.with_suffix(".task")).id.hex() == result["task_id"]
    for key, value in result["integers"].items():
        stated = re.search(rf"{key} = (.*)", option)
        assert stated is None or json.loads(stated[1].replace("_", "")) == value
    if name == "staswitch" and "12" in privacy:
        assert result["delta"] is None
    elif name == "jittersort" and "epsilon" not in privacy:
        assert result["epsilon"] is result["delta"] is None
    else:
        certificate = certify(planned.task).to_json()
        assert (result["epsilon"], result["delta"]) == (
            certificate["epsilon"],
            certificate["delta"],
        )
    oracle = name in ("grr", "oue", "olh")
    if oracle:
        assert result["variance"] == expected_variance(planned.task, 1000)
        assert (result["latency_steps"], result["expected_displacement"]) == (0, 0)
    else:
        assert result["variance"] is None
    text = text_plan(planned)
    assert result["task_id"] in text
    assert ("MORE THAN THE TARGET" in text) == (name == "olh")


@pytest.mark.parametrize("name", ["grr", "oue", "olh"])
def test_an_epsilon_above_what_a_threshold_can_express_is_said(tmp_path: Path, name: str) -> None:
    said = text_plan(plan(write_study(tmp_path, name, "epsilon = 20", domain=4)))
    found = re.search(r"with epsilon (\S+) a report \(target: epsilon 20\)\. (.*)\n", said)
    assert found
    assert found[2] == f"{found[1]} is the largest that a threshold can express."
    said = text_plan(plan(write_study(tmp_path, name, "epsilon = 2", domain=4)))
    assert "largest" not in said


def test_a_plan_of_an_oracle_without_devices_has_no_variance(tmp_path: Path) -> None:
    planned = plan(write_study(tmp_path, "grr", "epsilon = 1"))
    assert planned.to_json()["variance"] is None
    assert "[fleet] devices" in text_plan(planned)


def test_device_memory_counts_what_grows(tmp_path: Path) -> None:
    def memory(name: str, option: str, domain: int = 16, rest: str = "") -> int:
        privacy = "epsilon = 1" if name in ("oue", "olh", "grr") else "k = 4"
        return plan(write_study(tmp_path, name, privacy, option, domain, rest)).device_bytes

    small = memory("ranswitch", "threshold = 9\nwindow = 4")
    assert memory("ranswitch", "threshold = 9\nwindow = 104") == small + 100
    # Two bytes a symbol, in the buffer and in each of 16 frames.
    assert memory("ranswitch", "threshold = 9\nwindow = 4", 300) == small + 4 + 16
    # How late each value is.
    assert memory("staswitch", "threshold = 9") == small + 4
    assert memory("ranswitch", "threshold = 9\nwindow = 4", 16, "[timing]\noutbox = 17") == (
        small + (small - 4 - 3 * 64) // 16
    )
    # A value, a key of two bytes, a weight of a word for each two slots.
    weights = [SCALE - 100] + [1] * 50
    jitter = memory("jittersort", f"weights = {weights}")
    assert jitter == small - 4 + 101 * 3 + 51 * 4
    # The report itself, in 17 places (100 bytes have a longer head in a frame), and a random
    # word for each symbol.
    assert memory("oue", "", 800) - memory("oue", "", 80) == 17 * 90 + 16 + 3 * (800 - 80)


def test_the_same_study_gives_the_same_task(tmp_path: Path) -> None:
    for name in ("ranswitch", "staswitch", "jittersort"):
        path = write_study(tmp_path, name, "k = 4\nepsilon = 3\ndelta = 0.3")
        first = plan(path).path.read_bytes()
        assert plan(path).path.read_bytes() == first
        moved = tmp_path / "elsewhere.task"
        assert plan(path, moved).path.read_bytes() == first


def test_extreme_targets_end(tmp_path: Path) -> None:
    """Neither overflows nor takes for ever; what can be met is."""
    for epsilon in ("0.00002", "700", "16383.9"):
        for name in ("ranswitch", "staswitch", "jittersort"):
            study = make_study(tmp_path, name, f"k = 4\nepsilon = {epsilon}\ndelta = 0.99")
            assert certify(choose(study)).within_target
        for name in ("grr", "oue", "olh"):
            assert certify(choose(make_study(tmp_path, name, f"epsilon = {epsilon}"))).within_target
    for name in ("ranswitch", "staswitch", "jittersort"):
        refusal(tmp_path, name, "k = 4\nepsilon = 16383.9\ndelta = 0")
    assert choose(
        make_study(tmp_path, "ranswitch", "k = 2\nepsilon = 16383.9\ndelta = 1e-7")
    ).thresholds == [1]
    # Beyond all ratios of weights, the least window still is the least.
    for epsilon in ("150", "16383.9"):
        study = make_study(tmp_path, "jittersort", f"k = 2\nepsilon = {epsilon}\ndelta = 0.001")
        assert choose(study).window == 3


def test_progress_of_long_planning(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    plan(
        write_study(tmp_path, "staswitch", "k = 4\nepsilon = 4\ndelta = 0.4"),
        progress=lambda done, total: told.append((done, total)),
    )
    assert told[0] == (0, told[0][1])
    assert told[-1] == (told[0][1], told[0][1])
    assert told == sorted(told)


def test_a_good_task_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_study(tmp_path, "ranswitch", "k = 4\nepsilon = 3\ndelta = 0.3")
    output = plan(path).path
    before = output.read_bytes()
    # A target that can't be met.
    write_study(tmp_path, "ranswitch", "k = 4\nepsilon = 3\ndelta = 0.003")
    with pytest.raises(UserError, match="can't meet"):
        plan(path)
    assert output.read_bytes() == before
    # A disk that fills up half-way.
    write_study(tmp_path, "ranswitch", "k = 4\nepsilon = 3\ndelta = 0.4")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(UserError, match="can't be written: No space"):
            plan(path)
    assert output.read_bytes() == before
    assert {entry.name for entry in tmp_path.iterdir()} == {"s.toml", "s.task"}
    # And without either it is replaced.
    assert plan(path).path.read_bytes() != before


def test_a_link_stays_one(tmp_path: Path) -> None:
    path = write_study(tmp_path, "grr", "epsilon = 1")
    kept = tmp_path / "kept.task"
    kept.write_bytes(b"")
    link = tmp_path / "s.task"
    link.symlink_to(kept)
    plan(path)
    assert link.is_symlink()
    assert load_task(kept).symbols == 16


def test_no_study_is_written_over(tmp_path: Path) -> None:
    path = write_study(tmp_path, "grr", "epsilon = 1")
    other = tmp_path / "other.toml"
    other.write_text("mine")
    hard = tmp_path / "hard.task"
    hard.hardlink_to(path)
    odd = tmp_path / "study.task"
    odd.write_text(study_text("grr", "epsilon = 1"))
    for study, output in ((path, path), (path, other), (path, hard), (odd, None)):
        before = Path(study).read_bytes()
        with pytest.raises(UserError):
            plan(study, output)
        assert Path(study).read_bytes() == before
    assert other.read_text() == "mine"
    with pytest.raises(UserError, match="can't be written"):
        plan(path, tmp_path)
    with pytest.raises(UserError, match="can't be written"):
        plan(path, tmp_path / "no" / "folder.task")


def test_ranswitch_least_delta_is_the_least(tmp_path: Path) -> None:
    """What a refusal rests on, against many thresholds."""
    rng = random.Random(8)
    for _ in range(20):
        k = rng.randint(2, 12)
        window, epsilon = rng.randint(k, 3 * k), Fraction(rng.randint(1, 8 << 16), 1 << 16)
        tried = min(
            ranswitch.delta(window, k, rng.randint(1, SCALE // window), epsilon) for _ in range(200)
        )
        just = Decimal(math.floor(tried * 10**6)) / 10**6
        privacy = f"k = {k}\nepsilon = {float(epsilon)!r}\ndelta = "
        option = f"window = {window}"
        better = choose(
            make_study(tmp_path, "ranswitch", f"{privacy}{just + Decimal('1e-6'):f}", option)
        )
        assert certify(better).within_target
