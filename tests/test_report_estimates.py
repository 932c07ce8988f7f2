"""The report's estimates: the same numbers as estimate gives, on every form, marked and bounded."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.estimating import make_oracle, make_reports
from tests.test_report import FakeStore, Page, make_task, render
from tinyldp.certify import certify
from tinyldp.collect.decoding import Hello
from tinyldp.collect.records import Batch, BootState
from tinyldp.collect.store import Store
from tinyldp.errors import UserError
from tinyldp.estimate import frequencies, supports
from tinyldp.estimate.curves import mean_curve
from tinyldp.estimate.postprocess import norm_sub
from tinyldp.report import estimates, render_report, report_data, text_report, write_csv
from tinyldp_protocol.messages import ENDED, OS, RUNNING
from tinyldp_protocol.task import GRR, JITTERSORT, OLH, OUE, RANSWITCH, SCALE, Task

TASKS = [make_oracle(GRR, 4, 1.0), make_oracle(OUE, 11, 2.0), make_oracle(OLH, 30, 2.0, 7)]


def add_reports(store: FakeStore, task: Task, reports: np.ndarray, **more: Any) -> str:
    """A device with these reports, one each step; all present."""
    boot = len(store.rows) + 1
    n = len(reports)
    row = {
        "boot": boot,
        "pseudonym": bytes([boot % 256] * 8).hex(),
        "nonce": bytes([(100 + boot) % 256] * 8).hex(),
        "task_id": task.id.hex(),
        "quality": OS,
        "software": "0.1.0",
        "link": "mqtt",
        "received": n,
        "lost": 0,
        "duplicates": 0,
        "missing": 0,
        "health": RUNNING,
        "count": n,
        "drops": 0,
        "lowest": n,
    }
    store.rows.append(SimpleNamespace(**{**row, **more}))
    store.kept[boot] = (reports, np.ones(n, dtype=np.bool_))
    store.tasks[task.id.hex()] = task
    return store.rows[-1].pseudonym


def fleet(task: Task, devices: int = 30, steps: int = 100) -> FakeStore:
    """The share of value 1 jumps in the middle."""
    rng = np.random.default_rng(3)
    store = FakeStore()
    for _ in range(devices):
        often = np.where(np.arange(steps) < steps // 2, 0.1, 0.7)
        values = np.where(rng.random(steps) < often, 1, rng.integers(0, task.symbols, steps))
        add_reports(store, task, make_reports(task, values, rng))
    return store


@pytest.mark.parametrize("task", TASKS, ids=["grr", "oue", "olh"])
def test_frequencies_are_those_of_all_reports(task: Task, tmp_path: Path) -> None:
    store = fleet(task)
    store.kept[1][1][20:40] = False
    data = report_data(store.store, postprocess="norm-sub")
    assert json.loads(json.dumps(data)) == data
    (table,) = data["estimates"]
    together = np.concatenate([reports[present] for reports, present in store.kept.values()])
    expected = frequencies(task, supports(task, together), 2980)
    assert (table["reports"], table["devices"], table["problem"]) == (2980, 30, None)
    for key, column in (
        ("frequency", expected.frequencies),
        ("variance", expected.variances),
        ("low", expected.low),
        ("high", expected.high),
        ("postprocessed", norm_sub(expected.frequencies)),
    ):
        assert [row[key] for row in table["values"]] == column.tolist()
    pieces = table["over_time"]["pieces"]
    assert sum(piece["reports"] for piece in pieces) == 2980
    assert (pieces[0]["first"], pieces[-1]["last"], len(pieces)) == (0, 99, 34)
    followed = table["over_time"]["followed"]
    assert len(followed) == min(8, task.symbols)
    at = followed.index(1)
    half = len(pieces) // 2
    share = [piece["frequencies"][at] for piece in pieces]
    assert np.mean(share[half + 1 :]) - np.mean(share[:half]) > 0.3

    text = text_report(data)
    html, page = render(store, tmp_path, data=data)
    for row in table["values"]:
        shown = f"{100 * row['frequency']:.2f} %"
        assert (shown in text) == (shown in page.cells)
    assert f"{100 * table['values'][1]['frequency']:.2f} %" in text
    assert "2,980 reports" in text
    assert "2,980 reports" in page.words
    assert page.tags.count("svg") == 2
    assert len(page.ids) == len(set(page.ids))
    assert "norm-sub" in text
    assert "randomized on its device" in page.words
    assert "shuffled" not in page.words
    assert html.index("Frequencies") < html.index("<h2>Streams")


def test_raw_is_what_is_given_unless_asked() -> None:
    data = report_data(fleet(TASKS[0]).store)
    (table,) = data["estimates"]
    assert table["postprocessing"] is None
    assert {row["postprocessed"] for row in table["values"]} == {None}
    assert "norm-sub" not in text_report(data)
    with pytest.raises(UserError, match="no post-processing 'clip'"):
        report_data(fleet(TASKS[0]).store, postprocess="clip")


def test_every_estimate_says_whether_it_is_certified(tmp_path: Path) -> None:
    task = TASKS[0]
    store = fleet(task, 3, 40)
    store.add(make_task(), 200)
    data = report_data(store.store, curve=0)
    text = text_report(data)
    assert f"Frequencies of Task {task.id.hex()}, GRR (uncertified)" in text
    assert "Mean curve of Task" in text
    _, page = render(store, tmp_path, data=data)
    assert page.captions
    assert all("uncertified" in caption for caption in page.captions)
    assert {row["certificate"] for row in data["estimates"] + data["curves"]} == {"uncertified"}

    store.certificates[task.id.hex()] = certify(task).to_json()
    data = report_data(store.store)
    assert data["uncertified"]
    assert "ε 1" in data["estimates"][0]["certificate"]
    assert [row["certificate"] for row in data["tasks"]].count("uncertified") == 1
    store = fleet(task, 3, 40)
    store.certificates[task.id.hex()] = certify(task).to_json()
    data = report_data(store.store)
    assert not data["uncertified"]
    text = text_report(data)
    assert "uncertified" not in text
    assert "has a certificate" in " ".join(text.split())
    _, page = render(store, tmp_path, data=data)
    assert "uncertified" not in page.words
    assert "certified: ε" in page.words


def test_what_certificates_state_is_rounded_up() -> None:
    task = make_task()
    store = FakeStore()
    store.add(task, 40)
    for epsilon, delta, said in (
        (1.00001, 0.0, "ε 1.001"),
        (2.0299, 1.2e-9, "ε 2.030, δ 1.200e-9"),
    ):
        store.certificates[task.id.hex()] = {"epsilon": epsilon, "delta": delta}
        data = report_data(store.store)
        assert data["streams"][0]["certificate"] == said


@pytest.mark.parametrize("damaged", [{}, {"epsilon": "<b>", "delta": 0}, {"epsilon": 1.0}])
def test_a_damaged_certificate_is_none(damaged: dict[str, Any]) -> None:
    store = fleet(TASKS[0], 2, 20)
    store.certificates[TASKS[0].id.hex()] = damaged
    assert report_data(store.store)["estimates"][0]["certificate"] == "uncertified"


def test_many_values_show_the_most_frequent(tmp_path: Path) -> None:
    task = make_oracle(GRR, 300, 5.0)
    store = fleet(task)
    data = report_data(store.store)
    assert len(data["estimates"][0]["values"]) == 300
    text = text_report(data)
    assert "Shown are the 20 most frequent by the estimate, of 300" in " ".join(text.split())
    _, page = render(store, tmp_path, data=data)
    assert "64 most frequent" in page.words


def test_no_report_is_a_sentence(tmp_path: Path) -> None:
    store = FakeStore()
    add_reports(store, TASKS[1], np.zeros((0, 2), np.uint8), health=None, count=None)
    data = report_data(store.store)
    (table,) = data["estimates"]
    assert table["values"] == []
    assert "There are no reports" in table["problem"]
    assert "There are no reports" in text_report(data)
    assert "There are no reports" in render(store, tmp_path, data=data)[1].words


def test_steps_without_reports_leave_a_gap(tmp_path: Path) -> None:
    store = fleet(TASKS[0], 2, 40)
    for _, present in store.kept.values():
        present[10:12] = False
    data = report_data(store.store)
    pieces = data["estimates"][0]["over_time"]["pieces"]
    assert [piece["frequencies"] for piece in pieces[10:12]] == [None, None]
    assert pieces[12]["frequencies"] is not None
    render(store, tmp_path, data=data)


def test_a_device_that_sends_the_impossible_is_left_out() -> None:
    store = fleet(TASKS[1])
    add_reports(store, TASKS[1], np.full((50, 2), 255, np.uint8))
    data = report_data(store.store)
    (table,) = data["estimates"]
    assert (table["reports"], table["devices"]) == (3000, 30)
    assert "no value" in table["left_out"][0]
    assert "no value" in text_report(data)


def test_each_report_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """That a stream holds no impossible report is looked at without counting it."""
    store = fleet(TASKS[2])
    counted = []

    def count(task: Task, reports: np.ndarray) -> np.ndarray:
        counted.append(len(reports))
        return supports(task, reports)

    monkeypatch.setattr(estimates, "supports", count)
    (table,) = report_data(store.store)["estimates"]
    assert sum(counted) == table["reports"] == 3000


def test_values_by_what_they_stand_for(tmp_path: Path) -> None:
    numbers: Any = {"mechanism": GRR, "symbols": 3, "bins": [10, 20], "thresholds": [SCALE // 6]}
    timing = {"tick": 1000, "batch": 1, "resend": 5, "beacon": 5, "outbox": 16}
    task = Task(numbers | timing)
    task.id = b"with bin"
    store = FakeStore()
    add_reports(store, task, np.arange(60) % 3)
    data = report_data(store.store)
    names = ["<10 or missing", "10–19", "≥20"]  # noqa: RUF001
    assert [row["name"] for row in data["estimates"][0]["values"]] == names
    assert "10–19" in text_report(data)  # noqa: RUF001
    assert "10–19" in render(store, tmp_path, data=data)[1].cells  # noqa: RUF001


@pytest.mark.parametrize("width", [60, 90, 160])
def test_text_fits(width: int) -> None:
    text = text_report(report_data(fleet(TASKS[2]).store, postprocess="simplex"), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "Frequencies" in text


def test_curve_is_the_estimators(tmp_path: Path) -> None:
    task = make_task(RANSWITCH, 4, 0.1)
    store = FakeStore()
    for _ in range(6):
        store.add(task, 60)
    store.kept[3][1][8:12] = False
    released = np.array([symbols for symbols, _ in store.kept.values()])
    present = np.array([mask for _, mask in store.kept.values()])
    assert report_data(store.store)["curves"] == []
    for curve in (0, 1, 5):
        data = report_data(store.store, curve=curve)
        assert json.loads(json.dumps(data)) == data
        (table,) = data["curves"]
        expected = mean_curve(task, released, present, ended=True, every=curve or None)
        for name in ("steps", "means", "variances", "low", "high", "released"):
            assert table[name] == getattr(expected, name).tolist()
        assert (table["devices"], table["segments"], table["problem"]) == (6, 6, None)
        text = text_report(data)
        assert ("straight between knots" in " ".join(text.split())) == (curve != 1)
        _, page = render(store, tmp_path, data=data)
        assert "Mean over 6 devices" in page.words
        shown = f"{table['means'][0]:.3f}"
        assert shown in text
        assert shown in page.cells


def test_curve_of_segments_that_differ() -> None:
    """What was flushed is left out where flushes are not at one place."""
    task = make_task(RANSWITCH, 4, 0.1)
    store = FakeStore()
    for i in range(8):
        store.add(task, 120 + i % 2, health=ENDED if i < 4 else RUNNING)
    (table,) = report_data(store.store, curve=5)["curves"]
    # 121 releases of those that go on, less what came after them.
    assert len(table["released"]) == 121
    assert table["steps"][-1] < 120
    longest = np.array([store.kept[boot][0][119] for boot in (6, 8)])
    assert table["released"][120] == np.mean([store.kept[b][0][120] for b in (6, 8)])
    assert len(longest) == 2


def test_curve_that_cannot_be_is_a_sentence(tmp_path: Path) -> None:
    store = FakeStore()
    store.add(make_task(RANSWITCH, 4, 0.1), 120)
    data = report_data(store.store, curve=0)
    assert "two devices" in data["curves"][0]["problem"]
    assert "two devices" in text_report(data)
    assert "two devices" in render(store, tmp_path, data=data)[1].words
    store = FakeStore()
    store.add(make_task(RANSWITCH, 4, 0.1), 0)
    assert "Too little" in report_data(store.store, curve=0)["curves"][0]["problem"]


def test_jittersort_in_every_form(tmp_path: Path) -> None:
    half = [SCALE // 2, SCALE // 8, SCALE // 8]
    task = make_task(JITTERSORT, 3, window=5, thresholds=half)
    rng = np.random.default_rng(1)
    store = FakeStore()
    for _ in range(5):
        add_reports(store, task, rng.integers(0, 16, 100), health=ENDED)
    data = report_data(store.store, curve=1)
    assert data["streams"][0]["displacement_exact"] > 0
    assert data["tasks"][0]["q"] is None
    assert data["tasks"][0]["thresholds"] == half
    assert "JitterSort" in text_report(data)
    _, page = render(store, tmp_path, data=data)
    assert "exact law" in page.words
    assert data["curves"][0]["problem"] is None


def test_csv_of_reports(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    for task in TASKS:
        store = FakeStore()
        reports = make_reports(task, rng.integers(0, task.symbols, 3), rng)
        add_reports(store, task, reports)
        store.kept[1][1][1] = False
        (path,), _ = write_csv(store.store, tmp_path / str(task.mechanism))
        lines = path.read_text().splitlines()
        first = bytes(reports[0]).hex() if reports.ndim > 1 else str(reports[0])
        assert lines[:3] == ["step,report", f"0,{first}", "1,"]


def test_estimates_of_a_real_store(tmp_path: Path) -> None:
    task = make_oracle(OUE, 11, 2.0, batch=3)
    store = Store.create(tmp_path / "study.db", task, certify(task).to_json())
    rng = np.random.default_rng(4)
    reports = make_reports(task, rng.integers(0, 11, 30), rng)
    hello = Hello(b"\0\1\0", task.id, b"wearer 1", b"nonce 01", OS, 0)
    boot = store.recall(hello, "mqtt", 1_785_000_000_000).id
    frames = [
        (boot, i, 1_785_000_000_000, rows.tobytes())
        for i, rows in enumerate(reports.reshape(10, 3, 2))
        if i != 4
    ]
    state = BootState(boot, "mqtt", 10, ENDED, 0, 10, 29)
    store.commit(Batch(1_785_000_000_000, frames=frames, boots=[state]))
    data = report_data(store)
    # One frame is lost, and the last one has one report of padding.
    kept = np.concatenate([reports[:12], reports[15:29]])
    counts = supports(task, kept).tolist()
    assert [row["support"] for row in data["estimates"][0]["values"]] == counts
    assert data["estimates"][0]["reports"] == 26
    assert data["estimates"][0]["certificate"] == "ε 2.000"
    path = tmp_path / "report.html"
    render_report(store, path, data=data)
    assert "Shares over time" in Page(path.read_text(encoding="utf-8")).words
    store.close()
