"""The report of epochs: what the store holds, in all four forms."""

from __future__ import annotations

import contextlib
import csv
import json
import re
import shutil
import sqlite3

import numpy as np
import pytest

from tests.collecting import rounds_task
from tests.epoch_fleet import EpochDevice, EpochFleet, small_task, spread_devices
from tests.modelled import Fleet, mixed
from tinyldp import cli, progress
from tinyldp.collect.store import Store
from tinyldp.errors import UserError
from tinyldp.estimate.heavy import FrequencyOracle
from tinyldp.estimate.mean import mean
from tinyldp.report import epoch_pictures, render_report, report_data, text_report, write_csv
from tinyldp.report.epochs import epochs_summary
from tinyldp.report.pictures import drawing
from tinyldp_protocol.task import HEAVYTHRESH, LBU


@pytest.fixture(scope="module")
def thresh(tmp_path_factory):
    """Twelve devices whose mean goes to and fro; one is closed; two updates are allowed."""
    task = small_task(estimates=2, votes=8, polls=4, thresholds=[100_000, 1_000_000, 2_000_000])
    means = (0.25,) * 5 + (0.875,) * 5 + (0.125,) * 10
    devices = spread_devices(task, 12, means=means)
    for slot in devices[3].slots:
        slot.write(b"")
    devices[3].boot()
    line = EpochFleet(tmp_path_factory.mktemp("thresh") / "a.db", task, devices)
    line.until(16)
    line.rounds.stop()
    line.commit()
    yield line
    line.store.close()


@pytest.fixture(scope="module")
def heavy(tmp_path_factory):
    """80 devices that all have item 7, and later 9, among 1,000."""
    task = small_task(
        HEAVYTHRESH, symbols=1000, coordinates=256, items=4, epochs=5, levels=[2, 2, 2], rounds=4,
        tick=20, thresholds=[100_000, 400_000], votes=2, estimates=2,
    )  # fmt: skip
    devices = spread_devices(task, 80)
    for device in devices:
        device.offset = 5
        device.link = device.link._replace(name="mqtt", task=task.id, pseudonym=device.pseudonym)
        device.items = (7,) * 3 + (9,)
    line = EpochFleet(tmp_path_factory.mktemp("heavy") / "a.db", task, devices)
    line.until(5)
    line.rounds.stop()
    line.commit()
    yield line
    line.store.close()


def test_looking_for_heavy_items_shows_progress(heavy, monkeypatch, capsys):
    monkeypatch.setattr(progress, "_SECONDS", 0.0)
    data = report_data(heavy.store)
    told = []
    assert report_data(heavy.store, progress=lambda *now: told.append(now)) == data
    assert told == [(1000, 1000)] * 2
    assert cli.main(["report", heavy.store.name]) == 0
    assert "1,000 of 1,000 items of the dictionary\n" in capsys.readouterr().err


@pytest.fixture
def table(thresh):
    return report_data(thresh.store)["epochs"][0]


def test_json_holds_every_epoch(thresh, table):
    assert json.loads(json.dumps(table)) == table
    assert [step["t"] for step in table["steps"]] == list(range(1, 17))
    assert (table["mechanism"], table["heavy"], table["epsilon"]) == ("Thresh", False, 60.0)
    assert (table["updates"], table["publications"]) == (2, 2)
    assert sum(table["outcomes"].values()) == table["steps_in_all"] == 16
    assert table["exhausted"] == table["outcomes"]["exhausted"] > 0
    assert (table["answer_bytes"], table["query_bytes"]) == (18, 30)
    assert table["found"] == []


