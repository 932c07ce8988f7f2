"""What a planned Task costs, in accuracy, latency and memory; as JSON and for people."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from tinyldp.certify import oracles
from tinyldp.certify.bounds import digits_up, exp_bounds, float_up, log_upper
from tinyldp.certify.issue import natural_epsilon, stream_curve
from tinyldp.certify.statements import missing
from tinyldp.crr.training import Training
from tinyldp.errors import UserError
from tinyldp.estimate import expected_variance
from tinyldp.figures import counted, stated
from tinyldp.laws import displacement_law
from tinyldp.planning import crr_text, epochs_costs, rounds_costs
from tinyldp.planning.board_memory import mechanism_bytes
from tinyldp.planning.crr_costs import CrrCosts, crr_costs
from tinyldp.planning.crr_table_costs import TableCosts, table_costs
from tinyldp.planning.epochs_costs import EpochCosts
from tinyldp.planning.rounds import telling_variance
from tinyldp.planning.rounds_costs import Communication, EntryCost
from tinyldp.planning.switches import STEPS, Progress
from tinyldp.planning.training import training_json, training_line, training_warnings
from tinyldp.study import (
    CRRS,
    DELTA_UNIT,
    EPSILON_UNIT,
    MECHANISMS,
    METHODS,
    STREAMS,
    TITLES,
    Study,
)
from tinyldp_device.mechanism import pool_words
from tinyldp_protocol.framing import HEAD, TAIL
from tinyldp_protocol.messages import put_release
from tinyldp_protocol.task import JITTERSORT, OLH, SCALE, STASWITCH, TABLE, Task, put_task

_POOL_BYTES = 3


@dataclass(frozen=True)
class Plan:
    """A Task, where it was written, and what it costs.

    epsilon, delta: what the integers give away, rounded up: streams, delta at the
    study's epsilon (or where it names none, where delta falls no further), oracles,
    the epsilon of one report, rounds, that of any w consecutive steps, epochs, that of a
    device's whole life; None where there is no exact figure.
    expected_displacement: E|steps| by which a value is released early or late, None
    where no exact law is at hand. latency_steps: steps that a value waits on average.
    device_bytes: see device_bytes(). variance: of one estimated frequency with a
    report from each of `devices` (of rounds, from those that one query is meant for, at
    the spend that every step or sample has), None for streams or without them. entries,
    communication: of rounds. epochs: of Thresh and HeavyThresh. crr: of CRR; training: of its
    model, where that was learned.
    """

    task: Task
    path: Path
    epsilon: float | None
    delta: float | None
    expected_displacement: float | None
    latency_steps: int
    device_bytes: int
    devices: int | None
    variance: float | None
    entries: tuple[EntryCost, ...] | None = None
    communication: Communication | None = None
    epochs: EpochCosts | None = None
    crr: CrrCosts | TableCosts | None = None
    training: Training | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and strings."""
        names = {number: name for name, number in MECHANISMS.items()}
        methods = {number: name for name, number in METHODS.items()}
        rounds = {}
        if self.entries is not None and self.communication is not None:
            rounds = {
                "oracle": names[self.task.mechanism],
                "entries": [entry.to_json() for entry in self.entries],
                "communication": self.communication.to_json(),
            }
        if self.epochs is not None:
            rounds = self.epochs.to_json()
        if self.crr is not None:
            trained = None if self.training is None else training_json(self.training)
            rounds = {"crr": self.crr.to_json(), "training": trained}
        return {
            "task_id": self.task.id.hex(),
            "mechanism": methods.get(self.task.method or 0, names[self.task.mechanism]),
            "integers": _integers(self.task),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "expected_displacement": self.expected_displacement,
            "latency_steps": self.latency_steps,
            "device_bytes": self.device_bytes,
            "missing": self.task.missing or 0,
            "variance": self.variance,
            "task": str(self.path),
            "bytes": put_task(None, 0, self.task) + 12,
            **rounds,
        }


def assess(
    study: Study,
    task: Task,
    path: Path,
    progress: Progress | None = None,
    *,
    optimum: float | None = None,
) -> Plan:
    """The costs of a study's Task, which is or will be at `path`.

    optimum: of a table, for which it must be there: crr.Chosen's.
    """
    if task.method is not None:
        return _assess_rounds(study, task, path)
    if task.epochs is not None:
        return _assess_epochs(study, task, path)
    if study.crr is not None:
        return _assess_crr(study, task, path, progress, optimum)
    long = progress if task.mechanism == STASWITCH else None
    epsilon, delta = _loss(task)
    if long:
        long(STEPS - 1, STEPS)
    stream = task.mechanism in STREAMS
    law = displacement_law(task) if stream else None
    if long:
        long(STEPS, STEPS)
    variance = None
    if not stream and study.devices is not None:
        variance = expected_variance(task, study.devices)
    return Plan(
        task=task,
        path=path,
        epsilon=None if epsilon is None else float_up(epsilon),
        delta=None if delta is None else float_up(delta),
        expected_displacement=(law.mean_absolute if law else None) if stream else 0.0,
        latency_steps=task.window - 1 if stream else 0,
        device_bytes=device_bytes(task),
        devices=study.devices,
        variance=variance,
    )


