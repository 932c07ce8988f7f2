"""Recordings to play through a device: actigraphy (AWD) and plain CSV.

AWD: seven header lines (name, date, time, code of the epoch, age, serial number,
sex), then one epoch a line, whose first integer is the activity count.

CSV: one reading a line, in the only column or in the one named `value`. A header
is optional for a single column. An empty cell or line is a missing reading; empty
lines at the very end are not counted.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from io import StringIO
from pathlib import Path

from tinyldp.errors import UserError

_AWD_HEADER = 7
_AWD_EPOCHS = {"1": 15, "2": 30, "4": 60, "8": 120, "20": 300, "81": 2, "C1": 5, "C2": 10}
_AWD_COUNT = re.compile(r"\s*(\d+)(?![\d.])")
_INTEGER = re.compile(r"[+-]?[0-9]+")
# Bytes of a file of readings.
_MOST = 1 << 28
# A device's integers have 31 bits.
_LIMIT = 1 << 30

# One file for each wearer; example_01_mask repeats example_01.
_WEARERS = (
    "example_01.AWD",
    "example_02.AWD",
    "example_03.AWD",
    "example_04.AWD",
    "example_05.AWD",
    "test_sample.AWD",
    "test_sample_aw4.AWD",
    "test_sample_aw7.AWD",
    "test_sample_awi.AWD",
    "test_sample_awl.AWD",
    "test_sample_awlp.AWD",
    "test_sample_awmk2.AWD",
    "test_sample_aws.AWD",
    "test_sample_awt.AWD",
)


@dataclass(frozen=True)
class Recording:
    """Readings of one wearer, one for each epoch; None is a missing one.

    epoch_seconds: time from one reading to the next; None where the file does not say.
    """

    name: str
    epoch_seconds: int | None
    readings: list[int | None]


def load_recording(path: str | Path) -> Recording:
    """Read a recording: AWD by its suffix, anything else as CSV.

    Raises UserError, with the line where there is one, for what cannot be read.
    """
    path = Path(path)
    text = _text(path)
    if not text.strip():
        raise UserError(f"{path} is empty.")
    if path.suffix.lower() == ".awd":
        return _awd(path, text)
    return _csv(path, text)


def load_table(path: str | Path) -> list[list[int | None]]:
    """Read a CSV of several series side by side: a row for each step, a column for each series.

    The first row may be a header: it is one when none of its cells is a whole number. An
    empty cell is a missing reading; empty lines are skipped. Raises UserError, with the line
    where there is one, for what cannot be read.
    """
    path = Path(path)
    lines = _lines(_text(path))
    if not any(line.strip() for line in lines):
        raise UserError(f"{path} is empty.")
    table: list[list[int | None]] = []
    header: list[str] | None = None
    reader = csv.reader(lines, delimiter=_delimiter(lines), strict=True)
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if not cells:
                continue
            if header is None:
                header = cells
                if any(cells) and not any(_INTEGER.fullmatch(cell) for cell in cells):
                    continue
            if len(cells) != len(header):
                raise UserError(
                    f"{path}, line {reader.line_num}: the number of columns is {len(cells)},"
                    f" but {len(header)} in the first line."
                )
            table.append([_cell(path, reader.line_num, cell) for cell in cells])
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}.") from None
    if all(reading is None for row in table for reading in row):
        raise UserError(f"{path} holds no readings.")
    return table


def sample_recordings() -> list[Path]:
    """The wearers' recordings inside the installed package pyActigraphy.

    Its files are found without importing it. Raises UserError when it is absent.
    """
    try:
        found = distribution("pyActigraphy")
    except PackageNotFoundError:
        raise UserError(
            "pyActigraphy, which holds the sample recordings, is not installed:"
            " run `python -m pip install --no-deps pyActigraphy`."
        ) from None
    folder = Path(str(found.locate_file("pyActigraphy/tests/data")))
    paths = [folder / name for name in _WEARERS if (folder / name).is_file()]
    if not paths:
        raise UserError(
            f"The installed pyActigraphy {found.version} holds no sample recordings in {folder}."
        )
    return paths


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST + 1)
    except (FileNotFoundError, ValueError):
        # ValueError: a name with a zero byte.
        raise UserError(f"There is no file {path}.") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    if len(data) > _MOST:
        raise UserError(f"{path} has more than {_MOST >> 20} MB, which is too much for a series.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise UserError(f"{path} is not a text file in UTF-8.")
    return text


def _lines(text: str) -> list[str]:
    """The lines with their ends, whatever ends them, but without empty ones at the end."""
    return list(StringIO(text.rstrip("\r\n"), newline=None))


def _reading(path: Path, line: int, digits: str) -> int:
    # Ten digits are enough for any reading, and int() of very long ones fails.
    if len(digits.lstrip("+-0")) > 10 or not -_LIMIT <= int(digits) < _LIMIT:
        raise UserError(f"{path}, line {line}: {_shown(digits)} is not between -2^30 and 2^30-1.")
    return int(digits)


def _shown(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else cell[:39] + "…")


def _awd(path: Path, text: str) -> Recording:
    lines = _lines(text)
    if len(lines) <= _AWD_HEADER:
        raise UserError(f"{path} is no AWD recording: it ends inside its header of 7 lines.")
    code = lines[3].strip()
    if code not in _AWD_EPOCHS:
        raise UserError(f"{path}, line 4: {_shown(code)} is no AWD code of an epoch.")
    readings: list[int | None] = []
    for number, line in enumerate(lines[_AWD_HEADER:], _AWD_HEADER + 1):
        count = _AWD_COUNT.match(line)
        if count is None:
            raise UserError(
                f"{path}, line {number}: {_shown(line.strip())} does not begin with a count."
            )
        readings.append(_reading(path, number, count[1]))
    return Recording(path.stem, _AWD_EPOCHS[code], readings)


def _csv(path: Path, text: str) -> Recording:
    lines = _lines(text)
    rows = csv.reader(lines, delimiter=_delimiter(lines), strict=True)
    column = 0
    width = 0
    readings: list[int | None] = []
    try:
        for row in rows:
            line = rows.line_num
            cells = [cell.strip() for cell in row]
            if not width:
                width = max(1, len(cells))
                column = _column(path, cells)
                # Several columns have names; of a single one, a word is its name.
                if width > 1 or (cells and cells[0][:1].isalpha()):
                    continue
            if any(cells) and len(cells) != width:
                raise UserError(
                    f"{path}, line {line}: the number of columns is {len(cells)},"
                    f" but {width} in line 1."
                )
            readings.append(_cell(path, line, cells[column] if cells else ""))
    except csv.Error as error:
        raise UserError(f"{path}, line {rows.line_num}: {error}.") from None
    if all(reading is None for reading in readings):
        raise UserError(f"{path} holds no readings.")
    return Recording(path.stem, None, readings)


def _delimiter(lines: list[str]) -> str:
    return next((mark for mark in ",;\t" if mark in lines[0]), ",")


def _cell(path: Path, line: int, cell: str) -> int | None:
    if not cell:
        return None
    if not _INTEGER.fullmatch(cell):
        raise UserError(f"{path}, line {line}: {_shown(cell)} is not a whole number.")
    return _reading(path, line, cell)


def _column(path: Path, cells: list[str]) -> int:
    if len(cells) <= 1:
        return 0
    names = [cell.lower() for cell in cells]
    if names.count("value") != 1:
        raise UserError(
            f"{path} has {len(cells)} columns: name the one to read `value` in its first line."
        )
    return names.index("value")
