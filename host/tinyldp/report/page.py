"""The report as one HTML file that needs nothing else: no script, no network."""

from __future__ import annotations

from collections import Counter
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tinyldp.errors import UserError
from tinyldp.estimate.crr import decode
from tinyldp.figures import counted
from tinyldp.files import FOOTER, GENERATOR, REPORT, replace_file
from tinyldp.laws import MEASURABLE
from tinyldp.report.columns import (
    ALARMS,
    CURVE,
    DECISIONS,
    ITEMS,
    REFUSALS,
    REJECTIONS,
    ROUND_DEVICES,
    ROUND_DEVICES_LEGEND,
    TASKS,
    Column,
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
from tinyldp.report.crr_pictures import leakage_picture, shares_picture, smoothed_picture
from tinyldp.report.data import (
    HEALTH,
    UNCERTIFIED,
    Arrays,
    is_drawn,
    is_stream,
    report_data,
)
from tinyldp.report.epoch_pictures import items_picture, mean_picture, votes_picture
from tinyldp.report.epochs import epochs_summary
from tinyldp.report.pictures import (
    curve_picture,
    frequency_picture,
    law_picture,
    mean_steps,
    over_time_picture,
    series_picture,
)
from tinyldp.report.round_pictures import decisions_picture, rounds_picture
from tinyldp.report.rounds import decided, estimated, summary
from tinyldp.report.symbols import clean
from tinyldp_protocol.messages import ENDED
from tinyldp_protocol.task import TABLE, Task

if TYPE_CHECKING:
    from tinyldp.collect.store import Store

# Said under a series in full length, of which only means can be drawn.
AVERAGES = (
    "Averages over many more steps than the window ({window}) survive by design: the values"
    " themselves are released, shuffled only over about one window."
)
NO_CERTIFICATE_YET = f"{UNCERTIFIED}: no certificate"
_SHARES = "Dots: raw estimates; lines: the {sure} interval of each true share alone."
_STEPS = (
    "Each step's raw estimate in the band of its {sure} intervals; where nothing was published,"
    " the last publication stands."
)
_DECISIONS = (
    "What each device spent that was asked; above, where the method looks at"
    " it, the dissimilarity: a publication is made where it exceeds the error."
)
_MEANS = (
    "The published mean in the band of its {sure} interval; the wider band holds this epoch's"
    " mean with {sure}, whatever devices have not voted for."
)
_ITEMS = "Items found at each update, with the intervals that all hold at once with {sure}."
_VOTES = "An update is made where the votes exceed what is needed; the first one in any case."
_SMOOTHED = (
    "Each value's share at each step, smoothed, in the band of its intervals; both hold where the"
    " series follow the Task's chain."
)
_ALONE = (
    "How probable each value is at each step, given all that the device released, if its series"
    " follows the Task's chain. One device gives no shares, and so no intervals of them."
)
_TOLD = "How much likelier or less likely a release, and all so far, made some value."
_BANDS = (
    "Each point is estimated from the reports of some steps alone; the band is its {sure} interval."
)
# Streams that get pictures; a page of more would be too large to open.
PICTURES = 48

_CSS = """
:root { color-scheme: light; --ink: #1d2733; --quiet: #5c6873; --line: #dfe4e8;
  --alarm: #a93226; --blue: #1f5f99; }
* { box-sizing: border-box; }
body { margin: 0; background: #f5f7f9; color: var(--ink);
  font: 16px/1.55 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .8rem; }
h3 { font-size: 1.05rem; margin: 0; overflow-wrap: anywhere; }
p { margin: .4rem 0; max-width: 46rem; }
.quiet { color: var(--quiet); }
.card { background: #fff; border: 1px solid var(--line); border-radius: 10px;
  padding: 1rem 1.25rem; margin: 1rem 0; }
.protects { border-left: 5px solid var(--blue); }
.warning { border: 2px solid var(--alarm); border-left-width: 8px; background: #fdf1ef;
  font-weight: 600; }
.warning p, .protects p { max-width: none; }
.numbers { display: flex; flex-wrap: wrap; gap: .6rem 2.4rem; margin: 1.2rem 0 0; padding: 0; }
.numbers div { display: flex; flex-direction: column-reverse; }
.numbers dt { color: var(--quiet); font-size: .85rem; }
.numbers dd { margin: 0; font-size: 1.5rem; font-weight: 600;
  font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; container-type: inline-size; background: #fff;
  border: 1px solid var(--line); border-radius: 10px; }
table { border-collapse: collapse; width: 100%; font-size: .87rem;
  font-variant-numeric: tabular-nums; }
caption { text-align: left; line-height: 1.6; padding: .8rem .5rem .4rem; color: var(--quiet); }
/* The table may be wider than the window; what explains it stays in sight. */
caption div { position: sticky; left: .5rem; width: 0;
  min-width: min(100%, 100vw - 7rem, 68rem); min-width: min(100%, 100cqw - 1rem); }
th, td { padding: .45rem .5rem; text-align: left; border-top: 1px solid var(--line);
  vertical-align: top; }
thead th { border-top: 0; color: var(--quiet); font-weight: 600; vertical-align: bottom;
  line-height: 1.25; }
tbody th { font-weight: 400; }
.number { text-align: right; white-space: nowrap; }
thead .number { white-space: normal; }
.alarm { color: var(--alarm); font-weight: 700; }
code { font: .92em ui-monospace, "Cascadia Mono", Menlo, Consolas, "Liberation Mono", monospace; }
.tag { display: inline-block; border: 1px solid currentColor; border-radius: 1em;
  padding: 0 .6em; font-size: .78rem; font-weight: 600; color: #8a5a00; white-space: nowrap; }
figure { margin: .9rem 0 0; }
figcaption { color: var(--quiet); font-size: .87rem; }
/* Narrower, the pictures' text would be too small: they are scrolled instead. */
.picture { overflow-x: auto; }
svg { display: block; width: 100%; min-width: 44rem; height: auto; }
footer { margin-top: 3rem; color: var(--quiet); font-size: .87rem; }
@media print { body { background: #fff; } .card { break-inside: avoid; } }
"""


def render_report(
    store: Store,
    path_html: str | Path,
    originals: Arrays | None = None,
    displacements: Arrays | None = None,
    title: str = "What was collected",
    data: dict[str, Any] | None = None,
) -> None:
    """Write the report as one HTML file with its pictures inside.

    originals: symbols as they came in; displacements: what replay.displacements
    gave; both by pseudonym in hexadecimal, for devices whose stream and random
    words are known. data: what report_data gave, with the same displacements;
    it is asked for here if absent, without names. Raises UserError when the file
    cannot be written.
    """
    if data is None:
        data = report_data(store, displacements)
    page = _page(store, data, originals or {}, displacements or {}, title)
    replace_file(path_html, page.encode(), REPORT)


def _page(
    store: Store, data: dict[str, Any], originals: Arrays, displacements: Arrays, title: str
) -> str:
    streams = data["streams"]
    tag = NO_CERTIFICATE_YET if data["uncertified"] else ""
    warnings = "".join(
        f'<div class="card warning" role="alert"><p>Warning: {escape(text)}</p></div>'
        for text in data["warnings"]
    )
    parts = [
        f"<h1>{escape(clean(title))}</h1>",
        '<div class="card protects"><p><strong>What is protected, and what is not.</strong> '
        f"{escape(data['protection'])} {escape(data['certificate'])}</p></div>",
        warnings,
        _numbers(data),
        *_estimates(store, data),
        *_crr(data),
        *_rounds(data),
        *_epochs(data),
        "<h2>Streams</h2>",
        _table(
            stream_columns(streams),
            streams,
            f"One row for each boot of a device. {streams_legend(streams)}",
            tag,
            "No device has been heard.",
        ),
        "<h2>Alarms</h2>",
        _table(ALARMS, data["alarms"], "What points to a fault or an attack.", tag, "No alarms."),
        "<h2>Rejected messages</h2>",
        _table(
            REJECTIONS,
            data["rejections"],
            rejections_legend(data["rejections"]),
            tag,
            "Nothing was rejected.",
        ),
        "<h2>Tasks</h2>",
        _table(TASKS, data["tasks"], "What the devices execute.", tag, "No Tasks."),
    ]
    # An oracle's single reports are mostly noise: only their estimates are drawn.
    drawn = [stream for stream in streams if is_drawn(store.task(stream["task"]))]
    if drawn:
        parts.append("<h2>Stream by stream</h2>")
    parts += _sections(store, drawn, originals, displacements)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n{GENERATOR}\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(clean(title))}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in parts if part)
        + f"\n{FOOTER}\n</main>\n</body>\n</html>\n"
    )


