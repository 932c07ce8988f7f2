"""An audit: a Task's device on neighbouring inputs, and whether its certificate stands."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tinyldp.audit import oracles, promises
from tinyldp.audit.intervals import delta_at_least, epsilon_at_least
from tinyldp.audit.pairs import Pair, oracle_pair, stream_pairs
from tinyldp.audit.promises import Promise
from tinyldp.audit.streams import lower_bounds, places
from tinyldp.audit.transcripts import LANES, Transcripts, play
from tinyldp.certify import certify
from tinyldp.errors import UserError
from tinyldp_protocol.task import GRR, OLH, OUE, STASWITCH, Task

CONFIDENCE = 1 - 1e-6
# Values that a device releases in an audit of which the size is not given.
_VALUES = 4_000_000
_REPORTS = 1_000_000
_ROUNDS = 100
_FEWEST = 100


@dataclass(frozen=True)
class Finding:
    """What one pair of neighbours shows: epsilon and delta can't be smaller than these."""

    where: str
    epsilon_lower: float
    delta_lower: float


@dataclass(frozen=True)
class Audit:
    """Lower bounds beside the certificate's upper ones, and the other promises.

    epsilon_lower: of every epsilon that goes with the certified delta; delta_lower: of
    every delta that goes with the certified epsilon; each with the confidence, over all
    pairs together. held: neither exceeds the certificate, and every promise was kept.
    """

    task_id: str
    mechanism: str
    lane: str
    segments: int
    confidence: float
    epsilon: float
    delta: float
    epsilon_lower: float
    delta_lower: float
    findings: tuple[Finding, ...]
    promises: tuple[Promise, ...]
    seconds: float

    @property
    def held(self) -> bool:
        return (
            self.epsilon_lower <= self.epsilon
            and self.delta_lower <= self.delta
            and all(promise.held for promise in self.promises)
        )

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "held": self.held}


