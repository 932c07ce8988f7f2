"""Study file -> Task file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tinyldp.errors import UserError, keep_apart
from tinyldp.files import TASK, keep_kind, replace_file
from tinyldp.planning.choice import choose
from tinyldp.planning.crr import Chosen, choose_crr
from tinyldp.planning.outcome import Plan, assess
from tinyldp.planning.switches import Progress
from tinyldp.planning.training import trained_study
from tinyldp.study import load_study
from tinyldp_protocol.task import write_file


def plan(
    study: str | Path, output: str | Path | None = None, progress: Progress | None = None
) -> Plan:
    """Choose the integers of a study file, write its Task, by default beside it as STUDY.task.

    progress: told how far long work is, (done, total). A Task that lies there already
    is replaced only by a whole one. Raises UserError when the
    study is wrong, its target can't be met, or the Task can't be written.
    """
    loaded = load_study(study)
    path = Path(output) if output else Path(study).with_suffix(".task")
    keep_apart(path, study)
    keep_kind(path, TASK)
    try:
        loaded, training = trained_study(loaded)
        if loaded.crr is None:
            chosen = Chosen(choose(loaded, progress))
        else:
            # What a table costs beside the least there is was found when it was made.
            chosen = choose_crr(loaded, progress)
        task = chosen.task
        assessed = assess(loaded, task, path, progress, optimum=chosen.optimum)
        assessed = replace(assessed, training=training)
    except UserError as error:
        raise UserError(f"{study}: {error}") from None
    replace_file(path, write_file(task), TASK)
    return assessed