def _numbers(data: dict[str, Any]) -> str:
    asked = {table["task"] for table in data["rounds"] + data["epochs"]}
    streams = [stream for stream in data["streams"] if stream["task"] not in asked]
    numbers = [(len({stream["device"] for stream in data["streams"]}), "device", "")]
    for tables, unit, what in (
        (data["rounds"], "step", " of rounds"),
        (data["epochs"], "epoch", ""),
    ):
        if tables:
            steps = sum(table["steps_in_all"] for table in tables)
            numbers += [(steps, unit, what)]
    if asked:
        tables = data["rounds"] + data["epochs"]
        numbers += [
            (sum(table["publications"] for table in tables), "publication", ""),
            (sum(table["answers"] for table in tables), "answer", ""),
            (sum(sum(table["refusals"].values()) for table in tables), "refusal", ""),
        ]
    frames = [
        (sum(stream["values"] or 0 for stream in streams), "value", " released"),
        (sum(stream["received"] for stream in streams), "frame", " received"),
        (sum(stream["lost"] for stream in streams), "frame", " lost"),
    ]
    numbers += frames if streams or not asked else []
    numbers += [
        (len(data["alarms"]), "alarm", ""),
        (sum(row["count"] for row in data["rejections"]), "message", " rejected"),
    ]
    items = ""
    for n, noun, what in numbers:
        number, noun = counted(n, noun).split(" ")
        items += f"<div><dt>{noun}{what}</dt><dd>{number}</dd></div>"
    return f'<dl class="numbers">{items}</dl>'


