"""What rounds came to: estimates step by step, decisions, refusals, who answered how often."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tinyldp.coordinate import entry_task
from tinyldp.coordinate.schedules import fewest
from tinyldp.errors import UserError
from tinyldp.estimate import Estimate, frequencies, supports
from tinyldp.figures import counted
from tinyldp.report.estimates import FOLLOWED
from tinyldp.report.symbols import clean, symbol_name
from tinyldp.study import EPSILON_UNIT, METHOD_TITLES, TITLES
from tinyldp_protocol.messages import (
    BUDGET,
    EARLY,
    FOREIGN,
    LATE,
    LOST,
    UNKNOWN,
    WAITING,
    put_answer,
    put_query,
)
from tinyldp_protocol.task import GRR, LBA, LBD, LPA, LPD, Task

if TYPE_CHECKING:
    from tinyldp.collect.records import DecisionRow, Peer, Question
    from tinyldp.collect.store import Store

# Steps that are estimated with intervals; of more, every second, third...
MOST_STEPS = 2000
# Half an interval from which on it is as wide as all that a share can be, and one that says much.
_SAYS_NOTHING = 0.5
_SAYS_MUCH = 0.1
REASONS = {
    LATE: "late question",
    EARLY: "early question",
    FOREIGN: "foreign",
    UNKNOWN: "unknown entry",
    BUDGET: "budget",
    WAITING: "waiting",
    LOST: "lost",
}


def rounds_tables(
    store: Store, tasks: Mapping[str, Task], confidence: float
) -> list[dict[str, Any]]:
    """For each Task with a method what its rounds came to.

    "steps": one entry for each step (every `every`-th, when there are more than MOST_STEPS)
    with "t", "outcome" (coordinate's OUTCOMES), "published", "dis", "err", "units" (ledger
    units that a publication cost each who was asked) and "epsilon" (the same as an epsilon),
    "users" (devices that were there), "asked" and "answered" (in all phases), "n" (answers
    to the publication), "dissimilarity_units" and "dissimilarity_epsilon" (spent likewise on
    the dissimilarity, by methods that ask for it, None for others), "since" (t of the
    publication that stands), and for the followed values "frequencies" (raw), "variances", "low",
    "high" by the integers of the entry that was used; None before the first publication.
    "followed": values, all, or of more than FOLLOWED the most frequent on average.
    "outcomes": steps by outcome; "refusals": by reason; "devices": by device "asked"
    (questions that meant it), "answered", "rate" and "refusals". "cfpu": answers for each
    device and step; "cfpu_asked": questions that meant one. "answer_bytes", "query_bytes": of
    one message. "problem": why there are no estimates, or None. "fewest": devices that fill each
    group which is asked, "most_users": those that were there at the most.
    """
    return [
        _table(store, task_id, task, confidence)
        for task_id, task in tasks.items()
        if task.method is not None
    ]


def rounds_title(task: Task) -> str:
    """Such as "LBA over GRR"; the Task has a method."""
    assert task.method is not None
    return f"{METHOD_TITLES[task.method]} over {TITLES[task.mechanism]}"


def _table(store: Store, task_id: str, task: Task, confidence: float) -> dict[str, Any]:
    decisions = store.decisions(task_id)
    asked = {(question.t, question.phase): question for question in store.questions(task_id)}
    peers = store.peers(task_id)
    every = max(1, -(-len(decisions) // MOST_STEPS))
    there = sum(row.users for row in decisions)
    assert task.epsilon is not None
    table: dict[str, Any] = {
        "task": clean(task_id),
        "mechanism": rounds_title(task),
        "w": task.w,
        "epsilon": task.epsilon / EPSILON_UNIT,
        "confidence": confidence,
        "every": every,
        "fewest": fewest(task),
        "most_users": max((row.users for row in decisions), default=0),
        "steps_in_all": len(decisions),
        "outcomes": totals([(row.outcome, 1) for row in decisions]),
        "publications": sum(row.published for row in decisions),
        "answers": sum(question.answered for question in asked.values()),
        "cfpu": _ratio(sum(question.answered for question in asked.values()), there),
        "cfpu_asked": _ratio(sum(question.meant for question in asked.values()), there),
        "answer_bytes": put_answer(None, 0, bytes(4), 0, 0, 0, bytes(task.payload)),
        "query_bytes": put_query(None, 0, bytes(8), 0, 0, 0, 0, 1),
        "refusals": refusals(peers),
        "devices": [device_row(peer) for peer in peers],
        "followed": [],
        "names": None,
        "steps": [],
        "problem": None,
    }
    try:
        if any(len(row.release) != task.symbols or not _finite(row.release) for row in decisions):
            raise UserError(f"The decisions of Task {task_id} are damaged.")
        followed = _followed(decisions)
        table["followed"] = followed
        if task.bins is not None:
            table["names"] = [symbol_name(task, value) for value in followed]
        shown = decisions[::every]
        since = _since(decisions, every)
        found = _estimates(store, task_id, task, asked, set(since), confidence)
        table["steps"] = [
            _step(task, row, origin, found, asked, followed)
            for row, origin in zip(shown, since, strict=True)
        ]
    except UserError as error:
        table["problem"] = clean(error)
    except (IndexError, TypeError, ValueError):
        # Rows that somebody has edited.
        table["problem"] = f"The rounds of Task {task_id} are damaged."
    return table


def _finite(numbers: tuple[float, ...]) -> bool:
    return all(map(math.isfinite, numbers))


def _reason(reason: int) -> str:
    return REASONS.get(reason, f"unknown code {reason}")


def totals(pairs: list[tuple[str, int]]) -> dict[str, int]:
    """Sums by name."""
    found: dict[str, int] = {}
    for name, n in pairs:
        found[clean(name)] = found.get(clean(name), 0) + n
    return found


def refusals(peers: list[Peer]) -> dict[str, int]:
    """Of all devices, by the name of the reason."""
    return totals(
        [(_reason(reason), n) for peer in peers for reason, n in sorted(peer.refusals.items())]
    )


def _ratio(n: int, of: int) -> float | None:
    return n / of if of else None


def device_row(peer: Peer) -> dict[str, Any]:
    """What was asked of a device, and what it answered and refused."""
    return {
        "device": clean(peer.pseudonym),
        "asked": peer.asked,
        "answered": peer.answers,
        "rate": _ratio(peer.answers, peer.asked),
        "refusals": {_reason(reason): n for reason, n in sorted(peer.refusals.items())},
    }


def _followed(decisions: list[DecisionRow]) -> list[int]:
    if not decisions:
        return []
    mean = np.mean([row.release for row in decisions], axis=0)
    return np.sort(np.argsort(-mean, kind="stable")[:FOLLOWED]).tolist()


def _since(decisions: list[DecisionRow], every: int) -> list[int | None]:
    """For each step that is shown, t of the publication that stands then."""
    since = []
    standing = None
    for i, row in enumerate(decisions):
        if row.published:
            standing = row.t
        if i % every == 0:
            since.append(standing)
    return since


def _estimates(
    store: Store,
    task_id: str,
    task: Task,
    asked: Mapping[tuple[int, int], Question],
    wanted: set[int | None],
    confidence: float,
) -> dict[int, Estimate]:
    """The wanted steps' publications, estimated from their answers, by t."""
    last: dict[int, int] = {}
    for t, phase in asked:
        last[t] = max(phase, last.get(t, 0))
    found = {}
    for t, phase, reports in store.answers(task_id):
        if t in wanted and phase == last.get(t):
            oracle = entry_task(task, asked[t, phase].entry)
            counts = supports(oracle, _reports(oracle, reports))
            found[t] = frequencies(oracle, counts, len(reports), confidence)
    return found


