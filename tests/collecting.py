"""Devices for the collector's tests: the real device package on CPython, in a thread."""

import contextlib
import math
import os
import random
import threading
import time
from collections.abc import Mapping
from io import BytesIO

from tinyldp.replay import replay
from tinyldp_device.agent import Agent
from tinyldp_device.entropy import Entropy, Replay
from tinyldp_protocol import messages
from tinyldp_protocol.task import (
    GRR,
    JITTERSORT,
    LBA,
    LBD,
    LBU,
    OLH,
    OUE,
    SCALE,
    Task,
    write_file,
)

WORDS = 64


# What a small Task of each mechanism has besides, or has not (None).
_ORACLE = {"window": None, "k": None}
OWN: dict[int, Mapping[str, int | list[int] | None]] = {
    JITTERSORT: {"window": 5, "thresholds": [SCALE - 2 * 6_000_000, 4_000_000, 2_000_000]},
    GRR: {**_ORACLE, "thresholds": [1_000_000]},
    OUE: _ORACLE,
    OLH: {**_ORACLE, "buckets": 4},
}


def make_task(**changed: int | list[int] | None) -> Task:
    """A small Task, a RanSwitch unless `mechanism` is given, with changes; its id is known."""
    numbers: dict[str, int | list[int] | None] = {
        "mechanism": 1,
        "window": 4,
        "k": 3,
        "symbols": 8,
        "thresholds": [3_000_000],
        "tick": 10,
        "batch": 2,
        "resend": 20,
        "beacon": 10,
        "outbox": 255,
    }
    mechanism = changed.get("mechanism")
    own = OWN.get(mechanism, {}) if isinstance(mechanism, int) else {}
    task = Task({**numbers, **own, **changed})
    write_file(task)
    return task


def random_bytes(seed: int, size: int = 1 << 16) -> bytes:
    return random.Random(seed).randbytes(size)


def released(task: Task, seed: int, readings: list[int]) -> list:
    """What a device with these random words must release: symbols, or lists of bytes."""
    return replay(task, random_bytes(seed), readings, WORDS).tolist()


def readings(count: int, seed: int = 5) -> list[int]:
    return [random.Random(seed + i).randrange(8) for i in range(count)]


class Port:
    """A file descriptor whose reads and writes do not wait."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd

    def write(self, buf: bytearray, /) -> int | None:
        with contextlib.suppress(OSError):
            return os.write(self._fd, buf)
        return None

    def readinto(self, buf: bytearray, /) -> int | None:
        with contextlib.suppress(OSError):
            chunk = os.read(self._fd, len(buf))
            buf[: len(chunk)] = chunk
            return len(chunk)
        return None


class Device(threading.Thread):
    """Plays readings through an Agent, one each task.tick ms, until the host has all."""

    def __init__(self, task: Task, link, seed: int, pseudonym: bytes, values: list[int]) -> None:
        super().__init__(daemon=True)
        self.entropy = Entropy(Replay(BytesIO(random_bytes(seed))), WORDS, True)
        self.agent = Agent(task, self.entropy, link, pseudonym)
        self.halted = threading.Event()
        self._pause = task.tick / 1000
        self._values = iter(values)

    def run(self) -> None:
        while not self.halted.is_set() and not self.agent.idle():
            value = next(self._values, None)
            if value is None:
                self.agent.stop()
            self.agent.tick(value)
            self.agent.service()
            time.sleep(self._pause)


def encoded(put, *fields: object) -> bytes:
    """The message that one of messages.put_* writes."""
    message = bytearray(put(None, 0, *fields))
    put(message, 0, *fields)
    return bytes(message)


def hello(task: Task, pseudonym: bytes, nonce: bytes, lowest: int = 0) -> bytes:
    put = messages.put_hello
    return encoded(put, b"\0\1\0", task.id, pseudonym, nonce, messages.OS, lowest)


def release(nonce: bytes, sequence: int, values: bytes) -> bytes:
    return encoded(messages.put_release, nonce[:4], sequence, values)


def status(
    nonce: bytes, lowest: int = 0, count: int = 0, health: int = messages.RUNNING, drops: int = 0
) -> bytes:
    return encoded(messages.put_status, nonce[:4], health, drops, lowest, count)


def ack(nonce: bytes, wanted: int, asked: bool = False) -> bytes:
    return encoded(messages.put_ack, nonce[:4], wanted, asked)


def wait_until(condition, seconds: float = 30) -> None:
    """Poll; a condition that never holds fails the test."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def rounds_task(method: int, w: int = 4, epsilon: float = 2.0, **changed) -> Task:
    """A small Task of rounds over GRR, 4 symbols; spends as planning makes them."""
    unit = math.floor(epsilon * 65536 / (2 * w))
    spends = {LBU: [2 * unit], LBA: [unit * j for j in range(1, w + 1)]}
    if method == LBD:
        spends[LBD] = sorted({unit * j // 4 for j in range(1, 2 * w + 1)} | {unit})
    costs = spends.get(method, [2 * w * unit])
    symbols = changed.get("symbols", 4)
    # Rounded up, so that the loss is no more than the spend.
    thresholds = [math.ceil(SCALE / (math.exp(cost / 65536) + symbols - 1)) for cost in costs]
    numbers = {
        "mechanism": GRR,
        "method": method,
        "w": w,
        "epsilon": 2 * w * unit,
        "symbols": symbols,
        "spends": costs,
        "thresholds": thresholds,
        "tick": 100,
        "beacon": 1,
    }
    task = Task({**numbers, **changed})
    write_file(task)
    return task


def answer(nonce: bytes, t: int, phase: int, entry: int, report: bytes) -> bytes:
    return encoded(messages.put_answer, nonce[:4], t, phase, entry, report)


def refusal(nonce: bytes, t: int, phase: int, reason: int) -> bytes:
    return encoded(messages.put_refusal, nonce[:4], t, phase, reason)
