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
from tinyldp.audit.pairs import every_value, oracle_pair, stream_pairs
from tinyldp.audit.promises import Promise
from tinyldp.audit.streams import lower_bounds, places, simulate
from tinyldp.audit.transcripts import LANES, Transcripts, play
from tinyldp.certify import certify
from tinyldp.errors import UserError
from tinyldp.study import CRRS, MECHANISMS, ORACLES, TITLES, refuse_rounds
from tinyldp_protocol.task import OUE, Task

CONFIDENCE = 1 - 1e-6
# Values that a device releases in an audit of which the size is not given.
_VALUES = 4_000_000
_REPORTS = 1_000_000
# Most segments of an oracle's audit: each input begins one so often.
_ROUNDS = 1000
_FEWEST = 100
_MOST = 10_000_000
# Simulated segments for each of the device's.
_SIMULATED = 4


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
    if segments is not None and not _FEWEST <= segments <= _MOST:
        raise UserError(f"An audit takes {_FEWEST} to {_MOST:,} segments, not {segments:,}.")
    if task.epochs is not None:
        raise UserError(
            "An audit takes Tasks whose devices release at every step (RanSwitch, StaSwitch, "
            "JitterSort, GRR, OUE and OLH) and Tasks with a method (LBU, LSP, LBD, LBA, LPU, LPD "
            f"and LPA), not {TITLES[task.mechanism]}."
        )
    refuse_rounds(task, "An audit of segments")
    if task.mechanism in CRRS:
        raise UserError(
            "An audit does not attack CRR, which promises something about what was known before; "
            "tinyldp certify goes through its histories exactly, with the device's own code."
        )
    began = time.monotonic()
    certificate = certify(task, epsilon)
    point = (float(certificate.epsilon), float(certificate.delta))
    if task.mechanism in ORACLES:
        segments, findings, transcripts, kept = _oracle(
            task, lane, segments, *point, 1 - confidence, progress
        )
    else:
        segments, findings, transcripts, kept = _streams(
            task, lane, segments, *point, 1 - confidence, progress
        )
    return Audit(
        task_id=task.id.hex(),
        mechanism=certificate.mechanism,
        lane=lane,
        segments=segments,
        confidence=confidence,
        epsilon=point[0],
        delta=point[1],
        epsilon_lower=max(finding.epsilon_lower for finding in findings),
        delta_lower=max(finding.delta_lower for finding in findings),
        findings=tuple(findings),
        promises=(
            promises.one_length(transcripts),
            promises.whole_segments(transcripts),
            promises.padding(transcripts),
            *kept,
        ),
        seconds=round(time.monotonic() - began, 1),
    )


# Segments of each input, bounds, transcripts, promises.
_Result = tuple[int, list[Finding], Transcripts, list[Promise]]


def _streams(
    task: Task,
    lane: str,
    rounds: int | None,
    epsilon: float,
    delta: float,
    wrong: float,
    progress: Callable[[int, int], None] | None,
) -> _Result:
    pairs = stream_pairs(task)
    series = [one for pair in pairs for one in (pair.first, pair.second)]
    rounds = rounds or max(_FEWEST, _VALUES // sum(one.steps for one in series))
    transcripts = play(task, lane, series, rounds, progress)
    # Every pair is tried both ways round.
    each = wrong / (2 * len(pairs))
    findings: list[Finding] = []
    kept: list[Promise] = []
    for number, pair in enumerate(pairs):
        released = [values.astype(np.int64) for values in transcripts.values[2 * number :][:2]]
        n = min(len(values) for values in released)
        again = [
            simulate(task, symbols, _SIMULATED * n) for symbols in (pair.symbols, pair.exchanged)
        ]
        kept += promises.of_stream(task, pair, released[0], released[1], again[0])
        sides = [
            (places(pair, values[:n]), places(pair, more))
            for values, more in zip(released, again, strict=True)
        ]
        found = [
            lower_bounds(one, other, (one_again, other_again), epsilon, delta, each)
            for (one, one_again), (other, other_again) in (sides, sides[::-1])
        ]
        findings.append(Finding(pair.where, max(e for e, _ in found), max(d for _, d in found)))
    return rounds, findings, transcripts, kept


def _oracle(
    task: Task,
    lane: str,
    reports: int | None,
    epsilon: float,
    delta: float,
    wrong: float,
    progress: Callable[[int, int], None] | None,
) -> _Result:
    if reports is None:
        # OUE takes a word for each symbol.
        reports = _REPORTS * 16 // max(16, task.symbols if task.mechanism == OUE else 1)
    rounds = min(_ROUNDS, reports // 10)
    times = reports // rounds
    pair = oracle_pair(task, times)
    every, symbols = every_value(task, times)
    transcripts = play(task, lane, [pair.first, pair.second, every], rounds, progress)
    own, all_values = transcripts.values[:2], transcripts.values[2]
    kept = promises.of_oracle(task, list(zip(pair.values, own, strict=True)), (symbols, all_values))
    each = wrong / 2
    flat = [values.reshape(-1, *values.shape[2:]) for values in own]
    bounds = []
    for one, other in ((0, 1), (1, 0)):
        value, less = pair.values[one], pair.values[other]
        hits, other_hits = (
            int(oracles.telling(task, flat[side], value, less).sum()) for side in (one, other)
        )
        counts = (hits, len(flat[one]), other_hits, len(flat[other]))
        bounds.append(
            (
                float(epsilon_at_least(*counts, delta, each)),
                float(delta_at_least(*counts, epsilon, each)),
            )
        )
    finding = Finding(pair.where, max(e for e, _ in bounds), max(d for _, d in bounds))
    return rounds * times, [finding], transcripts, kept


def text_audit(result: Audit) -> str:
    """The audit as a table for people."""
    oracle = MECHANISMS[result.mechanism] in ORACLES
    what = "reports of each value" if oracle else "segments of each input"
    lines = [
        f"Audit of Task {result.task_id} ({result.mechanism}) on the lane {result.lane}: "
        f"{result.segments:,} {what}, {result.seconds:g} s.",
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
        f"Lower bounds (Clopper-Pearson), right with a confidence of {result.confidence:.12g}:",
        "the first at the certified delta, the second at the certified epsilon.",
        "",
    ]
    lines += [
        f"{'kept  ' if promise.held else 'BROKEN'}  {promise.name}: {promise.detail}"
        for promise in result.promises
    ]
    verdict = "The certificate stands." if result.held else "THE DEVICE BREAKS ITS CERTIFICATE."
    return "\n".join([*lines, "", verdict])