def _assess_rounds(study: Study, task: Task, path: Path) -> Plan:
    reports = None if study.devices is None else rounds_costs.group(task, study.devices)
    assert task.epsilon is not None
    return Plan(
        task=task,
        path=path,
        epsilon=task.epsilon / EPSILON_UNIT,
        delta=0.0,
        expected_displacement=0.0,
        latency_steps=0,
        device_bytes=device_bytes(task),
        devices=study.devices,
        variance=telling_variance(task, reports) if reports else None,
        entries=rounds_costs.entry_costs(task, study.devices),
        communication=rounds_costs.communication(task),
    )


def _assess_epochs(study: Study, task: Task, path: Path) -> Plan:
    costs = epochs_costs.epoch_costs(study, task)
    return Plan(
        task=task,
        path=path,
        epsilon=costs.lifetime,
        delta=0.0,
        expected_displacement=0.0,
        latency_steps=0,
        device_bytes=device_bytes(task),
        devices=study.devices,
        variance=costs.deviation**2,
        epochs=costs,
    )


def _assess_crr(
    study: Study, task: Task, path: Path, progress: Progress | None, optimum: float | None
) -> Plan:
    if task.rule == TABLE:
        assert optimum is not None
        costs = table_costs(study, task, optimum)
    else:
        costs = crr_costs(study, task, progress)
    return Plan(
        task=task,
        path=path,
        epsilon=costs.epsilon,
        delta=0.0,
        expected_displacement=0.0,
        # A block is released when its last step is there, and then a symbol a step.
        latency_steps=0 if task.block is None else task.block - 1,
        device_bytes=device_bytes(task),
        devices=study.devices,
        variance=None,
        crr=costs,
    )


def device_bytes(task: Task) -> int:
    """Memory that the Task's integers decide on: bytes on a 32-bit board.

    The mechanism's arrays (and a word for each of its Task's thresholds, where it
    reads them at every step; of CRR, for each number of the Task's model, losses and
    table), its pool of random words, and an outbox full of
    serial frames (of rounds and epochs: the ledger or the counters for life, and a frame of
    each kind); without MicroPython's
    own few bytes for each object, and without code. Measured on the device package's own
    objects.
    """
    total = _POOL_BYTES * pool_words(task)
    if task.epochs is not None:
        return total + epochs_costs.epochs_bytes(task)
    total += mechanism_bytes(task)
    if task.method is not None:
        return total + rounds_costs.rounds_bytes(task)
    message = put_release(None, 0, bytes(4), 0, bytes(task.payload))
    return total + task.outbox * (HEAD + message + TAIL)


def text_plan(plan: Plan) -> str:
    """What was chosen, what it gives away and what it costs, for people."""
    task = plan.task
    if task.method is not None:
        described = rounds_costs.described(task)
    elif plan.crr is not None:
        described = crr_text.described(task)
    elif task.epochs is not None:
        described = epochs_costs.described(task)
    else:
        described = f"{TITLES[task.mechanism]}, {_described(task)}"
    lines = [
        f"Task {task.id.hex()} ({plan.to_json()['bytes']} bytes) written to {plan.path}: "
        f"{described}."
    ]
    if plan.entries is not None:
        lines.append(rounds_costs.loss(task))
        lines += rounds_costs.cost_lines(task, plan.entries, plan.devices)
    elif plan.epochs is not None:
        lines += epochs_costs.cost_lines(task, plan.epochs)
    elif plan.crr is not None:
        if plan.training is not None:
            lines.append(training_line(plan.training))
        if isinstance(plan.crr, TableCosts):
            lines += crr_text.table_lines(task, plan.crr)
        else:
            lines += crr_text.cost_lines(task, plan.crr)
        if plan.training is not None:
            lines += [f"Warning: {warning}" for warning in training_warnings(plan.training)]
    elif task.mechanism in STREAMS:
        lines += [_stream_loss(plan), *_stream_costs(plan)]
    else:
        lines += [_oracle_loss(plan), _oracle_costs(plan)]
    lines.append(f"Missing: {missing(task)}")
    if plan.epochs is not None:
        rest = "its counters for life and frames"
    elif task.method is not None:
        rest = "its ledger and frames"
    else:
        rest = counted(task.outbox, "frame")
    what = "the mechanism" if plan.crr is None else "the mechanism's tables"
    lines.append(
        f"Device memory: {plan.device_bytes:,} bytes for {what}, its random words and {rest}."
    )
    lines.append(f"Next: tinyldp certify {plan.path}")
    return "\n".join(lines)


