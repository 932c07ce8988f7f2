"""A table of CRR in blocks: one kernel for every block, whatever was released before it.

With q = e / 2^14 = e^-epsilon, a table T of integers (each row sums to 2^15, M(y|x) = T_xy / 2^15)
is private for a chain of memory L if for the law b of a block after any L symbols, and for that
of one that starts with the prior, or 1 .. L - 1 steps later,

    q P(y) <= M(y|x) <= P(y) / q    with P(y) = sum b(x) M(y|x), for all blocks x and y.

Whoever knows the chain, and all that was released before, knows the next block by a mixture of
these laws, its vertices; P is linear in b, so that what holds at the vertices holds for the
mixture. (A block starts late where a boot cut off the one before it. Before L steps are over no
block was released, so that nothing but the prior is known.)

Source: the constraint of Sequence Information Privacy, for all beliefs at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.crr.model import PRIOR_SCALE, ROW_SCALE, longer
from tinyldp_protocol.task import Task

Array = npt.NDArray[Any]

# Blocks that a table can have: its 16-bit numbers take 4 KB of a device.
MOST_TABLE = 45
# What each of its rows sums to.
TABLE_SCALE = 1 << 15
# Doublings of the steps over which the long-run law is averaged.
_DOUBLINGS = 64


@dataclass(frozen=True)
class Vertex:
    """The law of a block, exactly: weights (n^w,) that sum to total.

    state: the last L symbols before it, the oldest most significant; None where the prior says
    what they were. late: steps that it then starts after the prior's first symbol.
    """

    state: int | None
    weights: tuple[int, ...]
    total: int
    late: int = 0

    @property
    def law(self) -> Array:
        """(n^w,) floats."""
        return np.array([weight / self.total for weight in self.weights])


def vertices(task: Task) -> Iterator[Vertex]:
    """Those of a Task of CRR_BATCH: its first block's, those after L symbols, late first ones'."""
    block, memory = task.block or 1, task.memory or 1
    yield _first(task, 0)
    for state in range(task.symbols**memory):
        yield Vertex(state, tuple(longer(task, (1,), block, state)), ROW_SCALE**block)
    for late in range(1, memory):
        yield _first(task, late)


def _first(task: Task, late: int) -> Vertex:
    """Of the prior's symbols from this one on, whatever those before it were."""
    block = task.block or 1
    size = task.symbols**block
    more = late + block - (task.memory or 1)
    weights = longer(task, task.prior, more)
    weights = [sum(weights[x::size]) for x in range(size)]
    return Vertex(None, tuple(weights), PRIOR_SCALE * ROW_SCALE**more, late)


def laws(task: Task) -> tuple[Array, Array]:
    """((n^w,), (n^L, n^w)) floats: the first block's law, and those after each L symbols."""
    found = [vertex.law for vertex in vertices(task)]
    return found[0], np.array(found[1 : 1 + len(task.prior)])


def long_run(task: Task) -> Array:
    """(n^w,) floats: the law of a block, averaged over all blocks of a long life from the prior.

    Chains that leave states for ever, or go round in a circle, have one, too.
    """
    first, rows = laws(task)
    states = len(rows)
    moved = rows.reshape(states, -1, states).sum(axis=1)
    # Each block is repeated, or not, with 1/2: which changes no average, and settles circles.
    lazy = (np.eye(states) + moved) / 2
    for _ in range(_DOUBLINGS):
        lazy = lazy @ lazy
        lazy /= lazy.sum(axis=1, keepdims=True)
    return first.reshape(-1, states).sum(axis=0) @ lazy @ rows


def table_of(task: Task) -> Array:
    """(n^w, n^w) integers: a row for each block x."""
    size = task.symbols ** (task.block or 1)
    return np.array(task.table, dtype=np.int64).reshape(size, size)


class TableBeliefs:
    """In the place of blocks.BlockBeliefs: devices hold no belief, the kernel is always the same.

    kernel: (n^w, n^w) M(y|x). first: (n^w,) law of the first block; after: (n^L, n^w) those of one
    after each L symbols.
    """

    def __init__(self, task: Task) -> None:
        self.block = task.block or 1
        self.symbols = task.symbols
        self.kernel = table_of(task) / TABLE_SCALE
        self.first, self.after = laws(task)


def nats(law: Array, told: Array) -> tuple[Array, Array]:
    """(m,) what releases tell at most and what they teach on average, of whom law is believed.

    law: (m, n^w) what is known of the blocks before. told: (m, n^w) M(y|x) of what was released.
    """
    chance = (law * told).sum(axis=1)
    most, least = told.max(axis=1), told.min(axis=1)
    leakage = np.log(np.maximum(most / chance, chance / least))
    ratio = told / chance[:, np.newaxis]
    gain = np.maximum((law * ratio * np.log(ratio)).sum(axis=1), 0.0)
    # What every block would have released tells nothing, and not what floats are rounded by.
    differ = most > least
    return np.where(differ, leakage, 0.0), np.where(differ, gain, 0.0)
