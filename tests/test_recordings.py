"""Reading recordings, and one clear sentence for each that cannot be read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tinyldp import recordings
from tinyldp.errors import UserError
from tinyldp.recordings import load_recording, load_table, sample_recordings

AWD = "a wearer\r\n23-Jan-1918\r\n13:58\r\n {code} \r\n00\r\nV1\r\nX\r\n"


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("content", "readings"),
    [
        ("1\n2\n3\n", [1, 2, 3]),
        ("value\r\n1\r\n-2\r\n", [1, -2]),
        ("steps per minute\n7", [7]),
        ("\ufeffvalue\n1\n", [1]),
        ("1\n\n3\n\n\n", [1, None, 3]),
        ("\n1\n", [None, 1]),
        ('"value"\n"4"\n', [4]),
        ("time,value\n08:00,1\n08:01,\n,\n\n08:04,+5\n", [1, None, None, None, 5]),
        ("Value;note\n1;x\n2;\n", [1, 2]),
        ("note\tvalue\n\t1\nx\t\n", [1]),
        ('1\n""\n\n2\n""\n', [1, None, None, 2]),
        ("time,value\n08:00,1\n08:01,\n08:02,3\n08:03,\n08:04,\n", [1, None, 3]),
        ("1\r2\r", [1, 2]),
        ("0000000000012\n", [12]),
        ("-1073741824\n1073741823", [-(1 << 30), (1 << 30) - 1]),
    ],
)
def test_csv(tmp_path: Path, content: str, readings: list[int | None]) -> None:
    recording = load_recording(write(tmp_path, "mine.csv", content))
    assert recording.name == "mine"
    assert recording.epoch_seconds is None
    assert recording.readings == readings


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "is empty."),
        ("\n \n", "is empty."),
        ("value\n", "holds no readings."),
        ("value\n\n\n", "holds no readings."),
        ("time,value\n1,\n", "holds no readings."),
        ("1\n2.5\n", "line 2: '2.5' is not a whole number."),
        ("2.5\n1\n", "line 1: '2.5' is not a whole number."),
        ("1_0\n1\n", "line 1: '1_0' is not a whole number."),
        ("value\n1\n\nabc\n", "line 4: 'abc' is not a whole number."),
        ("value\n" + "9" * 60, "line 2: '" + "9" * 39 + "…' is not between -2^30 and 2^30-1."),
        ("1073741824\n", "is not between"),
        ("-1073741825\n", "is not between"),
        ("value\n\u0663\n", "is not a whole number"),
        ('value\n"1\n2"\n', "is not a whole number"),
        ('value\n"1\n2\n', "unexpected end of data."),
        ("a,b\n1,2\n", "has 2 columns: name the one to read `value` in its first line."),
        ("1,2\n3,4\n", "has 2 columns"),
        ("value,value\n1,2\n", "has 2 columns"),
        ("a,value\n1\n", "line 2: the number of columns is 1, but 2 in line 1."),
        ("value\n1,2\n", "line 2: the number of columns is 2, but 1 in line 1."),
        (b"\xff\xfe1\x00", "is not a text file in UTF-8."),
        (b"1\n\x00\n", "is not a text file in UTF-8."),
        (b"\x89PNG\r\n\x1a\n", "is not a text file in UTF-8."),
    ],
)
def test_csv_that_cannot_be_read(tmp_path: Path, content: str | bytes, sentence: str) -> None:
    path = write(tmp_path, "mine.csv", content)
    with pytest.raises(UserError) as caught:
        load_recording(path)
    said = caught.value.args[0]
    assert said.startswith(str(path))
    assert sentence in said
    assert "\n" not in said


def test_a_series_ends_with_its_last_reading(tmp_path: Path) -> None:
    """Each column by itself: what is empty below is no reading, what is empty between is one."""
    table = load_table(write(tmp_path, "two.csv", "anna;bert\n1;2\n3;\n;4\n5;\n\n6;\n;\n"))
    assert table.series == [[1, 3, None, 5, None, 6], [2, None, 4]]
    assert table.rows == [[1, 2], [3, None], [None, 4], [5, None], [None, None], [6, None]]
    assert table.lengths == (6, 3)
    for content, own in zip(("1\n3\n\n5\n\n6\n\n", "2\n\n4\n\n\n"), table.series, strict=True):
        assert load_table(write(tmp_path, "one.csv", content)).series == [own]


@pytest.mark.parametrize(
    ("content", "column"),
    [
        ("anna,bert\n1,\n2,\n", "bert"),
        ("1,2,\n3,4,\n", "3"),
        ("time,anna,bert\n08:00,,\n08:01,,4\n", "anna"),
    ],
)
def test_a_column_without_readings_is_refused_by_its_name(
    tmp_path: Path, content: str, column: str
) -> None:
    path = write(tmp_path, "two.csv", content)
    with pytest.raises(UserError) as caught:
        load_table(path)
    assert caught.value.args[0] == f"{path}: column {column} holds no readings; leave it out."


def test_awd(tmp_path: Path) -> None:
    text = AWD.format(code="2") + "0\r\n149 M\r\n 208 , 0.00\r\n36 , 1.00 M\r\n\r\n"
    recording = load_recording(write(tmp_path, "w.AWD", text))
    assert recording.epoch_seconds == 30
    assert recording.readings == [0, 149, 208, 36]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a\nb\n", "is no AWD recording: it ends inside its header of 7 lines."),
        (AWD.format(code="4"), "is no AWD recording"),
        (AWD.format(code="7") + "1\n", "line 4: '7' is no AWD code of an epoch."),
        (AWD.format(code="4") + "1\nfoo\n", "line 9: 'foo' does not begin with a count."),
        (AWD.format(code="4") + "1.5\n", "line 8: '1.5' does not begin with a count."),
        (AWD.format(code="4") + "1\n\n2\n", "line 9: '' does not begin with a count."),
        (AWD.format(code="4") + "-1\n", "line 8: '-1' does not begin with a count."),
        (AWD.format(code="4") + "1073741824\n", "line 8: '1073741824' is not between"),
    ],
)
def test_awd_that_cannot_be_read(tmp_path: Path, content: str, sentence: str) -> None:
    path = write(tmp_path, "w.awd", content)
    with pytest.raises(UserError) as caught:
        load_recording(path)
    assert sentence in caught.value.args[0]


def test_a_file_that_never_ends() -> None:
    with pytest.raises(UserError, match="too much for a series"):
        load_recording("/dev/zero")


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no file"):
        load_recording("a\0b.csv")
    with pytest.raises(UserError, match="There is no file"):
        load_recording(tmp_path / "absent.csv")
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        load_recording(tmp_path)


def test_sample_recordings() -> None:
    paths = sample_recordings()
    assert len({path.stem for path in paths}) == len(paths) >= 6
    seen = set()
    for path in paths:
        recording = load_recording(path)
        assert recording.epoch_seconds in (15, 30, 60)
        counts = [count for count in recording.readings if count is not None]
        assert len(counts) == len(recording.readings) >= 1000
        assert max(counts) > 500
        # People sleep.
        assert counts.count(0) > 0.1 * len(counts)
        seen.add(tuple(counts[:1000]))
    assert len(seen) == len(paths)
    first = load_recording(paths[0]).readings
    assert len(first) == 18_401
    assert first[3:6] == [149, 144, 57]


def test_sample_recordings_are_read_without_importing_their_package() -> None:
    code = (
        "import sys; from tinyldp.recordings import *; load_recording(sample_recordings()[0]);"
        "sys.exit('pyActigraphy' in sys.modules or 'pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_package_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def absent(name: str) -> None:
        raise recordings.PackageNotFoundError(name)

    monkeypatch.setattr(recordings, "distribution", absent)
    with pytest.raises(UserError, match="pip install --no-deps pyActigraphy"):
        sample_recordings()


def test_package_without_recordings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Empty:
        version = "9"

        def locate_file(self, name: str) -> Path:
            return tmp_path / name

    monkeypatch.setattr(recordings, "distribution", lambda name: Empty())
    with pytest.raises(UserError, match="pyActigraphy 9 holds no sample recordings"):
        sample_recordings()
