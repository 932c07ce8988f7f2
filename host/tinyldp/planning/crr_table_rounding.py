"""From a kernel in floats to a table of integers over 2^15, which is then improved unit by unit.

What may be moved in a row is worked out in floats, on the safe side: whoever uses the table
decides exactly whether it is private (certify.crr_table).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.crr.tables import TABLE_SCALE

Array = npt.NDArray[Any]

# Cheapest places of each row that units are moved to.
_PLACES = 3
# Of a unit: what floats may be off by.
_SLACK = 1e-6


def rounded(kernel: Array) -> Array:
    """Integers whose rows sum to 2^15, each less than a unit off: by largest remainder."""
    exact = kernel / kernel.sum(axis=1, keepdims=True) * TABLE_SCALE
    # What the solver left of nothing is nothing.
    exact[exact < 1e-3] = 0.0
    table = np.floor(exact).astype(np.int64)
    rest = exact - table
    for row, left in zip(table, rest, strict=True):
        short = TABLE_SCALE - int(row.sum())
        row[np.argsort(-left, kind="stable")[:short]] += 1
    return table


def improved(table: Array, costs: Array, vertices: Array, q: float) -> Array:
    """The table (S, S) with units moved within its rows to where they cost less, while it may be.

    costs: (S, S) of a unit. vertices: (k, S) laws of a block. No column becomes used, or unused.
    """
    table = table.copy()
    law = vertices @ table
    used = np.flatnonzero(table.any(axis=0))
    for x, row in enumerate(costs):
        ranked = used[np.argsort(row[used], kind="stable")]
        for y in ranked[::-1]:
            for z in ranked[:_PLACES]:
                if row[z] >= row[y] or not table[x, y]:
                    break
                units = _movable(table, law, vertices[:, x], (x, int(y), int(z)), q)
                if units > 0:
                    table[x, y] -= units
                    table[x, z] += units
                    law[:, y] -= vertices[:, x] * units
                    law[:, z] += vertices[:, x] * units
    return table


def _movable(table: Array, law: Array, b: Array, move: tuple[int, int, int], q: float) -> int:
    """How many units of row x can go from column y to z.

    law: (k, S) P of the vertices. b: (k,) what these give to x.
    """
    x, y, z = move
    # q max <= P and q P <= T of y, T <= P / q and q P <= min of z, each with units moved.
    most, least = table[:, y].max(), table[:, z].min()
    with np.errstate(divide="ignore", invalid="ignore"):
        bounds = np.concatenate(
            [
                (law[:, y] - q * most) / b,
                (table[x, y] - q * law[:, y]) / (1 - q * b),
                np.where(b < q, (law[:, z] / q - table[x, z]) / (1 - b / q), np.inf),
                (least / q - law[:, z]) / b,
            ]
        )
    # Where b is 0 there is no bound (or no room at all before: then nothing is moved).
    return int(np.floor(np.clip(np.nanmin(bounds) - _SLACK, 0, table[x, y])))
