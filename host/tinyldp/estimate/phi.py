"""HeavyThresh's signs for whole dictionaries: tinyldp_protocol's keyed hash in NumPy.

Phi has the entries sign(j, item) / sqrt(w) (Bassily and Smith 2015, as HeavyThresh uses it).
Each is a bit of HalfSipHash-2-4 (Aumasson and Bernstein 2012): key the Task's id, message
the number j // 32 of the block and the item, 4 bytes each, little-endian; + where bit j % 32 is 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp_protocol.task import Task

Array = npt.NDArray[Any]

BLOCK = 32
# Hashes at a time: they stay in the cache.
_CHUNK = 1 << 15
_SHIFTS = np.arange(BLOCK, dtype=np.uint32)


def signs(task: Task, items: npt.ArrayLike) -> npt.NDArray[np.int8]:
    """(len(items), w) of 1 and -1. items: integers in 0..symbols-1; task: with its id and w."""
    found = np.asarray(items, dtype=np.uint32).reshape(-1)
    w = task.coordinates
    blocks = -(-w // BLOCK)
    result = np.empty((len(found), w), dtype=np.int8)
    rows = max(1, _CHUNK // blocks)
    for start in range(0, len(found), rows):
        part = found[start : start + rows]
        words = hashes(
            task.id,
            np.tile(np.arange(blocks, dtype=np.uint32), len(part)),
            np.repeat(part, blocks),
        )
        bits = (words[:, None] >> _SHIFTS & 1).astype(np.int8).reshape(len(part), -1)
        result[start : start + rows] = 2 * bits[:, :w] - 1
    return result


def hashes(key: bytes, blocks: Array, items: Array) -> Array:
    """(n,) uint32: HalfSipHash-2-4 of block || item; key: 8 bytes; blocks, items: (n,) uint32."""
    k0 = np.uint32(int.from_bytes(key[:4], "little"))
    k1 = np.uint32(int.from_bytes(key[4:8], "little"))
    v0 = np.full(len(items), k0, dtype=np.uint32)
    v1 = np.full(len(items), k1, dtype=np.uint32)
    state = [v0, v1, v0 ^ np.uint32(0x6C796765), v1 ^ np.uint32(0x74656462)]
    # The last word: the message's length, 8, in its upper byte.
    for word in (blocks, items, np.uint32(8 << 24)):
        state[3] = state[3] ^ word
        _round(state)
        _round(state)
        state[0] = state[0] ^ word
    state[2] = state[2] ^ np.uint32(0xFF)
    for _ in range(4):
        _round(state)
    return state[1] ^ state[3]


def _round(state: list[Array]) -> None:
    v0, v1, v2, v3 = state
    v0 = v0 + v1
    v1 = _left(v1, 5) ^ v0
    v0 = _left(v0, 16)
    v2 = v2 + v3
    v3 = _left(v3, 8) ^ v2
    v0 = v0 + v3
    v3 = _left(v3, 7) ^ v0
    v2 = v2 + v1
    v1 = _left(v1, 13) ^ v2
    v2 = _left(v2, 16)
    state[:] = v0, v1, v2, v3


def _left(v: Array, bits: int) -> Array:
    return v << np.uint32(bits) | v >> np.uint32(32 - bits)
