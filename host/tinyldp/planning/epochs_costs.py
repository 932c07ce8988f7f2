"""What Thresh and HeavyThresh cost: how soon changes are found, error, a life's loss, memory."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tinyldp.certify.bounds import digits_up, float_up
from tinyldp.certify.epochs import disclosures
from tinyldp.figures import counted
from tinyldp.planning import epochs
from tinyldp.planning.detection import expected_delay
from tinyldp.planning.epochs import Change
from tinyldp.planning.rounds_costs import frames_bytes
from tinyldp.study import TITLES, Study
from tinyldp_device.epochs import make_thresh
from tinyldp_device.lifetime import state_bytes
from tinyldp_protocol.messages import put_answer, put_query
from tinyldp_protocol.task import HEAVYTHRESH, SCALE, Task

_WORD = 4


@dataclass(frozen=True)
class Level:
    """Changes above this size are voted on in every `every`th epoch, `delay` epochs late on
    average (an update that fails for want of votes is tried again then): by nearly all devices,
    so for changes that exceed it by more than an epoch's noise."""

    change: float
    every: int
    delay: float

    def to_json(self) -> dict[str, Any]:
        return {"change": self.change, "every": self.every, "delay": self.delay}


@dataclass(frozen=True)
class EpochCosts:
    """What devices lose, how soon a change is found, and how far estimates are off.

    losses: epsilon of each vote, estimate and poll, rounded up. needed, reached: share of ones
    among votes that an update takes, and that is expected when all of the smallest subgroup
    vote for it; chance: that it follows then. levels: see Level. changes: of the study's stream,
    with the epochs by which each is expected late (detection.expected_delay), None where it is not
    found: devices have no votes or estimates left by then, or too few change; delay: the latest of
    them, without a stream that of changes above all levels. deviation: of an estimate (HeavyThresh:
    of an item's share) at most; interval: half the width of its 95 % interval (see epochs.error);
    always: devices vote in each epoch where their mean has moved by more since the last update;
    this bounds no error, as votes are noisy (EpochCoordinator).
    """

    losses: dict[str, float]
    lifetime: float
    needed: float
    reached: float
    chance: float
    levels: tuple[Level, ...]
    changes: tuple[tuple[Change, float | None], ...]
    delay: float
    deviation: float
    interval: float
    always: float
    answer_bytes: int
    query_bytes: int

    def to_json(self) -> dict[str, Any]:
        return {
            "losses": self.losses,
            "lifetime_loss": self.lifetime,
            "update": {
                "needed": self.needed,
                "reached": self.reached,
                "chance": self.chance,
                "always_above": self.always,
            },
            "levels": [level.to_json() for level in self.levels],
            "changes": [
                {"at": change.at, "size": change.size, "every": change.every, "delay": delay}
                for change, delay in self.changes
            ],
            "detection_delay": self.delay,
            "error": {"deviation": self.deviation, "interval": self.interval},
            "communication": {
                "answers_per_epoch": 2,
                "answer_bytes": self.answer_bytes,
                "query_bytes": self.query_bytes,
            },
        }


def epoch_costs(study: Study, task: Task) -> EpochCosts:
    settings, n = epochs.settings_of(study)
    levels, one = list(task.levels), epochs.scale(study)
    lie = task.thresholds[0] / SCALE
    needed = lie + epochs.margin(study)
    chance = epochs.update_chance(study, task.thresholds[0])
    # An update that fails is tried again, as long as there are votes.
    again = 1 / chance - 1
    rows = [
        Level(level / one, 1 << (len(levels) - 1 - b), 0.0)
        for b, level in enumerate(levels)
        if level < epochs.most(study)
    ]
    rows = [Level(row.change, row.every, _mean_delay(row.every, again)) for row in rows]
    seen = _seen(study, task)
    deviation, interval = epochs.error(study, task.thresholds[1])
    losses = {each.name: float_up(each.loss) for each in disclosures(task)}
    total = sum((each.total for each in disclosures(task)), Fraction(0))
    return EpochCosts(
        losses=losses,
        lifetime=float_up(total),
        needed=needed,
        reached=lie + settings.smallest / n * (1 - 2 * lie),
        chance=chance,
        levels=tuple(rows),
        changes=tuple(seen),
        delay=max((delay for _, delay in seen if delay is not None), default=rows[-1].delay),
        deviation=deviation,
        interval=interval,
        always=levels[-1] / one,
        answer_bytes=put_answer(None, 0, bytes(4), 0, 0, 0, bytes(task.payload)),
        query_bytes=put_query(None, 0, bytes(8), 0, 0, 0, 0, 1),
    )


