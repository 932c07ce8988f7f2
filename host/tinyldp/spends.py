"""What an answer may cost under each round-based method, in ledger units.

A ledger unit is 2^-16 of one epsilon. U = floor(epsilon / (2w)), epsilon in ledger
units, is the methods' own unit (LDP-IDS, with LBD's dissimilarity at epsilon / (2w)).

    LBU                 2U
    LSP, LPU, LPD, LPA  2wU
    LBA                 U, 2U, ..., wU
    LBD                 floor(j U / 2^s) for j = 1 .. floor(w 2^s / 2), and U; s is the grid
"""

from __future__ import annotations

from tinyldp.errors import UserError
from tinyldp_protocol.task import LBA, LBD, LBU

MOST_ENTRIES = 512
GRID = 2


def unit(epsilon: int, w: int) -> int:
    """U of a Task's epsilon (ledger units) and w; UserError when it is nothing."""
    found = epsilon // (2 * w)
    if not found:
        raise UserError(
            f"[privacy] epsilon must be {2 * w}/65536 or more for w = {w}: "
            "half a step's share of it is counted in 2^-16."
        )
    return found


def method_spends(method: int, epsilon: int, w: int, grid: int | None = None) -> list[int]:
    """The spends of a Task with this method, ascending; epsilon: ledger units, one or more.

    grid: LBD's s, by default the largest up to 2 that leaves every part of U a unit or more
    and no more than 512 spends. Raises UserError where there is no unit, or there are too
    many spends.
    """
    base = unit(epsilon, w)
    if method == LBU:
        return [2 * base]
    if method == LBA:
        _few(w, "LBA has a spend for each of w steps, and so w can be 512 at most")
        return [base * j for j in range(1, w + 1)]
    if method != LBD:
        return [2 * w * base]
    if grid is None:
        grid = GRID
        while (grid and (w << grid) // 2 > MOST_ENTRIES) or base >> grid == 0:
            grid -= 1
    if base >> grid == 0:
        raise UserError(
            f"[mechanism] grid can't be {grid} here: there are no {1 << grid} parts in a unit "
            f"of {base}/65536."
        )
    count = (w << grid) // 2
    _few(count, f"[mechanism] grid {grid} makes LBD {count} spends for w = {w}, and a Task has 512")
    return sorted({base * j >> grid for j in range(1, count + 1)} | {base})


def _few(count: int, why: str) -> None:
    if count > MOST_ENTRIES:
        raise UserError(f"{why}.")
