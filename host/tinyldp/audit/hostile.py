"""What a server learns that asks devices for all they may give.

Each device is the device package's own RoundAgent with a ledger of its own, run here, and
holds one constant value. The server keeps to nothing but what the ledger refuses; from the
answers it guesses each value by Bayes' rule with a uniform prior, and no guess is right
more often than that one. With a loss of at most epsilon it is right with a probability of
at most e^epsilon / (e^epsilon + d - 1), whatever it combines.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tinyldp.audit.oracles import bit, hashes
from tinyldp.errors import UserError
from tinyldp.figures import counted
from tinyldp.report.pictures import ORIGINAL, QUIET, RELEASED, drawing
from tinyldp.simulate.pictures import check_picture, save
from tinyldp_device.entropy import Entropy
from tinyldp_device.ledger import Ledger, provision
from tinyldp_device.mechanism import pool_words
from tinyldp_device.oraclerounds import OracleRounds
from tinyldp_device.rounds import RoundAgent
from tinyldp_device.state import State
from tinyldp_protocol.framing import HEAD, TAIL
from tinyldp_protocol.hashing import GROUPS
from tinyldp_protocol.messages import (
    ANSWER,
    ENTRY_AT,
    PHASE_AT,
    TEST,
    put_query,
)
from tinyldp_protocol.task import GRR, OUE, SCALE, Task

Counts = npt.NDArray[np.int64]

# How the server asks: for the most at once, for a little in each step, or at random.
GREEDS = ("at once", "spread", "at random")
_UNIT = 1 << 16


@dataclass(frozen=True)
class Recovery:
    """How many of `devices` constant values were guessed right.

    windows: (steps - w + 1,) from the answers of the window that begins with each step.
    growth: (k,) from those of the first 1, 2, ..., k windows together.
    """

    task: Task
    devices: int
    windows: Counts
    growth: Counts

    def bound(self, windows: int = 1) -> float:
        """The probability that no guess from so many windows' answers exceeds."""
        assert self.task.epsilon is not None
        odds = math.exp(windows * self.task.epsilon / _UNIT)
        return odds / (odds + self.task.symbols - 1)


def recover(
    task: Task,
    devices: int = 2000,
    windows: int = 6,
    *,
    seed: int = 0,
    greed: str = GREEDS[0],
    progress: Callable[[int, int], None] | None = None,
) -> Recovery:
    """Ask `devices` devices in each of windows * task.w steps, and guess their values.

    seed: of the values, the devices' randomness and the server's choices. progress:
    devices done, devices in all. Raises UserError unless the Task has a method.
    """
    if task.method is None or task.w is None:
        raise UserError("Only a Task with a method answers queries.")
    if greed not in GREEDS:
        raise UserError(f"greed must be one of {', '.join(GREEDS)}.")
    random = np.random.default_rng(seed)
    values = random.integers(task.symbols, size=devices)
    steps = windows * task.w
    found = []
    for device in range(devices):
        found += _asked(task, device, int(values[device]), steps, greed, random)
        if progress:
            progress(device + 1, devices)
    likely = np.zeros((devices, steps + 1, task.symbols))
    if found:
        where = np.array([answer[:3] for answer in found])
        np.add.at(
            likely,
            (where[:, 0], where[:, 1] + 1),
            _likelihoods(task, where[:, 2], [answer[3] for answer in found]),
        )
    sums = np.cumsum(likely, axis=1)
    # Guesses that are equally likely are broken by chance: in the first window always the same way.
    sums[:, 1:] += random.uniform(0, 1e-9, sums[:, 1:].shape)
    ends = np.arange(task.w, steps + 1)
    within = sums[:, ends] - sums[:, ends - task.w]
    first = sums[:, task.w :: task.w]
    truth = values[:, None]
    return Recovery(
        task,
        devices,
        np.count_nonzero(within.argmax(axis=2) == truth, axis=0),
        np.count_nonzero(first.argmax(axis=2) == truth, axis=0),
    )


class _Slot:
    data = b""

    def read(self) -> bytes:
        return self.data

    def write(self, data: bytes | bytearray, /) -> None:
        self.data = bytes(data)


class _Source:
    quality = TEST

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random

    def fill(self, buf: bytearray) -> None:
        buf[:] = self._random.bytes(len(buf))


class _Bare:
    """Messages as they are: nothing gets lost here."""

    def __init__(self, message: bytearray) -> None:
        self._message = message

    def slot(self) -> bytearray:
        return bytearray(len(self._message) - HEAD - TAIL)

    def frame(self, out: bytearray, number: int = -1) -> None:
        out[:] = self._message[HEAD:-TAIL]


class _Line:
    """A link whose other end is the server's lists."""

    def __init__(self) -> None:
        self.inbox = bytearray()
        self.queries: list[bytearray] = []
        self.heard: list[bytes] = []

    def encoder(self, message: bytearray, same: int, counted: int) -> _Bare:
        return _Bare(message)

    def write(self, frame: bytearray) -> bool:
        self.heard.append(bytes(frame))
        return True

    def receive(self) -> int:
        if not self.queries:
            return 0
        self.inbox = self.queries.pop(0)
        return len(self.inbox)


# Device, step, entry and report of an answer.
Answer = tuple[int, int, int, bytes]


