"""What rounds cost: noise by entry, communication, and the device's memory."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tinyldp.certify import oracles
from tinyldp.certify.bounds import digits_up, float_up, log_upper
from tinyldp.coordinate.entries import entry_task
from tinyldp.coordinate.schedules import fewest
from tinyldp.estimate import expected_variance
from tinyldp.figures import counted, in_a_row, stated
from tinyldp.planning.rounds import telling_entry
from tinyldp.study import EPSILON_UNIT, METHOD_TITLES, TITLES
from tinyldp_device.ledger import RING_AT
from tinyldp_protocol.framing import HEAD, TAIL
from tinyldp_protocol.messages import put_answer, put_hello, put_query, put_refusal, put_status
from tinyldp_protocol.task import LBA, LBD, LBU, LPU, LSP, OLH, SCALE, Task

# What one spend of the ledger's ring takes.
_SPEND = 4
# Entries that people are shown.
_SHOWN = 8


@dataclass(frozen=True)
class EntryCost:
    """One entry of the Task: what an answer costs, and how noisy it is.

    spend: ledger units; epsilon: the exact loss, rounded up; variance: of one estimated
    frequency from `reports` answers, None without any.
    """

    spend: int
    threshold: int
    epsilon: float
    reports: int | None
    variance: float | None

    def to_json(self) -> dict[str, Any]:
        return {
            "spend": self.spend,
            "threshold": self.threshold,
            "epsilon": self.epsilon,
            "reports": self.reports,
            "variance": self.variance,
        }


@dataclass(frozen=True)
class Communication:
    """Answers that a device sends per step on average, least and most, and bytes of messages."""

    least: float
    most: float
    answer_bytes: int
    query_bytes: int

    def to_json(self) -> dict[str, Any]:
        return {
            "answers": [self.least, self.most],
            "answer_bytes": self.answer_bytes,
            "query_bytes": self.query_bytes,
        }


def entry_costs(task: Task, devices: int | None) -> tuple[EntryCost, ...]:
    """By entry, with the answers of one query: from all devices, or from a group of them."""
    reports = None if devices is None else group(task, devices)
    return tuple(
        EntryCost(
            spend=spend,
            threshold=task.thresholds[i],
            epsilon=float_up(log_upper(oracles.ratio(task, i))),
            reports=reports,
            variance=expected_variance(entry_task(task, i), reports) if reports else None,
        )
        for i, spend in enumerate(task.spends)
    )


def group(task: Task, devices: int) -> int:
    """Devices that a query is meant for: LPU 1/w, LPD and LPA 1/(2w) of them (dissimilarity)."""
    assert task.w is not None
    if task.method in (LBU, LSP, LBD, LBA):
        return devices
    return devices // (task.w if task.method == LPU else 2 * task.w)


def communication(task: Task) -> Communication:
    """LDP-IDS's CFPU, as far as it is known beforehand: the rest depends on the stream."""
    assert task.w is not None
    share = 1 / task.w
    answers = (share / 2, share)
    if task.method == LBU:
        answers = (1.0, 1.0)
    elif task.method in (LSP, LPU):
        answers = (share, share)
    elif task.method in (LBD, LBA):
        answers = (1.0, 2.0)
    return Communication(*answers, _answer(task), put_query(None, 0, bytes(8), 0, 0, 0, 0, 1))


def rounds_bytes(task: Task) -> int:
    """The ledger (its horizon w) with both answers, and each kind of message and of frame."""
    assert task.w is not None
    return RING_AT + _SPEND * task.w + 2 * task.payload + frames_bytes(task)


def frames_bytes(task: Task) -> int:
    """Each kind of message of a device that is asked, and of frame: two of answers, one a phase."""
    eight = bytes(8)
    once = (
        put_hello(None, 0, bytes(3), eight, eight, eight, 0, 0),
        put_status(None, 0, bytes(4), 0, 0, 0, 0),
        put_refusal(None, 0, bytes(4), 0, 0, 1),
        _answer(task),
    )
    frames = sum(2 * (HEAD + message + TAIL) for message in once)
    return frames + HEAD + _answer(task) + TAIL


def _answer(task: Task) -> int:
    return put_answer(None, 0, bytes(4), 0, 0, 0, bytes(task.payload))


def described(task: Task) -> str:
    """The method, its oracle and its entries, for people."""
    assert task.method is not None
    entries = len(task.spends)
    text = f"{METHOD_TITLES[task.method]} over {TITLES[task.mechanism]}"
    if task.mechanism == OLH:
        text += f" with {task.buckets} buckets"
    return f"{text}, {'one entry' if entries == 1 else f'{entries} entries'}"


def loss(task: Task) -> str:
    assert task.epsilon is not None
    cap = stated(Fraction(task.epsilon, EPSILON_UNIT), EPSILON_UNIT)
    return (
        f"Hides: all values of any {in_a_row(task.w or 0)}, with epsilon {cap}, which the "
        "device itself enforces; there is no bound for a lifetime."
    )


def cost_lines(task: Task, costs: tuple[EntryCost, ...], devices: int | None) -> list[str]:
    """Accuracy by entry, and communication."""
    lines = []
    n = costs[0].reports
    if n is None:
        lines.append(
            "Accuracy: known when the study says how many devices there are, in [fleet] devices."
        )
    elif not n:
        lines.append(
            f"Accuracy: with {counted(devices or 0, 'device')} there are steps that nobody is "
            f"asked in; {fewest(task):,} are the fewest that "
            "fill each group."
        )
    else:
        lines.append(f"Accuracy of an estimated share, from {counted(n, 'answer')} to a query:")
    lines.append("  entry  spend     threshold   of 2^24    deviation   variance")
    step = max(1, -(-len(costs) // _SHOWN))
    shown = sorted({*range(0, len(costs), step), telling_entry(task), len(costs) - 1})
    for i in shown:
        cost = costs[i]
        noise = "" if cost.variance is None else f"{cost.variance**0.5:<11.4g} {cost.variance:.4g}"
        epsilon = digits_up(Fraction(cost.spend, EPSILON_UNIT))
        share = f"{cost.threshold / SCALE:<10.5g}"
        lines.append(f"  {i:<6} {epsilon:<9} {cost.threshold:<11} {share} {noise}".rstrip())
    said = communication(task)
    answers = f"{said.least:.4g}"
    if said.most > said.least:
        answers += f" to {said.most:.4g} (by how much the stream changes)"
    lines.append(
        f"Communication: {answers} answer{'' if answers == '1' else 's'} per device and step, "
        f"of {said.answer_bytes} bytes; a query for all devices has {said.query_bytes}."
    )
    return lines
