"""The simulator against the device package, bit for bit, on the same words."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from tests.faults import planted
from tests.simulating import make_task, per_round, played, random_task, random_words
from tinyldp.simulate import oracles, streams
from tinyldp.simulate.words import GivenWords
from tinyldp_protocol.hashing import PRIME
from tinyldp_protocol.task import GRR, JITTERSORT, OLH, OUE, RANSWITCH, SCALE, STASWITCH, Task

STREAMS = (RANSWITCH, STASWITCH, JITTERSORT)
ORACLES = (GRR, OUE, OLH)
DEVICES = 4


def same_streams(module: ModuleType, mechanism: int, tasks: int, seed: int) -> bool:
    """Whether whole segments agree for this many random Tasks; some shorter than the window."""
    rng = np.random.default_rng(seed)
    for _ in range(tasks):
        task = random_task(rng, mechanism)
        steps = int(rng.integers(0, 3 * task.window + 3))
        symbols = rng.integers(0, task.symbols, (DEVICES, steps))
        words = random_words(rng, (DEVICES, 2500))
        try:
            released = module.release(task, symbols, words)
        except (ValueError, IndexError):
            # It took words that the device does not take, or left its buffer.
            return False
        assert released.shape == symbols.shape
        for i in range(DEVICES):
            if played(task, symbols[i], words[i])[0] != released[i].tolist():
                return False
    return True


def same_reports(module: ModuleType, mechanism: int, tasks: int, seed: int) -> bool:
    rng = np.random.default_rng(seed)
    for _ in range(tasks):
        task = random_task(rng, mechanism)
        values = rng.integers(0, task.symbols, 8)
        words = random_words(rng, (8, per_round(task)))
        reports = module.reports(task, values, words)
        assert reports.shape == ((8,) if mechanism == GRR else (8, task.width))
        for i in range(8):
            if played(task, [values[i]], words[i])[0] != [reports[i].tolist()]:
                return False
    return True


@pytest.mark.parametrize("mechanism", STREAMS)
def test_streams_equal_the_device(mechanism: int) -> None:
    assert same_streams(streams, mechanism, 150, 1)


@pytest.mark.parametrize("mechanism", ORACLES)
def test_reports_equal_the_device(mechanism: int) -> None:
    assert same_reports(oracles, mechanism, 100, 2)


@pytest.mark.parametrize(
    ("mechanism", "old", "new"),
    [
        (RANSWITCH, "ahead >= self._held - 1", "ahead > self._held - 1"),
        (RANSWITCH, "np.minimum(out, self._window - 1", "np.minimum(out, self._window - 2"),
        (STASWITCH, "out >= room", "out > room"),
        (STASWITCH, "room &= np.uint32(_LOW)", "room &= np.uint32(1)"),
        (JITTERSORT, "np.where(odd == 1", "np.where(odd == 0"),
        (JITTERSORT, " + words // share", ""),
        (JITTERSORT, "self._keys[self._rows, slot] = self._keys[:, last]", "pass"),
    ],
)
def test_a_fault_in_a_stream_is_seen(mechanism: int, old: str, new: str) -> None:
    assert not same_streams(planted(streams, old, new), mechanism, 60, 1)


@pytest.mark.parametrize(
    ("mechanism", "old", "new"),
    [
        (GRR, "lie += lie >= values", "pass"),
        (GRR, "lie >= size - 1", "lie >= size"),
        (OUE, "range(task.symbols)", "range(task.symbols - 1)"),
        (OUE, "np.uint8(symbol & 7)", "np.uint8(7 - (symbol & 7))"),
        (OLH, "a = below(words, _EVEN) % PRIME", "a = words.row() % PRIME"),
        (OLH, "% PRIME % task.buckets", "% task.buckets"),
    ],
)
def test_a_fault_in_an_oracle_is_seen(mechanism: int, old: str, new: str) -> None:
    assert not same_reports(planted(oracles, old, new), mechanism, 60, 2)


@pytest.mark.parametrize("mechanism", STREAMS)
def test_words_taken_equal_the_device(mechanism: int) -> None:
    rng = np.random.default_rng(3)
    differ = 0
    for _ in range(40):
        task = random_task(rng, mechanism)
        symbols = rng.integers(0, task.symbols, (DEVICES, 30))
        given = random_words(rng, (DEVICES, 2500))
        words = GivenWords(given)
        fleet = streams.make_fleet(task, DEVICES, words)
        fleet.feed(symbols.T)
        fleet.finish()
        expected = [played(task, symbols[i], given[i])[1] for i in range(DEVICES)]
        assert words.taken().tolist() == expected
        differ += len(set(expected)) > 1
    assert differ > (2 if mechanism == JITTERSORT else 20)


def test_jittersort_draws_again_within_the_stream() -> None:
    """Three equal keys, and words that are refused i times on device i; then it goes on."""
    third = SCALE // 4
    task = make_task(JITTERSORT, window=3, k=2, symbols=256, thresholds=[SCALE - 2 * third, third])
    rng = np.random.default_rng(4)
    # Z = 2, 1, 0 for the first three values: all have the key 2.
    start = [SCALE // 2 + 1, 0, SCALE // 2]
    words = rng.integers(0, SCALE, (DEVICES, 200))
    for i in range(DEVICES):
        words[i, : 3 + i] = start + [SCALE - 1] * i
    symbols = rng.integers(0, 256, (DEVICES, 40))
    released = streams.release(task, symbols, words)
    for i in range(DEVICES):
        out, used = played(task, symbols[i], words[i])
        assert released[i].tolist() == out
        # One for each key, one for each release.
        assert used >= 80 + i


@pytest.mark.parametrize("first", range(3))
def test_olh_draws_its_key_again(first: int) -> None:
    task = make_task(OLH, symbols=100, buckets=5, thresholds=[SCALE // 9])
    rng = np.random.default_rng(5)
    limit = 512 * PRIME
    words = rng.integers(0, SCALE, (8, 20))
    for i in range(8):
        before = min(i, first)
        words[i, :before] = limit
        words[i, before : before + 2 + i] = [limit - 1 - i, *[SCALE - 1] * i, limit - 2]
    values = rng.integers(0, 100, 8)
    reports = oracles.reports(task, values, words)
    for i in range(8):
        out, used = played(task, [values[i]], words[i])
        assert [reports[i].tolist()] == out
        assert used == 3 + i + min(i, first)


@pytest.mark.parametrize("mechanism", STREAMS)
def test_a_segment_of_more_steps_than_sixteen_bits(mechanism: int) -> None:
    rng = np.random.default_rng(6)
    task = make_task(
        mechanism,
        window=5,
        k=5,
        symbols=300,
        thresholds=[SCALE - 4 * 3_000_000, 3_000_000, 3_000_000]
        if mechanism == JITTERSORT
        else [SCALE // 8],
    )
    steps = 70_000
    symbols = rng.integers(0, 300, (2, steps))
    words = rng.integers(0, SCALE, (2, 2 * steps + 300))
    released = streams.release(task, symbols, words)
    for i in range(2):
        assert played(task, symbols[i], words[i])[0] == released[i].tolist()


@pytest.mark.parametrize("mechanism", STREAMS)
def test_steps_may_come_in_any_parts(mechanism: int) -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        task = random_task(rng, mechanism)
        symbols = rng.integers(0, task.symbols, (200, DEVICES))
        words = rng.integers(0, SCALE, (DEVICES, 2000))
        whole = streams.release(task, symbols.T, words).T
        fleet = streams.make_fleet(task, DEVICES, GivenWords(words))
        ends = sorted(rng.integers(0, 200, 6).tolist())
        parts = [fleet.feed(part) for part in np.split(symbols, ends)] + [fleet.finish()]
        tokens = np.concatenate(parts)
        assert np.array_equal(streams.symbols_of(tokens), whole)
        # Each token also knows when its value came in.
        origins = streams.origins_of(tokens).astype(int)
        assert np.array_equal(np.sort(origins, axis=0), np.tile(np.arange(200), (DEVICES, 1)).T)
        assert np.array_equal(np.take_along_axis(symbols, origins, axis=0), whole)


def test_a_fleet_of_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    task = random_task(rng, STASWITCH)
    symbols = rng.integers(0, task.symbols, (10, 50))
    words = rng.integers(0, SCALE, (10, 800))
    whole = streams.release(task, symbols, words)
    monkeypatch.setattr(streams, "DEVICES", 3)
    assert np.array_equal(streams.release(task, symbols, words), whole)


def test_what_does_not_fit_is_refused() -> None:
    stream = make_task(RANSWITCH, window=4, k=4, symbols=8, thresholds=[1 << 20])
    oracle = make_task(GRR, symbols=8, thresholds=[1 << 20])
    one = np.zeros((1, 10), dtype=int)
    words = np.zeros((1, 100), dtype=int)
    for task, symbols in (
        (stream, one + 8),
        (stream, one - 1),
        (stream, one[0]),
        (stream, one / 2),
    ):
        with pytest.raises(ValueError, match="within the alphabet"):
            streams.release(task, symbols, words)
    for values in (one[0] + 8, one[0] - 1, one, one[0] / 2):
        with pytest.raises(ValueError, match="within the alphabet"):
            oracles.reports(oracle, values, words)
    for wrong in (words + SCALE, words - 1, words[0], words / 2):
        with pytest.raises(ValueError, match="below 2\\^24"):
            streams.release(stream, one, wrong)
    with pytest.raises(ValueError, match="words end"):
        streams.release(stream, one, words[:, :9])
    with pytest.raises(ValueError, match="words end"):
        # Stays are drawn again at the end; here each word leads outside.
        streams.release(stream, one, words[:, :10])
    with pytest.raises(ValueError, match="not an oracle"):
        oracles.reports(stream, one[0], words)
    with pytest.raises(ValueError, match="not a mechanism for streams"):
        streams.release(oracle, one, words)


def test_the_task_bounds_what_is_drawn() -> None:
    """Reports never leave the alphabet, whatever the words are."""
    task: Task = make_task(GRR, symbols=200, thresholds=[SCALE // 201])
    words = np.linspace(0, SCALE - 1, 5000).astype(int)[:, np.newaxis]
    for value in (0, 100, 199):
        reports = oracles.reports(task, np.full(5000, value), words)
        assert reports.dtype == np.uint8
        assert set(reports.tolist()) == set(range(200))