def test_steps_are_those_of_the_answers(thresh, table):
    """Means, votes and polls once more, from what is stored."""
    answers = thresh.answers()
    task = thresh.task
    standing = None
    for step in table["steps"]:
        votes, estimates = answers[step["t"], 0][:, 0], answers[step["t"], 1][:, 0]
        assert (step["ones"], step["votes_n"]) == ((votes & 1).sum(), len(votes))
        assert step["share"] == step["ones"] / step["votes_n"]
        assert step["answered"] == len(votes) + len(estimates)
        if step["published"]:
            standing = mean(task.thresholds[1], int(estimates.sum()), len(estimates))
            assert step["since"] == step["t"]
            assert (step["low"], step["high"]) == (standing.low, standing.high)
            assert step["drift"] == 0
        else:
            assert step["since"] < step["t"]
            assert step["low"] <= step["estimate_low"] <= step["estimate_high"] <= step["high"]
        assert standing is not None
        assert step["mean"] == standing.mean
        assert (step["estimate_low"], step["estimate_high"]) == (standing.low, standing.high)
        assert (step["poll"] is None) == (step["t"] % 4 > 0)
        if step["poll"] is not None:
            live = mean(task.thresholds[2], int((votes >> 1).sum()), len(votes))
            told = (step["poll"], step["poll_low"], step["poll_high"])
            assert told == (live.mean, live.low, live.high)


def test_devices_and_refusals(thresh, table):
    devices = {row["device"]: row for row in table["devices"]}
    closed = devices[thresh.devices[3].pseudonym.hex()]
    assert closed["answered"] == 0
    assert closed["refusals"] == {"budget": closed["asked"]}
    assert table["refusals"]["budget"] == closed["asked"]
    assert set(table["refusals"]) <= {"budget", "early question"}
    assert all(row["rate"] > 0.9 for name, row in devices.items() if row is not closed)


def test_the_same_numbers_as_text_and_page(thresh, table, tmp_path):
    data = report_data(thresh.store)
    text = " ".join(text_report(data, 200).split())
    render_report(thresh.store, tmp_path / "a.html", data=data)
    html = (tmp_path / "a.html").read_text()
    last = table["steps"][-1]
    for form in (text, html):
        assert "16 of 16 epochs are decided" in form
        assert f"{last['mean']:.3f}" in form
        assert f"{100 * last['share']:.2f} %" in form
        assert f"{100 * last['poll']:.0f} % (" in form
        assert "mean of epoch 16 lies between" in form
        assert "with 95 %" in form
        assert "exhausted: the last one stands" in form
        assert "in all its life under this Task, and in 4 polls" in form
        assert "for which it pays ε 60." in form
        assert "it says nothing any more" in form
        assert "In all its life under its Task a device says something" in form
        assert "budget" in form
        assert "shuffled" not in form
        # Of answers, as in rounds, and not of frames.
        assert "Rounds: " in form
        assert "frames" not in form.lower()
    assert html.count("<svg") == 2
    assert "Published means of 16 epochs." in html
    assert not re.search(r'(src|href)="http', html)
    assert table["confidence"] == 0.95
    assert "in the band of its 95 % interval;" in html


def test_csv_holds_every_epoch(thresh, table, tmp_path):
    paths, left_out = write_csv(thresh.store, tmp_path / "csv")
    name = thresh.task.id.hex()
    assert [path.name for path in paths] == [f"{name}-epochs.csv", f"{name}-devices.csv"]
    assert left_out == []
    with paths[0].open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 16
    for row, step in zip(rows, table["steps"], strict=True):
        assert row["outcome"] == step["outcome"]
        assert row["update"] == str(int(step["update"]))
        for name in ("mean", "low", "high", "share", "needed", "drift"):
            assert float(row[name]) == step[name]
        assert row["poll"] == ("" if step["poll"] is None else str(step["poll"]))
    with paths[1].open() as file:
        devices = {row["device"]: row for row in csv.DictReader(file)}
    closed = devices[thresh.devices[3].pseudonym.hex()]
    assert closed["budget"] == closed["asked"]


def test_heavy_hitters_at_each_update(heavy):
    table = report_data(heavy.store)["epochs"][0]
    assert (table["mechanism"], table["heavy"], table["dictionary"]) == ("HeavyThresh", True, 1000)
    assert table["publications"] == len(table["found"]) == 2
    rows = {row.t: row for row in heavy.rows()}
    for found in table["found"]:
        row = rows[found["t"]]
        assert row.published
        expected = FrequencyOracle(heavy.task, row.release, row.n).heavy_hitters()
        assert [item["item"] for item in found["items"]] == expected.items.tolist()
        assert [item["low"] for item in found["items"]] == expected.low.tolist()
        assert found["error"] == expected.error
        signs = heavy.answers()[row.t, 1]
        assert len(signs) == found["n"]
        sums = np.zeros(256)
        np.add.at(sums, signs[:, 1], 2.0 * signs[:, 0] - 1)
        assert np.allclose(row.release, sums / np.abs(sums).max() * np.abs(row.release).max())
    assert "mean" not in table["steps"][0]


