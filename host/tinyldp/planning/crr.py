"""The integers of CRR: the share of steps that tell nothing, rounded toward more noise.

e = ceil(2^14 e^-epsilon) of 2^14 steps release a fresh sample, so that -ln(e / 2^14) is at most
epsilon, and with e - 1 above it. The prior and the transitions are the study's, or counted in
its public training series.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from tinyldp.certify.bounds import exp_bounds, log_upper
from tinyldp.crr.model import ROW_SCALE
from tinyldp.errors import UserError
from tinyldp.figures import stated, up
from tinyldp.planning.board_memory import mechanism_bytes
from tinyldp.planning.crr_tables import Progress, make_table
from tinyldp.planning.training import trained_study
from tinyldp.study import EPSILON_UNIT, Study
from tinyldp_protocol.task import TABLE, Task


@dataclass(frozen=True)
class Chosen:
    """A Task, and of a table the least expected loss of a block that any has (Made)."""

    task: Task
    optimum: float | None = None


def choose_crr(study: Study, progress: Progress | None = None) -> Chosen:
    """The Task of a study of CRR, trained where the study says so.

    progress: told the linear programs of a table that are solved.

    Raises UserError, one sentence, for series that can't be read or say too little, an epsilon
    below CRR's resolution, and tables that are larger than the board's memory for them.
    """
    settings = study.crr
    assert settings is not None
    trained, _ = trained_study(study)
    chosen = None if study.thresholds else [share(study) << 10]
    task = trained.task(chosen)
    room = settings.room
    need = 0 if room is None else mechanism_bytes(task)
    if room is not None and need > room:
        raise UserError(
            f"the tables of {study.domain} symbols"
            + ("" if settings.block is None else f" in blocks of {settings.block}")
            + f" take {need:,} bytes of a board's memory, and there are {room:,} for them: take "
            + (_shorter(trained, task, room) if settings.block else "fewer symbols")
            + f", or name {need:,} or more in [fleet] board_memory."
        )
    if task.rule != TABLE:
        return Chosen(task)
    assert trained.crr is not None
    made = make_table(task, progress)
    task = replace(trained, crr=replace(trained.crr, table=made.table)).task(chosen)
    return Chosen(task, made.optimum)


def _shorter(study: Study, task: Task, room: int) -> str:
    """What would fit in place of the Task's blocks."""
    settings = study.crr
    assert settings is not None
    assert settings.block is not None
    for block in range(settings.block - 1, max(1, (settings.memory or 1) - 1), -1):
        shorter = replace(study, crr=replace(settings, block=block)).task(task.thresholds)
        if mechanism_bytes(shorter) <= room:
            return f"a block of {block}, the longest that fits"
    # Of belief alone what can be kept depends on epsilon.
    less = ", a shorter memory" if task.rule == TABLE else ", a shorter memory or less epsilon"
    return f"fewer symbols{less}, for no shorter block fits"


def share(study: Study) -> int:
    """e, of the study's epsilon."""
    assert study.epsilon is not None
    epsilon = Fraction(study.epsilon, EPSILON_UNIT)
    found = math.ceil(ROW_SCALE * exp_bounds(-epsilon)[1])
    if found >= ROW_SCALE:
        least = log_upper(Fraction(ROW_SCALE, ROW_SCALE - 1))
        raise UserError(
            f"[privacy] epsilon must be {up(least, EPSILON_UNIT)} or more for CRR, whose shares "
            f"are counted in 1/16384, but is {stated(epsilon, EPSILON_UNIT)}."
        )
    return found
