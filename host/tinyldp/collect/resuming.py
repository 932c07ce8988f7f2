"""How epochs go on in a store that knows of earlier ones.

An epoch that was asked for is not asked for again, whether it was decided or not: devices hold
one answer to it. Where a host was killed while an update was under way, devices compare with that
epoch from then on; so it is decided now, with the answers that are stored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tinyldp.collect.records import EpochRow, Question, epoch_row
from tinyldp.collect.store import Store
from tinyldp.coordinate import EXHAUSTED, EpochCoordinator, Standing
from tinyldp.errors import UserError
from tinyldp_protocol.task import THRESH, Task


@dataclass(frozen=True)
class Past:
    """start: the next epoch; updates, standing, cast: EpochCoordinator's. gaps: whether epochs were
    left out, so that it is unknown how many updates devices have had. decided: the row and the
    question's end, of an epoch that was open and is decided now, or None."""

    start: int
    updates: int
    standing: Standing | None
    cast: tuple[tuple[int, int], ...]
    gaps: bool
    decided: tuple[EpochRow, Question] | None


def resume(store: Store, task: Task) -> Past:
    """What the store knows of this Task's epochs. Raises UserError when that is damaged."""
    name = task.id.hex()
    rows = store.epochs(name)
    questions = {(question.t, question.phase): question for question in store.questions(name)}
    start = max(1, store.next_step(name))
    if task.epochs is None or start > task.epochs + 1:
        raise UserError(f"{store.name} is damaged: it knows of epochs that the Task does not have.")
    gaps = len({t for t, _ in questions}) < start - 1
    updated = [t for t, phase, entry, _, _ in questions.values() if phase and entry]
    updates = len(updated)
    standing = _standing(store, task, rows)
    wanted = updated + [row.t for row in rows if row.outcome == EXHAUSTED]
    if standing is not None and (gaps or max(wanted, default=0) > standing.t):
        standing = standing._replace(bounded=False)
    cast = tuple((row.ones, row.votes_n) for row in rows)
    decided = None
    last = questions.get((start - 1, 1))
    if last is not None and not any(row.t == last.t for row in rows):
        coordinator = EpochCoordinator(
            task,
            last.meant,
            last.t,
            updates=updates - last.entry,
            standing=standing,
            cast=cast,
        )
        decided = _decided(store, task, coordinator, last)
        standing = coordinator.standing
        if decided is not None:
            cast = (*cast, (decided[0].ones, decided[0].votes_n))
    if gaps:
        # Lest noise is published.
        updates = task.estimates
    return Past(start, updates, standing, cast, gaps, decided)


def _standing(store: Store, task: Task, rows: list[EpochRow]) -> Standing | None:
    published = [row for row in rows if row.published]
    if not published:
        return None
    row = published[-1]
    if len(row.release) != (1 if task.mechanism == THRESH else task.coordinates):
        raise UserError(f"Epoch {row.t} in {store.name} is damaged.")
    return Standing(row.t, row.n, np.array(row.release), row.low, row.high)


def _decided(
    store: Store, task: Task, coordinator: EpochCoordinator, last: Question
) -> tuple[EpochRow, Question] | None:
    """The decision of the epoch that was open, if it is the one that was asked for."""
    none = np.zeros((0, task.width), np.uint8)
    answers = {phase: reports for _, phase, reports in store.answers(task.id.hex(), last.t)}
    votes, estimates = answers.get(0, none), answers.get(1, none)
    ask = coordinator.heard(coordinator.tally(coordinator.begin(), votes), len(votes))
    if ask is None or ask.entry != last.entry:
        return None
    coordinator.heard(coordinator.tally(ask, estimates), len(estimates))
    made = coordinator.decision
    assert made is not None
    return epoch_row(made), last._replace(answered=len(estimates))
