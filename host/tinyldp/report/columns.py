"""Which columns the tables have, on the page as in the terminal, and what they mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tinyldp.certify.bounds import digits_up
from tinyldp.figures import counted, fixed, percent
from tinyldp.laws import MEASURABLE
from tinyldp.report.crr import alone, releases
from tinyldp.report.data import HEALTH, QUALITY
from tinyldp.report.nats import mean_nats, most_nats
from tinyldp_protocol.messages import ENDED, RUNNING, TEST

Row = dict[str, Any]
_FINE = (HEALTH[None], HEALTH[RUNNING], HEALTH[ENDED])
_NONE = "–"  # noqa: RUF001
_TO = "–"  # noqa: RUF001
# Rows of an estimate's table.
MOST_VALUES = 20
MOST_KNOTS = 20
# Values with a column of their own, on a page.
MOST_SHARES = 6


def _plain(value: Any, row: Row) -> str:
    if value is None:
        return _NONE
    if isinstance(value, float):
        return fixed(value, 3)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _never(value: Any) -> bool:
    return False


@dataclass(frozen=True)
class Column:
    """A column: `key` of the row, its heading in full and in short.

    alarm: whether a value of it must not be overlooked. prose: its lines may be broken.
    """

    key: str
    title: str
    short: str
    number: bool = False
    code: bool = False
    prose: bool = False
    alarm: Callable[[Any], bool] = _never
    show: Callable[[Any, Row], str] = _plain

    def cell(self, row: Row) -> str:
        return self.show(row[self.key], row)

    def alarming(self, row: Row) -> bool:
        return self.alarm(row[self.key])


def _shouted(quality: str, row: Row) -> str:
    return "TEST" if quality == QUALITY[TEST] else quality


def _so_far(sent: int, row: Row) -> str:
    return f"≥{sent:,}" if row["sent_so_far"] else f"{sent:,}"


def _measured(mean: float | None, row: Row) -> str:
    return "too short" if row["too_short"] else _plain(mean, row)


def _millionths(probability: float | None, row: Row) -> str:
    return _NONE if probability is None else f"{probability:.6f}"


def _share(share: float | None, row: Row) -> str:
    return _NONE if share is None else f"{percent(share, 2)} %"


def _told(nats: float, row: Row) -> str:
    return mean_nats(nats)


def _most(nats: float, row: Row) -> str:
    return most_nats(nats, row["allowed"])


def _allowed(nats: float, row: Row) -> str:
    return digits_up(Fraction(nats))


def _deviation(variance: float, row: Row) -> str:
    return f"{100 * math.sqrt(variance):.2f} %"


def _three(x: float | None, row: Row) -> str:
    return _NONE if x is None else f"{x:.3g}"


def _four(x: float | None, row: Row) -> str:
    return _NONE if x is None else f"{x:.4f}"


def _refused(names: dict[str, int], row: Row) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in names.items()) or _NONE


_NAME = Column("name", "Name", "name")
_STREAMS = [
    Column("device", "Device", "device", code=True),
    Column("mechanism", "Mechanism", "mechanism"),
    Column("k", "k", "k", True),
    Column("sent", "Sent", "sent", True, show=_so_far),
    Column("received", "Received", "recv", True),
    Column("lost", "Lost", "lost", True, alarm=lambda n: n > 0),
    Column("duplicates", "Duplicate", "dup", True),
    Column("missing", "Missing", "miss", True),
    Column("drops", "Dropped", "drop", True, alarm=lambda n: bool(n)),
    Column("health", "Health", "health", alarm=lambda name: name not in _FINE),
    Column(
        "entropy",
        "Entropy",
        "entropy",
        alarm=lambda name: name == QUALITY[TEST],
        show=_shouted,
    ),
    Column("displacement_exact", "Moved, exact", "exact", True),
    Column("displacement_measured", "Moved, measured", "measured", True, show=_measured),
]
TASKS = [
    Column("task", "Task", "task", code=True),
    Column("mechanism", "Mechanism", "mechanism"),
    Column("k", "k", "k", True),
    Column("window", "Window", "window", True),
    Column("q", "Chance of each switch distance", "q", True, show=_millionths),
    Column("p", "Chance to stay", "p", True, show=_millionths),
    Column("symbols", "Symbols", "symbols", True),
    Column("batch", "Values a frame", "batch", True),
    Column("tick_ms", "Step, ms", "step ms", True),
    Column("certificate", "Certificate", "certificate"),
]
ALARMS = [
    Column("at", "First seen", "first seen"),
    Column("name", "Alarm", "alarm"),
    Column("detail", "What happened", "what happened", prose=True),
]
REJECTIONS = [
    Column("link", "Link", "link"),
    Column("name", "Reason", "reason"),
    Column("count", "Messages", "messages", True),
]

ROUND_DEVICES = [
    Column("device", "Device", "device", code=True),
    Column("asked", "Asked", "asked", True),
    Column("answered", "Answered", "answered", True),
    Column("rate", "Of those", "of those", True, show=_share),
    Column("refusals", "Refused", "refused", show=_refused),
]
REFUSALS = [
    Column("name", "Reason", "reason"),
    Column("count", "Refusals", "refusals", True),
    Column("meaning", "What it means", "what it means", prose=True),
]
DECISIONS = [
    Column("t", "Step", "step", True),
    Column("outcome", "Decided", "decided"),
    Column("dis", "Dissimilarity", "dis", True, show=_three),
    Column("err", "Error of a publication", "err", True, show=_three),
    Column("dissimilarity_epsilon", "Spent on that, ε", "ε for dis", True, show=_four),
    Column("epsilon", "Spent on a publication, ε", "ε for it", True, show=_four),
    Column("units", "The same, units", "units", True),
    Column("n", "Answers to it", "n", True),
    Column("answered", "All answers", "answers", True),
    Column("asked", "Asked for", "asked", True),
    Column("users", "Devices there", "devices", True),
]
EPOCH_STEPS = [
    Column("t", "Epoch", "epoch", True),
    Column("outcome", "Decided", "decided"),
    Column("mean", "Published mean, raw", "mean", True),
    Column("low", "At least", "at least", True),
    Column("high", "At most", "at most", True),
    Column("since", "Estimated in", "since", True),
    Column("share", "Votes for an update", "votes", True, show=_share),
    Column("needed", "Needed for it", "needed", True, show=_share),
    Column("votes_n", "Votes in all", "of", True),
    Column("n", "Answers to the estimate", "estimates", True),
    Column("users", "Devices there", "devices", True),
    Column("live", "Devices with votes left", "votes left"),
]
_CRR_TOLD = [
    Column("total", "By all so far", "in all", True, show=_told),
    Column("most", "Most of a device so far", "most", True, show=_most),
    Column("allowed", "Allowed at most", "allowed", True, show=_allowed),
    Column("learned", "Learned on average so far", "learned", True, show=_told),
]
_OF_MEANS = ("mean", "low", "high")
ITEMS = [
    Column("t", "Epoch", "epoch", True),
    Column("item", "Item", "item", True),
    Column("frequency", "Estimate, raw", "estimate", True, show=_share),
    Column("low", "At least", "at least", True, show=_share),
    Column("high", "At most", "at most", True, show=_share),
    Column("n", "Answers", "answers", True),
]
_MEANINGS = {
    "late question": "asked about a step before the last one that the device was asked about, as"
    " by a database that does not know of it, or its value was no longer kept",
    "early question": "the device's step had not changed yet; it is asked again",
    "foreign": "asked under another Task",
    "unknown entry": "asked for a spend that the Task does not have",
    "budget": "a window would have exceeded what it may spend",
    "waiting": "the ledger was lost: a whole window is waited out",
    "lost": "it was spent before a reset, and no answer is stored",
}

_EPOCH_MEANINGS = {
    "late question": "asked about an epoch before the last one that it was asked about, as by a"
    " database that does not know of it",
    "early question": "had completed no epoch of its own since the last one; it is asked again",
    "foreign": "asked under another Task",
    "unknown entry": "asked for what the Task does not have",
    "budget": "its counters for life were lost or damaged: it says nothing any more",
    "lost": "it was counted before a reset, and no answer is stored",
}

_VALUE = [Column("value", "Value", "value", True)]
_STANDS_FOR = [Column("name", "Stands for", "stands for")]
_FREQUENCIES = [
    Column("frequency", "Estimate, raw", "estimate", True, show=_share),
    Column("variance", "Standard deviation", "s.d.", True, show=_deviation),
    Column("low", "At least", "at least", True, show=_share),
    Column("high", "At most", "at most", True, show=_share),
    Column("support", "Reports for it", "reports", True),
]
CURVE = [
    Column("step", "Step", "step", True),
    Column("mean", "Mean, estimated", "estimate", True),
    Column("deviation", "Standard deviation", "s.d.", True),
    Column("low", "At least", "at least", True),
    Column("high", "At most", "at most", True),
    Column("released", "Released mean", "released", True),
]

_STREAMS_LEGEND = (
    "Counts are of frames. Sent: made by the device, by its last status, which may lag; ≥ while"
    " it has not ended. Lost: will never come. Duplicate: came again, not counted again."
    " Missing: made, but not here yet. Dropped: given up by the device, whose outbox was full."
    " Moved: mean displacement in steps, by the exact law and as measured, where a device's"
    f" random words are known and its stream is at least {MEASURABLE} windows long."
)
_STREAMS_SHORT = (
    "Frames: sent by the device's last status, may lag (≥: it goes on); lost for good; dup: came"
    " again; miss: not here yet; drop: given up by the device. exact, measured: mean displacement"
    " in steps."
)
_ROUNDS_LEGEND = (
    "Rounds: counts are of answers. Sent: given by the device since it started, by its last"
    " status; ≥ while it goes on. Received: counted, in time. Duplicate: came again. Nothing is"
    " lost or missing by number: an answer that came too late is among the rejected."
)
_ROUNDS_SHORT = (
    "Rounds: answers; sent by the device (≥: it goes on); recv: counted; dup: came again; lost"
    " and miss: always 0, as late answers are among the rejected."
)
_REJECTED = {
    "no hello": "is no fault: the host asked for the device's hello, and what it said comes again",
    "late answer": "came when its phase was over, and changes nothing any more",
    "not asked": "is about a step and phase in which that device was not asked",
    "other entry": "spent something else than was asked for",
    "bad report": "holds what no device can have drawn",
    "conflict": "has other contents than what is stored in its place",
    "other boot": "came from a boot that is known under another Task",
}


def streams_legend(rows: list[Row], short: bool = False) -> str:
    """What the counts of streams are of: frames, or in rounds answers."""
    frames, answers = (
        (_STREAMS_SHORT, _ROUNDS_SHORT) if short else (_STREAMS_LEGEND, _ROUNDS_LEGEND)
    )
    rounds = {row["rounds"] for row in rows}
    return " ".join([frames] * (rounds != {True}) + [answers] * (True in rounds))


def rejections_legend(rows: list[Row]) -> str:
    """What the names mean that are there."""
    there = {row["name"] for row in rows}
    said = [f"“{name}” {what}." for name, what in _REJECTED.items() if name in there]
    return " ".join(["Counted, and not used.", *said])


def stream_columns(rows: list[Row]) -> list[Column]:
    """The columns for streams; their names come first where report_data was given any."""
    return [_NAME, *_STREAMS] if any("name" in row for row in rows) else _STREAMS


def frequency_columns(table: Row) -> list[Column]:
    """The columns of one Task's frequencies: what its values stand for if that is known."""
    columns = _VALUE + _STANDS_FOR * (table["values"][0]["name"] is not None) + _FREQUENCIES
    if table["postprocessing"] is not None:
        name = table["postprocessing"]
        columns = [*columns, Column("postprocessed", f"After {name}", name, True, show=_share)]
    return columns


