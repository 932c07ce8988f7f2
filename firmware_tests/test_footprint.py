"""No budget rises, and none of a full agent's parts is left out to fit."""

from __future__ import annotations

import json
import re
from pathlib import Path

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
# One boot in some 30 has 128 bytes less: names that did not fit behind the others, for a
# collection came at another time, take a new chunk of MicroPython's table.
BOOTS = 3


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
    budget = json.loads(BUDGETS.read_text())[name]["heap not free"] + FREE_SLACK
    most = 0
    for _ in range(BOOTS):
        free = free_heap(ALL[name])
        assert free >= LEAST_FREE
        most = max(most, free)
        if 9056 - most <= budget:
            break
    assert 9056 - most <= budget


_HEAP = b"""
import gc
import sys

def heap():
    gc.collect()
    return gc.mem_alloc()

before = heap()
for name in sys.argv[1:]:
    __import__(name)
print(heap() - before)
"""


@pytest.mark.parametrize("lane", ["wasm"], indirect=True)
def test_the_readme_tells_the_heap_of_modules(lane: Lane) -> None:
    """Within 1 KB, with what is imported later in place of the switches."""
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    told = re.search(r"about (\d+) KB of heap.*?some ([\d.]+) KB\s+more for", readme, re.DOTALL)
    assert told
    lane.install(compiled=True)
    lane.put({"main.py": _HEAP})
    names = ["tinyldp_device.agent", "tinyldp_device.entropy", "tinyldp_device.links.serial"]

    def heap(*more: str) -> float:
        return int(lane.run("main.py", *names, *more).stdout) / 1024

    least = heap()
    assert abs(least - float(told[1])) < 1
    for more in ("tinyldp_device.jittersort", "tinyldp_device.oracles"):
        assert abs(heap(more) - least - float(told[2])) < 1
