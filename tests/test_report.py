"""The report: the same numbers in all three forms, nothing unescaped, nothing from outside."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tinyldp.collect.decoding import Hello
from tinyldp.collect.records import Batch, BootState
from tinyldp.collect.store import Store
from tinyldp.errors import UserError
from tinyldp.laws import displacement_law, settled
from tinyldp.replay import boot_nonce, bytes_needed, displacements, replay
from tinyldp.report import render_report, report_data, text_report, write_csv
from tinyldp.report.pictures import ZOOM, _busiest, _means, law_picture, series_picture
from tinyldp.report.symbols import symbol_name
from tinyldp_protocol.messages import ENDED, ENTROPY_FAILED, HARDWARE, OS, RUNNING, TEST
from tinyldp_protocol.task import RANSWITCH, SCALE, STASWITCH, Task, write_file

VOID = {"meta", "br", "link", "img", "input", "hr"}
HOSTILE = "<script>alert('x')</script> & \x1b[31mred\u202e\x07"


def make_task(
    mechanism: int = RANSWITCH, k: int = 5, q: float = 0.1, batch: int = 4, **more: Any
) -> Task:
    task = Task(
        {
            "mechanism": mechanism,
            "window": k,
            "k": k,
            "symbols": 16,
            "thresholds": [round(q * SCALE)],
            "tick": 1000,
            "batch": batch,
            "resend": 5,
            "beacon": 5,
            "outbox": 16,
            **more,
        }
    )
    write_file(task)
    return task


class FakeStore:
    """The store's read side, filled by hand."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.kept: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.tasks: dict[str, Task] = {}
        self.originals: dict[str, np.ndarray] = {}
        self.moved: dict[str, np.ndarray] = {}
        self.alarm: list[dict[str, Any]] = []
        self.rejected: dict[tuple[str, str], int] = {}
        self.certificates: dict[str, dict[str, Any]] = {}

    def add(self, task: Task, n: int, **more: Any) -> str:
        boot = len(self.rows) + 1
        words = np.random.default_rng(boot).bytes(bytes_needed(task, n))
        original = np.random.default_rng(boot).integers(0, 16, n)
        pseudonym = more.get("pseudonym", bytes([boot] * 8).hex())
        frames = -(-n // task.batch)
        row = {
            "boot": boot,
            "pseudonym": pseudonym,
            "nonce": boot_nonce(words).hex(),
            "task_id": task.id.hex(),
            "quality": OS,
            "software": "0.1.0",
            "link": f"/dev/tty{boot}",
            "received": frames,
            "lost": 0,
            "duplicates": 0,
            "missing": 0,
            "health": ENDED,
            "count": n,
            "drops": 0,
            "lowest": frames,
        }
        self.rows.append(SimpleNamespace(**{**row, **more}))
        self.kept[boot] = (replay(task, words, original), np.ones(n, dtype=np.bool_))
        self.tasks[task.id.hex()] = task
        self.originals[pseudonym] = original
        self.moved[pseudonym] = displacements(task, words, n)
        return pseudonym

    @property
    def store(self) -> Store:
        return cast(Store, self)

    def streams(self) -> list[Any]:
        return self.rows

    def values(self, boot: int) -> tuple[np.ndarray, np.ndarray]:
        return self.kept[boot]

    def task_ids(self) -> list[str]:
        return sorted(self.tasks)

    def task(self, task_id: str) -> Task:
        return self.tasks[task_id]

    def certificate(self, task_id: str) -> dict[str, Any] | None:
        return self.certificates.get(task_id)

    def alarms(self) -> list[dict[str, Any]]:
        return self.alarm

    def rejections(self) -> dict[tuple[str, str], int]:
        return self.rejected


class Page(HTMLParser):
    """Checks nesting while reading; keeps ids, tags, attributes, text and table cells."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.cells: list[str] = []
        self.captions: list[str] = []
        self.words = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")
        if tag == "caption":
            self.captions.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.words += data
        if "td" in self.open or "th" in self.open:
            self.cells[-1] += data
        if "caption" in self.open:
            self.captions[-1] += data


def render(store: FakeStore, folder: Path, **more: Any) -> tuple[str, Page]:
    path = folder / "report.html"
    render_report(store.store, path, **more)
    html = path.read_text(encoding="utf-8")
    return html, Page(html)


@pytest.fixture
def filled() -> FakeStore:
    store = FakeStore()
    store.add(make_task(RANSWITCH, 10, 0.06), 1501)
    store.add(make_task(STASWITCH, 4, 0.12), 700, lost=3, drops=2, quality=HARDWARE, count=702)
    store.add(make_task(STASWITCH, 12, 0.05), 90, health=RUNNING)
    store.kept[2][1][100:112] = False
    store.alarm = [{"name": "one identity twice", "detail": "frame 7", "at": 1_785_000_000_000}]
    store.rejected = {("/dev/tty1", "bad crc"): 1234, ("mqtt here", "tag"): 1}
    return store


def test_data(filled: FakeStore) -> None:
    data = report_data(filled.store, filled.moved)
    assert json.loads(json.dumps(data)) == data
    first, second, third = data["streams"]
    assert first["sent"] == 376
    assert (second["sent"], second["lost"], second["drops"]) == (176, 3, 2)
    assert [s["health"] for s in data["streams"]] == ["ended", "ended", "running"]
    assert [s["entropy"] for s in data["streams"]] == ["OS", "hardware", "OS"]
    law = displacement_law(filled.tasks[first["task"]])
    assert law is not None
    assert first["displacement_exact"] == law.mean_absolute
    assert first["displacement_measured"] == pytest.approx(law.mean_absolute, rel=0.15)
    assert third["displacement_exact"] is None
    assert "k is 12" in third["displacement_law"]
    # 90 values are less than 8 windows of 12.
    assert (third["displacement_measured"], third["too_short"]) == (None, True)
    assert not first["too_short"]
    assert [t["k"] for t in data["tasks"]] == [10, 4, 12]
    assert {row["certificate"] for row in data["streams"] + data["tasks"]} == {"uncertified"}
    assert data["alarms"][0]["at"] == "2026-07-25 17:20:00 UTC"
    assert data["rejections"][0] == {"link": "/dev/tty1", "name": "bad crc", "count": 1234}
    assert data["warnings"] == []
    assert "when a value occurred" in data["protection"]
    assert report_data(filled.store)["streams"][0]["displacement_measured"] is None


def test_before_the_first_status(tmp_path: Path) -> None:
    store = FakeStore()
    store.add(make_task(), 40, health=None, count=None, drops=None, lowest=None)
    data = report_data(store.store)
    stream = data["streams"][0]
    assert (stream["sent"], stream["health"], stream["drops"]) == (10, "unknown", None)
    assert stream["sent_so_far"]
    assert "unknown" in text_report(data)
    assert "unknown" in render(store, tmp_path)[1].words


def test_all_three_show_the_same(filled: FakeStore, tmp_path: Path) -> None:
    data = report_data(filled.store, filled.moved)
    text = text_report(data)
    _, page = render(
        filled, tmp_path, originals=filled.originals, displacements=filled.moved, title="A study"
    )
    for stream in data["streams"]:
        line = next(line for line in text.splitlines() if line.strip().startswith(stream["device"]))
        at = page.cells.index(stream["device"])
        cells = page.cells[at : at + 13]
        for key in ("received", "lost", "duplicates", "missing", "drops", "health", "entropy"):
            assert str(stream[key]) in line.split()
            assert str(stream[key]) in cells
        measured = "too short"
        if not stream["too_short"]:
            measured = f"{stream['displacement_measured']:.3f}"
        assert measured in line
        assert cells[-1] == measured
    assert "1,234" in text
    assert "1,234" in page.cells
    for words in (data["protection"], data["certificate"], "one identity twice"):
        assert words in page.words
        assert words.split(". ")[0] in " ".join(text.split())


def test_every_table_says_that_it_is_uncertified(filled: FakeStore, tmp_path: Path) -> None:
    html, page = render(filled, tmp_path)
    assert page.tags.count("table") == len(page.captions) == 4
    assert all("uncertified" in caption for caption in page.captions)
    text = text_report(report_data(filled.store))
    for table in ("Streams", "Tasks", "Alarms", "Rejected"):
        assert f"{table} (uncertified)" in text
    # What is protected comes before anything else.
    assert html.index("What is protected") < html.index("<table")


def test_page_needs_nothing_else(filled: FakeStore, tmp_path: Path) -> None:
    html, page = render(filled, tmp_path, originals=filled.originals, displacements=filled.moved)
    assert "script" not in page.tags
    assert len(page.ids) == len(set(page.ids)) > 100
    known = set(page.ids)
    for name, value in page.attributes:
        assert not name.startswith("on")
        if name in ("href", "xlink:href", "src"):
            assert value
            assert value[0] == "#"
            assert value[1:] in known
        if name == "aria-labelledby":
            assert value in known
        for target in re.findall(r"url\(#([^)]*)\)", value or ""):
            assert target in known
    assert "@import" not in html
    # The third stream has neither an exact law nor the length to be measured.
    assert page.tags.count("svg") == 5
    assert page.attributes.count(("role", "img")) == 5
    assert ("lang", "en") in page.attributes
    # The same store gives the same bytes.
    again = tmp_path / "again.html"
    render_report(filled.store, again, filled.originals, filled.moved)
    assert again.read_text(encoding="utf-8") == html


def test_nothing_is_unescaped(tmp_path: Path) -> None:
    store = FakeStore()
    store.add(make_task(), 400, link=HOSTILE, software=HOSTILE, pseudonym=HOSTILE, nonce=HOSTILE)
    store.alarm = [{"name": HOSTILE, "detail": HOSTILE, "at": 0}]
    store.rejected = {(HOSTILE, HOSTILE): 1}
    data = report_data(store.store, names={HOSTILE: HOSTILE})
    html, page = render(store, tmp_path, title=HOSTILE, data=data)
    assert "<script" not in html
    assert "script" not in page.tags
    assert page.words.count("<script>alert('x')</script> &") >= 11
    text = text_report(report_data(store.store, names={HOSTILE: HOSTILE}))
    for character in "\x1b\x07\u202e":
        assert character not in html
        assert character not in text
        assert character not in json.dumps(data, ensure_ascii=False)


def test_test_randomness_is_a_loud_warning(tmp_path: Path) -> None:
    store = FakeStore()
    store.add(make_task(), 40)
    html, page = render(store, tmp_path)
    assert ("role", "alert") not in page.attributes
    assert "TEST" not in text_report(report_data(store.store))
    store.add(make_task(), 40, quality=TEST)
    html, page = render(store, tmp_path)
    assert ("role", "alert") in page.attributes
    assert "1 of 2 streams used TEST randomness" in page.words
    assert '<td class="alarm">TEST</td>' in html
    data = report_data(store.store)
    assert "WARNING  1 of 2 streams used TEST" in text_report(data)
    assert "\x1b[1;31mWARNING" in text_report(data, color=True)


def test_failed_randomness_is_a_warning() -> None:
    store = FakeStore()
    store.add(make_task(), 40, health=ENTROPY_FAILED)
    text = text_report(report_data(store.store))
    assert "1 of 1 stream stopped" in text
    assert "entropy failed" in text


def test_two_boots_of_one_pseudonym_are_not_measured(tmp_path: Path) -> None:
    store = FakeStore()
    for _ in range(2):
        store.add(make_task(), 400, pseudonym="ab" * 8)
    data = report_data(store.store, store.moved)
    assert [s["displacement_measured"] for s in data["streams"]] == [None, None]
    _, page = render(store, tmp_path, originals=store.originals, displacements=store.moved)
    assert "over the original" not in page.words


def test_nothing_collected(tmp_path: Path) -> None:
    store = FakeStore()
    _, page = render(store, tmp_path)
    assert "No device has been heard." in page.words
    data = report_data(store.store)
    assert data["streams"] == []
    for said in ("No device has been heard.", "No alarms.", "Nothing was rejected."):
        assert said in text_report(data)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 199, 301, 5000])
def test_any_length(tmp_path: Path, n: int) -> None:
    store = FakeStore()
    store.add(make_task(STASWITCH, 3), n)
    _, page = render(store, tmp_path, originals=store.originals, displacements=store.moved)
    assert ("No value has arrived." in page.words) == (n == 0)


def test_a_stream_of_which_nothing_came(tmp_path: Path) -> None:
    store = FakeStore()
    store.add(make_task(), 2000)
    store.kept[1][1][:] = False
    assert "lost or missing" in render(store, tmp_path)[1].words


def test_page_that_cannot_be_written(filled: FakeStore, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't be written: its folder does not exist"):
        render_report(filled.store, tmp_path / "absent" / "report.html")


def test_pictures_show_gaps_and_originals(filled: FakeStore) -> None:
    symbols, present = filled.kept[2]
    original = filled.originals[filled.rows[1].pseudonym]
    task = filled.tasks[filled.rows[1].task_id]
    assert "lost or missing" in series_picture("a", task, symbols, present, original)
    whole = series_picture("a", task, symbols, np.ones_like(present), None)
    assert "lost or missing" not in whole
    assert "original" not in whole
    assert ">original<" in series_picture("a", task, symbols, present, original)


@pytest.mark.parametrize("mechanism", [RANSWITCH, STASWITCH])
def test_bars_are_the_law(mechanism: int) -> None:
    task = make_task(mechanism, 5, 0.15)
    law = displacement_law(task)
    assert law is not None
    svg = law_picture("a", task, None)
    number = r"([\d.]+) ([\d.]+)\s*"
    patches = re.findall(rf'id="a-patch_(\d+)">\s*<path d="M {number}L {number}L {number}', svg)
    # The first two are the figure and the axes; bars follow from the left.
    heights = [float(p[2]) - float(p[6]) for p in patches[2 : 2 + 9]]
    shown = law.probabilities[:9]
    assert np.array(heights) / sum(heights) == pytest.approx(shown / shown.sum(), abs=1e-4)
    assert "measured" not in svg
    dots = law_picture("a", task, np.zeros(100, dtype=int))
    assert ">measured<" in dots


def test_means() -> None:
    symbols = np.array([1, 3, 0, 0, 5, 9, 7])
    present = np.array([1, 1, 0, 0, 1, 0, 1], dtype=np.bool_)
    steps, means = _means(symbols, present, 2)
    assert list(steps) == [1, 3, 5, 7]
    assert np.isnan(means[1])
    assert list(means[[0, 2, 3]]) == [2, 5, 7]


def test_close_up_is_where_most_happens_and_nothing_is_lost() -> None:
    symbols = np.zeros(3000, dtype=int)
    symbols[1000:1200:2] = 9
    symbols[2000:2200:2] = 5
    present = np.ones(3000, dtype=np.bool_)
    assert 990 <= _busiest(symbols, present) <= 1001
    present[1100] = False
    assert 1990 <= _busiest(symbols, present) <= 2001
    assert _busiest(symbols[:ZOOM], present[:ZOOM]) == 0


def test_settled_leaves_the_ends_out() -> None:
    moved = np.arange(100)
    inner = settled(moved, 5)
    assert inner is not None
    assert list(inner) == list(range(10, 90))
    inner = settled(moved, 12)
    assert inner is not None
    assert list(inner) == list(range(24, 76))
    assert settled(moved, 13) is None


def test_names_come_first_and_order_the_streams(filled: FakeStore, tmp_path: Path) -> None:
    first, second, third = (row.pseudonym for row in filled.rows)
    names = {third: "1 kitchen", first: "2 hall"}
    data = report_data(filled.store, names=names)
    assert [row["name"] for row in data["streams"]] == ["1 kitchen", "2 hall", None]
    text = text_report(data)
    assert re.search(rf"^ 1 kitchen +{third} ", text, re.MULTILINE)
    _, page = render(filled, tmp_path, data=data)
    assert page.cells[page.cells.index("Name") + 1] == "Device"
    assert page.cells[page.cells.index("1 kitchen") + 1] == third
    assert f"1 kitchen {third}" in page.words
    assert f"Device {second}" in page.words
    assert "Name" not in render(filled, tmp_path)[1].cells
    assert "name" not in report_data(filled.store)["streams"][0]


def test_sent_is_never_below_what_is_known_to_be_sent(tmp_path: Path) -> None:
    store = FakeStore()
    # The status is ten frames old.
    store.add(make_task(), 80, health=RUNNING, count=42, received=17, lost=2, missing=1)
    store.add(make_task(), 80, count=79)
    data = report_data(store.store)
    assert [(s["sent"], s["sent_so_far"]) for s in data["streams"]] == [(20, True), (20, False)]
    _, page = render(store, tmp_path)
    sent = [page.cells[page.cells.index(row.pseudonym) + 3] for row in store.rows]
    assert sent == ["≥20", "20"]
    assert "≥20" in text_report(data)


def test_the_frames_are_read_once(filled: FakeStore, tmp_path: Path) -> None:
    data = report_data(filled.store)
    filled.streams = lambda: pytest.fail("The streams were asked for again.")
    render_report(filled.store, tmp_path / "report.html", data=data)
    assert text_report(data)


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_text_at_any_width_keeps_words_whole(filled: FakeStore, width: int) -> None:
    text = text_report(report_data(filled.store, filled.moved), width=width)
    assert max(map(len, text.splitlines())) <= width
    for row in filled.rows:
        assert row.pseudonym in text
    for word in ("RanSwitch", "StaSwitch", "hardware", "running", "one identity twice", "1,234"):
        assert word in text
    assert ("lost=3" in text) == (width < 120)


def test_what_counts_mean_is_said(filled: FakeStore, tmp_path: Path) -> None:
    filled.rejected = {("/dev/tty1", "no hello"): 2}
    _, page = render(filled, tmp_path)
    text = " ".join(text_report(report_data(filled.store)).split())
    for said in (text, page.words):
        assert "may lag" in said
        assert "came again" in said
        assert "“no hello” is no fault" in said
        assert "answers" not in said
    # What is not there is not explained.
    filled.rejected = {("/dev/tty1", "bad_crc"): 2}
    _, page = render(filled, tmp_path)
    for said in (text_report(data := report_data(filled.store)), page.words):
        assert data["rejections"]
        assert "no hello" not in said


def test_one_device_is_singular(tmp_path: Path) -> None:
    store = FakeStore()
    store.add(make_task(), 1)
    html, _ = render(store, tmp_path)
    assert "<dt>device</dt><dd>1</dd>" in html
    assert "<dt>value released</dt><dd>1</dd>" in html
    assert "<dt>alarms</dt><dd>0</dd>" in html


def test_averages_are_explained_where_they_are_drawn(tmp_path: Path) -> None:
    store = FakeStore()
    store.add(make_task(), 700)
    assert "Averages over" not in render(store, tmp_path)[1].words
    store.add(make_task(), 701)
    words = render(store, tmp_path)[1].words
    assert words.count("Averages over many more steps than the window (5) survive") == 1


def test_short_streams_are_not_measured(tmp_path: Path) -> None:
    store = FakeStore()
    store.add(make_task(), 39)
    _, page = render(store, tmp_path, displacements=store.moved)
    assert page.cells.count("too short") == 1
    assert "shorter than 8 windows" in page.words
    assert "too short" in text_report(report_data(store.store, store.moved))
    store = FakeStore()
    store.add(make_task(), 40)
    _, page = render(store, tmp_path, displacements=store.moved)
    assert "too short" not in page.cells
    assert "shorter than" not in page.words


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({}, ["<25 or missing", "25–49", "50", "51–299", "≥300"]),  # noqa: RUF001
        ({"missing": 4}, ["<25", "25–49", "50", "51–299", "≥300 or missing"]),  # noqa: RUF001
        ({"symbols": 6, "missing": 5}, ["<25", "25–49", "50", "51–299", "≥300", "missing"]),  # noqa: RUF001
        (
            {"bins": [-20, -5, 0, 1000]},
            ["<-20 or missing", "-20 to -6", "-5 to -1", "0–999", "≥1,000"],  # noqa: RUF001
        ),
    ],
)
def test_symbols_by_what_they_stand_for(more: dict[str, Any], names: list[str]) -> None:
    task = make_task(**{"symbols": 5, "bins": [25, 50, 51, 300], **more})
    assert [symbol_name(task, symbol) for symbol in range(task.symbols)] == names
    symbols = np.arange(60) % task.symbols
    svg = series_picture("a", task, symbols, np.ones(60, dtype=np.bool_), None)
    ticks = re.findall(r"text-anchor: end[^>]*>([^<]+)</text>", svg)
    assert [unescape(tick) for tick in ticks] == names


def test_axis_of_many_symbols_has_room_for_missing() -> None:
    task = make_task(symbols=42, bins=list(range(0, 400, 10)), missing=41)
    symbols = np.arange(60) % 42
    svg = series_picture("a", task, symbols, np.ones(60, dtype=np.bool_), None)
    assert ">missing<" in svg
    assert 5 <= len(re.findall(r"id=\"a-ytick_\d+\"", svg)) <= 10


def test_missing_readings_are_in_no_mean() -> None:
    task = make_task(symbols=4, bins=[10, 20], missing=3)
    # Three steps make a mean: all of a mean's are equal.
    symbols = np.arange(1500) // 3 % 3
    present = np.ones(1500, dtype=np.bool_)

    def heights() -> list[str]:
        svg = series_picture("a", task, symbols, present, None)
        found = re.search(r'<g id="a-line2d_\d+">\s*<path d="([^"]{1000,})"', svg)
        assert found
        return re.findall(r"[ML] \S+ (\S+)", found[1])

    plain = heights()
    symbols[1000:1300:3] = 3
    assert heights() == plain
    symbols[1000:1300:3] = 2
    assert heights() != plain


def test_csv(filled: FakeStore, tmp_path: Path) -> None:
    paths, _ = write_csv(filled.store, tmp_path / "a")
    assert [path.name for path in paths] == [f"{r.pseudonym}-{r.nonce}.csv" for r in filled.rows]
    lines = paths[1].read_text().splitlines()
    assert lines[0] == "step,symbol"
    assert len(lines) == 701
    symbols = filled.kept[2][0]
    for step in (0, 99, 112, 699):
        assert lines[1 + step] == f"{step},{symbols[step]}"
    assert lines[101:113] == [f"{step}," for step in range(100, 112)]


def test_csv_stays_in_its_folder(tmp_path: Path) -> None:
    store = FakeStore()
    store.add(make_task(), 10, pseudonym="../../x", nonce="/y")
    (path,), _ = write_csv(store.store, tmp_path / "csv")
    assert path.parent == tmp_path / "csv"
    assert path.exists()


def test_csv_that_cannot_be_written(filled: FakeStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"^.*file can't be written: File exists\.$"):
        write_csv(filled.store, tmp_path / "file")


def test_csv_in_a_folder_that_is_not_there(filled: FakeStore, tmp_path: Path) -> None:
    """A slip in a name makes no folders: it is told."""
    with pytest.raises(UserError, match="b can't be written: No such file or directory"):
        write_csv(filled.store, tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def test_matplotlib_is_imported_for_pictures_only() -> None:
    code = (
        "import sys; import tinyldp, tinyldp.report, tinyldp.laws, tinyldp.replay;"
        "sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_report_of_a_real_store(tmp_path: Path) -> None:
    task = make_task(STASWITCH, 4, 0.12, batch=4)
    store = Store.create(tmp_path / "study.db", task)
    n = 402
    words = np.random.default_rng(8).bytes(bytes_needed(task, n))
    original = np.random.default_rng(9).integers(0, 16, n)
    released = replay(task, words, original)
    padded = np.append(released, [0, 0]).astype(np.uint8).reshape(-1, 4)
    hello = Hello(b"\0\1\0", task.id, b"wearer 1", boot_nonce(words), OS, 0)
    boot = store.recall(hello, "/dev/tty1", 1_785_000_000_000).id
    frames = [
        (boot, i, 1_785_000_000_000, bytes(values)) for i, values in enumerate(padded) if i != 50
    ]
    state = BootState(boot, "/dev/tty1", 101, ENDED, 1, 101, n)
    store.commit(Batch(1_785_000_000_000, frames=frames, boots=[state]))
    moved = {b"wearer 1".hex(): displacements(task, words, n)}
    stream = report_data(store, moved)["streams"][0]
    assert (stream["sent"], stream["received"], stream["lost"]) == (101, 100, 1)
    assert (stream["health"], stream["values"], stream["drops"]) == ("ended", n, 1)
    path = tmp_path / "report.html"
    render_report(store, path, {b"wearer 1".hex(): original}, moved)
    assert "lost or missing" in Page(path.read_text(encoding="utf-8")).words
    store.close()
