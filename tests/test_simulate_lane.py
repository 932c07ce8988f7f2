"""The simulator against MicroPython, bit for bit, on a shared file of words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.simulating import make_task, weights
from tinyldp.lanes import Lane
from tinyldp.simulate import oracles, streams
from tinyldp.simulate.words import GivenWords
from tinyldp_protocol.task import (
    GRR,
    JITTERSORT,
    OLH,
    OUE,
    RANSWITCH,
    SCALE,
    STASWITCH,
    Task,
    write_file,
)

PROGRAM = Path(__file__).parent.parent / "firmware_tests" / "programs" / "simulated.py"
DEVICES = 3
STEPS = 120
WORDS = 4000


def tasks() -> list[Task]:
    rng = np.random.default_rng(1)
    oue = make_task(OUE, symbols=27, thresholds=[SCALE // 4])
    return [
        make_task(RANSWITCH, window=12, k=10, symbols=16, thresholds=[SCALE // 16]),
        make_task(STASWITCH, window=10, k=10, symbols=2000, thresholds=[SCALE // 15]),
        make_task(JITTERSORT, window=21, k=5, symbols=16, thresholds=weights(rng, 10)),
        make_task(GRR, symbols=2000, thresholds=[SCALE // 2500]),
        oue,
        make_task(OLH, symbols=300, buckets=300, thresholds=[SCALE // 400]),
    ]


def words_for(rng: np.random.Generator) -> npt.NDArray[Any]:
    """(WORDS,) of which some lie where draws are refused, too few for the health test to object."""
    words = rng.integers(0, SCALE, WORDS)
    words[50::97] = SCALE - 1
    return words


def simulated(task: Task, symbols: npt.NDArray[Any], words: npt.NDArray[Any]) -> list[str]:
    """What each device sends, in hexadecimal."""
    if task.mechanism <= JITTERSORT:
        released = streams.release(task, symbols, words)
        return [row.astype(f"<u{task.width}").tobytes().hex() for row in released]
    sent = []
    for row, own in zip(symbols, words, strict=True):
        # A device's next report goes on where its last one ended: as a fleet of one
        # step after the other.
        source = GivenWords(own[np.newaxis])
        reports = [oracles.draw(task, row[i : i + 1], source) for i in range(len(row))]
        kind = f"<u{task.width}" if task.mechanism == GRR else "u1"
        sent.append(np.concatenate(reports).astype(kind).tobytes().hex())
    return sent


@pytest.mark.parametrize("lane", ["unix"], indirect=True)
def test_simulator_and_micropython_agree(lane: Lane) -> None:
    rng = np.random.default_rng(2)
    expected: list[str] = []
    files = {}
    names = []
    for number, task in enumerate(tasks()):
        symbols = rng.integers(0, task.symbols, (DEVICES, STEPS))
        words = np.stack([words_for(rng) for _ in range(DEVICES)])
        expected += simulated(task, symbols, words)
        for device in range(DEVICES):
            name = f"{number}-{device}"
            names.append(name)
            files[f"{name}.task"] = write_file(task)
            raw = words[device].astype("<u4").view(np.uint8).reshape(-1, 4)[:, :3].tobytes()
            # The nonce, and the pool that the start-up test throws away.
            files[f"{name}.words"] = rng.bytes(8 + 3 * WORDS) + raw
            files[f"{name}.symbols"] = symbols[device].astype("<u2").tobytes()
    lane.install(compiled=True)
    lane.put({"main.py": PROGRAM.read_bytes(), **files})
    result = lane.run("main.py", *names, timeout=120)
    assert result.exit_code == 0, result.stderr + result.stdout
    found = result.stdout.decode().split()
    assert found == expected
    assert len(set(found)) == 6 * DEVICES
