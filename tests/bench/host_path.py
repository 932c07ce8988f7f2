"""Frames a second on the host, as a fraction of bare cbor2.loads on the same messages."""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import cbor2

from tests.collecting import make_task
from tinyldp.collect.collector import BATCH
from tinyldp.collect.deframing import Deframer
from tinyldp.collect.intake import Intake, Link
from tinyldp.collect.store import Store
from tinyldp_protocol.framing import HEAD, TAIL, Encoder
from tinyldp_protocol.messages import OS, put_hello, put_release
from tinyldp_protocol.task import Task

FRAMES = 20_000
CHUNK = 4096
ROUNDS = 15
_LINK = Link("bench")
_NONCE = bytes(range(8))


def _task() -> Task:
    return make_task(batch=1)


def _messages() -> list[bytes]:
    size = put_release(None, 0, bytes(4), 0, bytes(1))
    messages = []
    for sequence in range(FRAMES):
        buf = bytearray(size)
        put_release(buf, 0, _NONCE[:4], sequence, bytes((sequence * 7 % 16,)))
        messages.append(bytes(buf))
    return messages


def _framed(message: bytes) -> bytes:
    buf = bytearray(bytes(HEAD) + message + bytes(TAIL))
    encoder = Encoder(buf, HEAD)
    out = encoder.slot()
    encoder.frame(out)
    return bytes(out)


def _hello(task: Task, pseudonym: bytes) -> bytes:
    fields = (bytes(3), task.id, pseudonym, _NONCE, OS, 0)
    buf = bytearray(put_hello(None, 0, *fields))
    put_hello(buf, 0, *fields)
    return bytes(buf)


def _chunks(line: bytes) -> Iterator[bytes]:
    for at in range(0, len(line), CHUNK):
        yield line[at : at + CHUNK]


def _timed(work: Callable[[], None]) -> float:
    # Of the processor, in this process and in the kernel for it: other programs hardly matter.
    start = time.process_time()
    work()
    return time.process_time() - start


def measure() -> dict[str, float]:
    """Ratios of the shortest of rounds in which the three are timed in turn; frames a second."""
    task = _task()
    messages = _messages()
    line = b"".join(map(_framed, messages))
    seconds: dict[str, list[float]] = defaultdict(list)
    pseudonyms = count(1)
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(Path(folder) / "bench.db", task)

        def bare() -> None:
            loads = cbor2.loads
            for message in messages:
                loads(message)

        def host(commit: bool) -> None:
            intake = Intake(task, store)
            deframer = Deframer()
            intake.feed(_LINK, [_hello(task, next(pseudonyms).to_bytes(8, "big"))], 0)
            for chunk in _chunks(line):
                intake.feed(_LINK, deframer.feed(chunk), 0)
                if commit and intake.waiting() >= BATCH:
                    intake.committed(store.commit(intake.batch(0, 0)))
            if commit:
                intake.committed(store.commit(intake.batch(0, 0)))
            boots = intake.boots()
            assert [boot.received for boot in boots] == [FRAMES]

        for _ in range(ROUNDS):
            seconds["cbor2.loads"].append(_timed(bare))
            for name, commit in (("without storage", False), ("with storage", True)):
                seconds[name].append(_timed(lambda commit=commit: host(commit)))
        store.close()
    # The shortest, because another program can only make a round longer.
    shortest = {name: min(all_) for name, all_ in seconds.items()}
    ratios = {
        f"ratio {name}": shortest["cbor2.loads"] / shortest[name]
        for name in ("without storage", "with storage")
    }
    return ratios | {f"{name} a second": FRAMES / took for name, took in shortest.items()}
