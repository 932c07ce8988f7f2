"""The demo's devices: what each plays, with which words, over which link."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tinyldp.lanes.interpreter import PipedProcess
from tinyldp.lanes.unix import Unix
from tinyldp.recordings import Recording
from tinyldp.replay import boot_nonce, bytes_needed
from tinyldp.study import Study
from tinyldp_device.mechanism import pool_words
from tinyldp_device.quantize import Quantizer
from tinyldp_protocol.task import Task, write_file

HEAP = "80K"
# In a file of readings; no reading of 31 bits is this.
MISSING = -(1 << 31)
DEVICES = 6
SERIAL_DEVICES = 4

_STUDY = """\
[study]
name = "demo-{mechanism}"

[mechanism]
name = "{mechanism}"
threshold = {threshold}   # of each switch distance, over 2^24

[privacy]
k = {k}                   # exchanging two values less than k steps apart is hidden

[values]
bins = [1, 10, 30, 60, 100, 200, 300, 500, 800, 1200, 2000, 3000]   # activity counts
missing = 13              # a symbol of its own: 0..12 are the bins'

[timing]
tick = 1                  # ms; the recordings' own step is a minute
batch = 8
resend = 400
beacon = 200
outbox = 64
"""

# q = .06 and .08.
STUDIES = {
    "ranswitch": _STUDY.format(mechanism="ranswitch", threshold=1006633, k=10),
    "staswitch": _STUDY.format(mechanism="staswitch", threshold=1342177, k=8),
}

_MAIN = b"""\
import sys
from player import main

main(*sys.argv[1:])
"""


@dataclass
class Device:
    """One device of the demo. readings: (steps,) int32, MISSING where one is."""

    number: int
    recording: str
    study: Study
    task: Task
    link: str
    pseudonym: bytes
    readings: npt.NDArray[np.int32]
    words: bytes
    process: PipedProcess | None = field(default=None, repr=False)

    @property
    def nonce(self) -> str:
        """The boot nonce that its words dictate, in hexadecimal."""
        return boot_nonce(self.words).hex()

    def symbols(self) -> npt.NDArray[np.int64]:
        """What its quantizer must make of the readings: (steps,) symbols."""
        quantizer = Quantizer(self.task)
        return np.array(
            [
                quantizer.symbol(None if reading == MISSING else int(reading))
                for reading in self.readings
            ],
            dtype=np.int64,
        )


def make_devices(studies: Sequence[Study], recordings: list[Recording], steps: int) -> list[Device]:
    """Six devices, the studies in turn, four on serial lines and then two on MQTT.

    With fewer recordings than devices, a recording is used again from a later day on.
    """
    tasks = [study.task() for study in studies]
    devices = []
    for number in range(DEVICES):
        recording = recordings[number % len(recordings)]
        again = number // len(recordings)
        start = min(again * steps // 2, max(0, len(recording.readings) - steps))
        part = recording.readings[start : start + steps]
        readings = np.array([MISSING if reading is None else reading for reading in part], "<i4")
        task = tasks[number % len(tasks)]
        devices.append(
            Device(
                number + 1,
                recording.name,
                studies[number % len(studies)],
                task,
                "serial" if number < SERIAL_DEVICES else "mqtt",
                os.urandom(8),
                readings,
                os.urandom(bytes_needed(task, len(readings))),
            )
        )
    return devices


def start_device(lane: Unix, device: Device, where: str, heap: str = HEAP) -> None:
    """Start its process on the lane, talking to `where` (a terminal, or HOST:PORT)."""
    name = f"device{device.number}"
    lane.put(
        {
            f"{name}.task": write_file(device.task),
            f"{name}.words": device.words,
            f"{name}.readings": device.readings.tobytes(),
        }
    )
    device.process = lane.start(
        "main.py",
        *(f"{name}.task", f"{name}.words", f"{name}.readings"),
        *(str(pool_words(device.task)), device.pseudonym.hex(), device.link, where),
        heap=heap,
    )


def install(lane: Unix) -> None:
    """Put the packages and the player on the lane, compiled as for a board."""
    lane.install(compiled=True)
    player = files("tinyldp.demo").joinpath("player.py").read_bytes()
    # The interpreter starts source files only.
    lane.put({**lane.compile({"player.py": player}), "main.py": _MAIN})


def write_studies(folder: Path) -> list[Path]:
    """Write the demo's two study files there."""
    paths = []
    for name, text in STUDIES.items():
        paths.append(folder / f"demo-{name}.toml")
        paths[-1].write_text(text)
    return paths