def test_items_in_all_forms(heavy, tmp_path):
    data = report_data(heavy.store)
    table = data["epochs"][0]
    items = {item["item"] for found in table["found"] for item in found["items"]}
    assert items == {7, 9}
    text = " ".join(text_report(data, 160).split())
    render_report(heavy.store, tmp_path / "a.html", data=data)
    html = (tmp_path / "a.html").read_text()
    best = table["found"][-1]["items"][0]
    for form in (text, html):
        assert f"{100 * best['frequency']:.2f} %" in form
        assert "of the 1,000 items hold at once" in form
        assert f"{100 * table['found'][0]['error']:.2f} %" in form
    assert html.count("<svg") == 2
    paths, _ = write_csv(heavy.store, tmp_path)
    assert [path.name.rsplit("-", 1)[1] for path in paths] == [
        "epochs.csv", "items.csv", "devices.csv"
    ]  # fmt: skip
    with paths[0].open() as file:
        assert "mean" not in next(csv.reader(file))
    with paths[1].open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["item"]) for row in rows] == [
        item["item"] for found in table["found"] for item in found["items"]
    ]


def test_a_new_database_beside_devices_that_are_ahead(tmp_path):
    """One sentence says what is known: not that estimates are used up, nor that some may come."""
    task = small_task()
    line = EpochFleet(tmp_path / "a.db", task, spread_devices(task, 4))
    line.until(5)
    line.path = tmp_path / "new.db"
    line.store.close()
    line.restart()
    line.until(16)
    data = report_data(line.store)
    table = data["epochs"][0]
    line.store.close()
    assert table["exhausted"] > 0
    assert not table["publications"]
    for said in (text_report(data, width=10_000), epochs_summary(table)):
        assert (
            " an update was voted for, but devices have answered epochs that this database does"
            " not know, and may have no estimates left: nothing is published, until devices have"
            " another Task."
        ) in said
        assert "yet" not in said
        assert "estimates are exhausted" not in said
    silent = {**table, "updates": table["estimates"]}
    assert "but all estimates were asked for, and no answer came: nothing is" in epochs_summary(
        silent
    )


def test_nothing_yet(tmp_path):
    task = small_task()
    line = EpochFleet(tmp_path / "a.db", task, [])
    for said in (text_report(report_data(line.store)),):
        assert "In all its life" in said
        assert "No device has been heard." in said
    device = EpochDevice(task, 1, "usb")
    line.up(device, device.tick(0))
    line.commit()
    data = report_data(line.store)
    assert data["epochs"][0]["steps"] == []
    assert "0 of 16 epochs are decided." in text_report(data)
    # An epoch of 8 ticks of 50 ms, and a beacon of 4, after the first hello.
    assert line.store.first_heard(task.id.hex()) == 0
    said = " ".join(text_report(data, 200).split())
    assert "the first question leaves at 1970-01-01 00:00:00 UTC at the earliest" in said
    render_report(line.store, tmp_path / "a.html", data=data)
    assert len(write_csv(line.store, tmp_path)[0]) == 2
    line.store.close()


def few(tmp_path, task, n):
    line = EpochFleet(tmp_path / "few.db", task, spread_devices(task, n))
    line.until(2)
    table = report_data(line.store)["epochs"][0]
    line.store.close()
    return table


def test_few_devices_that_no_update_can_follow_from(tmp_path):
    table = few(tmp_path, small_task(), 2)
    assert table["begins"] is None
    last = table["steps"][-1]
    assert last["needed"] > 1
    said = epochs_summary(table)
    assert f"it would take {100 * last['needed']:.0f} % of them" in said
    last["needed"] = 0.9
    assert "it would take" not in epochs_summary(table)


