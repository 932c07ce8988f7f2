"""The report for a terminal."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tinyldp.report.columns import (
    ALARMS,
    CURVE,
    DECISIONS,
    ITEMS,
    MOST_SHARES,
    REFUSALS,
    REJECTIONS,
    ROUND_DEVICES,
    ROUND_DEVICES_LEGEND,
    TASKS,
    Column,
    Row,
    crr_columns,
    crr_legend,
    crr_rows,
    crr_told_columns,
    crr_told_legend,
    crr_told_rows,
    curve_legend,
    curve_rows,
    decision_legend,
    decision_rows,
    epoch_columns,
    epoch_legend,
    epoch_rows,
    frequency_columns,
    frequency_legend,
    frequency_rows,
    item_legend,
    item_rows,
    refusal_rows,
    rejections_legend,
    round_columns,
    round_legend,
    round_rows,
    stream_columns,
    streams_legend,
)
from tinyldp.report.crr import alone, crr_summary
from tinyldp.report.data import UNCERTIFIED
from tinyldp.report.epochs import epochs_summary
from tinyldp.report.rounds import estimated, summary


def text_report(data: dict[str, Any], width: int = 120, color: bool = False) -> str:
    """Warnings and tables as text, `width` characters wide; color: with ANSI colours.

    data: what report_data gave. A table that is too wide becomes a block for each row.
    """
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    for warning in data["warnings"]:
        console.print(Text(f"WARNING  {warning}\n", style="bold red"))
    console.print(Text(data["protection"]))
    console.print(Text(data["certificate"] + "\n"))
    mark = f" ({UNCERTIFIED})" if data["uncertified"] else ""
    for table in data["estimates"]:
        _print_estimate(
            console, "Frequencies", table, frequency_columns, frequency_rows, frequency_legend
        )
    for table in data["curves"]:
        _print_estimate(console, "Mean curve", table, lambda _: CURVE, curve_rows, curve_legend)
    for table in data["crr"]:
        _print_crr(console, table)
    for table in data["rounds"]:
        _print_rounds(console, table)
    for table in data["epochs"]:
        _print_epochs(console, table)
    streams = data["streams"]
    if streams:
        _print(
            console,
            f"Streams{mark}",
            stream_columns(streams),
            streams,
            streams_legend(streams, True),
        )
        _print(console, f"Tasks{mark}", TASKS, data["tasks"])
    else:
        console.print(Text("No device has been heard."))
    if data["alarms"]:
        _print(console, f"Alarms{mark}", ALARMS, data["alarms"], style="bold red")
    else:
        console.print(Text("No alarms."))
    if data["rejections"]:
        _print(
            console,
            f"Rejected{mark}",
            REJECTIONS,
            data["rejections"],
            rejections_legend(data["rejections"]),
        )
    else:
        console.print(Text("Nothing was rejected."))
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines()) + "\n"


def _print_estimate(
    console: Console,
    title: str,
    table: dict[str, Any],
    columns: Callable[[Row], list[Column]],
    rows: Callable[[Row], list[Row]],
    legend: Callable[[Row], str],
) -> None:
    title = f"{title} of Task {table['task']}, {table['mechanism']} ({table['certificate']})"
    if table["problem"] is None:
        _print(console, title, columns(table), rows(table), legend(table))
    else:
        console.print(Text(title, style="bold"))
        console.print(Text(" ".join([table["problem"], *table.get("left_out", [])]) + "\n"))


def _print_crr(console: Console, table: dict[str, Any]) -> None:
    name = f"Task {table['task']}, {table['mechanism']} ({table['certificate']})"
    console.print(Text(f"Series of {name}", style="bold"))
    if table["problem"] is not None:
        console.print(Text(" ".join([table["problem"], *table["left_out"]]) + "\n"))
        return
    console.print(Text(crr_summary(table) + "\n"))
    rows = crr_rows(table)
    values = min(MOST_SHARES, len(table["followed"]))
    while values > 1 and _least_width(crr_columns(table, values), rows) > console.width:
        values -= 1
    columns, legend = crr_columns(table, values), crr_legend(table, values)
    what = "Probabilities" if alone(table) else "Shares"
    _print(console, f"{what} of {name}", columns, rows, legend)
    _print(
        console,
        f"Told by {name}",
        crr_told_columns(table),
        crr_told_rows(table),
        crr_told_legend(table),
    )


def _print_rounds(console: Console, table: dict[str, Any]) -> None:
    name = f"Task {table['task']}, {table['mechanism']} ({table['certificate']})"
    console.print(Text(f"Rounds of {name}", style="bold"))
    console.print(Text(summary(table) + "\n"))
    if table["problem"] is not None:
        console.print(Text(table["problem"] + "\n"))
    elif table["steps"]:
        if estimated(table):
            columns, rows = round_columns(table), round_rows(table)
            _print(console, f"Estimates of {name}", columns, rows, round_legend(table))
        rows, legend = decision_rows(table), decision_legend(table)
        _print(console, f"Decisions of {name}", DECISIONS, rows, legend)
    _print_answers(console, name, table)


def _print_epochs(console: Console, table: dict[str, Any]) -> None:
    name = f"Task {table['task']}, {table['mechanism']} ({table['certificate']})"
    console.print(Text(f"Epochs of {name}", style="bold"))
    console.print(Text(epochs_summary(table) + "\n"))
    if table["problem"] is not None:
        console.print(Text(table["problem"] + "\n"))
    elif table["steps"]:
        columns, rows = epoch_columns(table), epoch_rows(table)
        _print(console, f"Decisions of {name}", columns, rows, epoch_legend(table))
        if item_rows(table):
            _print(console, f"Items of {name}", ITEMS, item_rows(table), item_legend(table))
    _print_answers(console, name, table)


def _print_answers(console: Console, name: str, table: dict[str, Any]) -> None:
    _print(console, f"Answers of {name}", ROUND_DEVICES, table["devices"], ROUND_DEVICES_LEGEND)
    if table["refusals"]:
        _print(console, f"Refusals of {name}", REFUSALS, refusal_rows(table))
    else:
        console.print(Text("Nothing was refused.\n"))


def _print(
    console: Console,
    title: str,
    columns: list[Column],
    rows: list[Row],
    legend: str = "",
    style: str = "none",
) -> None:
    console.print(Text(title, style="bold"))
    if _least_width(columns, rows) <= console.width:
        console.print(_table(columns, rows, style))
    else:
        for row in rows:
            first, *others = (_cell(column, row) for column in columns)
            pairs = [
                Text.assemble(column.short, "=", cell)
                for column, cell in zip(columns[1:], others, strict=True)
            ]
            console.print(first, style=style)
            console.print(Padding(Text(", ").join(pairs), (0, 0, 0, 2)), style=style)
        console.print()
    if legend:
        console.print(Text(legend + "\n"))


def _table(columns: list[Column], rows: list[Row], style: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for column in columns:
        table.add_column(
            column.short,
            justify="right" if column.number else "left",
            no_wrap=not column.prose,
        )
    for row in rows:
        table.add_row(*(_cell(column, row) for column in columns), style=style)
    return table


def _least_width(columns: list[Column], rows: list[Row]) -> int:
    """Characters that the table needs, so that nothing is cut and prose breaks at spaces."""
    width = 0
    for column in columns:
        texts = [column.short, *(column.cell(row) for row in rows)]
        if column.prose:
            texts = " ".join(texts).split()
        width += max(map(cell_len, texts)) + 2
    return width


def _cell(column: Column, row: Row) -> Text:
    return Text(column.cell(row), style="bold red" if column.alarming(row) else "")
