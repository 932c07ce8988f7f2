"""The loss of CRR against epsilon, beside k-RR: on chains of two states, and on the study's own.

A chain of two states stays where it is with a probability, its correlation: at .5 the steps are
independent, and CRR can know no more than k-RR. k-RR is given the same epsilon for each step, and
the epsilon at which whole sequences of it tell no more than CRR's may (planning.krr).
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tinyldp.crr.model import PRIOR_SCALE, ROW_SCALE, Model
from tinyldp.crr_study import LOSS_NAMES, LOSS_TABLE, LOSSES, RULE_NAMES
from tinyldp.errors import UserError
from tinyldp.planning import choose
from tinyldp.planning.krr import match_sequence
from tinyldp.simulate.crr_runs import simulate_crr
from tinyldp.simulate.limits import check_table
from tinyldp.simulate.simulation import MODEL
from tinyldp.study import EPSILON_UNIT, TITLES, Study
from tinyldp_protocol.task import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EPSILONS = tuple(Fraction(n, 2) for n in (1, 2, 3, 4, 6, 8))
CORRELATIONS = tuple(Fraction(n, 100) for n in (50, 60, 70, 80, 90, 95, 99))
# Where the study says neither: CRR's loss is a mean, and needs few devices.
DEVICES = 1000
# Of which k-RR's whole sequences are followed.
_SEQUENCE = 12
_TWO = 2
# Characters of a title's line, above an axis.
_TITLE = 30
_ANY = 1 << 30


@dataclass(frozen=True)
class CrrPoint:
    """CRR and k-RR at one setting; losses are means over steps, devices and seeds.

    correlation: None for the study's own stream. spread: standard error of the mean loss. krr:
    k-RR's expected loss with the same epsilon; krr_sequence: with sequence_epsilon, at which
    whole sequences tell no more, or None where that is not worked out (other streams).
    """

    correlation: float | None
    epsilon: float
    loss: float
    spread: float
    leakage: float
    krr: float
    krr_sequence: float | None
    sequence_epsilon: float | None


@dataclass(frozen=True)
class CrrSweep:
    """two_states: each correlation at each epsilon; own: the study's stream at each epsilon."""

    study: str
    source: str
    mechanism: str
    rule: str
    loss: str
    symbols: int
    devices: int
    steps: int
    seeds: int
    seconds: float
    two_states: tuple[CrrPoint, ...]
    own: tuple[CrrPoint, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def sweep_crr(
    study: Study,
    devices: int | None,
    steps: int,
    seeds: int,
    progress: Callable[[int, int], None] | None = None,
    *,
    epsilons: Sequence[Fraction] = EPSILONS,
    correlations: Sequence[Fraction] = CORRELATIONS,
) -> CrrSweep:
    """Run a study's rule at each setting.

    Run i of a setting has the stream seed of the study plus i, and seed i.
    On two states, what a step costs is 1 where it is not released as it is: all losses but a
    table are that. progress: told the runs that are done, and their total.
    Raises UserError for a setting that no integers meet, and for a stream that can't be played.
    """
    started = time.perf_counter()
    settings = study.crr
    if settings is None:
        raise UserError("Only a study of CRR has this sweep.")
    devices = study.devices or DEVICES if devices is None else devices
    source = study.source or MODEL
    # Of all its tables the study's own are the largest.
    tasks = [choose(_at(study, epsilon)) for epsilon in epsilons]
    check_table(tasks[0], devices, steps)
    total = len(epsilons) * (len(correlations) + 1) * seeds
    done = 0

    def told() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    points = []
    own = []
    for epsilon, own_task in zip(epsilons, tasks, strict=True):
        for correlation in correlations:
            task = choose(two_states(study, correlation, epsilon))
            points.append(_point(task, devices, steps, seeds, MODEL, study.seed or 0, told))
            points[-1] = replace(points[-1], correlation=float(correlation))
        own.append(_point(own_task, devices, steps, seeds, source, study.seed or 0, told))
    return CrrSweep(
        study.name,
        source,
        TITLES[study.mechanism or 0],
        RULE_NAMES[settings.rule],
        LOSS_NAMES[settings.loss],
        study.domain,
        devices,
        steps,
        seeds,
        time.perf_counter() - started,
        tuple(points),
        tuple(own),
    )


def _at(study: Study, epsilon: Fraction) -> Study:
    assert study.crr is not None
    # No board is asked for room.
    settings = replace(study.crr, board_memory=_ANY)
    epsilon_units = int(epsilon * EPSILON_UNIT)
    return replace(study, thresholds=None, epsilon=epsilon_units, w=None, delta=None, crr=settings)


def two_states(study: Study, correlation: Fraction, epsilon: Fraction) -> Study:
    """The study with a chain of two states in place of its own; half of all steps are in each."""
    settings = study.crr
    assert settings is not None
    memory = settings.memory or 1
    size = _TWO**memory
    stay = min(round(correlation * ROW_SCALE), ROW_SCALE - 1)
    rows = [(stay, ROW_SCALE - stay)[:: 1 if state % _TWO == 0 else -1] for state in range(size)]
    prior = _spread(size, stay)
    model = Model(tuple(prior), tuple(share for row in rows for share in row))
    loss = LOSSES["hamming"] if settings.loss == LOSS_TABLE else settings.loss
    own = replace(settings, model=model, train=(), loss=loss, costs=None, board_memory=_ANY)
    return replace(_at(study, epsilon), domain=_TWO, bins=None, missing=None, crr=own)


def _spread(size: int, stay: int) -> list[int]:
    """The chain's shares of each `size` states in a row: 1/2 each, then stay or change."""
    share = stay / ROW_SCALE
    prior = []
    for state in range(size):
        changes = bin((state ^ (state >> 1)) & (size // 2 - 1)).count("1")
        steps = size.bit_length() - 2
        exact = PRIOR_SCALE / 2 * share ** (steps - changes) * (1 - share) ** changes
        prior.append(max(1, round(exact)))
    prior[0] += PRIOR_SCALE - sum(prior)
    return prior


def _point(
    task: Task,
    devices: int,
    steps: int,
    seeds: int,
    source: str,
    stream_seed: int,
    told: Callable[[], None],
) -> CrrPoint:
    runs = []
    for seed in range(seeds):
        runs.append(
            simulate_crr(
                task, devices, steps, seed, source=source, stream_seed=stream_seed + seed,
                smoothed=False,
            )
        )  # fmt: skip
        told()
    losses = np.array([run.mean_loss for run in runs])
    block = task.block or 1
    epsilon = runs[0].epsilon / block
    matched = None
    if source == MODEL and (task.memory or 1) == 1:
        n = task.symbols
        prior = np.array(task.prior) / PRIOR_SCALE
        rows = np.array(task.transitions).reshape(n, n) / ROW_SCALE
        matched = match_sequence(prior, rows, epsilon, _SEQUENCE).epsilon
    return CrrPoint(
        None,
        epsilon,
        float(losses.mean()),
        float(losses.std(ddof=1) / np.sqrt(seeds)) if seeds > 1 else 0.0,
        float(np.mean([run.leakage.mean() for run in runs])),
        float(np.mean([run.response_loss(epsilon) for run in runs])),
        None if matched is None else float(np.mean([run.response_loss(matched) for run in runs])),
        matched,
    )


def text_crr_sweep(swept: CrrSweep) -> str:
    """A table: a row for each setting."""
    lines = [
        f"Mean loss a step of {swept.mechanism} ({swept.rule}, {swept.loss}), {swept.devices:,}"
        f" devices, {swept.steps:,} steps, mean of {swept.seeds} seeds",
        "k-RR: with the same epsilon for each step; in sequence: with the epsilon in brackets, at"
        " which whole sequences of it tell no more.",
    ]
    head = f"{'epsilon':>9}{swept.mechanism:>15}{'k-RR':>10}   {'k-RR, in sequence':20}"
    for title, points in _tables(swept):
        lines += ["", title, head]
        for point in points:
            line = f"{point.epsilon:9.3f}{point.loss:15.4f}{point.krr:10.4f}"
            if point.krr_sequence is not None:
                line += f"{point.krr_sequence:10.4f} ({point.sequence_epsilon:.3f})"
            lines.append(line)
    return "\n".join(lines)


def _tables(swept: CrrSweep) -> list[tuple[str, list[CrrPoint]]]:
    tables = []
    for correlation in dict.fromkeys(point.correlation for point in swept.two_states):
        mine = [point for point in swept.two_states if point.correlation == correlation]
        tables.append((f"Two states, correlation {correlation:g}", mine))
    name = "its own chain" if swept.source == MODEL else swept.source
    tables.append((f"{swept.study}: {swept.symbols} symbols, {name}", list(swept.own)))
    return tables


def draw_crr_sweep(figure: Figure, swept: CrrSweep) -> None:
    """Loss against epsilon: an axis for each chain."""
    tables = _tables(swept)
    columns = 4
    axes = figure.subplots(-(-len(tables) // columns), columns, sharex=True, squeeze=False)
    for axis, (title, points) in zip(axes.flat, tables, strict=False):
        _draw(axis, title, points, swept.mechanism)
    for axis in axes.flat[len(tables) :]:
        axis.set_axis_off()
    for axis in axes[:, 0]:
        axis.set_ylabel("mean loss a step")
    for axis in axes.flat[max(0, len(tables) - columns) : len(tables)]:
        axis.set_xlabel("epsilon of a step")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)


def _draw(axis: Axes, title: str, points: Sequence[CrrPoint], mechanism: str) -> None:
    epsilons = [point.epsilon for point in points]
    axis.errorbar(
        epsilons, [point.loss for point in points], [point.spread for point in points],
        marker="o", ms=3.5, lw=1.2, color="#1f5f99", label=mechanism,
    )  # fmt: skip
    axis.plot(
        epsilons, [point.krr for point in points], "--", color="#5c6873",
        label="k-RR, the same epsilon",
    )  # fmt: skip
    matched = [point for point in points if point.krr_sequence is not None]
    axis.plot(
        [point.epsilon for point in matched], [point.krr_sequence or 0 for point in matched], ":",
        color="#c0392b", label="k-RR, the same for whole sequences",
    )  # fmt: skip
    axis.set_ylim(bottom=0)
    short = title.replace("Two states, correlation", "correlation")
    axis.set_title(textwrap.fill(short, _TITLE), fontsize=9)