def frequency_rows(table: Row) -> list[Row]:
    """The rows that are shown: all, or the most frequent by the estimate, by value."""
    values = sorted(table["values"], key=lambda row: -row["frequency"])[:MOST_VALUES]
    return sorted(values, key=lambda row: row["value"])


def frequency_legend(table: Row) -> str:
    """What the frequencies of one Task are about."""
    said = (
        f"Shares among {counted(table['reports'], 'report')} that came, of"
        f" {counted(table['devices'], 'device')}."
        " Raw: unbiased, and so sometimes below 0 or above 1. At least, at most: each interval"
        f" alone holds the true share with {100 * table['confidence']:g} %."
    )
    if table["postprocessing"] is not None:
        said += f" After {table['postprocessing']}: biased, and the intervals are not its own."
    if len(table["values"]) > MOST_VALUES:
        said += (
            f" Shown are the {MOST_VALUES} most frequent by the estimate, of"
            f" {len(table['values']):,}: such a choice favours those that noise made larger."
        )
    return " ".join([said, *table["left_out"]])


def epoch_columns(table: Row) -> list[Column]:
    """The columns of one Task's epochs: of items there is no mean."""
    return [c for c in EPOCH_STEPS if not table["heavy"] or c.key not in _OF_MEANS]


def epoch_rows(table: Row) -> list[Row]:
    """Some of the epochs, evenly spread."""
    rows = []
    for step in _spread(table["steps"]):
        live = _NONE
        if step["poll"] is not None:
            low, high = (percent(step[f"poll_{name}"], 0) for name in ("low", "high"))
            live = f"{percent(step['poll'], 0)} % ({low} to {high})"
        rows.append({**step, "live": live})
    return rows