def _loss(task: Task) -> tuple[Fraction | None, Fraction | None]:
    """(epsilon, delta), exact upper bounds, or None."""
    if task.mechanism not in STREAMS:
        return log_upper(oracles.ratio(task)), Fraction(0)
    point = None if task.epsilon is None else Fraction(task.epsilon, EPSILON_UNIT)
    try:
        point = point or natural_epsilon(task)
        return point, stream_curve(task)[0](point)
    except UserError:
        # What has no exact figure: StaSwitch with a large k, JitterSort without an epsilon.
        return point, None


def _integers(task: Task) -> dict[str, Any]:
    """The integers that were chosen or stated, under the study's names."""
    if task.method is not None:
        found: dict[str, Any] = {"spends": list(task.spends), "thresholds": list(task.thresholds)}
        if task.mechanism == OLH:
            found["buckets"] = task.buckets
        return found
    if task.mechanism == JITTERSORT:
        return {"window": task.window, "weights": list(task.thresholds)}
    if task.epochs is not None:
        chosen = ("epsilon", "thresholds", "votes", "estimates", "levels")
        return {name: getattr(task, name) for name in chosen}
    found = {"threshold": task.thresholds[0]}
    if task.mechanism in STREAMS:
        found["window"] = task.window
    if task.mechanism == OLH:
        found["buckets"] = task.buckets
    if task.mechanism in CRRS:
        found |= {"prior": list(task.prior), "transitions": list(task.transitions)}
        if task.table is not None:
            found["table"] = list(task.table)
    return found


def _described(task: Task) -> str:
    if task.mechanism == JITTERSORT:
        return f"window {task.window}, with {len(task.thresholds)} weights over 2^24"
    share = task.thresholds[0] / SCALE
    text = f"threshold {task.thresholds[0]} of 2^24 ({share:.4g})"
    if task.mechanism in STREAMS:
        staying = 1 - (task.window - 1) * share
        return f"window {task.window}, {text}, staying {staying:.5g}"
    return f"{text}, {task.buckets} buckets" if task.mechanism == OLH else text


def _stream_loss(plan: Plan) -> str:
    task = plan.task
    hidden = f"exchanging two values less than {task.k} steps apart"
    if plan.epsilon is None or plan.delta is None:
        return f"Hides: {hidden}; how well is not known exactly."
    text = f"Hides: {hidden}, with epsilon {_bound(plan.epsilon)} and delta {_bound(plan.delta)}"
    if task.epsilon is not None and task.delta is not None:
        target = f"epsilon {_target(task.epsilon, EPSILON_UNIT)}"
        target += f", delta {_target(task.delta, DELTA_UNIT)}"
        if plan.delta > task.delta / DELTA_UNIT:
            return f"{text}: MORE THAN THE TARGET ({target})."
        text += f" (target: {target})"
    return text + "."


def _stream_costs(plan: Plan) -> list[str]:
    task = plan.task
    moved = "how far values are moved is not known exactly"
    if plan.expected_displacement is not None:
        moved = f"a value is moved by {plan.expected_displacement:.4g} steps on average"
    seconds = plan.latency_steps * task.tick / 1000
    return [
        f"Accuracy: {moved}; which values occurred is not hidden.",
        f"Latency: {counted(plan.latency_steps, 'step')} on average ({seconds:.4g} s).",
    ]


def _oracle_loss(plan: Plan) -> str:
    task = plan.task
    assert plan.epsilon is not None
    text = f"Hides: each value, with epsilon {_bound(plan.epsilon)} a report"
    if task.w is not None:
        text += f", {_bound(task.w * plan.epsilon)} in {counted(task.w, 'step')}"
    if task.epsilon is None:
        return text + "."
    target = f"epsilon {_target(task.epsilon, EPSILON_UNIT)}"
    if oracles.ratio(task) > exp_bounds(Fraction(task.epsilon, EPSILON_UNIT))[0]:
        return f"{text}: MORE THAN THE TARGET ({target})."
    text = f"{text} (target: {target})."
    if task.thresholds[0] == 1:
        text += f" {_bound(plan.epsilon)} is the largest that a threshold can express."
    return text


def _oracle_costs(plan: Plan) -> str:
    if plan.variance is None:
        return "Accuracy: known when the study says how many devices there are, in [fleet] devices."
    deviation = plan.variance**0.5
    return (
        f"Accuracy: with {counted(plan.devices or 0, 'report')} an estimated share has a standard "
        f"deviation of {deviation:.3g} (variance {plan.variance:.4g})."
    )


def _bound(value: float) -> str:
    """As certificates have it: six digits, rounded up."""
    return digits_up(Fraction(value))


def _target(number: int, unit: int) -> str:
    return stated(Fraction(number, unit), unit)
