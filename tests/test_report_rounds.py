"""The report of rounds: what the store holds, in all four forms, with each entry's variance."""

import contextlib
import csv
import json
import math
import re
import shutil
import sqlite3
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from tests.collecting import hello, make_task, rounds_task, status
from tests.modelled import Fleet, mixed
from tinyldp import cli
from tinyldp.collect.intake import Intake
from tinyldp.collect.records import Batch, Link
from tinyldp.collect.store import Store
from tinyldp.coordinate import entry_task
from tinyldp.estimate import expected_variance, frequencies, supports
from tinyldp.report import render_report, report_data, rounds, text_report, write_csv
from tinyldp.report import round_pictures as rounds_pictures
from tinyldp.report.pictures import drawing
from tinyldp_protocol.messages import ENDED, RUNNING, WAITING
from tinyldp_protocol.task import LBA, LBU, LPA, LPD, LPU, OLH

STEPS = 30


@pytest.fixture(scope="module")
def lba(tmp_path_factory):
    """LBA over 8 devices; one is deaf, one has lost its ledger."""
    task = rounds_task(LBA, epsilon=8.0)
    line = Fleet(tmp_path_factory.mktemp("lba") / "a.db", task, mixed(task, 8))
    line.devices[3].deaf = True
    line.devices[4].reason = lambda query: WAITING
    line.run(STEPS)
    yield line
    line.store.close()


@pytest.fixture
def table(lba):
    return report_data(lba.store)["rounds"][0]


def test_json_holds_every_step(lba, table):
    assert json.loads(json.dumps(table)) == table
    assert [step["t"] for step in table["steps"]] == list(range(STEPS))
    assert table["steps_in_all"] == STEPS
    assert table["mechanism"] == "LBA over GRR"
    assert table["epsilon"] == 8.0
    assert sum(table["outcomes"].values()) == STEPS
    assert table["followed"] == [0, 1, 2, 3]


def test_estimates_have_the_variance_of_the_entry_that_was_used(lba, table):
    task = lba.task
    answers = lba.answers()
    asked = {(q.t, q.phase): q for q in lba.store.questions(task.id.hex())}
    entries = set()
    for step in table["steps"]:
        if not step["published"]:
            continue
        question = asked[step["t"], 1]
        entries.add(question.entry)
        assert step["units"] == task.spends[question.entry]
        assert step["epsilon"] == step["units"] / 65536
        oracle = entry_task(task, question.entry)
        counts = supports(oracle, answers[step["t"], 1][:, 0])
        expected = frequencies(oracle, counts, step["n"])
        assert step["frequencies"] == expected.frequencies.tolist()
        assert step["variances"] == expected.variances.tolist()
        assert (step["low"], step["high"]) == (expected.low.tolist(), expected.high.tolist())
    # With one and the same entry everywhere this would show nothing.
    assert len(entries) > 1


def test_between_publications_the_last_one_stands(table):
    steps = table["steps"]
    held = [step for step in steps if step["since"] is not None and not step["published"]]
    assert held
    for step in held:
        origin = steps[step["since"]]
        assert origin["published"]
        assert step["frequencies"] == origin["frequencies"]
        assert not any(s["published"] for s in steps[origin["t"] + 1 : step["t"] + 1])


def test_devices_refusals_and_communication(lba, table):
    devices = {row["device"]: row for row in table["devices"]}
    deaf = devices[lba.devices[3].pseudonym.hex()]
    lost = devices[lba.devices[4].pseudonym.hex()]
    good = devices[lba.devices[0].pseudonym.hex()]
    assert (deaf["answered"], deaf["rate"], deaf["refusals"]) == (0, 0.0, {})
    assert lost["answered"] == 0
    # The question of the step that was open at last may have no answer yet.
    assert lost["asked"] - lost["refusals"]["waiting"] in (0, 1)
    assert good["rate"] > 0.9
    assert table["refusals"]["waiting"] == lost["refusals"]["waiting"]
    # One for the dissimilarity at each step, one more for each publication, of 6 in 8.
    publications = table["publications"]
    assert table["cfpu_asked"] == pytest.approx(1 + publications / STEPS)
    assert table["cfpu"] == pytest.approx(0.75 * table["cfpu_asked"])
    assert (table["answer_bytes"], table["query_bytes"]) == (18, 30)


