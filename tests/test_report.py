"""The report: the same numbers in all three forms, nothing unescaped, nothing from outside."""

from __future__ import annotations

import json
import re
import subprocess
import sys
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
from tinyldp.laws import displacement_law
from tinyldp.replay import boot_nonce, bytes_needed, displacements, replay
from tinyldp.report import render_report, report_data, text_report
from tinyldp.report.data import settled
from tinyldp.report.pictures import ZOOM, _busiest, _means, law_picture, series_picture
from tinyldp_protocol.messages import ENDED, ENTROPY_FAILED, HARDWARE, OS, RUNNING, TEST
from tinyldp_protocol.task import RANSWITCH, SCALE, STASWITCH, Task, write_file

VOID = {"meta", "br", "link", "img", "input", "hr"}
HOSTILE = "<script>alert('x')</script> & \x1b[31mred\u202e\x07"


def make_task(mechanism: int = RANSWITCH, k: int = 5, q: float = 0.1, batch: int = 4) -> Task:
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

    def task(self, task_id: str) -> Task:
        return self.tasks[task_id]

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
    # A running device has not finished the frame that holds the last two values.
    assert third["sent"] == 22
    assert [s["health"] for s in data["streams"]] == ["ended", "ended", "running"]
    assert [s["entropy"] for s in data["streams"]] == ["OS", "hardware", "OS"]
    law = displacement_law(filled.tasks[first["task"]])
    assert law is not None
    assert first["displacement_exact"] == law.mean_absolute
    assert first["displacement_measured"] == pytest.approx(law.mean_absolute, rel=0.15)
    assert third["displacement_exact"] is None
    assert "k is 12" in third["displacement_law"]
    assert third["displacement_measured"] > 1
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
    stream = report_data(store.store)["streams"][0]
    assert (stream["sent"], stream["health"], stream["drops"]) == (None, "unknown", None)
    assert "unknown" in text_report(store.store)
    assert "unknown" in render(store, tmp_path)[1].words


def test_all_three_show_the_same(filled: FakeStore, tmp_path: Path) -> None:
    data = report_data(filled.store, filled.moved)
    text = text_report(filled.store, filled.moved)
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
    text = text_report(filled.store)
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
    assert page.tags.count("svg") == 6
    assert page.attributes.count(("role", "img")) == 6
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
    html, page = render(store, tmp_path, title=HOSTILE)
    assert "<script" not in html
    assert "script" not in page.tags
    assert page.words.count("<script>alert('x')</script> &") >= 9
    text = text_report(store.store)
    for character in "\x1b\x07\u202e":
        assert character not in html
        assert character not in text
        assert character not in json.dumps(report_data(store.store), ensure_ascii=False)


def test_test_randomness_is_a_loud_warning(tmp_path: Path) -> None:
    store = FakeStore()
    store.add(make_task(), 40)
    html, page = render(store, tmp_path)
    assert ("role", "alert") not in page.attributes
    assert "TEST" not in text_report(store.store)
    store.add(make_task(), 40, quality=TEST)
    html, page = render(store, tmp_path)
    assert ("role", "alert") in page.attributes
    assert "1 of 2 streams used TEST randomness" in page.words
    assert '<td class="alarm">TEST</td>' in html
    assert "WARNING  1 of 2 streams used TEST" in text_report(store.store)
    assert "\x1b[1;31mWARNING" in text_report(store.store, color=True)


def test_failed_randomness_is_a_warning() -> None:
    store = FakeStore()
    store.add(make_task(), 40, health=ENTROPY_FAILED)
    assert "1 of 1 streams stopped" in text_report(store.store)
    assert "entropy failed" in text_report(store.store)


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
    assert "No alarms." in text_report(store.store)
    assert report_data(store.store)["streams"] == []


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
    with pytest.raises(UserError, match="cannot be written: No such file or directory"):
        render_report(filled.store, tmp_path / "absent" / "report.html")


def test_pictures_show_gaps_and_originals(filled: FakeStore) -> None:
    symbols, present = filled.kept[2]
    original = filled.originals[filled.rows[1].pseudonym]
    assert "lost or missing" in series_picture("a", symbols, present, original)
    whole = series_picture("a", symbols, np.ones_like(present), None)
    assert "lost or missing" not in whole
    assert "original" not in whole
    assert ">original<" in series_picture("a", symbols, present, original)


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
    assert list(settled(moved, 5)) == list(range(10, 90))
    assert len(settled(moved, 20)) == 100


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
