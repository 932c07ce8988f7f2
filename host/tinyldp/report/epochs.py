"""What epochs of Thresh and HeavyThresh came to: published estimates, votes, polls, refusals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tinyldp.coordinate import EXHAUSTED
from tinyldp.coordinate.epochs import CONFIDENCE
from tinyldp.errors import UserError
from tinyldp.estimate.heavy import FrequencyOracle, Told
from tinyldp.figures import counted, fixed
from tinyldp.report.rounds import device_row, refusals, totals
from tinyldp.report.symbols import clean, moment
from tinyldp.study import EPSILON_UNIT, TITLES
from tinyldp_protocol.messages import put_answer, put_query
from tinyldp_protocol.task import HEAVYTHRESH, Task

if TYPE_CHECKING:
    from tinyldp.collect.records import EpochRow, Question
    from tinyldp.collect.store import Store

# Of a step, in a file; those of OF_MEANS only where means are estimated.
EPOCH_COLUMNS = (
    *("t", "outcome", "update", "published", "mean", "low", "high", "since"),
    *("estimate_low", "estimate_high", "drift", "ones", "votes_n", "share", "needed", "n"),
    *("users", "asked", "answered", "poll", "poll_low", "poll_high"),
)
OF_MEANS = ("mean", "low", "high", "estimate_low", "estimate_high")


def epoch_tables(
    store: Store, tasks: Mapping[str, Task], progress: Told | None = None
) -> list[dict[str, Any]]:
    """For each Task with epochs what these came to.

    "steps": one entry for each epoch with "t", "outcome" (coordinate's EPOCH_OUTCOMES), "update"
    (devices were asked for one), "published", "since" (the epoch whose estimate stands), "ones"
    (votes for an update) of "votes_n", their "share" and the one that is "needed", "n" (answers to
    the estimate), "users" (devices that were there), "asked" and "answered" (in both phases),
    "drift" (how far what was published may have moved since), and "poll", "poll_low",
    "poll_high": share of devices with votes left, None where it was not asked. Of
    Thresh also "mean" (raw, as a share of the largest value), "estimate_low" and "estimate_high"
    (of the epoch that it was estimated in), "low" and "high" (of this epoch); None before the first
    estimate. "confidence": that of all intervals. "heavy": whether it is HeavyThresh; then "found":
    for each update that was published "t", "n", "error" and "items" with "item", "frequency",
    "low", "high" (heavy.FrequencyOracle.heavy_hitters, which tells `progress`). "outcomes": epochs
    by outcome; "updates", "publications", "exhausted": how many. "refusals", "devices", "answers",
    "answer_bytes", "query_bytes": as of rounds. "begins": when the first question can leave, in
    UTC, None once one has or while no device was heard. "problem": why there is nothing else, or
    None.
    """
    of_epochs = [(name, task) for name, task in tasks.items() if task.epochs is not None]
    return [_table(store, name, task, progress) for name, task in of_epochs]


def _table(store: Store, task_id: str, task: Task, progress: Told | None) -> dict[str, Any]:
    rows = store.epochs(task_id)
    asked = {(question.t, question.phase): question for question in store.questions(task_id)}
    peers = store.peers(task_id)
    assert task.epsilon is not None
    table: dict[str, Any] = {
        "task": clean(task_id),
        "mechanism": TITLES[task.mechanism],
        "heavy": task.mechanism == HEAVYTHRESH,
        "epsilon": task.epsilon / EPSILON_UNIT,
        "confidence": CONFIDENCE,
        "epochs": task.epochs,
        "rounds": task.rounds,
        "votes": task.votes,
        "estimates": task.estimates,
        "polls": task.polls or 0,
        "dictionary": task.symbols,
        "steps_in_all": len(rows),
        "outcomes": totals([(row.outcome, 1) for row in rows]),
        # One whose decision is missing was asked for all the same.
        "updates": sum(question.entry for question in asked.values() if question.phase),
        "publications": sum(row.published for row in rows),
        "exhausted": sum(row.outcome == EXHAUSTED for row in rows),
        "answers": sum(question.answered for question in asked.values()),
        "answer_bytes": put_answer(None, 0, bytes(4), 0, 0, 0, bytes(task.payload)),
        "query_bytes": put_query(None, 0, bytes(8), 0, 0, 0, 0, 1),
        "refusals": refusals(peers),
        "devices": [device_row(peer) for peer in peers],
        "steps": [],
        "found": [],
        "begins": _begins(store, task_id, task) if not asked else None,
        "problem": None,
    }
    try:
        table["steps"] = _steps(task_id, task, rows, asked)
        if table["heavy"]:
            table["found"] = [_found(task, row, progress) for row in rows if row.published]
    except UserError as error:
        table["steps"] = []
        table["problem"] = clean(error)
    return table


def _begins(store: Store, task_id: str, task: Task) -> str | None:
    """When the first question can leave, in UTC: devices have completed an epoch by then."""
    heard = store.first_heard(task_id)
    if heard is None:
        return None
    return moment(heard + (task.beacon + task.rounds) * task.tick)


def _steps(
    task_id: str, task: Task, rows: list[EpochRow], asked: Mapping[tuple[int, int], Question]
) -> list[dict[str, Any]]:
    size = 1 if task.mechanism != HEAVYTHRESH else task.coordinates
    steps = []
    standing: EpochRow | None = None
    for row in rows:
        if not _is_whole(row, size):
            raise UserError(f"Epoch {row.t} of Task {task_id} is damaged.")
        if row.published:
            standing = row
        steps.append(_step(row, standing, asked, size == 1))
    return steps


def _is_whole(row: EpochRow, size: int | None) -> bool:
    if row.published:
        if len(row.release) != size or not row.n or not all(map(math.isfinite, row.release)):
            return False
        if size == 1 and row.low is None:
            return False
    together = ((row.low, row.high), (row.poll, row.poll_low, row.poll_high))
    there = all(len({value is None for value in values}) == 1 for values in together)
    return there and row.ones <= row.votes_n


def _step(
    row: EpochRow,
    standing: EpochRow | None,
    asked: Mapping[tuple[int, int], Question],
    of_means: bool,
) -> dict[str, Any]:
    questions = [asked[row.t, phase] for phase in (0, 1) if (row.t, phase) in asked]
    step: dict[str, Any] = {
        "t": row.t,
        "outcome": clean(row.outcome),
        "update": row.update,
        "published": row.published,
        "since": None if standing is None else standing.t,
        "drift": row.drift,
        "ones": row.ones,
        "votes_n": row.votes_n,
        "share": row.ones / row.votes_n if row.votes_n else None,
        "needed": row.needed,
        "n": row.n,
        "users": row.users,
        "asked": sum(question.meant for question in questions),
        "answered": sum(question.answered for question in questions),
        "poll": row.poll,
        "poll_low": row.poll_low,
        "poll_high": row.poll_high,
    }
    if of_means:
        step |= dict.fromkeys(OF_MEANS)
        if standing is not None:
            step |= {
                "mean": standing.release[0],
                "low": row.low,
                "high": row.high,
                "estimate_low": standing.low,
                "estimate_high": standing.high,
            }
    return step


def _found(task: Task, row: EpochRow, progress: Told | None) -> dict[str, Any]:
    found = FrequencyOracle(task, row.release, row.n).heavy_hitters(progress=progress)
    columns = (found.items, found.frequencies, found.low, found.high)
    names = ("item", "frequency", "low", "high")
    return {
        "t": row.t,
        "n": row.n,
        "error": found.error,
        "items": [
            dict(zip(names, item, strict=True))
            for item in zip(*(column.tolist() for column in columns), strict=True)
        ],
    }


def epochs_summary(table: Mapping[str, Any]) -> str:
    """What one Task's epochs came to, in a few sentences."""
    outcomes = ", ".join(f"{n:,} {name}" for name, n in table["outcomes"].items())
    said = f"{table['steps_in_all']:,} of {table['epochs']:,} epochs are decided"
    said += f": {outcomes}." if outcomes else "."
    said += f" Updates asked for: {table['updates']:,}."
    said += f" {counted(table['answers'], 'answer')} of {counted(len(table['devices']), 'device')};"
    said += f" an answer takes {table['answer_bytes']} bytes, a query {table['query_bytes']}."
    said += (
        f" A device says something of its data in no more than {counted(table['votes'], 'vote')}"
        f" and {counted(table['estimates'], 'estimate')}, in all its life under this Task,"
    )
    if table["polls"]:
        said += f" and in {counted(table['polls'], 'poll')} whether it has votes left,"
    said += f" for which it pays ε {math.ceil(table['epsilon'] * 10_000) / 10_000:g}."
    said += _exhausted(table)
    if table["begins"] is not None:
        said += (
            f" Nothing was asked yet: the first question leaves at {table['begins']} at the"
            " earliest, while collect runs, when devices have completed an epoch of their own."
        )
    last = table["steps"][-1] if table["steps"] else None
    if last is not None and last.get("mean") is not None and last["low"] is not None:
        raw = ""
        if not round(last["low"], 3) <= round(last["mean"], 3) <= round(last["high"], 3):
            raw = (
                " (raw: noise takes it beyond what the mean can be, which lies between 0 and 1 in"
                " any case)"
            )
        said += (
            f" The estimate of epoch {last['since']:,} stands, {fixed(last['mean'], 3)}{raw}; the"
            f" mean of epoch {last['t']:,} lies between {last['low']:.3f} and {last['high']:.3f}"
            " with 95 %."
        )
    said += _too_few(last)
    if last is not None and last["since"] is None and not table["exhausted"]:
        said += " Nothing was published yet."
    return said


def _too_few(last: Mapping[str, Any] | None) -> str:
    """That no vote can pass, because there are too few of them."""
    if last is None or last["needed"] is None or last["needed"] < 1:
        return ""
    return (
        f" From {counted(last['votes_n'], 'vote')}, as in epoch {last['t']:,}, no further update"
        f" can follow: it would take {100 * last['needed']:.0f} % of them, as noise hides what so"
        " few say. It takes more devices, about as many as the study was planned for."
    )


def _exhausted(table: Mapping[str, Any]) -> str:
    """That no update was made any more, why, and what stands."""
    if not table["exhausted"]:
        return ""
    if table["updates"] < table["estimates"]:
        why = (
            "devices have answered epochs that this database does not know, and may have no"
            " estimates left"
        )
    elif table["publications"]:
        why = "estimates are exhausted"
    else:
        why = "all estimates were asked for, and no answer came"
    stands = "the last one stands" if table["publications"] else "nothing is published"
    return (
        f" In {counted(table['exhausted'], 'epoch')} an update was voted for, but {why}: {stands},"
        " until devices have another Task."
    )