def test_the_same_numbers_as_text_and_page(lba, table, tmp_path):
    data = report_data(lba.store)
    text = text_report(data, 160)
    page = tmp_path / "a.html"
    render_report(lba.store, page, data=data)
    html = page.read_text()
    shown = table["steps"][0]
    for form in (text, html):
        assert "LBA over GRR" in form
        assert f"{shown['dis']:.3g}" in form
        assert "waiting" in form
        assert f"{100 * shown['frequencies'][0]:.1f} (" in form if shown["published"] else True
        assert f"{table['cfpu']:.3f} for each device and step" in form
        assert "refuses the rest" in form
    assert html.count("<svg") == 2
    assert "Decisions of 30 steps." in html
    assert not re.search(r'(src|href)="http', html)


def test_csv_holds_every_step_and_value(lba, tmp_path):
    paths, left_out = write_csv(lba.store, tmp_path / "csv")
    name = lba.task.id.hex()
    assert [path.name for path in paths] == [f"{name}-steps.csv", f"{name}-devices.csv"]
    assert left_out == []
    with paths[0].open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == STEPS
    decisions = lba.store.decisions(name)
    table = report_data(lba.store)["rounds"][0]
    assert any(step["dissimilarity_units"] for step in table["steps"])
    for row, decision, step in zip(rows, decisions, table["steps"], strict=True):
        assert row["dissimilarity_units"] == str(step["dissimilarity_units"])
        assert row["outcome"] == decision.outcome
        assert [float(row[f"value {k}"]) for k in range(4)] == list(decision.release)
        if decision.published:
            entry = lba.task.spends.index(decision.units)
            expected = expected_variance(entry_task(lba.task, entry), decision.n)
            assert float(row["variance"]) == expected
        else:
            assert row["variance"] == ""
    with paths[1].open() as file:
        devices = {row["device"]: row for row in csv.DictReader(file)}
    lost = devices[lba.devices[4].pseudonym.hex()]
    assert int(lost["asked"]) - int(lost["waiting"]) in (0, 1)
    assert int(lost["waiting"]) >= STEPS
    assert lost["budget"] == "0"


def test_many_steps_are_thinned_out(lba, monkeypatch):
    monkeypatch.setattr(rounds, "MOST_STEPS", 8)
    table = report_data(lba.store)["rounds"][0]
    assert table["every"] == 4
    assert [step["t"] for step in table["steps"]] == list(range(0, STEPS, 4))
    assert table["steps_in_all"] == STEPS
    for step in table["steps"]:
        assert (step["frequencies"] is None) == (step["since"] is None)
    assert "Every 4th step" in text_report(report_data(lba.store))


def test_nothing_yet(tmp_path):
    """A device said hello, and nothing was asked."""
    task = rounds_task(LBU)
    line = Fleet(tmp_path / "a.db", task, mixed(task, 1))
    device = line.devices[0]
    line.up(device, [device.hello(), status(device.nonce, health=ENDED)])
    line.commit()
    data = report_data(line.store)
    assert data["rounds"][0]["steps"] == []
    assert data["streams"][0]["sent"] == 0
    text_report(data)
    render_report(line.store, tmp_path / "a.html", data=data)
    assert len(write_csv(line.store, tmp_path)[0]) == 2
    line.store.close()


def test_what_counts_of_rounds_mean_is_said(lba, tmp_path):
    data = report_data(lba.store)
    data["rejections"] = [{"link": "usb", "name": "late answer", "count": 3}]
    page = tmp_path / "a.html"
    render_report(lba.store, page, data=data)
    text = " ".join(text_report(data, 200).split())
    for said in (text, page.read_text()):
        assert "“late answer” came when its phase was over" in said
        assert "Rounds: " in said
        assert "answers" in said
        assert "no hello" not in said
        assert "frames" not in said.lower()