def _seen(study: Study, task: Task) -> list[tuple[Change, float | None]]:
    """Each change that is voted on, with its delay (see EpochCosts.changes)."""
    stream = study.stream
    if stream is None:
        return []
    seen = []
    used = 0
    for i, change in enumerate(epochs.changes(study, list(task.levels))):
        used += change.size > 0
        if change.first is None:
            continue
        # The first estimate was given at the start. Groups have votes of their own.
        votes = task.votes if stream.groups else task.votes - used + 1
        delay = None
        if used < task.estimates and votes > 0:
            share = stream.groups[i] if stream.groups else 1.0
            means = None
            if stream.means:
                means = stream.means[0 if stream.groups else i], stream.means[i + 1]
            delay = expected_delay(study, task, change, votes, share, means)
        seen.append((change, delay))
    return seen


def _mean_delay(every: int, again: float) -> float:
    return (every - 1) / 2 + again * every


def epochs_bytes(task: Task) -> int:
    """An epoch as it is counted, the lifetime counters, and each kind of message and of frame."""
    total = state_bytes(task) + frames_bytes(task) + task.payload
    for held in vars(make_thresh(task, None)).values():  # pyright: ignore[reportArgumentType]
        if isinstance(held, array):
            total += len(held) * held.itemsize
        elif isinstance(held, bytearray):
            total += len(held)
        elif isinstance(held, list | tuple):
            total += len(held) * _WORD
    return total + _WORD * (len(task.thresholds) + len(task.levels))


def described(task: Task) -> str:
    text = f"{TITLES[task.mechanism]}, {task.epochs} epochs of {task.rounds:,} steps"
    if task.mechanism == HEAVYTHRESH:
        text += f", {task.symbols:,} items in {task.coordinates:,} coordinates"
    text += f", {counted(task.votes, 'vote')} and {counted(task.estimates, 'estimate')}"
    return text if task.polls is None else f"{text}, {counted(task.polls, 'poll')}"


def cost_lines(task: Task, costs: EpochCosts) -> list[str]:
    """What is hidden, how soon changes show, and how far estimates are off, for people."""
    parts = ", ".join(
        f"{digits_up(Fraction(loss))} for each of the {name}" for name, loss in costs.losses.items()
    )
    heavy = task.mechanism == HEAVYTHRESH
    lines = [
        "Hides: all that a device measures in its whole life under this Task, with epsilon "
        f"{digits_up(Fraction(costs.lifetime))} ({parts}; a vote counts twice), which is taken "
        "from the device's allowance for life.",
        f"Updates: when {costs.needed:.4g} of the votes are ones; where all of the smallest "
        f"subgroup vote for one, {costs.reached:.4g} are expected, and it follows with probability "
        f"{costs.chance:.4g}.",
        "Changes that are voted on"
        + (" (of the hash, in shares that moved):" if heavy else " (of a mean in 0..1):"),
        "  above      in epochs   found after, on average",
    ]
    for level in costs.levels:
        name = "all" if level.every == 1 else f"1 in {level.every}"
        lines.append(f"  {level.change:<10.4g} {name:<11} {level.delay:.3g} epochs")
    for change, delay in costs.changes:
        what = f"The change at epoch {change.at}, of {change.size:.3g}, is"
        if delay is None:
            lines.append(
                f"{what} not expected to be found: devices have no votes or estimates left for it, "
                "or too few of them change."
            )
        else:
            lines.append(f"{what} expected to be found after {delay:.3g} epochs.")
    if heavy:
        lines.append(
            f"Accuracy: an item's estimated share has a standard deviation of {costs.deviation:.3g}"
            f" at most, and lies within about {costs.interval:.3g} for all items at once (95 %):"
            " each update has its own figure, from its answers."
        )
    else:
        lines.append(
            f"Accuracy: an estimated mean has a standard deviation of {costs.deviation:.3g} at "
            f"most, and lies within {costs.interval:.3g} (95 %). Between updates devices vote in "
            f"each epoch where it has moved by more than {costs.always:.3g}; by how much it may "
            "have moved, simulate and report bound from the noisy votes, which tell less."
        )
    lines.append(
        f"Communication: 2 answers per device and epoch, of {costs.answer_bytes} bytes, whatever "
        f"happened; a query for all devices has {costs.query_bytes}."
    )
    return lines