def _estimates(store: Store, data: dict[str, Any]) -> list[str]:
    """What the reports say, Task by Task: first as numbers, then as pictures."""
    parts = ["<h2>Estimates</h2>"] if data["estimates"] or data["curves"] else []
    for number, table in enumerate(data["estimates"]):
        task = store.task(table["task"])
        if table["problem"] is None:
            body = [
                _table(
                    frequency_columns(table),
                    frequency_rows(table),
                    frequency_legend(table),
                    _tag(table),
                ),
                _figure(frequency_picture(f"f{number}", task, table), _said(_SHARES, table)),
                _figure(over_time_picture(f"t{number}", task, table), _said(_BANDS, table)),
            ]
        else:
            body = [_problem(table)]
        parts += _estimate("Frequencies", table, body)
    for number, table in enumerate(data["curves"]):
        task = store.task(table["task"])
        if table["problem"] is None:
            body = [
                _figure(curve_picture(f"c{number}", task, table), ""),
                _table(CURVE, curve_rows(table), curve_legend(table), _tag(table)),
            ]
        else:
            body = [_problem(table)]
        parts += _estimate("Mean curve", table, body)
    return parts


def _crr(data: dict[str, Any]) -> list[str]:
    """What the series of each Task of CRR come to."""
    parts = ["<h2>Series</h2>"] if data["crr"] else []
    for number, table in enumerate(data["crr"]):
        if table["problem"] is not None:
            body = [_problem(table)]
        else:
            body = [
                f"<p>{escape(crr_summary(table))}</p>",
                _figure(shares_picture(f"h{number}", table), _ALONE if alone(table) else _SMOOTHED),
                _table(crr_columns(table), crr_rows(table), crr_legend(table), _tag(table)),
                _figure(leakage_picture(f"l{number}", table), _TOLD),
                _table(
                    crr_told_columns(table),
                    crr_told_rows(table),
                    crr_told_legend(table),
                    _tag(table),
                ),
            ]
        parts += _estimate("Series", table, body)
    return parts


