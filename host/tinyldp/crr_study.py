"""What a study of conditional randomized response states besides what every study does.

[mechanism]  name      "crr", or "crr-batch": several steps are released together
             rule      "preserve" (if absent): what is released has the shares of what is
                       measured; "min_error": the least loss (if absent, for crr-batch, which has
                       not preserve); "table": crr-batch, a table of the least loss for all that
                       may have been released before
             loss      "hamming" (if absent), "absolute", "squared", or a table of integers
                       0..1023, a row for each symbol: symmetric, with zeros in its diagonal
             prior     of the first symbol: decimals that sum to 1, none of them 0
                       (if absent, the long-run shares of transitions)
             transitions  a row of decimals for each symbol: shares of what follows it
             train     in place of both: a CSV or AWD file of public series (tinyldp.recordings), or
                       a list of files; a missing reading is learned as the symbol that devices
                       send for it
             smoothing of train: added to each count (if absent 0.5)
             block     crr-batch: steps that are released together, 2..10
             memory    crr-batch: symbols that the next one depends on, 1..block (if absent 1);
                       prior and transitions have a number, and a row, for each so many symbols in
                       a row, of which the first is most significant
[privacy]    epsilon   of a step (crr-batch: of a block)
             w, delta  may be absent: the certificate also states what so many steps tell, and
                       what they tell but with this probability
[fleet]      board_memory  bytes that the mechanism's tables may take on a board (if absent,
                       4096 for crr-batch, else what a Task can have at most)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from tinyldp.crr.model import (
    PRIOR_SCALE,
    ROW_SCALE,
    Model,
    given_model,
    row_name,
    whole_shares,
)
from tinyldp.crr.tables import MOST_TABLE, TABLE_SCALE
from tinyldp.errors import UserError
from tinyldp.sections import Sections, nearest, short
from tinyldp_protocol.task import TABLE

RULES = {"preserve": 1, "min_error": 2, "table": TABLE}
LOSSES = {"hamming": 1, "absolute": 2, "squared": 3}
LOSS_TABLE = 4
RULE_NAMES = {number: name for name, number in RULES.items()}
LOSS_NAMES = {**{number: name for name, number in LOSSES.items()}, LOSS_TABLE: "table"}
MOST_BLOCKS = 1024
MOST_SYMBOLS = 32
# Bytes for the tables of blocks, where a study names none.
BLOCK_MEMORY = 4096

OF_CRR = ("rule", "loss", "prior", "transitions", "train", "smoothing", "block", "memory")


@dataclass(frozen=True, slots=True)
class CrrSettings:
    """[mechanism] of CRR, defaults filled in; rule and loss as a Task numbers them.

    costs: (n * n,) of a table. model: None where it is to be trained. train: paths.
    block, memory: None for CRR without blocks. board_memory: bytes, where the study says. table:
    of the rule of this name, row by row, once the planner has made it.
    """

    rule: int
    loss: int
    costs: tuple[int, ...] | None
    model: Model | None
    train: tuple[str, ...]
    smoothing: Fraction
    block: int | None
    memory: int | None
    board_memory: int | None
    table: tuple[int, ...] | None = None

    @property
    def room(self) -> int | None:
        """Bytes for tables, or None where a Task is limit enough."""
        if self.board_memory is None and self.block and self.rule == RULES["min_error"]:
            return BLOCK_MEMORY
        return self.board_memory

    def numbers(self, symbols: int) -> dict[str, Any]:
        """Under the names of a Task's fields; a model or table not there yet is as good as any."""
        model = self.model or stand_in(symbols, self.memory or 1)
        table = self.table
        if table is None and self.rule == TABLE:
            table = stand_in_table(symbols ** (self.block or 1))
        return {
            "rule": self.rule,
            "loss": self.loss,
            "costs": None if self.costs is None else list(self.costs),
            "prior": list(model.prior),
            "transitions": list(model.transitions),
            "block": self.block,
            "memory": self.memory,
            "table": None if table is None else list(table),
        }


def stand_in(symbols: int, memory: int) -> Model:
    """All that follows is as probable: what a Task may be checked with before a model is there."""
    size = symbols**memory
    row = whole_shares([Fraction(1)] * symbols, ROW_SCALE)
    return Model(tuple(whole_shares([Fraction(1)] * size, PRIOR_SCALE)), tuple(row * size))


def stand_in_table(blocks: int) -> tuple[int, ...]:
    """Any block is released for any."""
    return tuple(whole_shares([Fraction(1)] * blocks, TABLE_SCALE)) * blocks


def crr_settings(sections: Sections, batch: bool, symbols: int, folder: Path) -> CrrSettings:
    """batch: of crr-batch. folder: the study's, where `train` is looked for."""
    rule = _named(sections, "rule", RULES, "min_error" if batch else "preserve")
    if batch and rule == RULES["preserve"]:
        raise UserError(
            '[mechanism] rule must be "min_error" or "table" for crr-batch: nearly all blocks are '
            "rare, and no rule that keeps their shares would tell much."
        )
    if rule == TABLE and not batch:
        raise UserError('[mechanism] rule "table" is for crr-batch alone, not for crr.')
    loss, costs = _loss(sections, symbols)
    block, memory = _block(sections, symbols) if batch else (None, None)
    if rule == TABLE and block is not None and symbols**block > MOST_TABLE:
        raise _too_long(symbols, block)
    files = _train(sections, folder)
    smoothing = sections.decimal("mechanism", "smoothing")
    if smoothing is not None:
        if not files:
            raise UserError("[mechanism] smoothing is for train alone.")
        if not 0 <= smoothing <= 1_000_000:
            raise UserError(
                "[mechanism] smoothing must lie in 0..1000000, "
                f"but is {sections.shown('mechanism', 'smoothing')}."
            )
    board_memory = sections.integer("fleet", "board_memory")
    if board_memory is not None and board_memory < 1:
        raise UserError(f"[fleet] board_memory must be 1 byte or more, but is {board_memory}.")
    return CrrSettings(
        rule=rule,
        loss=loss,
        costs=costs,
        model=None if files else _model(sections, symbols, memory or 1),
        train=files,
        smoothing=Fraction(1, 2) if smoothing is None else smoothing,
        block=block,
        memory=memory,
        board_memory=board_memory,
    )


