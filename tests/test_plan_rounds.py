"""Plans of rounds: each entry loses no more than its spend, with no less noise than needed."""

import json
import math
import random
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import pytest

from tests.planning_studies import make_study, write_study
from tinyldp.certify import certify
from tinyldp.coordinate import entry_task
from tinyldp.coordinate.schedules import make_schedule
from tinyldp.errors import UserError
from tinyldp.estimate import expected_variance
from tinyldp.planning import choose, plan, text_plan
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

TARGETS = 300
BUDGETS = (LBU, LSP, LBD, LBA)


def chosen(
    folder: Path, name: str, epsilon: str = "1", w: int = 20, domain: int = 5, option: str = ""
) -> Task:
    return choose(make_study(folder, name, f"epsilon = {epsilon}\nw = {w}", option, domain))


def changed(task: Task, **changes: int | list[int]) -> Task:
    """The same Task with other integers."""
    numbers = {name: value for name, value in vars(task).items() if name not in ("width", "id")}
    other = Task(numbers | changes)
    write_file(other)
    return other


def exceeds(task: Task, entry: int, threshold: int) -> bool:
    """Whether an entry with this threshold loses more than its spend; to 60 digits."""
    values = {GRR: task.symbols, OUE: 2, OLH: task.buckets}[task.mechanism]
    truth = SCALE - (values - 1) * threshold
    with localcontext() as context:
        context.prec = 60
        return Decimal(truth) / Decimal(threshold) > (Decimal(task.spends[entry]) / 65536).exp()