def _rounds(data: dict[str, Any]) -> list[str]:
    """What the rounds of each Task came to."""
    parts = ["<h2>Rounds</h2>"] if data["rounds"] else []
    for number, table in enumerate(data["rounds"]):
        tag = _tag(table)
        body = [f"<p>{escape(summary(table))}</p>"]
        if table["problem"] is not None:
            body.append(_problem(table))
        elif table["steps"]:
            if estimated(table):
                body += [
                    _figure(rounds_picture(f"r{number}", table), _said(_STEPS, table)),
                    _table(round_columns(table), round_rows(table), round_legend(table), tag),
                ]
            if decided(table):
                body.append(_figure(decisions_picture(f"d{number}", table), _DECISIONS))
            body += [
                _table(DECISIONS, decision_rows(table), decision_legend(table), tag),
            ]
        parts += _estimate("Rounds", table, [*body, *_answers(table)])
    return parts


def _epochs(data: dict[str, Any]) -> list[str]:
    """What the epochs of each Task came to."""
    parts = ["<h2>Epochs</h2>"] if data["epochs"] else []
    for number, table in enumerate(data["epochs"]):
        tag = _tag(table)
        body = [f"<p>{escape(epochs_summary(table))}</p>"]
        if table["problem"] is not None:
            body.append(_problem(table))
        elif table["steps"]:
            if not table["heavy"]:
                body.append(_figure(mean_picture(f"m{number}", table), _said(_MEANS, table)))
            elif item_rows(table):
                body += [
                    _figure(items_picture(f"i{number}", table), _said(_ITEMS, table)),
                    _table(ITEMS, item_rows(table), item_legend(table), tag),
                ]
            body += [
                _figure(votes_picture(f"v{number}", table), _VOTES),
                _table(epoch_columns(table), epoch_rows(table), epoch_legend(table), tag),
            ]
        parts += _estimate("Epochs", table, [*body, *_answers(table)])
    return parts


def _answers(table: dict[str, Any]) -> list[str]:
    tag = _tag(table)
    return [
        _table(ROUND_DEVICES, table["devices"], ROUND_DEVICES_LEGEND, tag),
        _table(REFUSALS, refusal_rows(table), "Refusals.", tag, "Nothing was refused."),
    ]


def _estimate(title: str, table: dict[str, Any], body: list[str]) -> list[str]:
    head = f"{title}, {table['mechanism']}"
    return [
        '<section class="card">',
        f"<h3>{escape(head)} <code>{escape(table['task'])}</code></h3>",
        *body,
        "</section>",
    ]


def _tag(table: dict[str, Any]) -> str:
    certificate = table["certificate"]
    return NO_CERTIFICATE_YET if certificate == UNCERTIFIED else f"certified: {certificate}"


def _problem(table: dict[str, Any]) -> str:
    said = " ".join([table["problem"], *table.get("left_out", [])])
    return f'<p>{escape(said)} <span class="tag">{escape(_tag(table))}</span></p>'


def _table(
    columns: list[Column], rows: list[dict[str, Any]], caption: str, tag: str, empty: str = ""
) -> str:
    if not rows:
        return f'<p class="quiet">{escape(empty)}</p>'
    head = "".join(
        f'<th scope="col"{_class(column)}>{escape(column.title)}</th>' for column in columns
    )
    body = "".join(
        "<tr>" + "".join(_cell(column, row, i == 0) for i, column in enumerate(columns)) + "</tr>\n"
        for row in rows
    )
    mark = f' <span class="tag">{escape(tag)}</span>' if tag else ""
    return (
        '<div class="scroll" tabindex="0"><table>'
        f"<caption><div>{escape(caption)}{mark}</div>"
        f"</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>"
    )


def _class(column: Column, alarm: bool = False) -> str:
    names = ["number"] * column.number + ["alarm"] * alarm
    return f' class="{" ".join(names)}"' if names else ""


def _cell(column: Column, row: dict[str, Any], first: bool) -> str:
    text = escape(column.cell(row))
    if column.code:
        text = f"<code>{text}</code>"
    attributes = _class(column, column.alarming(row))
    return f'<th scope="row"{attributes}>{text}</th>' if first else f"<td{attributes}>{text}</td>"


def _sections(
    store: Store, streams: list[dict[str, Any]], originals: Arrays, displacements: Arrays
) -> list[str]:
    boots = Counter(stream["device"] for stream in streams)
    parts = []
    for number, stream in enumerate(streams[:PICTURES]):
        device = stream["device"]
        # With several boots it is unknown which of them an original belongs to.
        alone = boots[device] == 1
        parts.append(
            _section(
                store,
                stream,
                f"s{number}",
                originals.get(device) if alone else None,
                displacements.get(device) if alone else None,
            )
        )
    if len(streams) > PICTURES:
        parts.append(
            f"<p>Pictures are shown of the first {PICTURES} of {len(streams)} streams.</p>"
        )
    return parts


