"""What CRR in blocks by a table gives away: decided in integers, at the vertices of all beliefs.

See crr.tables for the constraint. A block tells no more than epsilon = -ln q, given all that was
released before it, to whoever knows the chain: the device holds no belief, so that nothing is
rounded while it runs, and nothing is forgotten when it starts anew. w steps tell what the blocks
that they touch do (Sequence Information Privacy, Theorem 1). If the chain is another, two blocks
differ by no more than 1 / q^2 in any column, which the device itself checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tinyldp.certify.bounds import float_up, log_upper
from tinyldp.certify.crr import releases_in, with_delta
from tinyldp.crr.model import ROW_SCALE
from tinyldp.crr.steps import q_of, share_of
from tinyldp.crr.tables import TABLE_SCALE, Vertex, vertices
from tinyldp.figures import counted
from tinyldp_protocol.task import Task

# Bytes of each of a table's numbers on a device.
_NUMBER = 2


@dataclass(frozen=True)
class TableFigures:
    """All losses are upper bounds.

    vertices: laws of a block that were looked at. factor: the largest M / P or P / M at any, of
    what can be released (0 where P is 0 and M isn't); fault: what does not hold, or None.
    released: how many of `blocks` can be released. epsilon: of a block; fallback: whatever the
    chain. sequence: of any w consecutive steps, which touch `releases` blocks; with_delta: of
    them, but with probability delta. table_bytes: of a device, for the table as it draws from it.
    """

    vertices: int
    factor: Fraction
    fault: str | None
    released: int
    blocks: int
    block: int
    epsilon: Fraction
    fallback: Fraction
    w: int | None
    releases: int | None
    sequence: Fraction | None
    delta: Fraction | None
    with_delta: Fraction | None
    table_bytes: int

    def to_json(self) -> dict[str, Any]:
        return {
            "table": {
                "vertices": self.vertices,
                "epsilon": float_up(log_upper(self.factor)) if self.factor else None,
                "fault": self.fault,
                "blocks": self.blocks,
                "released": self.released,
                "bytes": self.table_bytes,
            },
            "block": {"steps": self.block, "epsilon": float_up(self.epsilon)},
            "wrong_model": {"epsilon": float_up(self.fallback)},
            "sequence": None
            if self.sequence is None
            else {
                "w": self.w,
                "releases": self.releases,
                "epsilon": float_up(self.sequence),
                "delta": None if self.delta is None else float_up(self.delta),
                "epsilon_at_delta": None if self.with_delta is None else float_up(self.with_delta),
            },
        }


def table_fault(task: Task, table: Sequence[int] | None = None) -> str | None:
    """What of a table is not as it must be, in words, or None: exactly, in integers.

    table: (S * S,), in place of the Task's own.
    """
    columns = _columns(task, table)
    size = len(columns)
    for x in range(size):
        if sum(column[x] for column in columns) != TABLE_SCALE:
            return f"row {x} of the table does not add up"
    share = share_of(task)
    for vertex in vertices(task):
        for y, column in enumerate(columns):
            # Times 2^15 and the vertex's total.
            law = sum(b * t for b, t in zip(vertex.weights, column, strict=True))
            most, least = max(column) * vertex.total, min(column) * vertex.total
            if share * most > ROW_SCALE * law or share * law > ROW_SCALE * least:
                x = column.index(max(column) if share * most > ROW_SCALE * law else min(column))
                return f"{y} tells too much about block {x}, {_when(vertex)}"
    return None


def table_factor(task: Task) -> tuple[Fraction, int]:
    """(the largest M / P or P / M of what can be released, how many vertices there are).

    0 where some block can't be released for another one, and so tells all.
    """
    columns = [column for column in _columns(task, None) if any(column)]
    worst, count = Fraction(1), 0
    if any(not min(column) for column in columns):
        return Fraction(0), sum(1 for _ in vertices(task))
    for vertex in vertices(task):
        count += 1
        for column in columns:
            law = sum(b * t for b, t in zip(vertex.weights, column, strict=True))
            worst = max(
                worst,
                Fraction(max(column) * vertex.total, law),
                Fraction(law, min(column) * vertex.total),
            )
    return worst, count


def table_figures(task: Task, delta: Fraction | None) -> TableFigures:
    """All of a Task's. delta: see TableFigures, for a Task with w."""
    epsilon = log_upper(1 / q_of(task))
    factor, count = table_factor(task)
    columns = _columns(task, None)
    releases = sequence = tailed = None
    if task.w is not None:
        releases = releases_in(task, task.w)
        sequence = releases * epsilon
        if delta:
            tailed = with_delta(epsilon, releases, delta)
    return TableFigures(
        vertices=count,
        factor=factor,
        fault=table_fault(task),
        released=sum(any(column) for column in columns),
        blocks=len(columns),
        block=task.block or 1,
        epsilon=epsilon,
        fallback=2 * epsilon,
        w=task.w,
        releases=releases,
        sequence=sequence,
        delta=delta or None,
        with_delta=tailed,
        table_bytes=_NUMBER * len(columns) ** 2,
    )


def _columns(task: Task, table: Sequence[int] | None) -> list[list[int]]:
    numbers = task.table if table is None else table
    assert numbers is not None
    size = task.symbols ** (task.block or 1)
    return [list(numbers[y::size]) for y in range(size)]


def _when(vertex: Vertex) -> str:
    if vertex.late:
        return f"in a first block that starts {counted(vertex.late, 'step')} late"
    if vertex.state is None:
        return "in the first block"
    return f"when the last symbols were number {vertex.state}"