@pytest.mark.parametrize("raw", [1.582, -0.4, 0.5])
def test_a_raw_estimate_beyond_what_a_mean_can_be(thresh, table, raw):
    steps = [{**step, "mean": raw, "low": 0.0, "high": 1.0} for step in table["steps"]]
    beyond = {**table, "steps": steps}
    said = epochs_summary(beyond)
    assert ("(raw: noise takes it beyond" in said) == (raw != 0.5)
    assert f"stands, {raw:.3f}" in said
    assert "the mean is" not in said
    with drawing((9.6, 3.4)) as figure:
        axis = figure.subplots()
        at = np.array([1.0, 6.0])
        both = np.array([True, True])
        epoch_pictures.draw_published(axis, at, np.array([raw, 0.3]), both)
        assert axis.get_ylim() == (-0.05, 1.05)
        marks = [np.asarray(line.get_xydata(), float).tolist() for line in axis.lines[2:]]
        assert marks == ([] if raw == 0.5 else [[[1.0, float(raw > 1)]]])
        assert [text.get_text() for text in axis.texts] == ([] if raw == 0.5 else [f"{raw:.3g}"])
    assert ("raw estimate beyond" in epoch_pictures.mean_picture("m", beyond)) == (raw != 0.5)


def test_beside_rounds_in_one_database(tmp_path):
    rounds = rounds_task(LBU)
    other = Fleet(tmp_path / "a.db", rounds, mixed(rounds, 2))
    other.run(3)
    other.store.close()
    task = small_task()
    line = EpochFleet(tmp_path / "a.db", task, [EpochDevice(task, n) for n in (20, 21)])
    line.until(2)
    data = report_data(line.store)
    with pytest.raises(UserError, match="--curve"):
        report_data(line.store, curve=0)
    with pytest.raises(UserError, match="--postprocess"):
        report_data(line.store, postprocess="simplex")
    assert [table["task"] for table in data["rounds"]] == [rounds.id.hex()]
    assert [table["task"] for table in data["epochs"]] == [task.id.hex()]
    assert data["curves"] == data["estimates"] == []
    assert "refuses the rest" in data["protection"]
    assert "In all its life" in data["protection"]
    text_report(data, 160)
    render_report(line.store, tmp_path / "a.html", data=data)
    assert len(write_csv(line.store, tmp_path / "csv")[0]) == 4
    line.store.close()


@pytest.fixture(scope="module")
def stored(thresh, tmp_path_factory):
    """A copy of the database, closed."""
    path = tmp_path_factory.mktemp("stored") / "a.db"
    with (
        contextlib.closing(sqlite3.connect(thresh.path)) as source,
        contextlib.closing(sqlite3.connect(path)) as target,
    ):
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")
    return path


COLUMNS = (
    "t at outcome update published users ones votes_n needed n low high drift poll poll_low"
    " poll_high release"
)


@pytest.mark.parametrize("value", ["'x'", "x'ff00'", "-1", "1e999", "NULL"])
def test_whatever_the_table_holds_is_no_traceback(stored, tmp_path, capsys, value):
    refused = 0
    for column in COLUMNS.split():
        path = tmp_path / f"{column}.db"
        shutil.copy(stored, path)
        with contextlib.suppress(sqlite3.IntegrityError), sqlite3.connect(path) as connection:
            connection.execute(f'UPDATE epochs SET "{column}" = {value} WHERE t = 1')
        capsys.readouterr()
        code = cli.main(["report", str(path), "--csv", str(tmp_path / "csv")])
        said = capsys.readouterr()
        if code:
            assert (code, said.out) == (2, "")
            assert said.err.count("\n") == 1
            assert "damaged" in said.err
            refused += 1
    assert refused or value == "NULL"


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE epochs SET release = x'00' WHERE published",
        "UPDATE epochs SET ones = 1000",
        "UPDATE epochs SET n = 0",
    ],
)
def test_damage_is_told_and_costs_no_report(stored, tmp_path, damage):
    shutil.copy(stored, tmp_path / "a.db")
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute(damage)
    store = Store(tmp_path / "a.db")
    data = report_data(store)
    problem = data["epochs"][0]["problem"]
    assert "is damaged" in problem
    assert data["epochs"][0]["steps"] == []
    assert problem in text_report(data, 200)
    render_report(store, tmp_path / "a.html", data=data)
    store.close()
