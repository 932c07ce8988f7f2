"""A million steps of the device's own randomness, against the exact displacement law."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests import collecting
from tests.fit import FALSE_ALARM, fit
from tinyldp.lanes import Lane
from tinyldp.laws import Law, displacement_law
from tinyldp_protocol.task import RANSWITCH, SCALE, STASWITCH, Task, write_file

STEPS = 1_000_000
# Values so far apart share no draws (StaSwitch: hardly any), unless they are later still.
SPACING = 64
Q = {RANSWITCH: 0.06, STASWITCH: 0.08}


def make_task(mechanism: int, factor: float = 1.0) -> Task:
    k = 10 if mechanism == RANSWITCH else 8
    thresholds = [round(factor * Q[mechanism] * SCALE)]
    return collecting.make_task(
        mechanism=mechanism, window=k, k=k, symbols=65536, thresholds=thresholds
    )


def law_of(task: Task) -> Law:
    law = displacement_law(task)
    assert law is not None
    return law


@pytest.mark.parametrize("lane", ["unix"], indirect=True)
@pytest.mark.parametrize("mechanism", [RANSWITCH, STASWITCH])
def test_displacement_follows_the_law(lane: Lane, mechanism: int) -> None:
    task = make_task(mechanism)
    lane.install(compiled=True)
    program = Path(__file__).parent / "programs" / "law.py"
    lane.put({"main.py": program.read_bytes(), "law.task": write_file(task)})
    result = lane.run("main.py", "law.task", str(STEPS), str(SPACING), timeout=300)
    assert result.exit_code == 0, result.stderr + result.stdout
    measured = json.loads(result.stdout)
    seen = Counter({int(moved): n for moved, n in measured["seen"].items()})
    assert seen.total() == pytest.approx(STEPS / SPACING, abs=4)
    latest = SPACING - task.window if mechanism == RANSWITCH else task.k - 1
    assert fit(seen, law_of(task), latest) > FALSE_ALARM
    for factor in (0.7, 1.3):
        assert fit(seen, law_of(make_task(mechanism, factor)), latest) < FALSE_ALARM
    if mechanism == STASWITCH:
        assert measured["latest"] == task.k - 1
