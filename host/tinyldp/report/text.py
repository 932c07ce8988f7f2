"""The report for a terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tinyldp.report.columns import ALARMS, REJECTIONS, STREAMS, TASKS, Column
from tinyldp.report.data import UNCERTIFIED, Arrays, report_data

if TYPE_CHECKING:
    from tinyldp.collect.store import Store


def text_report(
    store: Store, displacements: Arrays | None = None, width: int = 120, color: bool = False
) -> str:
    """Warnings and tables as text, `width` characters wide; color: with ANSI colours."""
    data = report_data(store, displacements)
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
    console.print(_table(f"Streams ({UNCERTIFIED})", STREAMS, data["streams"]))
    console.print(_table(f"Tasks ({UNCERTIFIED})", TASKS, data["tasks"]))
    if data["alarms"]:
        console.print(_table(f"Alarms ({UNCERTIFIED})", ALARMS, data["alarms"], "bold red"))
    else:
        console.print(Text("No alarms."))
    if data["rejections"]:
        console.print(_table(f"Rejected ({UNCERTIFIED})", REJECTIONS, data["rejections"]))
    else:
        console.print(Text("Nothing was rejected."))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _table(
    title: str, columns: list[Column], rows: list[dict[str, Any]], style: str = "none"
) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for column in columns:
        table.add_column(
            column.short,
            justify="right" if column.number else "left",
            overflow="fold",
            no_wrap=column.code,
        )
    for row in rows:
        cells = [Text(column.cell(row)) for column in columns]
        for cell, column in zip(cells, columns, strict=True):
            if column.alarming(row):
                cell.stylize("bold red")
        table.add_row(*cells, style=style)
    return table