def audit(
    task: Task,
    lane: str = "unix",
    segments: int | None = None,
    epsilon: Fraction | None = None,
    confidence: float = CONFIDENCE,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Run the device of a Task on a lane and attack what it sends.

    segments: of each input (a stream mechanism), or reports of each value (an oracle).
    epsilon: the point of the certificate's curve at which delta is looked at; its own if
    absent. Raises UserError for what can't be audited.
    """
    if lane not in LANES:
        raise UserError(f"An audit runs on one of the lanes {', '.join(LANES)}, not on {lane}.")
    if not 0 < confidence < 1:
        raise UserError(f"The confidence must lie between 0 and 1, but is {confidence}.")
    if segments is not None and segments < _FEWEST:
        raise UserError(f"An audit takes {_FEWEST} segments or more, not {segments}.")
    began = time.monotonic()
    certificate = certify(task, epsilon)
    point = (float(certificate.epsilon), float(certificate.delta))
    if task.mechanism in (GRR, OUE, OLH):
        pairs, transcripts, rounds = _play_oracle(task, lane, segments, progress)
        findings, kept = _oracle(task, pairs[0], transcripts, *point, confidence)
        rounds *= pairs[0].first.times
    else:
        pairs, transcripts, rounds = _play_streams(task, lane, segments, progress)
        findings, kept = _streams(task, pairs, transcripts, *point, confidence)
    return Audit(
        task_id=task.id.hex(),
        mechanism=certificate.mechanism,
        lane=lane,
        segments=rounds,
        confidence=confidence,
        epsilon=point[0],
        delta=point[1],
        epsilon_lower=max(finding.epsilon_lower for finding in findings),
        delta_lower=max(finding.delta_lower for finding in findings),
        findings=tuple(findings),
        promises=(
            promises.one_length(transcripts),
            promises.whole_segments(transcripts),
            *kept,
        ),
        seconds=round(time.monotonic() - began, 1),
    )


def _play_streams(
    task: Task, lane: str, rounds: int | None, progress: Callable[[int, int], None] | None
) -> tuple[list[Pair], Transcripts, int]:
    pairs = stream_pairs(task)
    series = [one for pair in pairs for one in (pair.first, pair.second)]
    rounds = rounds or max(_FEWEST, _VALUES // sum(one.steps for one in series))
    return pairs, play(task, lane, series, rounds, progress), rounds


def _streams(
    task: Task,
    pairs: list[Pair],
    transcripts: Transcripts,
    epsilon: float,
    delta: float,
    confidence: float,
) -> tuple[list[Finding], list[Promise]]:
    # Every pair is tried both ways round.
    each = 1 - (1 - confidence) / (2 * len(pairs))
    findings: list[Finding] = []
    kept: list[Promise] = []
    for number, pair in enumerate(pairs):
        released = [values.astype(np.int64) for values in transcripts.values[2 * number :][:2]]
        kept += [
            promises.same_values(task, series, values)
            for series, values in zip((pair.first, pair.second), released, strict=True)
        ]
        first, second = (places(pair, values) for values in released)
        n = min(len(first), len(second))
        both = [(first[:n], second[:n]), (second[:n], first[:n])]
        found = [lower_bounds(one, other, epsilon, delta, each) for one, other in both]
        findings.append(Finding(pair.where, max(e for e, _ in found), max(d for _, d in found)))
        kept.append(promises.stream_law(task, pair, first))
        if task.mechanism == STASWITCH:
            kept.append(promises.never_later(task, pair, first))
    return findings, kept


def _play_oracle(
    task: Task, lane: str, reports: int | None, progress: Callable[[int, int], None] | None
) -> tuple[list[Pair], Transcripts, int]:
    pair = oracle_pair(task, max(1, (reports or _REPORTS) // _ROUNDS))
    return [pair], play(task, lane, [pair.first, pair.second], _ROUNDS, progress), _ROUNDS


def _oracle(
    task: Task,
    pair: Pair,
    transcripts: Transcripts,
    epsilon: float,
    delta: float,
    confidence: float,
) -> tuple[list[Finding], list[Promise]]:
    each = 1 - (1 - confidence) / 2
    reports = [values.reshape(-1, *values.shape[2:]) for values in transcripts.values]
    kept = [
        promises.oracle_law(task, own, value)
        for own, value in zip(reports, pair.values, strict=True)
    ]
    bounds = []
    for one, other in ((0, 1), (1, 0)):
        value, less = pair.values[one], pair.values[other]
        hits = int(oracles.telling(task, reports[one], value, less).sum())
        other_hits = int(oracles.telling(task, reports[other], value, less).sum())
        counts = (hits, len(reports[one]), other_hits, len(reports[other]))
        bounds.append(
            (
                float(epsilon_at_least(*counts, delta, each)),
                float(delta_at_least(*counts, epsilon, each)),
            )
        )
    finding = Finding(pair.where, max(e for e, _ in bounds), max(d for _, d in bounds))
    return [finding], kept


def text_audit(result: Audit) -> str:
    """The audit as a table for people."""
    lines = [
        f"Audit of Task {result.task_id} ({result.mechanism}) on the lane {result.lane}: "
        f"{result.segments:,} segments of each input, {result.seconds:g} s.",
        "",
        f"{'pair':<10}{'epsilon at least':>18}{'delta at least':>18}",
    ]
    lines += [
        f"{found.where:<10}{found.epsilon_lower:>18.4f}{found.delta_lower:>18.6f}"
        for found in result.findings
    ]
    lines += [
        f"{'certified':<10}{result.epsilon:>18.4f}{result.delta:>18.6f}",
        "",
        f"Lower bounds with a confidence of {result.confidence:.6%} (Clopper-Pearson), the first",
        "at the certified delta, the second at the certified epsilon.",
        "",
    ]
    lines += [
        f"{'kept  ' if promise.held else 'BROKEN'}  {promise.name}: {promise.detail}"
        for promise in result.promises
    ]
    verdict = "The certificate stands." if result.held else "THE DEVICE BREAKS ITS CERTIFICATE."
    return "\n".join([*lines, "", verdict])