def test_what_came_too_late_was_sent_all_the_same(lba, monkeypatch):
    """Of answers those that did not count have no number: the device's own count says how many."""
    streams = lba.store.streams()
    told = [replace(stream, health=RUNNING, count=stream.received + 5) for stream in streams]
    monkeypatch.setattr(lba.store, "streams", lambda: told)
    rows = report_data(lba.store)["streams"]
    assert [row["sent"] for row in rows] == [stream.received + 5 for stream in streams]
    assert all(row["sent_so_far"] for row in rows)


@pytest.mark.parametrize("certified", [True, False])
def test_rounds_of_which_nobody_was_heard(tmp_path, certified):
    """What is promised is what the Task promises, before anybody has spoken."""
    task = rounds_task(LBU)
    certificate = {"epsilon": 2.0, "delta": 0.0} if certified else None
    store = Store.create(tmp_path / "a.db", task, certificate)
    data = report_data(store)
    text = text_report(data, 160)
    render_report(store, tmp_path / "a.html", data=data)
    for said in (text, (tmp_path / "a.html").read_text()):
        assert "refuses the rest" in said
        assert "shuffled" not in said
        assert "No device has been heard." in said
        assert ("uncertified" in said) is not certified
    assert data["streams"] == data["rounds"] == []
    store.close()


def test_where_nothing_was_published_no_estimate_is_shown(tmp_path):
    task = rounds_task(LBA, epsilon=0.5)
    line = Fleet(tmp_path / "one.db", task, mixed(task, 1))
    line.run(STEPS)
    data = report_data(line.store)
    text = text_report(data, 160)
    assert "Nothing was published" in text
    assert "Estimates of" not in text
    render_report(line.store, tmp_path / "one.html", data=data)
    line.store.close()
    page = (tmp_path / "one.html").read_text()
    assert "Nothing was published" in page
    assert page.count("<svg") == 1


def test_values_have_names_and_reports_may_be_bytes(tmp_path):
    olh = {"mechanism": OLH, "buckets": 4, "thresholds": [2_000_000]}
    task = rounds_task(LPU, **olh, symbols=12, bins=list(range(10, 120, 10)))
    line = Fleet(tmp_path / "a.db", task, mixed(task, 8))
    line.run(5)
    table = report_data(line.store)["rounds"][0]
    assert table["mechanism"] == "LPU over OLH"
    assert len(table["followed"]) == 8
    assert table["names"][0].startswith("<10")
    assert all(np.isfinite(step["variances"]).all() for step in table["steps"])
    assert "<10" in text_report(report_data(line.store), 250)
    line.store.close()


