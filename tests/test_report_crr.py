"""The report of CRR: the decoder's numbers in all forms, its losses, and what it can't say."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from tests.crr_tasks import random_crr, sticky
from tests.test_decode_crr import series
from tests.test_report import FakeStore, render
from tests.test_report_estimates import add_reports
from tinyldp.errors import UserError
from tinyldp.estimate.crr import decode, population
from tinyldp.report import report_data, text_report, write_csv
from tinyldp.report.columns import crr_columns, crr_told_rows
from tinyldp.report.crr_pictures import leakage_picture
from tinyldp.report.symbols import symbol_name
from tinyldp.simulate import simulate
from tinyldp_protocol.messages import ENDED
from tinyldp_protocol.task import Task

TASK = sticky(4, 1.5, 0.85, bins=[10, 20, 30], epsilon=3 << 15)


def store_of(task: Task, released: np.ndarray, present: np.ndarray | None = None) -> FakeStore:
    store = FakeStore()
    for i, row in enumerate(released):
        add_reports(store, task, row, health=ENDED, boot=i + 1, pseudonym=f"{i:016x}")
    if present is not None:
        for boot, here in enumerate(present, 1):
            store.kept[boot] = (released[boot - 1], here)
    return store


@pytest.mark.parametrize("lost", [False, True])
def test_the_tables_are_the_decoders(lost: bool, tmp_path: Path) -> None:
    values, released = series(TASK, 6, 220, 1)
    present = np.ones(released.shape, dtype=bool)
    if lost:
        present[3, 100] = False
        present[5, 0] = False
    store = store_of(TASK, released, present)
    store.originals[store.rows[0].pseudonym] = values[0]
    data = report_data(store.store)
    assert json.loads(json.dumps(data)) == data
    (table,) = data["crr"]
    assert table["problem"] is None
    assert (table["segments"], table["cut"]) == ((5, 1) if lost else (6, 0))
    assert table["epsilon"] == pytest.approx(1.5, abs=1e-4)
    steps = [row["step"] for row in table["steps"]]
    assert (len(steps), steps[0], steps[-1]) == (220, 0, 219)
    rows = [i for i in range(6) if not lost or i != 5]
    expected = population(TASK, released[rows], present[rows], steps)
    for i, row in enumerate(table["steps"]):
        assert row["devices"] == (5 - (row["step"] >= 100) if lost else 6)
        for key, column in (
            ("smoothed", expected.smoothed),
            ("low", expected.smoothed_low),
            ("high", expected.smoothed_high),
            ("released", expected.released),
        ):
            assert row[key] == pytest.approx(column[i])
        assert row["leakage"] == pytest.approx(expected.leakage[i])
        assert row["most"] == pytest.approx(expected.most[i])
        assert row["largest"] <= table["epsilon"] + 1e-6
        assert row["total"] <= row["most"] <= row["allowed"] + 1e-3
        assert row["allowed"] == pytest.approx(table["epsilon"] * (row["step"] + 1))
    assert table["followed"] == [0, 1, 2, 3]
    assert table["names"][0] == "<10 or missing"
    assert table["excess"] is None

    # What the device's own belief allows is not the certificate's figure, and not named for it.
    text = text_report(data)
    assert "certified: at most" not in " ".join(text.split())
    assert "Allowed: what the device's own belief allows" in " ".join(text.split())
    _, page = render(store, tmp_path, data=data)
    first = table["steps"][0]
    shown = [f"{100 * first[name][1]:.1f}" for name in ("smoothed", "low", "high")]
    cell = f"{shown[0]} ({shown[1]}–{shown[2]})"  # noqa: RUF001
    assert cell in text
    assert cell in page.cells
    for said in ("makes no value likelier", "drawn on the device so that"):
        assert said in " ".join(text.split())
        assert said in page.words
    assert ("Of 1 segment nothing more is known" in page.words) == lost
    assert "where that belief allows" in page.words
    assert "no raw shares" not in page.words
    assert "shuffled" not in page.words
    # Two of the Task, and two of each stream; one whose start is lost has no smoothed one.
    assert page.tags.count("svg") == 2 + 2 * 6 - lost
    assert len(page.ids) == len(set(page.ids))
    assert "most probable" in page.words
    assert "Allowed at most" in page.cells
    assert "Certified" not in page.cells
    assert page.words.count("allowed at most") == 1


@pytest.mark.parametrize("width", [80, 100, 120])
def test_tables_fit_a_terminal(width: int) -> None:
    """Of many values those columns are dropped that have no room, and it is said."""
    many = sticky(10, 2, 0.9)
    _, released = series(many, 30, 60, 10)
    data = report_data(store_of(many, released).store)
    lines = text_report(data, width).split("Streams of")[0].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Shares of"))
    end = next(i for i, line in enumerate(lines) if line.startswith("Streams"))
    part = lines[start:end]
    assert max(map(len, part)) <= width
    assert not any("=" in line for line in part)
    columns = {80: 3, 100: 4, 120: 5}[width]
    words = " ".join(" ".join(part).split())
    assert f"Shown are the {columns} most frequent values of 10; --csv writes 8." in words
    assert len(crr_columns(data["crr"][0])) <= 8
    for head in ("told", "in all", "most", "allowed", "learned"):
        assert any(line.split()[:1] == ["step"] and head in line for line in part)


def test_what_a_block_tells_is_shown_by_blocks(tmp_path: Path) -> None:
    """Nothing is told by its other steps: there is no number, and no line that falls to 0."""
    rng = np.random.default_rng(2)
    task = random_crr(rng, n=5, block=3, memory=1, loss=1, costs=None)
    store = store_of(task, simulate(task, 20, 31).released)  # type: ignore[attr-defined]
    data = report_data(store.store)
    (table,) = data["crr"]
    told = [row["leakage"] for row in table["steps"]]
    assert [i for i, x in enumerate(told) if x is not None] == list(range(0, 31, 3))
    assert [row["step"] for row in crr_told_rows(table)] == list(range(0, 31, 3))
    assert [row["allowed"] for row in crr_told_rows(table)] == pytest.approx(
        [table["epsilon"] * n for n in range(1, 12)]
    )
    text = text_report(data)
    assert "by how many nats the release of a block of 3 steps made" in " ".join(text.split())
    assert "from step" in text
    none = "Of blocks there are no raw shares"
    assert {tuple(row["raw"]) for row in table["steps"]} == {(None,) * 5}
    html, page = render(store, tmp_path, data=data)
    assert "Block's first step" in page.cells
    assert none in page.words
    assert none in " ".join(text.split())
    assert "Told by a block, nats" in page.words
    assert "a block told, nats" in page.words
    # Row by row, five values in four columns.
    legend = html.split('id="h0-legend_1"')[1].split("</svg>")[0]
    places = re.findall(r'<text [^>]*x="([\d.]+)" y="([\d.]+)"[^>]*>(\d)</text>', legend)
    places.sort(key=lambda place: (float(place[1]), float(place[0])))
    assert [value for _, _, value in places] == ["0", "1", "2", "3", "4"]


def test_one_device_has_probabilities_and_no_shares(tmp_path: Path) -> None:
    _, released = series(TASK, 1, 50, 11)
    store = store_of(TASK, released)
    data = report_data(store.store)
    posterior = decode(TASK, released).posterior[0]
    text = text_report(data)
    row = next(line.split() for line in text.splitlines() if line.split()[:2] == ["30", "1"])
    assert row[2:] == [f"{100 * p:.1f}" for p in posterior[30]]
    _, page = render(store, tmp_path, data=data)
    for said in (text, page.words):
        assert "Of one device there are no shares" in " ".join(said.split())
    assert "Probability of each value of the one device" in page.words
    assert "Shares over time" not in page.words
    assert not any("(" in cell for cell in page.cells)


def test_raw_shares_are_given_where_they_say_something() -> None:
    loose = sticky(3, 1.5, 0.45)
    _, released = series(loose, 90, 20, 2)
    (table,) = report_data(store_of(loose, released).store)["crr"]
    found = population(loose, released)
    for i, row in enumerate(table["steps"]):
        assert row["raw"] == pytest.approx(found.raw[i])
        assert row["raw_deviation"] == pytest.approx(np.sqrt(found.variances[i]))
        assert row["raw_low"] == pytest.approx(found.low[i])
        assert row["raw_counted"] == [1, 1, 1]
    tight = sticky(3, 0.5, 0.97, rule=2)
    _, released = series(tight, 20, 30, 3)
    (table,) = report_data(store_of(tight, released).store)["crr"]
    assert any(None in row["raw"] for row in table["steps"])
    assert min(min(row["raw_counted"]) for row in table["steps"]) < 1
    assert json.loads(json.dumps(table)) == table


def test_a_chain_that_is_not_followed_is_told() -> None:
    other = np.array(TASK.transitions).reshape(4, 4)[:, [1, 0, 3, 2]].ravel().tolist()
    model = sticky(4, 1.5, 0.85, transitions=other)
    _, released = series(TASK, 24, 120, 4, model)
    data = report_data(store_of(TASK, released).store)
    excess = data["crr"][0]["excess"]
    assert abs(excess["deviations"]) > 8
    assert math.copysign(1, excess["excess"]) == math.copysign(1, excess["deviations"])
    said = " ".join(text_report(data).split())
    assert "do not follow the Task's chain" in said
    names = [symbol_name(TASK, value) for value in range(TASK.symbols)]
    before, symbol = (names.index(excess[key]) for key in ("before", "symbol"))
    after = released[:, 1:][released[:, :-1] == before]
    assert excess["share"] == pytest.approx((after == symbol).mean())
    assert excess["share"] - excess["expected"] == pytest.approx(excess["excess"])
    assert f"after a “{excess['before']}”, {100 * excess['share']:.1f} % were a" in said
    assert f"lets expect {100 * excess['expected']:.1f} %" in said


def test_the_symbol_of_missing_readings_is_named(tmp_path: Path) -> None:
    task = sticky(5, 1.5, 0.85, missing=4)
    _, released = series(task, 8, 30, 12)
    store = store_of(task, released)
    data = report_data(store.store)
    assert data["crr"][0]["names"] == ["0", "1", "2", "3", "4 or missing"]
    _, page = render(store, tmp_path, data=data)
    assert "4 or missing, %" in page.cells
    assert "4 or missing, %" in text_report(data)


def test_a_database_that_heard_nobody_says_so(tmp_path: Path) -> None:
    store = store_of(TASK, np.zeros((0, 1), dtype=np.int64))
    store.tasks[TASK.id.hex()] = TASK
    data = report_data(store.store)
    text = text_report(data)
    first = "No device was heard yet, and nothing was released. What is so once one is heard: Each"
    assert " ".join(text.split()).startswith(first)
    _, page = render(store, tmp_path, data=data)
    assert first in page.words


def test_without_a_start_there_is_no_estimate(tmp_path: Path) -> None:
    _, released = series(TASK, 2, 9, 5)
    store = store_of(TASK, released, np.arange(9) > np.zeros((2, 1)))
    data = report_data(store.store)
    (table,) = data["crr"]
    assert "Of no segment the first release has arrived" in table["problem"]
    assert table["steps"] == []
    said = " ".join(text_report(data).split())
    assert "Of no segment" in said
    for helps in ("start collect before the device", "reset the board", "larger outbox", "--csv"):
        assert helps in said
    _, page = render(store, tmp_path, data=data)
    assert "Of no segment" in page.words
    assert "Its first release is not there" in page.words


def test_a_stream_that_claims_the_impossible_is_left_out() -> None:
    _, released = series(TASK, 3, 20, 6)
    store = store_of(TASK, released)
    store.kept[2] = (np.full(20, 9), np.ones(20, dtype=bool))
    (table,) = report_data(store.store)["crr"]
    assert table["segments"] == 2
    assert "outside 0..3" in table["left_out"][0]


def test_released_symbols_are_written(tmp_path: Path) -> None:
    _, released = series(TASK, 1, 5, 7)
    paths, left_out = write_csv(store_of(TASK, released).store, tmp_path)
    lines = paths[0].read_text().splitlines()
    assert lines == ["step,symbol", *(f"{i},{y}" for i, y in enumerate(released[0].tolist()))]
    assert left_out == []
    (table,) = report_data(store_of(TASK, released).store)["crr"]
    rows = [line.split(",") for line in paths[1].read_text().splitlines()]
    assert paths[1].name == f"{TASK.id.hex()}-shares.csv"
    assert len(rows) == 6
    at = rows[0].index("smoothed 2")
    assert [float(row[at]) for row in rows[1:]] == [row["smoothed"][2] for row in table["steps"]]
    at = rows[0].index("allowed")
    assert [float(row[at]) for row in rows[1:]] == [row["allowed"] for row in table["steps"]]


def test_files_hold_every_step_and_each_smoothed_series(tmp_path: Path) -> None:
    """--csv and --json; also of a long segment, of which pictures show a part."""
    _, released = series(TASK, 3, 430, 9)
    present = np.ones(released.shape, dtype=bool)
    present[1, 250] = False
    present[2, 0] = False
    store = store_of(TASK, released, present)
    data = report_data(store.store)
    assert [row["step"] for row in data["crr"][0]["steps"]] == list(range(430))
    paths, _ = write_csv(store.store, tmp_path, data)
    (shares,) = (path for path in paths if path.name.endswith("-shares.csv"))
    assert [line.split(",")[0] for line in shares.read_text().splitlines()[1:]] == [
        str(step) for step in range(430)
    ]
    smoothed = sorted(path for path in paths if path.name.endswith("-smoothed.csv"))
    # The third's start is lost, and the second's end.
    assert [len(path.read_text().splitlines()) for path in smoothed] == [431, 251]
    for i, path in enumerate(smoothed):
        lines = path.read_text().splitlines()
        assert lines[0] == "step,symbol,smoothed,probability"
        known = len(lines) - 1
        posterior = decode(TASK, released[i : i + 1], present[i : i + 1]).posterior[0, :known]
        rows = np.array([line.split(",") for line in lines[1:]], dtype=float)
        assert rows[:, :2].tolist() == [[t, y] for t, y in enumerate(released[i, :known])]
        assert rows[:, 2].tolist() == posterior.argmax(axis=1).tolist()
        assert rows[:, 3] == pytest.approx(posterior.max(axis=1), abs=1e-6)
    again, _ = write_csv(store.store, tmp_path / "again")
    assert [path.read_text() for path in again] == [path.read_text() for path in paths]
    steps = leakage_picture("l", data["crr"][0])
    assert "over 430 steps" in steps
    assert len(steps) < 60_000


def test_postprocessing_is_of_frequencies_alone() -> None:
    _, released = series(TASK, 2, 9, 8)
    with pytest.raises(UserError, match=r"--postprocess.* is of frequencies of GRR, OUE or OLH"):
        report_data(store_of(TASK, released).store, postprocess="simplex")


def test_curves_are_of_shuffled_streams_alone() -> None:
    _, released = series(TASK, 2, 9, 8)
    with pytest.raises(UserError, match="of shuffled streams, and none"):
        report_data(store_of(TASK, released).store, curve=0)