def epoch_legend(table: Row) -> str:
    """What the epochs of one Task are about."""
    said = (
        "An update is made where more devices vote for it than needed, and for the first epoch in"
        " any case; between updates the last estimate stands."
    )
    if not table["heavy"]:
        said += (
            " Means are raw: unbiased, and so sometimes below 0 or above 1, where no mean can be."
            " At least, at most: cut to what it can be, each interval alone holds the mean of its"
            " epoch with 95 %, as far as devices have votes left; it is wide where few votes may"
            " not show that the mean has moved."
        )
    said += " Votes left: from the devices' randomized answers, raw, with a 95 % interval."
    return said + _some(table)


def item_rows(table: Row) -> list[Row]:
    """The heavy items of all updates, the most frequent first."""
    return [
        {"t": found["t"], "n": found["n"], **item}
        for found in table["found"]
        for item in found["items"][:MOST_VALUES]
    ]


def item_legend(table: Row) -> str:
    """What the items of one Task are about."""
    said = (
        "At each update the items whose share is above 0 beyond doubt: with 95 % all intervals"
        f" of the {table['dictionary']:,} items hold at once, and none of twice this error or more"
        " is missing:"
    )
    errors = [f"epoch {f['t']:,}: {100 * f['error']:.2f} %" for f in table["found"]]
    cut = sum(len(found["items"]) > MOST_VALUES for found in table["found"])
    more = f" Shown are {MOST_VALUES} of each update; --csv writes all." if cut else ""
    return f"{said} {', '.join(errors)}.{more}"


