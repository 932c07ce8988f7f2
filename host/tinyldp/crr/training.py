"""A Markov chain from series of readings, which must be public: its numbers go to everyone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tinyldp.crr.model import PRIOR_SCALE, ROW_SCALE, Model, state_name, whole_shares
from tinyldp.errors import UserError
from tinyldp.recordings import Table, load_table

PUBLIC = (
    "The prior and the transitions were estimated from training series and are in the Task, which "
    "everyone may see: the series must be public, for they are protected by nothing."
)
# A row of transitions from fewer is mostly smoothing, or chance.
RARE = 10


@dataclass(frozen=True)
class Training:
    """What a model was counted from.

    series, readings: of all files; gaps: missing ones among the readings, counted as symbol
    `gap`, which devices send for them. seen: (n,) readings of each symbol. followed: (n^L,)
    transitions counted after each L symbols in a row, of which the first is most significant.
    """

    files: tuple[str, ...]
    series: int
    readings: int
    gaps: int
    gap: int
    memory: int
    seen: tuple[int, ...]
    followed: tuple[int, ...]

    @property
    def transitions(self) -> int:
        return sum(self.followed)

    @property
    def unseen(self) -> list[int]:
        """Symbols that no series has."""
        return [symbol for symbol, seen in enumerate(self.seen) if not seen]

    @property
    def rare(self) -> list[int]:
        """Rows of the transitions that fewer than RARE were counted for."""
        return [state for state, seen in enumerate(self.followed) if seen < RARE]


def symbols_of(
    table: Table, bins: Sequence[int] | None, gap: int, symbols: int, path: str
) -> list[list[int]]:
    """Of each series its steps, as the device makes symbols of readings; gap: that of missing ones.

    Raises UserError for a reading outside the alphabet where there are no bins: a device would
    clamp it, but a model should not learn from what it is not about.
    """

    def symbol(reading: int | None, step: int, column: int) -> int:
        if reading is None:
            return gap
        if bins is not None:
            return bisect_right(bins, reading)
        if 0 <= reading < symbols:
            return reading
        raise UserError(
            f"{path}, {table.place(step, column)}: {reading} is outside the alphabet "
            f"0..{symbols - 1}; training takes symbols, or readings where [values] bins says what "
            "they are."
        )

    return [
        [symbol(reading, step, column) for step, reading in enumerate(readings)]
        for column, readings in enumerate(table.series)
    ]


def count(
    series: Iterable[Sequence[int]], symbols: int, memory: int
) -> tuple[list[int], list[list[int]]]:
    """(n^L,) how often each L symbols in a row occur, and (n^L, n) what follows them.

    All places in a series count, not only the first: a device may start, and start again, at
    any. From one series to the next nothing follows.
    """
    size = symbols**memory
    first = [0] * size
    follows = [[0] * symbols for _ in range(size)]
    for each in series:
        state = 0
        for known, symbol in enumerate(each):
            if known >= memory:
                follows[state][symbol] += 1
            state = (state * symbols + symbol) % size
            if known + 1 >= memory:
                first[state] += 1
    return first, follows


def train(series: Iterable[Sequence[int]], symbols: int, memory: int, smoothing: Fraction) -> Model:
    """The chain of this memory by counting symbols, with `smoothing` added to every count.

    Raises UserError where counts are wanting and nothing smooths them.
    """
    return _model(*count(series, symbols, memory), symbols, memory, smoothing)


def _model(
    first: list[int], follows: list[list[int]], symbols: int, memory: int, smoothing: Fraction
) -> Model:
    if not any(map(any, follows)):
        raise UserError(
            f"the training series are too short: none has {memory + 1} readings in a row."
        )
    transitions: list[int] = []
    for at, row in enumerate(follows):
        try:
            transitions += whole_shares([n + smoothing for n in row], ROW_SCALE, ROW_SCALE - 1)
        except ValueError:
            raise UserError(
                "the training series show only one symbol, or none, after "
                f"{state_name(at, symbols, memory)}: [mechanism] smoothing must be above 0, or the "
                "series longer."
            ) from None
    # The prior has no zeros, whatever the smoothing.
    prior = whole_shares([n + max(smoothing, Fraction(1, 1 << 20)) for n in first], PRIOR_SCALE)
    return Model(tuple(prior), tuple(transitions))


def trained_model(
    paths: Sequence[str],
    bins: Sequence[int] | None,
    gap: int,
    symbols: int,
    memory: int,
    smoothing: Fraction,
) -> tuple[Model, Training]:
    """From files, of which each series counts; gap: the symbol that devices send for a gap.

    Raises UserError, one sentence with the file's name where it is one's fault.
    """
    series: list[list[int]] = []
    gaps = 0
    for path in paths:
        table = load_table(path)
        series += symbols_of(table, bins, gap, symbols, path)
        gaps += sum(each.count(None) for each in table.series)
    first, follows = count(series, symbols, memory)
    try:
        model = _model(first, follows, symbols, memory, smoothing)
    except UserError as error:
        raise UserError(f"{', '.join(paths)}: {error}") from None
    seen = [0] * symbols
    for each in series:
        for symbol in each:
            seen[symbol] += 1
    training = Training(
        files=tuple(paths),
        series=len(series),
        readings=sum(map(len, series)),
        gaps=gaps,
        gap=gap,
        memory=memory,
        seen=tuple(seen),
        followed=tuple(map(sum, follows)),
    )
    return model, training
