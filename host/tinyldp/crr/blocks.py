"""What devices of CRR_BATCH believe about their next block: see graph.py.

The device package itself works it out. A block's coupling is sparse: each block goes to one of
those that are kept, but for the most probable one, which also fills up others.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.crr.beliefs import Beliefs
from tinyldp.crr.couplings import mixed, stored
from tinyldp.crr.graph import BeliefGraph
from tinyldp.crr.model import PRIOR_SCALE
from tinyldp.crr.tables import TableBeliefs
from tinyldp_device.blocks import NOWHERE, BlockCoupling
from tinyldp_protocol.task import SCALE, TABLE, Task

Array = npt.NDArray[Any]

# Above all units.
_BEYOND = 0xFFFF
# Of blocks, and of those that are kept.
_OF_BLOCKS = ("belief", "target")
_OF_KEPT = ("kept", "marginal", "fill")


class BlockBeliefs(BeliefGraph):
    """Beliefs by number, each known by what is carried and by the block's length.

    belief, target: (m, n^w) of each block, as BlockCoupling has them. kept, fill, marginal: (m, r)
    the blocks that can be released, and their units. ends: (m, 2, r) where these end, of fill and
    of marginal. count: (m,) how many are kept. What is released is kept[k], by its k.
    """

    belief: Array
    target: Array
    kept: Array
    marginal: Array
    fill: Array
    ends: Array
    count: Array

    def __init__(self, task: Task) -> None:
        self._coupling = BlockCoupling(task)
        self.q = task.thresholds[0] / SCALE
        self.block = self._coupling.block
        self.symbols = task.symbols
        blocks, most = len(self._coupling.belief), len(self._coupling.kept)
        arrays: dict[str, Array] = {
            name: np.zeros((1, blocks), dtype=np.uint16) for name in _OF_BLOCKS
        }
        arrays |= {name: np.zeros((1, most), dtype=np.uint16) for name in _OF_KEPT}
        arrays["ends"] = np.zeros((1, 2, most), dtype=np.uint16)
        arrays["count"] = np.zeros(1, dtype=np.int64)
        carried = self._coupling.carried
        super().__init__(len(carried) + 1, most, 4 * blocks + 18 * most + 300, arrays)
        self._find(np.array([[*carried, self.block]]))

    def shorter(self, numbers: Array, length: int) -> Array:
        """(m,) the beliefs about a last block of this length, in place of those of whole ones."""
        different, which = np.unique(numbers, return_inverse=True)
        rows = self._index.rows[different]
        rows[:, -1] = length
        return self._find(rows)[which.reshape(-1)]

    def told(self, numbers: Array, kept: Array) -> Array:
        """(m, n^w) M(y|x) for all blocks x, of beliefs (m,) and the releases y = kept[k] (m,)."""
        rows = np.arange(len(numbers))
        belief = self.belief[numbers].astype(np.float64)
        target = self.target[numbers]
        share = (target == kept[:, np.newaxis]).astype(np.float64)
        top = self.kept[numbers, 0].astype(np.int64)
        share[rows, top] = self.fill[numbers, kept] / belief[rows, top]
        marginal = self.marginal[numbers, kept][:, np.newaxis] / PRIOR_SCALE
        return mixed(self.q, marginal, share, target != NOWHERE)

    def _after(self, numbers: Array, released: Array) -> Array:
        return np.array(
            [self._updated(*edge) for edge in zip(numbers.tolist(), released.tolist(), strict=True)]
        )

    def _updated(self, number: int, kept: int) -> list[int]:
        coupling = self._coupling
        length = self._carry(number)
        coupling.length, coupling.size = length, self.symbols**length
        coupling.count = int(self.count[number])
        for name in (*_OF_BLOCKS, *_OF_KEPT):
            getattr(coupling, name)[:] = array("H", getattr(self, name)[number].tobytes())
        coupling.update(kept)
        return [*coupling.carried, self.block]

    def _carry(self, number: int) -> int:
        """Make the coupling carry what this belief does; the length of its block."""
        *carried, length = self._index.rows[number].tolist()
        self._coupling.carried[:] = array("H", carried)
        return length

    def _write(self, part: slice) -> None:
        for number in range(part.start, part.stop):
            self._coupling.make(self._carry(number))
            self._write_one(number)

    def _write_one(self, number: int) -> None:
        """From the coupling."""
        coupling = self._coupling
        size, count = coupling.size, coupling.count
        for names, used in ((_OF_BLOCKS, size), (_OF_KEPT, count)):
            for name in names:
                row = np.frombuffer(getattr(coupling, name), dtype=np.uint16).copy()
                row[used:] = 0
                getattr(self, name)[number] = row
        self.target[number, size:] = NOWHERE
        self.ends[number] = _BEYOND
        self.ends[number, 0, :count] = np.cumsum(self.fill[number, :count])
        self.ends[number, 1, :count] = np.cumsum(self.marginal[number, :count])
        self.count[number] = count
        each = np.full(count, number)
        kernel = self.told(each, np.arange(count))[:, :size]
        share = self.marginal[number, :count] / PRIOR_SCALE
        ratio = kernel / share[:, np.newaxis]
        leakage = np.maximum(np.log(ratio.max(axis=1)), -np.log(ratio.min(axis=1)))
        self.leakage[number, :count] = stored(leakage, self.q)
        belief = self.belief[number, :size] / PRIOR_SCALE
        gain = (ratio * np.log(ratio)) @ belief
        self.gain[number, :count] = np.where(self.leakage[number, :count] > 0, gain, 0.0)


# Of whole blocks.
OfBlocks = BlockBeliefs | TableBeliefs
AllBeliefs = Beliefs | OfBlocks


def make_beliefs(task: Task) -> AllBeliefs:
    """Those of a Task, none of which is known yet but the first."""
    if task.rule == TABLE:
        return TableBeliefs(task)
    return Beliefs(task) if task.block is None else BlockBeliefs(task)