def _section(store: Store, stream: dict[str, Any], key: str, original: Any, moved: Any) -> str:
    task = store.task(stream["task"])
    mixed = f", k = {stream['k']}, window {stream['window']}" if is_stream(task) else ""
    said = [
        f"{stream['mechanism']}{mixed}",
        f"link {stream['link']}",
        f"boot {stream['nonce']}",
        f"software {stream['software']}",
    ]
    name = escape(stream.get("name") or "Device")
    parts = [
        f'<section class="card" aria-labelledby="{key}-head">',
        f'<h3 id="{key}-head">{name} <code>{escape(stream["device"])}</code></h3>',
        f'<p class="quiet">{escape(" · ".join(said))}</p>',
    ]
    try:
        symbols, present = store.values(stream["boot"])
    except UserError as error:
        # One that claims the impossible does not cost the others their pictures.
        return "\n".join([*parts, f"<p>{escape(clean(error))}</p>", "</section>"])
    if len(symbols):
        averaged = is_stream(task) and mean_steps(len(symbols)) > 1
        caption = AVERAGES.format(window=task.window) if averaged else ""
        parts.append(_figure(series_picture(key, task, symbols, present, original), caption))
    else:
        parts.append('<p class="quiet">No value has arrived.</p>')
    if not is_stream(task):
        parts.append(_smoothed(task, key, stream, symbols, present, original))
        return "\n".join([*parts, "</section>"])
    caption = stream["displacement_law"]
    caption = caption[0].upper() + caption[1:]
    if stream["displacement_exact"] is not None:
        caption += f"; mean displacement {stream['displacement_exact']:.3f} steps"
    if stream["displacement_measured"] is not None:
        caption += (
            f"; measured {stream['displacement_measured']:.3f}, without two windows at each end"
            " of the stream"
        )
    if stream["too_short"]:
        caption = f"{caption.rstrip('.')}; not measured, as the stream is shorter than"
        caption += f" {MEASURABLE} windows"
    caption = caption.rstrip(".") + "."
    if stream["displacement_exact"] is None and stream["displacement_measured"] is None:
        parts.append(f'<p class="quiet">{escape(caption)}</p>')
    else:
        parts.append(_figure(law_picture(key + "d", task, moved), caption))
    parts.append("</section>")
    return "\n".join(parts)


def _smoothed(
    task: Task, key: str, stream: dict[str, Any], symbols: Any, present: Any, original: Any
) -> str:
    """A series of CRR beside what it most probably was."""
    try:
        found = decode(
            task,
            symbols[np.newaxis],
            present[np.newaxis],
            ended=stream["health"] == HEALTH[ENDED],
        )
    except UserError as error:
        return f"<p>{escape(clean(error))}</p>"
    known = found.known[0]
    table = task.rule == TABLE
    if not known.any():
        missing = "No whole block of it is" if table else "Its first release is not"
        return (
            f'<p class="quiet">{missing} there: nothing can be smoothed. What came is drawn above,'
            " and --csv writes it.</p>"
        )
    told = found.leakage[0][known]
    picture = smoothed_picture(
        f"{key}d",
        task,
        np.where(present, symbols, np.nan),
        known,
        found.posterior[0],
        found.leakage[0],
        original,
    )
    unit = "step" if task.block is None else "block"
    which = "that arrived" if table else "before the first loss"
    number = counted(int((known & present).sum()), "step")
    caption = (
        f"The releases {which}, {number}, told"
        f" {told.sum():.4g} nats of the series of values that they say most about, a {unit}"
        f" {told.max():.4g} at most."
    )
    return _figure(picture, caption)


def _said(caption: str, table: dict[str, Any]) -> str:
    """The caption, with how sure its intervals are."""
    return caption.format(sure=f"{100 * table['confidence']:g} %")


def _figure(picture: str, caption: str) -> str:
    said = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure><div class="picture" tabindex="0">{picture}</div>{said}</figure>'