def test_the_entries_of_each_method(tmp_path: Path) -> None:
    unit = 65536 // 40
    expected = {
        LBU: [2 * unit],
        LSP: [40 * unit],
        LBD: sorted({unit * j // 4 for j in range(1, 41)}),
        LBA: [unit * j for j in range(1, 21)],
        LPU: [40 * unit],
        LPD: [40 * unit],
        LPA: [40 * unit],
    }
    for name, method in METHODS.items():
        task = chosen(tmp_path, name)
        assert (task.method, task.w, task.epsilon) == (method, 20, 65536)
        assert list(task.spends) == expected[method]
        assert len(task.thresholds) == len(task.spends)
        assert unit in task.spends or method not in (LBD, LBA)
        # The coordinator takes it for a Task of its method.
        make_schedule(task)


def random_targets(rng: random.Random, folder: Path):
    """Tasks of the first TARGETS random studies that can be met."""
    found = refused = 0
    while found < TARGETS:
        name = rng.choice(list(METHODS))
        w = rng.choice([1, 2, 3, 10, 20, rng.randint(1, 60)])
        epsilon = math.exp(rng.uniform(math.log(0.01), math.log(12)))
        domain = rng.choice([2, 3, 5, 100, rng.randint(2, 2000)])
        oracle = rng.choice(["auto", "grr", "oue", "olh"])
        option = f'oracle = "{oracle}"'
        if oracle == "olh" and rng.random() < 0.3:
            option += f"\nbuckets = {rng.randint(2, 20)}"
        if name == "lbd" and rng.random() < 0.5:
            option += f"\ngrid = {rng.randint(0, 3)}"
        try:
            task = chosen(folder, name, f"{epsilon:.5f}", w, domain, option)
        except UserError:
            refused += 1
            continue
        yield task
        found += 1
    assert refused < TARGETS


def test_random_targets_are_met_and_barely(tmp_path: Path) -> None:
    """What is planned is certified, and one step less noise at any entry is not."""
    rng = random.Random(31)
    methods = set()
    tight = 0
    for task in random_targets(rng, tmp_path):
        methods.add((task.method, task.mechanism))
        certificate = certify(task)
        assert certificate.within_target
        assert task.epsilon is not None
        assert certificate.epsilon == Fraction(task.epsilon, 65536)
        assert not any(map(exceeds, [task] * 512, range(len(task.spends)), task.thresholds))
        entry = rng.randrange(len(task.spends))
        thresholds = list(task.thresholds)
        thresholds[entry] -= 1
        if not thresholds[entry]:
            continue
        assert exceeds(task, entry, thresholds[entry])
        if thresholds == sorted(thresholds, reverse=True):
            assert not certify(changed(task, thresholds=thresholds)).within_target
            tight += 1
    assert tight > 0.9 * TARGETS
    assert len(methods) == 21


def test_no_window_of_a_method_exceeds_epsilon() -> None:
    """What LBU, LSP and the dissimilarities with all publications of LBD and LBA add up to."""
    from tinyldp.spends import method_spends, unit

    rng = random.Random(32)
    for _ in range(TARGETS):
        w = rng.randint(1, 512)
        epsilon = rng.randint(2 * w, 1 << rng.randint(10, 29)) if w <= 511 else 1 << 20
        base = unit(epsilon, w)
        assert 2 * w * base <= epsilon < 2 * w * (base + 1)
        assert method_spends(LBU, epsilon, w)[0] * w <= epsilon
        for method in (LSP, LPU, LPD, LPA):
            (spend,) = method_spends(method, epsilon, w)
            assert spend <= epsilon < 2 * spend
        spends = method_spends(LBA, epsilon, w)
        assert spends[0] * w + spends[-1] <= epsilon
        spends = method_spends(LBD, epsilon, w)
        assert base in spends
        assert w * base + 2 * spends[-1] <= epsilon + (2 * base if w == 1 else 0)


def test_auto_takes_the_least_variance(tmp_path: Path) -> None:
    rng = random.Random(33)
    seen = set()
    for _ in range(60):
        name = rng.choice(list(METHODS))
        epsilon, w = f"{math.exp(rng.uniform(-1, 3)):.4f}", rng.choice([1, 2, 20])
        domain = rng.choice([2, 3, 5, 10, 30, 200, 3000])
        task = chosen(tmp_path, name, epsilon, w, domain)
        unit = math.floor(Fraction(epsilon) * 65536) // (2 * w)
        # The spend that every step or sample has.
        telling = {LBU: 2 * unit, LBD: unit, LBA: unit}.get(task.method or 0, 2 * w * unit)
        variances = {}
        for oracle in ("grr", "oue", "olh"):
            try:
                other = chosen(tmp_path, name, epsilon, w, domain, f'oracle = "{oracle}"')
            except UserError:
                continue
            entry = list(other.spends).index(telling)
            variances[other.mechanism] = expected_variance(entry_task(other, entry), 1000)
        assert variances[task.mechanism] == min(variances.values())
        seen.add(task.mechanism)
    assert seen == {GRR, OUE, OLH}


def sentence(folder: Path, *arguments: object) -> str:
    path = write_study(folder, *arguments)
    with pytest.raises(UserError) as error:
        plan(path)
    said = str(error.value)
    assert "\n" not in said
    assert said.endswith(".")
    return said.removeprefix(f"{path}: ")


def test_refusals_say_what_would_do(tmp_path: Path) -> None:
    target = "epsilon = 1\nw = 20"
    # The truth of GRR would be no likelier than each lie, at the least spend.
    said = sentence(tmp_path, "lba", target, 'oracle = "grr"', 5000)
    assert "GRR can't meet epsilon 0.025 over a domain of 5000" in said
    largest = int(said.split("every domain up to ")[1].split()[0])
    assert chosen(tmp_path, "lba", domain=largest, option='oracle = "grr"').mechanism == GRR
    # OLH with too many buckets.
    said = sentence(tmp_path, "lba", target, 'oracle = "olh"\nbuckets = 4096', 5000)
    assert "OLH can't meet epsilon 0.025 with 4096 buckets" in said
    # Beyond OUE and OLH only GRR is left, which fails.
    said = sentence(tmp_path, "lba", target, "", 40000)
    assert "No oracle works for LBA over a domain of 40000" in said
    assert chosen(tmp_path, "lba", domain=5000).mechanism == OLH
    assert chosen(tmp_path, "lsp", epsilon="9", w=2, domain=40000).mechanism == GRR
    # No unit.
    assert "40/65536 or more" in sentence(tmp_path, "lbu", "epsilon = 0.0006\nw = 20")
    # Too many entries.
    assert "512 at most" in sentence(tmp_path, "lba", "epsilon = 1\nw = 513")


@pytest.mark.parametrize("name", METHODS)
def test_a_plan_of_rounds(tmp_path: Path, name: str) -> None:
    path = write_study(
        tmp_path, name, "epsilon = 1\nw = 20", 'oracle = "olh"', 30, "[fleet]\ndevices = 1000"
    )
    planned = plan(path)
    task, method = planned.task, METHODS[name]
    found = json.loads(json.dumps(planned.to_json()))
    assert (found["mechanism"], found["oracle"]) == (name, "olh")
    assert found["integers"] == {
        "spends": list(task.spends),
        "thresholds": list(task.thresholds),
        "buckets": task.buckets,
    }
    assert (found["epsilon"], found["delta"], found["latency_steps"]) == (1.0, 0.0, 0)
    reports = 1000 if method in BUDGETS else {LPU: 50}.get(method, 25)
    for i, entry in enumerate(found["entries"]):
        assert (entry["spend"], entry["threshold"]) == (task.spends[i], task.thresholds[i])
        assert 0 < entry["epsilon"] <= task.spends[i] / 65536
        assert entry["reports"] == reports
        assert entry["variance"] == expected_variance(entry_task(task, i), reports)
    assert len(found["entries"]) == len(task.spends)
    telling = 3 if method == LBD else 0
    assert found["variance"] == found["entries"][telling]["variance"]
    # LDP-IDS's communication per device and step.
    answers = {LBU: (1, 1), LSP: (0.05, 0.05), LPU: (0.05, 0.05), LBD: (1, 2), LBA: (1, 2)}
    assert found["communication"] == {
        "answers": list(answers.get(method, (0.025, 0.05))),
        "answer_bytes": 16 + 1 + 5,
        "query_bytes": 30,
    }
    text = text_plan(planned)
    assert f"{name.upper()} over OLH with {task.buckets} buckets" in text
    assert "MORE" not in text
    assert f"{found['entries'][0]['variance']:.4g}" in text
    assert "no bound for a lifetime" in text


def test_a_plan_without_devices_or_with_too_few(tmp_path: Path) -> None:
    planned = plan(write_study(tmp_path, "lpu", "epsilon = 1\nw = 20"))
    assert planned.variance is None
    assert "[fleet] devices" in text_plan(planned)
    few = write_study(tmp_path, "lpu", "epsilon = 1\nw = 20", "", 16, "[fleet]\ndevices = 19")
    planned = plan(few)
    assert planned.variance is None
    assert "20 are the fewest" in text_plan(planned)


def test_device_memory_of_rounds(tmp_path: Path) -> None:
    def memory(w: int, domain: int = 16) -> int:
        path = write_study(tmp_path, "lbu", f"epsilon = 1\nw = {w}", 'oracle = "oue"', domain)
        return plan(path).device_bytes

    # A word of the ledger for each step of a window.
    assert memory(21) - memory(20) == 4
    # A report in the mechanism, the ledger's two answers, a message and two frames; and a
    # random word of 3 bytes for each symbol.
    assert memory(20, 160) - memory(20, 80) == 6 * 10 + 3 * 80


def test_certified_with_the_command_and_beyond_the_target(tmp_path: Path) -> None:
    from tinyldp.cli import main

    path = write_study(tmp_path, "lba", "epsilon = 1\nw = 20")
    task = plan(path).task
    assert main(["certify", str(tmp_path / "s.task")]) == 0
    thresholds = list(task.thresholds)
    thresholds[-1] -= 1
    beyond = tmp_path / "beyond.task"
    beyond.write_bytes(write_file(changed(task, thresholds=thresholds)))
    assert main(["certify", str(beyond)]) == 1
