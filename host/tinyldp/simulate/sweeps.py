"""The error of the seven methods against epsilon and against w: a table and a picture."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tinyldp.errors import UserError
from tinyldp.figures import counted
from tinyldp.planning import choose
from tinyldp.report.pictures import drawing
from tinyldp.simulate.crr_sweeps import CrrSweep, draw_crr_sweep, sweep_crr, text_crr_sweep
from tinyldp.simulate.limits import MOST_STEPS, check_number
from tinyldp.simulate.pictures import check_picture, save
from tinyldp.simulate.rounds import SOURCE, simulate_rounds
from tinyldp.simulate.sources import study_at
from tinyldp.study import EPSILON_UNIT, METHODS, TITLES, Study
from tinyldp_protocol.task import LBD, Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# As the LDP-IDS literature has them.
EPSILONS = tuple(Fraction(n, 2) for n in range(1, 6))
WINDOWS = (10, 20, 30, 40, 50)
SEEDS = 10
SWEEP_STEPS = 800

# In the order of METHODS: budgets are divided in the first four, devices in the others.
_COLOURS = ("#b8c1c9", "#d9a441", "#c0392b", "#7b4397", "#5c6873", "#2e8b57", "#1f5f99")
_MARKS = ("o", "s", "^", "v", "o", "^", "v")


@dataclass(frozen=True)
class Point:
    """One method at one setting; mse and mre are means over the seeds.

    spread: standard error of the mean mse.
    """

    method: str
    epsilon: float
    w: int
    mse: float
    spread: float
    mre: float
    cfpu: float
    publications: float


@dataclass(frozen=True)
class Sweep:
    """against_epsilon has the study's w, against_w its epsilon, both each method at each value."""

    study: str
    source: str
    oracle: str
    symbols: int
    devices: int
    steps: int
    seeds: int
    seconds: float
    against_epsilon: tuple[Point, ...]
    against_w: tuple[Point, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def sweep(
    study: Study | str | Path,
    devices: int | None = None,
    steps: int = SWEEP_STEPS,
    seeds: int = SEEDS,
    progress: Callable[[int, int], None] | None = None,
    *,
    epsilons: Sequence[Fraction] = EPSILONS,
    windows: Sequence[int] = WINDOWS,
    methods: Iterable[str] = tuple(METHODS),
) -> Sweep | CrrSweep:
    """Run every method on a round-based study's stream, with its oracle, for each setting.

    Of a study of CRR: crr_sweeps.sweep_crr, in place of all that follows.

    Run i of a setting has the stream seed of the study plus i, and seed i. Counts are drawn
    directly (rounds, aggregate). progress: told the runs that are done, and their total.
    Raises UserError for a study without rounds, for a setting that no integers meet, and for
    numbers out of range.
    """
    started = time.perf_counter()
    if devices is not None:
        check_number("devices", devices)
    check_number("steps", steps, most=MOST_STEPS)
    path = None
    if not isinstance(study, Study):
        path, study = study, study_at(study)
    if study.crr is not None:
        try:
            return sweep_crr(study, devices, steps, seeds, progress)
        except UserError as error:
            raise UserError(f"{path}: {error}" if path else str(error)) from None
    if study.method is None or study.epsilon is None or study.w is None:
        raise UserError(
            "Only a study of rounds (LBU, LSP, LBD, LBA, LPU, LPD, LPA) or of CRR can be swept."
        )
    devices = study.devices if devices is None else devices
    if devices is None:
        raise UserError("How many devices? The study's [fleet] does not say.")
    names = list(methods)
    settings = [(int(epsilon * EPSILON_UNIT), study.w) for epsilon in epsilons]
    settings += [(study.epsilon, w) for w in windows]
    points: list[Point] = []
    done, total = 0, len(settings) * len(names) * seeds
    oracles: set[int] = set()
    for epsilon, w in settings:
        for name in names:
            task = _task(study, METHODS[name], epsilon, w)
            oracles.add(task.mechanism)
            runs = []
            for seed in range(seeds):
                runs.append(
                    simulate_rounds(
                        task, devices, steps, seed, source=study.source or SOURCE,
                        stream_seed=(study.seed or 0) + seed, aggregated=True,
                    )
                )  # fmt: skip
                done += 1
                if progress is not None:
                    progress(done, total)
            errors = np.array([run.mse for run in runs])
            points.append(
                Point(
                    name,
                    epsilon / EPSILON_UNIT,
                    w,
                    float(errors.mean()),
                    float(errors.std(ddof=1) / np.sqrt(seeds)) if seeds > 1 else 0.0,
                    float(np.mean([run.mre for run in runs])),
                    float(np.mean([run.cfpu for run in runs])),
                    float(np.mean([run.publications for run in runs])),
                )
            )
            steps = runs[-1].steps
    split = len(epsilons) * len(names)
    return Sweep(
        study.name,
        study.source or SOURCE,
        ", ".join(TITLES[number] for number in sorted(oracles)),
        study.domain,
        devices,
        steps,
        seeds,
        time.perf_counter() - started,
        tuple(points[:split]),
        tuple(points[split:]),
    )


def _task(study: Study, method: int, epsilon: int, w: int) -> Task:
    grid = study.grid if method == LBD else None
    return choose(replace(study, method=method, grid=grid, epsilon=epsilon, w=w))


def text_sweep(swept: Sweep | CrrSweep) -> str:
    """Two tables of the mean squared error: a row for each setting, a column for each method.

    Of CRR: crr_sweeps.text_crr_sweep.
    """
    if isinstance(swept, CrrSweep):
        return text_crr_sweep(swept)
    lines = [
        f"Mean squared error, {swept.source}, d = {swept.symbols}, {swept.oracle}, "
        f"{counted(swept.devices, 'device')}, {counted(swept.steps, 'step')}, "
        f"mean of {counted(swept.seeds, 'seed')}"
    ]
    for name, points in (("epsilon", swept.against_epsilon), ("w", swept.against_w)):
        if not points:
            continue
        methods = list(dict.fromkeys(point.method for point in points))
        fixed = f"w = {points[0].w}" if name == "epsilon" else f"epsilon = {points[0].epsilon:.4g}"
        lines += ["", f"{name:>8}" + "".join(f"{m.upper():>11}" for m in methods) + f"   ({fixed})"]
        for at in range(0, len(points), len(methods)):
            row = points[at : at + len(methods)]
            lines.append(f"{getattr(row[0], name):8.4g}" + "".join(f"{p.mse:11.2e}" for p in row))
    return "\n".join(lines)


def write_sweep_picture(swept: Sweep | CrrSweep, path: str | Path) -> None:
    """Error against epsilon and against w, on logarithmic axes of error; .svg, .png or .pdf.

    Raises UserError when the file can't be written or its format is unknown.
    """
    check_picture(path)
    if isinstance(swept, CrrSweep):
        with drawing((9.6, 5.2)) as figure:
            draw_crr_sweep(figure, swept)
            save(figure, path)
        return
    with drawing((9.6, 4.2)) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        _curves(left, "epsilon", swept.against_epsilon)
        _curves(right, "w", swept.against_w)
        left.set_ylabel("mean squared error")
        epsilon, w = swept.against_w[:1], swept.against_epsilon[:1]
        left.set_title(f"at w = {w[0].w}" if w else "")
        right.set_title(f"at epsilon = {epsilon[0].epsilon:.4g}" if epsilon else "")
        figure.suptitle(
            f"{swept.source}, d = {swept.symbols}, {counted(swept.devices, 'device')}, "
            f"{swept.oracle}, mean of {counted(swept.seeds, 'seed')}"
        )
        handles, labels = (left if swept.against_epsilon else right).get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(METHODS))
        save(figure, path)


def _curves(axis: Axes, name: str, points: tuple[Point, ...]) -> None:
    for method, colour, mark in zip(METHODS, _COLOURS, _MARKS, strict=True):
        mine = [point for point in points if point.method == method]
        if mine:
            axis.errorbar(
                [getattr(point, name) for point in mine],
                [point.mse for point in mine],
                [point.spread for point in mine],
                marker=mark, ms=4, lw=1.2, color=colour, label=method.upper(),
            )  # fmt: skip
    axis.set_yscale("log")
    # The style knows no formulas, which are what powers of ten are by default.
    axis.yaxis.set_major_formatter(lambda error, _: f"{error:g}")
    axis.yaxis.set_minor_formatter(lambda error, _: "")
    axis.set_xlabel(name)