def crr_columns(table: Row, values: int = MOST_SHARES) -> list[Column]:
    """The columns of one Task's shares, one for each of so many followed values."""
    names = table["names"] or [f"{value:,}" for value in table["followed"]]
    return [
        Column("step", "Step", "step", True),
        Column("devices", "Devices known", "devices", True),
        *(
            Column(f"value {table['followed'][i]}", f"{names[i]}, %", f"{names[i]}, %", True)
            for i in _frequent(table, values)
        ),
    ]


def _frequent(table: Row, values: int) -> list[int]:
    """Places of the most frequent ones of the followed values, by value."""
    means = [
        -sum(step["smoothed"][i] for step in table["steps"]) for i in range(len(table["followed"]))
    ]
    return sorted(sorted(range(len(means)), key=means.__getitem__)[:values])


def crr_rows(table: Row) -> list[Row]:
    """Some of the steps, evenly spread."""
    rows = []
    for step in _spread(table["steps"]):
        row = dict(step)
        for i, value in enumerate(table["followed"]):
            smoothed, low, high = (100 * step[name][i] for name in ("smoothed", "low", "high"))
            interval = "" if alone(table) else f" ({low:.1f}{_TO}{high:.1f})"
            row[f"value {value}"] = f"{smoothed:.1f}{interval}"
        rows.append(row)
    return rows


def crr_legend(table: Row, values: int = MOST_SHARES) -> str:
    """What the shares of one Task of CRR are about, of which so many are shown."""
    said = (
        "Of one device there are no shares: this is each value's probability at its steps, given"
        " all that the device released, earlier and later, if its series follows the Task's chain."
        if alone(table)
        else "Smoothed: the mean probability of each value given all that a device released,"
        " earlier and later. Right on average where series follow the Task's chain, and then each"
        f" interval alone holds the true share with {100 * table['confidence']:g} %, for tens of"
        " devices or more."
    )
    if table["block"] is not None and not alone(table):
        said += " Of blocks there are no raw shares, which would be right whatever the series are."
    if values < table["symbols"]:
        followed = len(table["followed"])
        said += (
            f" Shown are the {counted(min(values, followed), 'most frequent value')} of"
            f" {table['symbols']}"
        )
        said += f"; --csv writes {followed}." if values < followed else "."
    return said + _some(table)


def crr_told_columns(table: Row) -> list[Column]:
    """The columns of what one Task of CRR told, by releases: of steps or of blocks."""
    block = table["block"] is not None
    return [
        Column(
            "step",
            "Block's first step" if block else "Step",
            "from step" if block else "step",
            True,
        ),
        Column("leakage", f"Told by a {'block' if block else 'release'}", "told", True, show=_told),
        *_CRR_TOLD,
    ]


def crr_told_rows(table: Row) -> list[Row]:
    """What was told by some of the releases, evenly spread."""
    return _spread(releases(table))