def test_beside_a_stream_in_one_database(tmp_path):
    """Frames of one Task and rounds of another: each has its own tables."""
    task = rounds_task(LBU)
    line = Fleet(tmp_path / "a.db", task, mixed(task, 2))
    line.run(3)
    other = make_task()
    store = type(line.store).create(tmp_path / "a.db", other)
    intake = Intake(other, store)
    intake.feed(Link("usb"), [hello(other, b"streamer", b"nonce  1"), status(b"nonc", 0, 4)], 1)
    store.commit(intake.batch(1, 1))
    data = report_data(store, curve=0)
    assert [table["task"] for table in data["rounds"]] == [task.id.hex()]
    assert [table["task"] for table in data["curves"]] == [other.id.hex()]
    assert "shuffled order" in data["protection"]
    assert "refuses the rest" in data["protection"]
    render_report(store, tmp_path / "a.html", data=data)
    assert len(write_csv(store, tmp_path / "csv")[0]) == 3
    store.close()
    line.store.close()


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A database of LBA with everything in it, closed."""
    task = rounds_task(LBA, epsilon=8.0)
    path = tmp_path_factory.mktemp("stored") / "a.db"
    line = Fleet(path, task, mixed(task, 4))
    line.devices[2].reason = lambda query: WAITING
    line.intake.reject("usb", "bad crc")
    line.run(4)
    line.store.commit(Batch(1, alarms={("equal nonces", "x"): "as said"}))
    line.store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    return path


COLUMNS = {
    "boots": "pseudonym nonce quality software link since wanted duplicates health drops lowest"
    " released",
    "questions": "t phase entry meant answered",
    "decisions": "t at published outcome dis err units n users release",
    "refusals": "device reason total",
    "asked": "device total",
    "counters": "link name total",
    "alarms": "name detail at",
    "task": "file",
}


@pytest.mark.parametrize("table", COLUMNS)
@pytest.mark.parametrize("value", ["'x'", "x'ff00'", "-1", "1e999", "NULL"])
def test_whatever_a_table_holds_is_no_traceback(stored, tmp_path, capsys, table, value):
    """One row of each column is changed: a sentence and an exit code, or still a report."""
    refused = 0
    for column in COLUMNS[table].split():
        path = tmp_path / f"{column}.db"
        shutil.copy(stored, path)
        with contextlib.suppress(sqlite3.IntegrityError), sqlite3.connect(path) as connection:
            connection.execute(
                f"UPDATE {table} SET {column} = {value}"
                f" WHERE rowid = (SELECT min(rowid) FROM {table})"
            )
        capsys.readouterr()
        code = cli.main(["report", str(path), "--csv", str(tmp_path / "csv")])
        said = capsys.readouterr()
        if not code:
            assert cli.main(["report", str(path), "--html", str(tmp_path / "a.html")]) == 0
        else:
            assert (code, said.out) == (2, "")
            assert said.err.count("\n") == 1
            assert "damaged" in said.err or "holds" in said.err, said.err
            refused += 1
    assert refused or value == "NULL", (table, value)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE decisions SET users = 'many'",
        "UPDATE decisions SET users = -3",
        "UPDATE decisions SET t = 'x' WHERE t = 2",
        "UPDATE asked SET total = 'x'",
        "UPDATE asked SET total = -1",
        "UPDATE questions SET entry = 400",
        "UPDATE questions SET phase = 7 WHERE phase = 1",
        "UPDATE alarms SET at = 9000000000000000000",
        "UPDATE task SET file = 7",
        "UPDATE counters SET total = 'x'",
        "UPDATE refusals SET reason = 'x'",
        "DROP TABLE answers",
        "DROP TABLE asked",
        "DROP TABLE alarms",
    ],
)
def test_damage_is_one_sentence_and_an_exit_code(stored, tmp_path, capsys, damage):
    path = tmp_path / "a.db"
    shutil.copy(stored, path)
    assert cli.main(["report", str(path)]) == 0
    with sqlite3.connect(path) as connection:
        connection.execute(damage)
    capsys.readouterr()
    assert cli.main(["report", str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith(f"tinyldp report: {path} ")


@pytest.mark.parametrize(
    "damage",
    ["UPDATE decisions SET release = x'00'", "UPDATE answers SET report = x'09'"],
)
def test_damage_is_told_and_costs_no_report(tmp_path, damage):
    task = rounds_task(LBU)
    line = Fleet(tmp_path / "a.db", task, mixed(task, 2))
    line.run(3)
    line.store.close()
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute(damage)
    store = type(line.store)(tmp_path / "a.db")
    data = report_data(store)
    assert data["rounds"][0]["problem"]
    assert data["rounds"][0]["steps"] == []
    assert data["rounds"][0]["problem"] in text_report(data, 200)
    render_report(store, tmp_path / "a.html", data=data)
    store.close()


def played(path, method, devices, steps=12):
    task = rounds_task(method, epsilon=8.0)
    line = Fleet(path, task, mixed(task, devices))
    line.run(steps)
    return line, report_data(line.store)["rounds"][0]


def test_both_parts_of_what_was_spent(lba, table, tmp_path):
    asked = {(q.t, q.phase): q for q in lba.store.questions(lba.task.id.hex())}
    for step in table["steps"]:
        units = lba.task.spends[asked[step["t"], 0].entry]
        assert (step["dissimilarity_units"], step["dissimilarity_epsilon"]) == (units, 1.0)
    assert "ε for dis" in text_report(report_data(lba.store), 200)
    svg = rounds_pictures.decisions_picture("x", table)
    # Without a publication, something is drawn all the same: a bar for each step.
    held = [{**step, "units": 0, "epsilon": 0.0, "published": False} for step in table["steps"]]
    other = rounds_pictures.decisions_picture("x", {**table, "steps": held})
    assert "for the dissimilarity" in svg
    assert other.count("<path") > 2 * STEPS
    line, uniform = played(tmp_path / "lbu.db", LBU, 3)
    assert {step["dissimilarity_units"] for step in uniform["steps"]} == {None}
    assert "for the dissimilarity" not in rounds_pictures.decisions_picture("x", uniform)
    line.store.close()


@pytest.mark.parametrize(("method", "least"), [(LPU, 4), (LPD, 8), (LPA, 8)])
def test_fewer_devices_than_groups(tmp_path, method, least):
    line, table = played(tmp_path / "a.db", method, 1)
    said = rounds.summary(table)
    assert f"No more than 1 device came at a time, and it takes {least} to fill each group" in said
    assert "never was a change seen" not in said
    assert "spent" not in table["outcomes"]
    page = tmp_path / "a.html"
    render_report(line.store, page)
    # One answer of LPU in each window is a publication; the others ask nobody.
    assert (method == LPU) == ("Decisions of" in page.read_text())
    line.store.close()


def test_enough_devices_for_every_group(tmp_path):
    line, table = played(tmp_path / "a.db", LPA, 8)
    assert "to fill each group" not in rounds.summary(table)
    assert rounds.decided(table)
    line.store.close()


@pytest.mark.parametrize(("devices", "noise"), [(1, True), (60, False)])
def test_figures_that_are_mostly_noise_are_called_so(tmp_path, devices, noise):
    line, table = played(tmp_path / "a.db", LBU, devices, steps=2)
    data = report_data(line.store)
    page = tmp_path / "a.html"
    render_report(line.store, page, data=data)
    (more,) = re.findall(r"with some ([\d,]+) answers", rounds.summary(table)) or ["0"]
    for said in (" ".join(text_report(data, 200).split()), page.read_text()):
        assert ("are mostly noise" in said) == noise
        assert ("with 1 answer the 95 % interval" in said) == noise
    line.store.close()
    if noise:
        # So many give a tenth of what a share can be: the deviation falls with the root.
        task = rounds_task(LBU, epsilon=8.0)
        deviation = math.sqrt(expected_variance(entry_task(task, 0), int(more)))
        assert NormalDist().inv_cdf(0.975) * deviation == pytest.approx(0.1, rel=0.3)


def test_intervals_are_shown_everywhere_and_labelled(lba, table, tmp_path):
    """None is a standard deviation, as they would differ from those of other mechanisms."""
    page = tmp_path / "a.html"
    render_report(lba.store, page)
    step = next(step for step in table["steps"] if step["frequencies"] is not None)
    raw, low, high = (100 * step[name][0] for name in ("frequencies", "low", "high"))
    for said in (text_report(report_data(lba.store), 200), page.read_text()):
        said = " ".join(said.split())
        assert f"{raw:.1f} ({low:.1f} to {high:.1f}) %" in said
        assert "±" not in said
        assert "holds the share with 95 %" in said
    assert "in the band of its 95 % intervals" in page.read_text()
    assert "raw (95 % interval)" in page.read_text()


@pytest.mark.parametrize("first", [1171.0, 11.0])
def test_an_error_that_starts_high_does_not_flatten_the_others(first):
    errors = np.array([first, *np.linspace(10, 1, 49)])
    dis = np.linspace(-2, 8, 50)
    with drawing((9.6, 4.2)) as figure:
        axis = figure.subplots()
        rounds_pictures._dissimilarity(axis, np.arange(50), dis, errors, dis > 7)
        top = axis.get_ylim()[1]
        notes = [text.get_text() for text in axis.texts]
    assert 9 < top < 20
    assert notes == (["not all shown: from -2 to 1.17e+03"] if first > 1000 else [])
