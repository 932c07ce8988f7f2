"""Readings of files: actigraphy (AWD) and plain CSV, by the same rules for all who read them.

AWD: seven header lines (name, date, time, code of the epoch, age, serial number,
sex), then one epoch a line, whose first integer is the activity count.

CSV: a line for each step, `,`, `;` or tab between columns, whole numbers.

Header   The first line with anything in it, when none of its cells is a number; of a single
         column, when it begins with a letter. Several columns of which one is named `value` are
         one series, that column. Else each column is a series, but for those that are named
         time, timestamp, date or datetime: they are never readings, whatever is in them.
Missing  An empty cell is a missing reading. An empty line is a step at which all are missing,
         with one column or with many; but not before a header, and not at the very end of a
         file, where editors leave some.
Length   A series ends with its last reading: what is empty below it in its column says that
         others are longer, and is nothing that was missed.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from io import StringIO
from pathlib import Path

from tinyldp.errors import UserError

_AWD_HEADER = 7
_AWD_EPOCHS = {"1": 15, "2": 30, "4": 60, "8": 120, "20": 300, "81": 2, "C1": 5, "C2": 10}
_AWD_COUNT = re.compile(r"\s*(\d+)(?![\d.])")
_INTEGER = re.compile(r"[+-]?[0-9]+")
# Columns of these names say when a step was, and what people write in place of a number.
_TIMES = ("time", "timestamp", "date", "datetime")
_NOTHING = ("nan", "none", "null", "na", "n/a")
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


@dataclass(frozen=True)
class Table:
    """Series side by side, as many steps as the longest has; None is a missing reading, or no step.

    rows: (steps, series). lines: (steps,) the line of the file that each step is in. columns:
    (series,) their names, or where there is no header their numbers, from 1. lengths: (series,)
    the steps up to each one's last reading.
    """

    rows: list[list[int | None]]
    lines: Sequence[int]
    columns: tuple[str, ...]
    lengths: tuple[int, ...]

    @property
    def series(self) -> list[list[int | None]]:
        """Of each series its own steps."""
        columns = zip(*self.rows, strict=True)
        return [list(column[:steps]) for column, steps in zip(columns, self.lengths, strict=True)]

    def place(self, step: int, series: int) -> str:
        """Where a reading is in the file, for a sentence."""
        line = f"line {self.lines[step]}"
        return line if len(self.columns) == 1 else f"{line}, column {self.columns[series]}"


def load_table(path: str | Path) -> Table:
    """The series of a file: a CSV's, by the rules above, or that of an AWD recording.

    Raises UserError, with the line where there is one, for what cannot be read.
    """
    path = Path(path)
    text = _text(path)
    if not text.strip():
        raise UserError(f"{path} is empty.")
    if path.suffix.lower() == ".awd":
        readings = _awd(path, text).readings
        rows = [[reading] for reading in readings]
        lines = range(_AWD_HEADER + 1, _AWD_HEADER + 1 + len(rows))
        return Table(rows, lines, ("1",), (len(rows),))
    sheet = _sheet(path, text)
    names = [name.lower() for name in sheet.header or ()]
    if "value" in names:
        return _table(path, sheet, [_value(path, names)])
    chosen = [at for at in range(sheet.width) if not names or names[at] not in _TIMES]
    if sheet.width and not chosen:
        raise UserError(f"{path} holds no readings: its columns say only when they were.")
    return _table(path, sheet, chosen)


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


@dataclass(frozen=True)
class _Sheet:
    """Of a CSV: cells of each step, none where its line is empty, and the lines they end in."""

    header: list[str] | None
    width: int
    rows: list[list[str]]
    lines: list[int]


def _sheet(path: Path, text: str) -> _Sheet:
    lines = _lines(text)
    reader = csv.reader(lines, delimiter=_delimiter(lines), strict=True)
    header: list[str] | None = None
    width = first = 0
    rows: list[list[str]] = []
    numbers: list[int] = []
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if not any(cells):
                cells = []
            elif not width:
                width, first = len(cells), reader.line_num
                if _names(cells):
                    # What is above names is no step yet.
                    header, rows, numbers = cells, [], []
                    continue
            elif len(cells) != width:
                raise UserError(
                    f"{path}, line {reader.line_num}: the number of columns is {len(cells)},"
                    f" but {width} in line {first}."
                )
            rows.append(cells)
            numbers.append(reader.line_num)
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}.") from None
    return _Sheet(header, width, rows, numbers)


def _names(cells: list[str]) -> bool:
    """Whether these are a header's, which could be nothing else."""
    if "value" in (cell.lower() for cell in cells):
        return True
    if all(cell.lower() in _NOTHING for cell in cells if cell):
        return False
    return cells[0][0].isalpha() if len(cells) == 1 else not any(map(_number, cells))


def _number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    # Infinity is no number of a file, but may be a name.
    return any(letter.isdigit() for letter in cell)


def _table(path: Path, sheet: _Sheet, chosen: list[int]) -> Table:
    rows = [
        [_cell(path, line, row[at]) if row else None for at in chosen]
        for row, line in zip(sheet.rows, sheet.lines, strict=True)
    ]
    lengths = [0] * len(chosen)
    for step, row in enumerate(rows, 1):
        for column, reading in enumerate(row):
            if reading is not None:
                lengths[column] = step
    if not any(lengths):
        raise UserError(f"{path} holds no readings.")
    names = sheet.header or [""] * sheet.width
    columns = [_shown(names[at])[1:-1] or str(at + 1) for at in chosen]
    if 0 in lengths:
        raise UserError(
            f"{path}: column {columns[lengths.index(0)]} holds no readings; leave it out."
        )
    steps = max(lengths)
    return Table(rows[:steps], sheet.lines[:steps], tuple(columns), tuple(lengths))


def _csv(path: Path, text: str) -> Recording:
    sheet = _sheet(path, text)
    column = 0
    if sheet.width > 1:
        column = _value(path, [name.lower() for name in sheet.header or [""] * sheet.width])
    return Recording(path.stem, None, _table(path, sheet, [column]).series[0])


def _value(path: Path, names: list[str]) -> int:
    if names.count("value") != 1:
        raise UserError(
            f"{path} has {len(names)} columns: name the one to read `value` in its first line."
        )
    return names.index("value")


def _delimiter(lines: list[str]) -> str:
    first = next((line for line in lines if line.strip()), "")
    return next((mark for mark in ",;\t" if mark in first), ",")


def _cell(path: Path, line: int, cell: str) -> int | None:
    if not cell:
        return None
    if not _INTEGER.fullmatch(cell):
        hint = ""
        if cell.lower() in _NOTHING:
            hint = "; a missing reading is an empty cell"
        raise UserError(f"{path}, line {line}: {_shown(cell)} is not a whole number{hint}.")
    return _reading(path, line, cell)
