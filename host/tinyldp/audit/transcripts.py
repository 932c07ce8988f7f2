"""Segments of a device on a lane, rebuilt from the frames that it sent and from nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tinyldp.collect.decoding import Decoding, Hello, Rejected, Status
from tinyldp.collect.deframing import Deframer
from tinyldp.errors import UserError
from tinyldp.lanes import open_lane
from tinyldp.lanes.lane import Process
from tinyldp_protocol.messages import ENDED
from tinyldp_protocol.task import OLH, OUE, Task, write_file

LANES = ("unix", "cpython")
_PROGRAM = Path(__file__).with_name("on_device.py")
_CHUNK = 1 << 16
_PROCESSES = 8
# Seconds without a byte after which a device counts as hung.
_SILENCE = 60.0
# Seconds that it may take to end after its last byte.
_FAREWELL = 10.0


@dataclass(frozen=True)
class Series:
    """The readings of one segment: `readings`, `times` times over; None is missing."""

    readings: tuple[int | None, ...]
    times: int = 1

    @property
    def steps(self) -> int:
        return self.times * len(self.readings)


@dataclass
class Transcripts:
    """What every segment of each series released.

    values: for each series (rounds, steps) integers, or of OUE and OLH (rounds, steps,
    width) bytes. short: segments that did not release as many
    values as they took in. padded: those that ended in more than zeros. sizes: for each
    kind of message the lengths seen.
    """

    values: list[npt.NDArray[np.int64] | npt.NDArray[np.uint8]]
    short: int = 0
    padded: int = 0
    sizes: dict[str, set[int]] = field(default_factory=dict)


class _Segments:
    """Messages of segments that follow one another, put together to their values."""

    def __init__(self, task: Task) -> None:
        self._bytes = task.batch * task.width
        self._width = task.width
        self._decoding = Decoding(self._bytes)
        self._deframer = Deframer()
        self._parts: list[bytes] = []
        self._have = 0
        self._count = -1
        self.ended: list[bytes] = []
        self.padded = 0
        self.sizes: dict[str, set[int]] = {}

    def feed(self, chunk: bytes) -> None:
        for message in self._deframer.feed(chunk):
            release = self._decoding.release(message)
            if release is None:
                self._other(message)
                continue
            _, sequence, values = release
            self.sizes.setdefault("release", set()).add(len(message))
            if sequence != len(self._parts):
                raise UserError(f"Frame {sequence} came where frame {len(self._parts)} should.")
            self._parts.append(values)
            self._have += self._bytes
            self._finish()
        if any(self._deframer.rejected.values()):
            reasons = ", ".join(name for name, n in self._deframer.rejected.items() if n)
            raise UserError(f"The device sent what is no frame: {reasons}.")

    def _other(self, message: bytes) -> None:
        try:
            decoded = self._decoding.decode(message)
        except Rejected as reason:
            raise UserError(f"The device sent a message that no host takes: {reason}.") from None
        if not isinstance(decoded, Hello | Status):
            raise UserError("The device sent what only a host sends.")
        self.sizes.setdefault(type(decoded).__name__.lower(), set()).add(len(message))
        if isinstance(decoded, Status) and decoded.health:
            if decoded.health != ENDED:
                raise UserError(f"The device stopped with health {decoded.health}.")
            self._count = decoded.count * self._width
            self._finish()

    def _finish(self) -> None:
        """A segment is over when its last status and all its values are there."""
        if 0 <= self._count <= self._have:
            values = b"".join(self._parts)
            self.ended.append(values[: self._count])
            self.padded += any(values[self._count :])
            self._parts = []
            self._have = 0
            self._count = -1


def play(
    task: Task,
    lane_name: str,
    series: Sequence[Series],
    rounds: int,
    progress: Callable[[int, int], None] | None = None,
) -> Transcripts:
    """Run the device on a lane: each series as a segment, in turn, `rounds` times.

    progress is told how many segments of how many are there. Raises UserError when
    the device fails, or sends what no host would accept.
    """
    lines = [
        " ".join("-" if item is None else str(item) for item in (one.times, *one.readings))
        for one in series
    ]
    # Each process plays a part of the rounds, as they are independent.
    many = min(os.cpu_count() or 1, _PROCESSES, rounds)
    parts = [_Segments(task) for _ in range(many)]
    shares = [rounds // many + (number < rounds % many) for number in range(many)]
    wanted = rounds * len(series)

    def read(process: Process, part: _Segments, share: int) -> None:
        while len(part.ended) < share * len(series):
            chunk = process.read(_CHUNK, _SILENCE)
            if not chunk:
                break
            part.feed(chunk)
            if progress is not None:
                progress(sum(len(one.ended) for one in parts), wanted)
        so_far = f"after {len(part.ended)} of {share * len(series)} segments"
        try:
            result = process.wait(_FAREWELL)
        except TimeoutError:
            raise UserError(f"The device hung {so_far}.") from None
        if len(part.ended) < share * len(series):
            said = result.stderr.decode(errors="replace").strip().splitlines()
            raise UserError(f"The device failed {so_far}" + (f": {said[-1]}." if said else "."))

    with open_lane(lane_name) as lane, ThreadPoolExecutor(many) as pool, ExitStack() as running:
        lane.install()
        lane.put(
            {
                "audit.py": _PROGRAM.read_bytes(),
                "audit.task": write_file(task),
                "audit.txt": "\n".join(lines).encode(),
            }
        )
        started = [
            running.enter_context(lane.start("audit.py", "audit.task", "audit.txt", str(share)))
            for share in shares
        ]
        for future in as_completed(map(partial(pool.submit, read), started, parts, shares)):
            future.result()
    found = Transcripts([])
    for part in parts:
        found.padded += part.padded
        for kind, sizes in part.sizes.items():
            found.sizes.setdefault(kind, set()).update(sizes)
    for place, one in enumerate(series):
        size = one.steps * task.width
        own = [data for part in parts for data in part.ended[place :: len(series)]]
        whole = [data for data in own if len(data) == size]
        found.short += len(own) - len(whole)
        found.values.append(_values(task, b"".join(whole), one.steps))
    return found


def _values(task: Task, data: bytes, steps: int) -> npt.NDArray[np.int64] | npt.NDArray[np.uint8]:
    if task.mechanism in (OUE, OLH):
        return np.frombuffer(data, np.uint8).reshape(-1, steps, task.width)
    kind = np.uint8 if task.width == 1 else np.dtype("<u2")
    return np.frombuffer(data, kind).astype(np.int64).reshape(-1, steps)
