"""CRR beside k-RR on a chain of two states: the expected distance against epsilon.

The chain stays where it is with probability c, in the long run half of the time in either state;
neighbours have the correlation 2c - 1. Each setting has the loss of both rules, that of k-RR with
the same epsilon a step, and that of k-RR which tells as much of a whole sequence, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinyldp.certify.bounds import exp_bounds
from tinyldp.crr.model import PRIOR_SCALE, ROW_SCALE
from tinyldp.crr_study import RULES
from tinyldp.planning.crr_costs import costs_of
from tinyldp.study import EPSILON_UNIT
from tinyldp_protocol.task import CRR, Task, write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tinyldp.crr.steps import Policy

STAYS = tuple(Fraction(n, 100) for n in (50, 60, 70, 80, 90, 95, 99))
EPSILONS = tuple(Fraction(n, 4) for n in (1, 2, 4, 6, 8, 12, 16))
# Steps of the sequences that k-RR is matched on.
STEPS = 10
_IN_A_PICTURE = (Fraction(1, 2), Fraction(4, 5), Fraction(19, 20), Fraction(99, 100))

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class ChainPoint:
    """One setting. Losses are Hamming's, expected, of a step in the long run.

    preserve, min_error: CRR's; spread: the larger standard error of both; optimum: the least of
    any mechanism for the same beliefs as min_error's; krr: at the same epsilon a step;
    krr_sequence: at the same loss of privacy of STEPS steps, with krr_epsilon a step.
    plain: whether no belief that was met has a rare value, so that CRR is the optimum.
    """

    epsilon: float
    stay: float
    preserve: float
    min_error: float
    spread: float
    optimum: float | None
    krr: float
    krr_sequence: float
    krr_epsilon: float
    plain: bool


@dataclass(frozen=True)
class ChainSweep:
    steps: int
    points: tuple[ChainPoint, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def chain_task(stay: Fraction, epsilon: Fraction, rule: int) -> Task:
    """CRR of two symbols on the chain that stays with this probability."""
    share = min(ROW_SCALE - 1, math.ceil(ROW_SCALE * exp_bounds(-epsilon)[1]))
    same = min(ROW_SCALE - 1, round(stay * ROW_SCALE))
    task = Task(
        {
            "mechanism": CRR, "epsilon": math.ceil(epsilon * EPSILON_UNIT), "symbols": 2,
            "thresholds": [share << 10], "tick": 1000, "batch": 1, "resend": 5, "beacon": 10,
            "outbox": 16, "rule": rule, "loss": 1, "prior": [PRIOR_SCALE // 2] * 2,
            "transitions": [same, ROW_SCALE - same, ROW_SCALE - same, same],
        }
    )  # fmt: skip
    write_file(task)
    return task


def sweep_chain(
    policy_of: Callable[[Task], Policy] | None = None,
    progress: Progress | None = None,
    *,
    stays: Sequence[Fraction] = STAYS,
    epsilons: Sequence[Fraction] = EPSILONS,
) -> ChainSweep:
    """Each chain at each epsilon. policy_of: the device's own, if None."""
    if policy_of is None:
        from tinyldp.crr.steps import policy_of
    points = []
    total = len(stays) * len(epsilons)
    for stay in stays:
        for epsilon in epsilons:
            costs = {}
            for name, rule in RULES.items():
                task = chain_task(stay, epsilon, rule)
                costs[name] = costs_of(task, policy_of(task))
            keeping, least = costs["preserve"], costs["min_error"]
            assert keeping.sequence is not None
            assert keeping.krr_sequence is not None
            points.append(
                ChainPoint(
                    epsilon=float(epsilon),
                    stay=float(stay),
                    preserve=keeping.loss,
                    min_error=least.loss,
                    spread=max(keeping.spread, least.spread),
                    optimum=least.optimum,
                    krr=keeping.krr,
                    krr_sequence=keeping.krr_sequence,
                    krr_epsilon=keeping.sequence.epsilon,
                    plain=keeping.rarest >= 1 and least.rarest >= 1,
                )
            )
            if progress is not None:
                progress(len(points), total)
    return ChainSweep(STEPS, tuple(points))


def text_chain(swept: ChainSweep) -> str:
    """A table for each chain: a row for each epsilon."""
    lines = [
        "Expected distance (Hamming) of a step, two states; k-RR at the same epsilon a step, and "
        "with what",
        f"tells as much of {swept.steps} steps. A * marks where no value is rare, and CRR is the "
        "optimum.",
    ]
    for stay in dict.fromkeys(point.stay for point in swept.points):
        lines += [
            "",
            f"stays with {stay:g} (correlation {2 * stay - 1:.2g})",
            f"{'epsilon':>9}{'preserve':>11}{'min_error':>11}{'k-RR':>11}{'k-RR, seq.':>12}",
        ]
        for point in swept.points:
            if point.stay == stay:
                lines.append(
                    f"{point.epsilon:9.4g}{point.preserve:11.4f}{point.min_error:11.4f}"
                    f"{point.krr:11.4f}{point.krr_sequence:12.4f}{' *' if point.plain else ''}"
                )
    return "\n".join(lines)


def write_chain_picture(swept: ChainSweep, path: str | Path) -> None:
    """Distance against epsilon, a panel for each of some chains; .svg, .png or .pdf.

    Raises UserError when the file can't be written or its format is unknown.
    """
    from tinyldp.report.pictures import drawing
    from tinyldp.simulate.pictures import check_ending, save

    check_ending(path)
    shown = [float(stay) for stay in _IN_A_PICTURE]
    there = list(dict.fromkeys(point.stay for point in swept.points))
    stays = [stay for stay in there if stay in shown] or there[:4]
    with drawing((9.6, 3.6)) as figure:
        axes = figure.subplots(1, len(stays), sharey=True, squeeze=False)[0]
        for axis, stay in zip(axes, stays, strict=True):
            _panel(axis, [point for point in swept.points if point.stay == stay])
            axis.set_title(f"stays with {stay:g}")
            axis.set_xlabel("epsilon a step")
        axes[0].set_ylabel("expected distance")
        axes[0].set_ylim(bottom=0)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        save(figure, path)


def _panel(axis: Axes, points: list[ChainPoint]) -> None:
    from tinyldp.report.pictures import ORIGINAL, QUIET, RELEASED

    epsilons = [point.epsilon for point in points]
    for name, label, style, colour in (
        ("krr", "k-RR, same epsilon", "s-", QUIET),
        ("krr_sequence", f"k-RR, same for {STEPS} steps", "s--", QUIET),
        ("preserve", "CRR, preserve", "o-", ORIGINAL),
        ("min_error", "CRR, min_error", "o-", RELEASED),
    ):
        axis.plot(
            epsilons, [getattr(point, name) for point in points], style, ms=4, lw=1.2,
            color=colour, label=label,
        )  # fmt: skip
