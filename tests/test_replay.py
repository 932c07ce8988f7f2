"""What replay recomputes, against the device's own loop on the same words."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
import pytest

from tests.crr_tasks import random_crr, threshold
from tinyldp.errors import UserError
from tinyldp.replay import boot_nonce, bytes_needed, displacements, replay
from tinyldp_device.agent import Agent
from tinyldp_device.entropy import Entropy, Replay
from tinyldp_device.mechanism import pool_words
from tinyldp_protocol.framing import MAX_MESSAGE, Decoder, Encoder
from tinyldp_protocol.messages import ENDED, RELEASE, SEQUENCE_AT, get_word
from tinyldp_protocol.task import GRR, JITTERSORT, OLH, OUE, RANSWITCH, SCALE, STASWITCH, Task

N = 3000


def make_task(mechanism: int = RANSWITCH, k: int = 5, symbols: int = 16, **more: Any) -> Task:
    numbers: dict[str, Any] = {
        "mechanism": mechanism,
        "symbols": symbols,
        "thresholds": [round(0.1 * SCALE)],
        "tick": 1000,
        "batch": 1 if mechanism == OUE else 7,
        "resend": 5,
        "beacon": 5,
        "outbox": 16,
    }
    if mechanism <= JITTERSORT:
        numbers.update(window=k, k=k)
    if mechanism == JITTERSORT:
        numbers["thresholds"] = [SCALE - 3_000_000 * (k // 2), *[1_500_000] * (k // 2)]
    if mechanism == GRR:
        numbers["thresholds"] = [SCALE // (2 * symbols)]
    if mechanism == OLH:
        numbers["buckets"] = 5
    return Task({**numbers, **more})


def words_for(task: Task, seed: int = 5, n: int = N, pool: int | None = None) -> bytes:
    return np.random.default_rng(seed).bytes(bytes_needed(task, n, pool))


def with_other_words(words: bytes, pool: int) -> bytes:
    """Ten words are changed, after those that the start-up test throws away."""
    at = 8 + 3 * pool * -(-1024 // (3 * pool)) + 60
    return words[:at] + bytes(255 - byte for byte in words[at : at + 30]) + words[at + 30 :]


class Wire:
    """A link that takes every frame and never answers; keeps the released values."""

    inbox = bytearray(0)

    def __init__(self, task: Task) -> None:
        self.values: dict[int, bytes] = {}
        self.size = task.batch * task.width

    def encoder(self, message: bytearray, same: int, counted: int) -> Encoder:
        return Encoder(message, same, counted)

    def write(self, frame: bytearray) -> bool:
        decoder = Decoder(MAX_MESSAGE)
        decoder.feed(frame, 0, len(frame))
        end = decoder.length
        assert end
        if decoder.message[1] == RELEASE:
            sequence = get_word(decoder.message, SEQUENCE_AT)
            self.values[sequence] = bytes(decoder.message[end - self.size : end])
        return True

    def receive(self) -> int:
        return 0


def run_device(
    task: Task, words: bytes, symbols: list[int], pool: int | None
) -> tuple[bytes, list[Any]]:
    wire = Wire(task)
    entropy = Entropy(Replay(BytesIO(words)), pool or pool_words(task), allow_test=True)
    agent = Agent(task, entropy, wire, bytes(8))
    for symbol in symbols:
        agent.tick(symbol)
        agent.service()
    agent.stop()
    for _ in range((task.window or task.block or 1) + 1):
        agent.tick(None)
        agent.service()
    assert agent.health == ENDED
    assert list(wire.values) == list(range(-(-agent.count // task.batch)))
    data = b"".join(wire.values.values())
    if task.mechanism in (OUE, OLH):
        rows = np.frombuffer(data, np.uint8).reshape(-1, task.width).tolist()
        return bytes(entropy.nonce), rows[: agent.count]
    values = [int(v) for v in np.frombuffer(data, dtype="<u2" if task.width == 2 else "u1")]
    return bytes(entropy.nonce), values[: agent.count]


@pytest.mark.parametrize("mechanism", [RANSWITCH, STASWITCH, JITTERSORT])
@pytest.mark.parametrize(("symbols", "pool"), [(16, 64), (1000, 64), (16, 50), (16, 3)])
def test_replay_gives_what_the_device_releases(mechanism: int, symbols: int, pool: int) -> None:
    task = make_task(mechanism, symbols=symbols)
    words = words_for(task, pool=pool)
    stream = [int(s) for s in np.random.default_rng(1).integers(0, symbols, N)]
    nonce, released = run_device(task, words, stream, pool)
    assert boot_nonce(words) == nonce
    assert list(replay(task, words, stream, pool)) == released
    assert list(replay(task, BytesIO(words), stream, pool)) == released
    assert sorted(released) == sorted(stream)
    assert list(replay(task, with_other_words(words, pool), stream, pool)) != released


@pytest.mark.parametrize("mechanism", [GRR, OUE, OLH])
@pytest.mark.parametrize(
    ("symbols", "pool"), [(16, None), (1000, None), (16, 64), (16, 50), (16, 3), (100, 64)]
)
def test_replay_gives_what_an_oracle_reports(
    mechanism: int, symbols: int, pool: int | None
) -> None:
    task = make_task(mechanism, symbols=symbols)
    n = 300
    words = words_for(task, n=n, pool=pool)
    stream = [int(s) for s in np.random.default_rng(1).integers(0, symbols, n)]
    nonce, reported = run_device(task, words, stream, pool)
    assert boot_nonce(words) == nonce
    found = replay(task, words, stream, pool)
    assert found.tolist() == reported
    assert found.shape == ((n, task.width) if mechanism >= OUE else (n,))
    other = with_other_words(words, pool or pool_words(task))
    assert replay(task, other, stream, pool).tolist() != reported


@pytest.mark.parametrize("pool", [64, 3])
@pytest.mark.parametrize("block", [None, 3])
def test_replay_gives_what_crr_releases(block: int | None, pool: int) -> None:
    """With a short block at the end."""
    more = {} if block is None else {"block": block, "memory": 2}
    task = random_crr(np.random.default_rng(1), n=3, batch=7, thresholds=[threshold(1)], **more)
    n = 200
    words = words_for(task, n=n, pool=pool)
    stream = [int(s) for s in np.random.default_rng(1).integers(0, 3, n)]
    nonce, released = run_device(task, words, stream, pool)
    assert boot_nonce(words) == nonce
    assert len(released) == n
    assert replay(task, words, stream, pool).tolist() == released
    assert replay(task, with_other_words(words, pool), stream, pool).tolist() != released
    with pytest.raises(UserError, match="no displacement"):
        displacements(task, words, n)


@pytest.mark.parametrize("mechanism", [GRR, OUE, OLH])
def test_an_oracle_moves_nothing(mechanism: int) -> None:
    task = make_task(mechanism)
    with pytest.raises(UserError, match="no displacement"):
        displacements(task, words_for(task), N)


@pytest.mark.parametrize("mechanism", [RANSWITCH, STASWITCH, JITTERSORT])
def test_displacements_lead_back_to_the_stream(mechanism: int) -> None:
    task = make_task(mechanism)
    words = words_for(task)
    stream = np.random.default_rng(2).integers(0, 16, N)
    moved = displacements(task, words, N)
    origins = np.arange(N) - moved
    assert sorted(origins) == list(range(N))
    assert list(stream[origins]) == list(replay(task, words, stream))
    if mechanism == JITTERSORT:
        assert 2 - task.window >= moved.min() >= 1 - task.window
    else:
        assert moved.min() == 1 - task.window
    assert (moved != 0).mean() > 0.3


def test_displacements_of_more_values_than_symbols() -> None:
    task = make_task()
    n = 66_000
    words = np.random.default_rng(3).bytes(bytes_needed(task, n))
    moved = displacements(task, words, n)
    assert np.abs(moved).max() < 200
    assert sorted(np.arange(n) - moved) == list(range(n))


def test_a_stream_shorter_than_the_window() -> None:
    task = make_task(k=9)
    assert sorted(replay(task, words_for(task), [3, 1, 2])) == [1, 2, 3]
    assert len(replay(task, words_for(task), [])) == 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (b"", "0 released values: they end"),
        (b"a nonce." + bytes(5000), "0 released values: stuck"),
        (np.random.default_rng(5).bytes(2000), "256 released values: they end"),
    ],
)
def test_words_that_cannot_be_used(words: bytes, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        replay(make_task(k=2), words, [1] * N)


def fewest(task: Task, n: int, pool: int, seed: int) -> int:
    """The least number of bytes with which n values can be released."""
    words = np.random.default_rng(seed).bytes(bytes_needed(task, n, pool))
    low, high = 0, len(words)
    while low + 1 < high:
        middle = (low + high) // 2
        try:
            replay(task, words[:middle], [1] * n, pool)
            high = middle
        except UserError:
            low = middle
    return high


@pytest.mark.parametrize("mechanism", [JITTERSORT, GRR, OUE, OLH])
@pytest.mark.parametrize("pool", [3, 50, 64])
def test_bytes_needed_are_hardly_more_than_are_used(mechanism: int, pool: int) -> None:
    task = make_task(mechanism, symbols=24)
    few, many = (fewest(task, n, pool, 3) for n in (1000, 2000))
    # All but the redraws, which are allowed for once, grow with the number of values.
    assert bytes_needed(task, 2000, pool) - bytes_needed(task, 1000, pool) <= 1.4 * (many - few)
    assert bytes_needed(task, 2000, pool) >= many


@pytest.mark.parametrize("threshold", [1, SCALE // 40])
def test_bytes_needed_suffice(threshold: int) -> None:
    task = make_task(k=40, thresholds=[threshold])
    for seed in range(20):
        words = np.random.default_rng(seed).bytes(bytes_needed(task, 100))
        assert len(replay(task, words, [1] * 100)) == 100
    assert bytes_needed(task, 100) < 100_000