def _named(
    sections: Sections, key: str, known: dict[str, int], default: str, besides: str = ""
) -> int:
    """besides: what else than a name it may be, for the sentence."""
    name = sections.given("mechanism", key)
    if name is None:
        return known[default]
    if not isinstance(name, str) or name not in known:
        names = ", ".join(f'"{each}"' for each in known)
        shown, meant = f'"{short(name)}"', nearest(name, known) if isinstance(name, str) else ""
        if not isinstance(name, str):
            shown = "a section" if isinstance(name, dict) else short(name)
        raise UserError(f"[mechanism] {key} must be one of {names}{besides}, not {shown}{meant}.")
    return known[name]


def _loss(sections: Sections, symbols: int) -> tuple[int, tuple[int, ...] | None]:
    if not isinstance(sections.given("mechanism", "loss"), list):
        besides = f", or a table of {symbols} rows of {symbols} integers"
        return _named(sections, "loss", LOSSES, "hamming", besides), None
    rows = sections.rows("mechanism", "loss", lambda at: row_name(at, symbols, 1)) or ()
    what = "[mechanism] loss"
    if len(rows) != symbols or any(len(row) != symbols for row in rows):
        raise UserError(f"{what} must be a table of {symbols} rows of {symbols} numbers.")
    for x, row in enumerate(rows):
        for y, cost in enumerate(row):
            if cost.denominator != 1 or not 0 <= cost <= 1023:
                raise UserError(
                    f"{what} must hold integers 0..1023, but has {float(cost):g} for {x} and {y}."
                )
            if x == y and cost:
                raise UserError(f"{what} must have 0 for {x} and {x}, but has {cost}.")
            if cost != rows[y][x]:
                raise UserError(
                    f"{what} must be symmetric, but has {cost} for {x} and {y}, and {rows[y][x]} "
                    f"for {y} and {x}."
                )
    if not any(cost for row in rows for cost in row):
        raise UserError(f"{what} must have a number above 0: with zeros alone any release will do.")
    return LOSS_TABLE, tuple(int(cost) for row in rows for cost in row)


def _block(sections: Sections, symbols: int) -> tuple[int, int | None]:
    block = sections.integer("mechanism", "block")
    if block is None:
        raise UserError("[mechanism] block is missing: how many steps crr-batch releases together.")
    if not 2 <= block <= 10:
        raise UserError(f"[mechanism] block must lie in 2..10, but is {block}.")
    if symbols**block > MOST_BLOCKS:
        most = _longest(symbols, MOST_BLOCKS)
        mend = f"a block of {most}" if most > 1 else "fewer symbols"
        raise UserError(
            f"[mechanism] block must be shorter, for {symbols} symbols in blocks of {block} make "
            f"{symbols**block:,} different ones and a device has room for {MOST_BLOCKS:,}: {mend} "
            "would do."
        )
    memory = sections.integer("mechanism", "memory")
    if memory is not None and not 1 <= memory <= block:
        raise UserError(f"[mechanism] memory must lie in 1..{block}, the block, but is {memory}.")
    return block, memory


def _longest(symbols: int, most: int) -> int:
    """Symbols of the longest block of which there are at most so many; 1 if there is none."""
    block = 1
    while symbols ** (block + 1) <= most:
        block += 1
    return block


def _too_long(symbols: int, block: int) -> UserError:
    most = _longest(symbols, MOST_TABLE)
    mend = f"a block of {most}" if most > 1 else "no block for more than 6 symbols"
    return UserError(
        f"[mechanism] block must be shorter for a table, for {symbols} symbols in blocks of "
        f"{block} make {symbols**block:,} different ones and a table has room for {MOST_TABLE}: "
        f"{mend} would do."
    )


def _train(sections: Sections, folder: Path) -> tuple[str, ...]:
    given = sections.given("mechanism", "train")
    if isinstance(given, str) and given:
        names: tuple[str, ...] = (given,)
    elif given is None or isinstance(given, list):
        names = sections.texts("mechanism", "train", "files")
    else:
        raise UserError("[mechanism] train must be the name of a file, or a list of them.")
    if given == []:
        raise UserError("[mechanism] train names no file.")
    if names:
        for key in ("prior", "transitions"):
            if sections.given("mechanism", key) is not None:
                raise UserError(f"[mechanism] {key} can't be given beside train, which makes it.")
    return tuple(str(folder / name) for name in names)


def _model(sections: Sections, symbols: int, memory: int) -> Model:
    rows = sections.rows("mechanism", "transitions", lambda at: row_name(at, symbols, memory))
    if rows is None:
        raise UserError(
            "[mechanism] transitions is missing: give the shares of what follows each symbol, or "
            'public series to learn them from, train = "file.csv".'
        )
    return given_model(sections.decimals("mechanism", "prior"), rows, symbols, memory)
