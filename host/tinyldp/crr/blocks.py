"""The beliefs about blocks that a Task's devices reach, each worked out once.

As beliefs.Beliefs, for CRR_BATCH; the device package itself works them out. A block's coupling is
sparse: each block goes to one of those that are kept, but for the most probable one, which also
fills up others.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.crr.beliefs import Beliefs
from tinyldp.crr.couplings import stored
from tinyldp.crr.tables import TableBeliefs
from tinyldp_device.blocks import NOWHERE, BlockCoupling
from tinyldp_device.coupling import BELIEF
from tinyldp_protocol.task import SCALE, TABLE, Task

Array = npt.NDArray[Any]

# Memory for beliefs, bytes.
_MEMORY = 1 << 28
# Above all units.
_BEYOND = 0xFFFF
_TABLES = ("belief", "target", "kept", "marginal", "fill")


class BlockBeliefs:
    """Beliefs by number; 0 is the one that a device starts with.

    belief, target: (m, n^w) of each block, as BlockCoupling has them. kept, fill, marginal: (m, r)
    the blocks that can be released, and their units. ends: (m, 2, r) where these end, of fill and
    of marginal. leakage, gain: (m, r) as of Beliefs. count: (m,) how many are kept. Rows beyond
    `size` mean nothing.
    """

    def __init__(self, task: Task) -> None:
        # What it carries from block to block is its own affair elsewhere.
        self._coupling: Any = BlockCoupling(task)
        self.q = task.thresholds[0] / SCALE
        self.block = self._coupling.block
        self.symbols = task.symbols
        blocks, most = len(self._coupling.belief), len(self._coupling.kept)
        self.size = 0
        self.most = _MEMORY // (4 * blocks + 18 * most + 300)
        self._numbers: dict[tuple[bytes, int], int] = {}
        self._carried: list[tuple[bytes, int]] = []
        self.belief = np.zeros((1, blocks), dtype=np.uint16)
        self.target = np.zeros((1, blocks), dtype=np.uint16)
        self.kept = np.zeros((1, most), dtype=np.uint16)
        self.marginal = np.zeros((1, most), dtype=np.uint16)
        self.fill = np.zeros((1, most), dtype=np.uint16)
        self.ends = np.zeros((1, 2, most), dtype=np.uint16)
        self.leakage = np.zeros((1, most), dtype=np.float32)
        self.gain = np.zeros((1, most), dtype=np.float32)
        self.count = np.zeros(1, dtype=np.int64)
        self._next = np.zeros((1, most), dtype=np.int32)
        self._find(self._coupling._carried.tobytes(), self.block)

    def shorter(self, numbers: Array, length: int) -> Array:
        """(m,) the beliefs about a last block of this length, in place of those of whole ones."""
        different, which = np.unique(numbers, return_inverse=True)
        found = [self._find(self._carried[number][0], length) for number in different.tolist()]
        return np.array(found, dtype=np.int32)[which.reshape(-1)]

    def follow(self, numbers: Array, kept: Array) -> Array:
        """(m,) the beliefs after those of these numbers (m,), once kept[k] (m,) are released.

        Numbers from before this call may have another meaning after it, but for 0.
        """
        most = self._next.shape[1]
        at = numbers.astype(np.int64) * most + kept
        found = self._next.reshape(-1).take(at)
        unknown = np.unique(at[found < 0])
        for edge in unknown.tolist():
            following = self._after(*divmod(edge, most))
            self._next.reshape(-1)[edge] = following
        if len(unknown):
            found = self._next.reshape(-1).take(at)
            if self.size > self.most:
                found = self._forget(found)
        return found

    def told(self, numbers: Array, kept: Array) -> Array:
        """(m, n^w) M(y|x) for all blocks x, of beliefs (m,) and the releases y = kept[k] (m,)."""
        rows = np.arange(len(numbers))
        belief = self.belief[numbers].astype(np.float64)
        target = self.target[numbers]
        share = (target == kept[:, np.newaxis]).astype(np.float64)
        top = self.kept[numbers, 0].astype(np.int64)
        share[rows, top] = self.fill[numbers, kept] / belief[rows, top]
        marginal = self.marginal[numbers, kept][:, np.newaxis] / BELIEF
        return np.where(target == NOWHERE, marginal, self.q * marginal + (1 - self.q) * share)

    def _after(self, number: int, kept: int) -> int:
        coupling = self._coupling
        carried, length = self._carried[number]
        self._set(carried)
        coupling.length, coupling.size = length, coupling.symbols**length
        coupling.count = int(self.count[number])
        for name in _TABLES:
            getattr(coupling, name)[:] = array("H", getattr(self, name)[number].tobytes())
        coupling.update(kept)
        return self._find(coupling._carried.tobytes(), self.block)

    def _set(self, carried: bytes) -> None:
        self._coupling._carried[:] = array("H", carried)

    def _find(self, carried: bytes, length: int) -> int:
        key = (carried, length)
        number = self._numbers.get(key)
        if number is None:
            self._numbers[key] = number = self.size
            self._carried.append(key)
            self.size += 1
            self._reserve()
            self._set(carried)
            self._coupling.make(length)
            self._write(number)
        return number

    def _write(self, number: int) -> None:
        coupling = self._coupling
        size, count = coupling.size, coupling.count
        for name in _TABLES:
            row = np.frombuffer(getattr(coupling, name), dtype=np.uint16).copy()
            row[size if name in ("belief", "target") else count :] = 0
            getattr(self, name)[number] = row
        self.target[number, size:] = NOWHERE
        self.ends[number] = _BEYOND
        self.ends[number, 0, :count] = np.cumsum(self.fill[number, :count])
        self.ends[number, 1, :count] = np.cumsum(self.marginal[number, :count])
        self.count[number] = count
        self._next[number] = -1
        each = np.full(count, number)
        kernel = self.told(each, np.arange(count))[:, :size]
        share = self.marginal[number, :count] / BELIEF
        ratio = kernel / share[:, np.newaxis]
        leakage = np.maximum(np.log(ratio.max(axis=1)), -np.log(ratio.min(axis=1)))
        self.leakage[number, :count] = stored(leakage, self.q)
        belief = self.belief[number, :size] / BELIEF
        self.gain[number, :count] = (ratio * np.log(ratio)) @ belief

    def _reserve(self) -> None:
        had = len(self.belief)
        if self.size <= had:
            return
        for name in (*_TABLES, "ends", "leakage", "gain", "count", "_next"):
            old = getattr(self, name)
            new = np.zeros((2 * had, *old.shape[1:]), dtype=old.dtype)
            new[:had] = old
            setattr(self, name, new)

    def _forget(self, numbers: Array) -> Array:
        """Keep these (m,) and the first one alone; their new numbers."""
        kept, where = np.unique(np.append(numbers, 0), return_inverse=True)
        for name in (*_TABLES, "ends", "leakage", "gain", "count"):
            values = getattr(self, name)
            values[: len(kept)] = values[kept]
        self._next[: len(kept)] = -1
        self.size = len(kept)
        self._carried = [self._carried[number] for number in kept.tolist()]
        self._numbers = {key: number for number, key in enumerate(self._carried)}
        return where.reshape(-1)[:-1].astype(np.int32)


def make_beliefs(task: Task) -> Beliefs | BlockBeliefs | TableBeliefs:
    """Those of a Task, none of which is known yet but the first."""
    if task.rule == TABLE:
        return TableBeliefs(task)
    return Beliefs(task) if task.block is None else BlockBeliefs(task)
