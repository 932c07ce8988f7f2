"""HeavyThresh's hash on a device and on the host: the same for as many pairs as one likes."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

from tinyldp.estimate.phi import hashes
from tinyldp.lanes import Lane
from tinyldp.lanes.packages import sources

PROGRAM = Path(__file__).parent / "programs" / "hashes.py"
PAIRS = 100_000


def different(lane: Lane, pairs: int) -> list[int]:
    """Which thousands of hashes the lane has otherwise than the host."""
    lane.put({PROGRAM.name: PROGRAM.read_bytes()})
    result = lane.run(PROGRAM.name, str(pairs), timeout=300)
    assert result.exit_code == 0, result.stderr.decode()
    found = [
        int(low) | int(high) << 24
        for low, high in (line.split() for line in result.stdout.decode().splitlines())
    ]
    pair = np.arange(pairs, dtype=np.int64)
    blocks, items = (pair % 32).astype(np.uint32), (pair * 7919 % 100003).astype(np.uint32)
    thousands = hashes(b"task-id!", blocks, items).astype("<u4").reshape(-1, 1000)
    expected = [zlib.crc32(thousand.tobytes()) for thousand in thousands]
    assert len(found) == len(expected) == pairs // 1000
    return [i for i in range(len(found)) if found[i] != expected[i]]


@pytest.mark.parametrize("lane", ["unix"], indirect=True)
def test_a_device_hashes_as_the_host_does(lane: Lane) -> None:
    lane.install()
    assert different(lane, PAIRS) == []


@pytest.mark.parametrize("lane", ["unix"], indirect=True)
@pytest.mark.parametrize(
    ("before", "after"),
    [("d0 << 7 | d1 >> 9", "d0 << 9 | d1 >> 7"), ("word1 = 8 << 8", "word1 = 4 << 8")],
)
def test_another_hash_is_found(lane: Lane, before: str, after: str) -> None:
    lane.install()
    path = "tinyldp_protocol/hashing.py"
    source = sources()[path].decode()
    assert source.count(before) == 1
    lane.put({path: source.replace(before, after).encode()})
    assert different(lane, 2000) == [0, 1]