def crr_told_legend(table: Row) -> str:
    """What the leakage of one Task of CRR is about."""
    block = table["block"]
    release = "a release" if block is None else f"the release of a block of {block} steps"
    allowed = (
        "what the device's own belief allows all releases so far at most; what is certified against"
        " the exact belief, and of sequences, is in the certificate."
    )
    if table["rule"] == "table":
        allowed = (
            "what the table allows all releases so far at most; what holds of sequences, and if the"
            " chain is another, is in the certificate."
        )
    said = (
        f"In nats. Told: by how many nats {release} made some value likelier or less likely, on"
        f" average over devices. Most: of a device. Allowed: {allowed} Learned: of the values"
        " behind all releases so far, by how many nats a guess at them improved on average."
    )
    number = len(releases(table))
    shown = len(crr_told_rows(table))
    if shown < number:
        unit = "steps" if block is None else "blocks"
        said += f" Shown are {shown} of {number:,} {unit}; --csv writes all."
    return said


_DECISIONS_LEGEND = (
    "A publication is made where the dissimilarity from the last one exceeds the error that it"
    " would have. Each device that was asked spent what stands there, on the dissimilarity where"
    " the method looks at it, and on the publication. Units are 2^-16 of an ε."
)
ROUND_DEVICES_LEGEND = "Asked: questions that meant the device while it was there."


def round_columns(table: Row) -> list[Column]:
    """The columns of one Task's estimates by step, one for each followed value."""
    names = table["names"] or [f"{value:,}" for value in table["followed"]]
    return [
        Column("t", "Step", "step", True),
        *(
            Column(f"value {value}", f"{name}, raw ({_sure(table)} interval)", name, True)
            for value, name in zip(table["followed"], names, strict=True)
        ),
        Column("since", "Published at", "since", True),
    ]


def _sure(table: Row) -> str:
    return f"{100 * table['confidence']:g} %"


def round_rows(table: Row) -> list[Row]:
    """Some of the steps' estimates, evenly spread."""
    rows = []
    for step in _spread(table["steps"]):
        row = {"t": step["t"], "since": step["since"]}
        for i, value in enumerate(table["followed"]):
            cell = _NONE
            if step["frequencies"] is not None:
                raw, low, high = (
                    percent(step[name][i], 1) for name in ("frequencies", "low", "high")
                )
                cell = f"{raw} ({low} to {high}) %"
            row[f"value {value}"] = cell
        rows.append(row)
    return rows


def round_legend(table: Row) -> str:
    """What the estimates of one Task's rounds are about."""
    said = (
        "Raw estimates of each value's share, of the devices that answered: unbiased, and so"
        " sometimes below 0 or above 100 %. In brackets the interval that alone holds the share"
        f" with {_sure(table)}, by the integers of the entry that was asked for; where nothing was"
        " published, the last publication stands."
    )
    return said + _some(table)


def decision_rows(table: Row) -> list[Row]:
    """Some of the steps' decisions, evenly spread."""
    return _spread(table["steps"])


def decision_legend(table: Row) -> str:
    """What the decisions of one Task's rounds are about."""
    return _DECISIONS_LEGEND + _some(table)


def refusal_rows(table: Row) -> list[Row]:
    """One for each reason that was given."""
    meanings = _EPOCH_MEANINGS if "heavy" in table else _MEANINGS
    return [
        {"name": name, "count": n, "meaning": meanings.get(name, "")}
        for name, n in table["refusals"].items()
    ]


def _spread(steps: list[Row]) -> list[Row]:
    return steps[:: max(1, -(-len(steps) // MOST_KNOTS))]


def _some(table: Row) -> str:
    shown = len(_spread(table["steps"]))
    if shown == table["steps_in_all"]:
        return ""
    unit = "epochs" if "heavy" in table else "steps"
    return f" Shown are {shown} of {table['steps_in_all']:,} {unit}; --csv writes all."


def curve_rows(table: Row) -> list[Row]:
    """Some of the curve's knots, evenly spread over its steps."""
    number = len(table["steps"])
    chosen = range(0, number, max(1, -(-number // MOST_KNOTS)))
    rows = []
    for i in chosen:
        step = round(table["steps"][i])
        rows.append(
            {
                "step": step,
                "mean": table["means"][i],
                "deviation": math.sqrt(table["variances"][i]),
                "low": table["low"][i],
                "high": table["high"][i],
                "released": table["released"][step],
            }
        )
    return rows


def curve_legend(table: Row) -> str:
    """What the curve of one Task is about."""
    knots = (
        ""
        if table["every"] == 1
        else (f" The curve is taken as straight between knots {table['every']:.1f} steps apart.")
    )
    return (
        f"Mean symbol of what came in, over {counted(table['devices'], 'device')} by the step of"
        f" their segments, with the shuffling undone by its exact law.{knots} Each interval alone"
        f" holds the mean with {100 * table['confidence']:g} %, for many devices; its noise is"
        f" {table['noise']:.3g} times that of a released mean."
    )