def _asked(
    task: Task, device: int, value: int, steps: int, greed: str, random: np.random.Generator
) -> list[Answer]:
    """All that a device says to a server of such greed."""
    assert task.w is not None
    slots = _Slot(), _Slot()
    provision(State(*slots), task.w)
    ledger = Ledger(State(*slots), task, task.epsilon, task.w)
    line = _Line()
    entropy = Entropy(_Source(random), pool_words(task), allow_test=True)
    rounds = OracleRounds(task, entropy, ledger)
    agent = RoundAgent(task, entropy, line, device.to_bytes(8, "little"), rounds)
    spends: list[int] = []
    found: dict[tuple[int, int], list[Answer]] = {}
    for step in range(steps):
        agent.tick(value if task.bins is None else task.bins[value - 1] if value else -(1 << 30))
        spends.append(0)
        agent.service()
        for query in _queries(task, spends, step, greed, random):
            line.queries.append(query)
            agent.look()
        for message in line.heard:
            if message[1] != ANSWER:
                continue
            entry = message[ENTRY_AT] | message[ENTRY_AT + 1] << 8
            answers = found.setdefault((step, message[PHASE_AT]), [])
            if not answers:
                spends[-1] += task.spends[entry]
            answers.append((device, step, entry, message[-task.payload :]))
        line.heard.clear()
    # A repetition says nothing new, unless it is none.
    once = [answers if len(set(answers)) > 1 else answers[:1] for answers in found.values()]
    return [answer for answers in once for answer in answers]


def _queries(
    task: Task, spends: list[int], step: int, greed: str, random: np.random.Generator
) -> list[bytearray]:
    """Queries for this step: what may be left, for both phases, each again and for too much."""
    assert task.w is not None
    assert task.epsilon is not None
    left = task.epsilon - sum(spends[-task.w :])
    found = []
    for phase in range(2):
        entries = [i for i, spend in enumerate(task.spends) if spend <= left]
        if not entries:
            break
        entry = entries[0] if greed == "spread" else entries[-1]
        if greed == "at random":
            entry = int(random.choice(entries))
        left -= task.spends[entry]
        found.append(_query(task, step, phase, entry))
        # And again, and again for more.
        found += [_query(task, step, phase, entry)] * 3
        found.append(_query(task, step, phase, len(task.spends) - 1))
    return found or [_query(task, step, 0, 0)]


def _query(task: Task, t: int, phase: int, entry: int) -> bytearray:
    query = bytearray(put_query(None, 0, task.id, t, phase, entry, 0, GROUPS))
    put_query(query, 0, task.id, t, phase, entry, 0, GROUPS)
    return query


def _likelihoods(task: Task, entries: Counts, reports: list[bytes]) -> npt.NDArray[np.float64]:
    """(n, d) the logarithm of each report's probability for each value, up to a constant."""
    lie = np.array(task.thresholds)[entries] / SCALE
    said = np.frombuffer(b"".join(reports), np.uint8).reshape(len(reports), task.payload)
    found = np.empty((len(reports), task.symbols))
    if task.mechanism == OUE:
        # Of the bits only the value's own has another chance than for the other values.
        one, zero = np.log(0.5 / lie), np.log(0.5 / (1 - lie))
        for value in range(task.symbols):
            found[:, value] = np.where(bit(said, value), one, zero)
        return found
    size = task.symbols if task.mechanism == GRR else task.buckets
    truth, others = np.log(1 - (size - 1) * lie), np.log(lie)
    symbols = said[:, 0].astype(np.int64)
    if task.width == 2:
        symbols |= said[:, 1].astype(np.int64) << 8
    for value in range(task.symbols):
        if task.mechanism == GRR:
            right = symbols == value
        else:
            hashed, bucket = hashes(task, said, value)
            right = hashed == bucket
        found[:, value] = np.where(right, truth, others)
    return found


def write_growth(recovery: Recovery, path: str | Path) -> None:
    """Draw how the guesses grow with the windows, and that no single window exceeds its bound.

    The file's name says the format (.svg, .png, .pdf). Raises UserError when it can't
    be written or its format is unknown.
    """
    check_picture(path)
    count = len(recovery.growth)
    with drawing((9.6, 3.6)) as figure:
        axis = figure.subplots()
        many = np.arange(1, count + 1)
        single = recovery.windows[:: recovery.task.w] / recovery.devices
        for y, label, style, colour in (
            (
                [recovery.bound(int(k)) for k in many],
                "no more is possible from all so far",
                "--",
                QUIET,
            ),
            (recovery.growth / recovery.devices, "from all windows so far", "o-", RELEASED),
            (single, "from this window alone", "s-", ORIGINAL),
        ):
            axis.plot(many, y, style, color=colour, label=label, markersize=4, linewidth=1.2)
        for y, label, style in (
            (recovery.bound(), "no more is possible from one window", "-"),
            (1 / recovery.task.symbols, "blind guesses", ":"),
        ):
            axis.axhline(y, color=QUIET, linestyle=style, linewidth=0.8, label=label)
        axis.set_xticks(many)
        axis.set_ylim(0, 1)
        axis.set_xlabel(f"windows of {counted(recovery.task.w or 0, 'step')}")
        axis.set_ylabel("values guessed right")
        # Beside the curves, which may lie anywhere.
        axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0, frameon=False)
        save(figure, path)
