"""From a study to its Task. So far a study states its integers; nothing is chosen here."""

from __future__ import annotations

from pathlib import Path

from tinyldp.errors import UserError, keep_apart
from tinyldp.study import load_study
from tinyldp_protocol.task import Task, write_file


def plan(study: str | Path, output: str | Path | None = None) -> tuple[Task, Path]:
    """Write the Task of a study file, by default beside it as STUDY.task; the Task and its path.

    Raises UserError when the study is wrong or the Task can't be written.
    """
    task = load_study(study).task()
    path = Path(output) if output else Path(study).with_suffix(".task")
    keep_apart(path, study)
    try:
        path.write_bytes(write_file(task))
    except OSError as error:
        raise UserError(f"{path} can't be written: {error.strerror}.") from None
    return task, path
