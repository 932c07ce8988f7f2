"""Memory: nothing is allocated for a sample, and nothing is kept for a report."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmware_tests.microbit import program
from tinyldp.lanes import Lane, Result, open_lane
from tinyldp.lanes.flatten import flatten
from tinyldp.lanes.interpreter import Interpreter
from tinyldp_protocol.task import (
    CRR,
    CRR_BATCH,
    GRR,
    JITTERSORT,
    MIN_ERROR,
    OLH,
    OUE,
    PRESERVE,
    RANSWITCH,
    STASWITCH,
)

HERE = Path(__file__).parent
SAMPLES = 100_000


def run_locked(lane: Lane, *args: int | str, program: str = "locked.py") -> Result:
    lane.install()
    for path in (HERE / "programs" / program, HERE / "portable" / "helpers.py"):
        lane.put({path.name: path.read_bytes()})
    return lane.run(program, *map(str, args), timeout=300)


@pytest.mark.parametrize("lane", ["unix", "wasm"], indirect=True)
@pytest.mark.parametrize(
    ("mechanism", "batch", "samples", "held"),
    [
        (RANSWITCH, 1, SAMPLES, 7),
        (STASWITCH, 16, SAMPLES, 7),
        (JITTERSORT, 1, 10_000, 92),
        (JITTERSORT, 16, 10_000, 92),
        (GRR, 1, 10_000, 0),
        (GRR, 16, 10_000, 0),
        (OUE, 1, 2_000, 0),
        (OUE, 7, 2_000, 0),
        (OLH, 1, 10_000, 0),
        (OLH, 16, 10_000, 0),
        (CRR, 1, 1_000, 0),
        (CRR, 16, 1_000, 0),
        (CRR_BATCH, 1, 2_000, 1),
        (CRR_BATCH, 16, 10_000, 1),
    ],
)
def test_the_sample_path_allocates_nothing(
    lane: Lane, mechanism: int, batch: int, samples: int, held: int
) -> None:
    result = run_locked(lane, mechanism, batch, samples)
    assert result.exit_code == 0, result.stderr.decode()
    released = samples - held
    assert result.stdout.split() == [b"%d" % released, b"%d" % (released // batch)]


@pytest.mark.parametrize("lane", ["unix", "wasm"], indirect=True)
def test_a_planted_allocation_is_found(lane: Lane) -> None:
    result = run_locked(lane, RANSWITCH, 1, 1000, 1)
    assert result.exit_code == 1
    assert b"MemoryError: memory allocation failed, heap is locked" in result.stderr + result.stdout


@pytest.mark.parametrize("lane", ["unix", "wasm"], indirect=True)
@pytest.mark.parametrize("block", [1, 7])
def test_a_step_of_the_ledger_allocates_nothing(lane: Lane, block: int) -> None:
    result = run_locked(lane, block, 10_000, program="locked_rounds.py")
    assert result.exit_code == 0, result.stderr.decode()
    assert result.stdout.split() == [b"9999", b"10"]
    planted = run_locked(lane, block, 1000, 1, program="locked_rounds.py")
    assert b"heap is locked" in planted.stderr + planted.stdout


@pytest.mark.parametrize("lane", ["unix", "wasm"], indirect=True)
@pytest.mark.parametrize("mechanism", ["thresh", "heavythresh"])
def test_a_step_of_an_epoch_allocates_nothing(lane: Lane, mechanism: str) -> None:
    result = run_locked(lane, mechanism, 5_000, program="locked_epochs.py")
    assert result.exit_code == 0, result.stderr.decode()
    assert result.stdout.split() == [b"5"]
    planted = run_locked(lane, mechanism, 1000, 1, program="locked_epochs.py")
    assert b"heap is locked" in planted.stderr + planted.stdout


@pytest.mark.parametrize("lane", ["unix"], indirect=True)
@pytest.mark.parametrize("items", [1, 256, 4096])
def test_heavythresh_fits_in_a_small_heap(lane: Lane, items: int) -> None:
    """With as many different items as its table holds, with fewer and with more."""
    assert isinstance(lane, Interpreter)
    files = flatten(program("heavy_heap.py", ITEMS=items))
    # Imported only where it is used, which a board without folders has no need of.
    files["tinyldp_device/__init__.py"] = b""
    files["tinyldp_device/heavythresh.py"] = b"from heavythresh import HeavyThresh\n"
    lane.put(lane.compile(files))
    lane.put({"start.py": b"import main\n"})
    lane.run("start.py", heap="64K", timeout=600)
    # Once more, with what was stored.
    result = lane.run("start.py", heap="64K", timeout=600)
    assert result.exit_code == 0, (result.stdout + result.stderr).decode()
    lines = [[int(n) for n in line.split()] for line in result.stdout.decode().splitlines()]
    assert [line[0] for line in lines] == [2, 4, 6, 8]
    # Nothing is kept of an epoch, and what is stored has one size.
    assert len({(line[1], line[3]) for line in lines[1:]}) == 1, lines
    starved = lane.run("start.py", heap="48K", timeout=600)
    assert b"MemoryError" in starved.stdout + starved.stderr


@pytest.mark.parametrize("lane", ["unix", "wasm"], indirect=True)
@pytest.mark.parametrize("rule", [PRESERVE, MIN_ERROR])
def test_crr_over_16_symbols_fits_in_a_small_heap(lane: Lane, rule: int) -> None:
    assert isinstance(lane, Interpreter)
    files = flatten(program("crr_heap.py", RULE=rule, STEPS=400))
    # Imported only where it is used, which a board without folders has no need of.
    files["tinyldp_device/__init__.py"] = b""
    files["tinyldp_device/minerror.py"] = b"from minerror import MinError\n"
    lane.put(lane.compile(files))
    by_hand = b"import gc\ngc.disable()\n" if lane.name == "wasm" else b""
    lane.put({"start.py": by_hand + b"import main\n"})
    result = lane.run("start.py", heap="32K", timeout=600)
    assert result.exit_code == 0, (result.stdout + result.stderr).decode()
    lines = [[int(n) for n in line.split()] for line in result.stdout.decode().splitlines()]
    assert len({tuple(line[1:]) for line in lines}) == 1, lines
    # Its chain is sticky, and so are what it is given and what it releases.
    told = sum(line[0] for line in lines)
    assert 100 < told < 400
    starved = lane.run("start.py", heap="12K", timeout=600)
    assert b"MemoryError" in starved.stdout + starved.stderr


def crr_steps(lane: Lane, *args: int) -> bytes:
    lane.install()
    for path in (HERE / "programs" / "crr_steps.py", HERE / "portable" / "helpers.py"):
        lane.put({path.name: path.read_bytes()})
    result = lane.run("crr_steps.py", *map(str, args), timeout=3000)
    assert result.exit_code == 0, result.stderr.decode()
    return result.stdout


CRR_STEPS = [
    (CRR, PRESERVE, 1, 4),
    (CRR, PRESERVE, 2, 6),
    (CRR, MIN_ERROR, 1, 4),
    (CRR, MIN_ERROR, 3, 5),
    (CRR_BATCH, MIN_ERROR, 1, 3),
]


@pytest.mark.parametrize("lane", ["unix", "wasm"], indirect=True)
@pytest.mark.parametrize("given", CRR_STEPS)
def test_steps_of_crr_are_the_same_everywhere(lane: Lane, given: tuple[int, ...]) -> None:
    """What is released and believed, to the bit."""
    with open_lane("cpython") as own:
        expected = crr_steps(own, *given, 1000)
    assert crr_steps(lane, *given, 1000) == expected
    assert len(set(expected.split())) == 20


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("lane", ["unix", "wasm"], indirect=True)
@pytest.mark.parametrize("given", CRR_STEPS)
def test_many_steps_of_crr_are_the_same_everywhere(lane: Lane, given: tuple[int, ...]) -> None:
    with open_lane("cpython") as own:
        expected = crr_steps(own, *given, 100_000)
    assert crr_steps(lane, *given, 100_000) == expected


def run_flat(lane: Lane, reports: int, plant: str = "") -> list[list[int]]:
    """The numbers that the program prints, in a heap of 32 KB."""
    assert isinstance(lane, Interpreter)
    source = program("flat_memory.py", REPORTS=reports)
    source = source.replace("agent.service()", f"agent.service(){plant}")
    lane.put(lane.compile(flatten(source)))
    by_hand = b"import gc\ngc.disable()\n" if lane.name == "wasm" else b""
    lane.put({"start.py": by_hand + b"import main\n"})
    result = lane.run("start.py", heap="32K", timeout=1200)
    assert result.exit_code == 0, (result.stdout + result.stderr).decode()
    return [[int(n) for n in line.split()] for line in result.stdout.decode().splitlines()]


def flat(lane: Lane, reports: int) -> None:
    *during, end = run_flat(lane, reports)
    assert len(during) == 10
    assert end[0] == reports - 7
    assert end[1] >= reports - 7 + reports // 60
    assert end[2] == 0
    assert len({tuple(line[1:]) for line in during}) == 1, during
    assert during[0][1] == 0


@pytest.mark.parametrize("lane", ["unix", "wasm"], indirect=True)
def test_memory_stays_flat(lane: Lane) -> None:
    flat(lane, 100_000)


@pytest.mark.soak
@pytest.mark.parametrize("lane", ["unix", "wasm"], indirect=True)
def test_memory_stays_flat_for_long(lane: Lane) -> None:
    flat(lane, 1_000_000)


@pytest.mark.parametrize("lane", ["unix", "wasm"], indirect=True)
def test_a_planted_leak_is_found(lane: Lane) -> None:
    plant = "; agent.leak = [getattr(agent, 'leak', None)] if i % 40 == 0 else agent.leak"
    lines = run_flat(lane, 1000, plant)
    assert lines[5][2] > lines[0][2]