def _reports(oracle: Task, reports: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    if oracle.mechanism == GRR:
        return np.ascontiguousarray(reports).view(f"<u{oracle.width}")[:, 0]
    return reports


def _step(
    task: Task,
    row: DecisionRow,
    since: int | None,
    found: Mapping[int, Estimate],
    asked: Mapping[tuple[int, int], Question],
    followed: list[int],
) -> dict[str, Any]:
    questions = [asked[row.t, phase] for phase in (0, 1) if (row.t, phase) in asked]
    step: dict[str, Any] = {
        "t": row.t,
        "outcome": clean(row.outcome),
        "published": row.published,
        "dis": row.dis,
        "err": row.err,
        "units": row.units,
        "epsilon": row.units / EPSILON_UNIT,
        **looking(task, asked.get((row.t, 0))),
        "users": row.users,
        "asked": sum(question.meant for question in questions),
        "answered": sum(question.answered for question in questions),
        "n": row.n,
        "since": since,
    }
    columns = ("frequencies", "variances", "low", "high")
    estimate = None if since is None else found.get(since)
    if estimate is None:
        return step | dict.fromkeys(columns)
    return step | {name: getattr(estimate, name)[followed].tolist() for name in columns}


def looking(task: Task, question: Question | None) -> dict[str, Any]:
    """What each spent that was asked for the dissimilarity."""
    if task.method not in (LBD, LBA, LPD, LPA):
        return {"dissimilarity_units": None, "dissimilarity_epsilon": None}
    there = question is not None and question.meant
    units = task.spends[question.entry] if question is not None and there else 0
    return {"dissimilarity_units": units, "dissimilarity_epsilon": units / EPSILON_UNIT}


def decided(table: Mapping[str, Any]) -> bool:
    """Whether there is anything to draw of the decisions: something was spent."""
    return any(step["units"] or step["dissimilarity_units"] for step in table["steps"])


def estimated(table: Mapping[str, Any]) -> bool:
    """Whether there was ever a publication, which estimates could come from."""
    return any(step["frequencies"] is not None for step in table["steps"])


def summary(table: Mapping[str, Any]) -> str:
    """What one Task's rounds came to, in a few sentences."""
    steps = table["steps_in_all"]
    outcomes = ", ".join(f"{n:,} {name}" for name, n in table["outcomes"].items())
    said = counted(steps, "step") + (f": {outcomes}." if outcomes else ".")
    said += f" {counted(table['answers'], 'answer')} of {counted(len(table['devices']), 'device')}"
    if table["cfpu"] is not None:
        said += (
            f": {table['cfpu']:.3f} for each device and step, and {table['cfpu_asked']:.3f}"
            " were asked for"
        )
    said += f"; an answer takes {table['answer_bytes']} bytes, a query {table['query_bytes']}."
    window = counted(table["w"], "step")
    said += f" No device spends more than ε {_short(table['epsilon'])} in any {window}."
    few = table["most_users"] < table["fewest"]
    if table["steps"] and few:
        said += (
            f" No more than {counted(table['most_users'], 'device')} came at a time, and it takes"
            f" {table['fewest']:,} to fill each group that the method asks: where a group is empty,"
            " nobody is asked."
        )
    if table["steps"] and few and not estimated(table):
        said += " Nothing was published for that reason."
    elif table["steps"] and not estimated(table):
        said += (
            " Nothing was published: never was a change seen that exceeded the error of a"
            " publication, which falls with the number of devices."
        )
    said += _noise(table)
    if table["every"] > 1:
        said += f" Every {table['every']}th step is estimated here."
    return said


def _noise(table: Mapping[str, Any]) -> str:
    """That what was published says nothing, by its deviations, and how many answers would."""
    found = [step for step in table["steps"] if step["published"] and step["frequencies"]]
    if not found:
        return ""
    deviations = sorted((math.sqrt(np.mean(step["variances"])), step["n"]) for step in found)
    deviation, n = deviations[len(deviations) // 2]
    half = NormalDist().inv_cdf((1 + table["confidence"]) / 2) * deviation
    if half < _SAYS_NOTHING:
        return ""
    enough = float(f"{n * (half / _SAYS_MUCH) ** 2:.2g}")
    return (
        f" The shares are mostly noise: with {counted(n, 'answer')} the"
        f" {100 * table['confidence']:g} % interval of one is as wide as all that it can be;"
        f" with some {enough:,.0f} answers it would be {200 * _SAYS_MUCH:g} % wide."
    )


def _short(x: float) -> str:
    # Never less than it is.
    return f"{math.ceil(x * 10_000) / 10_000:g}"
