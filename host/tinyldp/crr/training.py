"""A Markov chain from series of readings, which must be public: its numbers go to everyone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path

from tinyldp.crr.model import PRIOR_SCALE, ROW_SCALE, Model, whole_shares
from tinyldp.errors import UserError
from tinyldp.recordings import load_table

PUBLIC = (
    "The prior and the transitions were estimated from training series and are in the Task, which "
    "everyone may see: the series must be public, for they are protected by nothing."
)


def symbols_of(
    series: Iterable[int | None],
    bins: Sequence[int] | None,
    missing: int | None,
    symbols: int,
    path: str | Path,
) -> list[int | None]:
    """As the device makes symbols of readings; None where a missing one has no symbol.

    Raises UserError for a reading outside the alphabet where there are no bins: a device would
    clamp it, but a model should not learn from what it is not about.
    """
    from bisect import bisect_right

    found: list[int | None] = []
    for at, reading in enumerate(series):
        if reading is None:
            found.append(missing)
        elif bins is not None:
            found.append(bisect_right(bins, reading))
        elif 0 <= reading < symbols:
            found.append(reading)
        else:
            raise UserError(
                f"{path}: reading {at} is {reading}, outside the alphabet 0..{symbols - 1}; "
                "training takes symbols, or readings where [values] bins says what they are."
            )
    return found


def train(
    series: Iterable[Sequence[int | None]], symbols: int, memory: int, smoothing: Fraction
) -> Model:
    """The chain of this memory by counting, with `smoothing` added to every count.

    series: symbols; None is a gap, across which nothing is counted. The prior counts all
    places in a series, not only the first: a device may start, and start again, at any.
    Raises UserError where counts are wanting and nothing smooths them.
    """
    size = symbols**memory
    first = [0] * size
    follows = [0] * (size * symbols)
    for each in series:
        state, known = 0, 0
        for symbol in each:
            if symbol is None:
                state, known = 0, 0
                continue
            if known >= memory:
                follows[state * symbols + symbol] += 1
            state = (state * symbols + symbol) % size
            known += 1
            if known >= memory:
                first[state] += 1
    if not any(follows):
        raise UserError(
            f"the training series are too short: none has {memory + 1} readings in a row."
        )
    transitions: list[int] = []
    for at in range(size):
        row = [Fraction(n) + smoothing for n in follows[at * symbols : (at + 1) * symbols]]
        try:
            transitions += whole_shares(row, ROW_SCALE, ROW_SCALE - 1)
        except ValueError:
            what = f"symbol {at}" if memory == 1 else f"the symbols {_digits(at, symbols, memory)}"
            raise UserError(
                f"the training series show only one symbol, or none, after {what}: "
                "[mechanism] smoothing must be above 0, or the series longer."
            ) from None
    # The prior has no zeros, whatever the smoothing.
    prior = whole_shares(
        [Fraction(n) + max(smoothing, Fraction(1, 1 << 20)) for n in first], PRIOR_SCALE
    )
    return Model(tuple(prior), tuple(transitions))


def trained_model(
    paths: Sequence[str],
    bins: Sequence[int] | None,
    missing: int | None,
    symbols: int,
    memory: int,
    smoothing: Fraction,
) -> Model:
    """From files. Raises UserError, one sentence with the file's name where it is one's fault."""
    series = [
        symbols_of(readings, bins, missing, symbols, path)
        for path in paths
        for readings in load_table(path).series
    ]
    try:
        return train(series, symbols, memory, smoothing)
    except UserError as error:
        raise UserError(f"{', '.join(paths)}: {error}") from None


def _digits(state: int, symbols: int, memory: int) -> str:
    digits = []
    for _ in range(memory):
        digits.append(str(state % symbols))
        state //= symbols
    return ", ".join(reversed(digits))
