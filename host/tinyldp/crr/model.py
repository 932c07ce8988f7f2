"""A Markov chain as a Task has it: a prior and rows of transitions, as whole shares.

Source: Sequence Information Privacy, the prior P_1 and the correlation C of its setting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tinyldp.errors import UserError
from tinyldp_protocol.task import Task

# What the prior, and each row of the transitions, sums to in a Task.
PRIOR_SCALE = 1 << 15
ROW_SCALE = 1 << 14

# Decimals of a share that are looked at, and the most that a sum may be off.
_DIGITS = 20
_MOST_OFF = Fraction(1, 1000)


@dataclass(frozen=True, slots=True)
class Model:
    """prior: n^L integers that sum to 2^15. transitions: n^L rows of n, flat, each sums to 2^14.

    n is the number of symbols and L the memory; of L symbols the first is most significant.
    notes: sentences about what was made of the study's numbers.
    """

    prior: tuple[int, ...]
    transitions: tuple[int, ...]
    notes: tuple[str, ...] = ()


def state_symbols(state: int, symbols: int, memory: int) -> list[int]:
    """The L symbols in a row that a state of the chain is, the first one first."""
    return [state // symbols**at % symbols for at in reversed(range(memory))]


def state_name(state: int, symbols: int, memory: int) -> str:
    """As sentences say what the next symbol follows."""
    digits = state_symbols(state, symbols, memory)
    return f"symbol {state}" if memory == 1 else f"the symbols {', '.join(map(str, digits))}"


def row_name(state: int, symbols: int, memory: int) -> str:
    """Of the transitions; of more rows than there are states, by counting them."""
    if state >= symbols**memory:
        return f"row {state + 1}"
    return f"the row of {state_name(state, symbols, memory)}"


def whole_shares(shares: Sequence[Fraction], whole: int, most: int | None = None) -> list[int]:
    """Integers in the proportion of the shares that sum to `whole`; positive shares get 1 or more.

    By largest remainder, what is short or over is settled with the largest ones. most: of each.
    Raises ValueError where that can't be: no positive share, or more of them than `whole`.
    """
    total = sum(shares, Fraction(0))
    if total <= 0 or sum(share > 0 for share in shares) > whole:
        raise ValueError("no whole shares")
    exact = [share * whole / total for share in shares]
    found = [max(int(x), 1) if x else 0 for x in exact]
    by_rest = sorted(range(len(exact)), key=lambda i: found[i] - exact[i])
    left = whole - sum(found)
    for i in by_rest:
        if left > 0 and exact[i] > 0:
            found[i] += 1
            left -= 1
    while left < 0:
        # Those that were raised to 1 are paid for by the largest.
        largest = max(range(len(found)), key=found.__getitem__)
        found[largest] -= 1
        left += 1
    if most is not None and max(found) > most:
        raise ValueError("a share is all")
    return found


def stationary(transitions: Sequence[int], symbols: int, memory: int) -> list[Fraction] | None:
    """The chain's long-run shares of each n^L symbols in a row; None where one of them is zero.

    In floats, by power iteration of the lazy chain, which always settles. Of a chain that falls
    into parts, those that are come to from all states alike.
    """
    import numpy as np

    size = symbols**memory
    rows = np.array(transitions, dtype=float).reshape(size, symbols) / ROW_SCALE
    states = np.arange(size)
    after = (states[:, None] * symbols + np.arange(symbols)) % size
    mass = np.full(size, 1 / size)
    for _ in range(100_000):
        moved = np.bincount(after.ravel(), (mass[:, None] * rows).ravel(), size)
        following = (mass + moved) / 2
        if np.abs(following - mass).sum() < 1e-13:
            break
        mass = following
    if mass.min() < 1e-9:
        return None
    return [Fraction(float(x)) for x in mass]


def longer(task: Task, weights: Sequence[int], steps: int, state: int = 0) -> list[int]:
    """Weights of all rows of symbols, with so many symbols more: integers, 2^14-fold for each.

    A row's first symbol is most significant. state: the L symbols before it, which matter for rows
    of fewer; so (1,), the weight of the empty row, becomes the law of what follows the state.
    """
    n, states = task.symbols, len(task.prior)
    found = list(weights)
    for _ in range(steps):
        first = state * len(found)
        found = [
            weight * task.transitions[(first + at) % states * n + symbol]
            for at, weight in enumerate(found)
            for symbol in range(n)
        ]
    return found


def given_model(
    prior: Sequence[Fraction] | None,
    rows: Sequence[Sequence[Fraction]],
    symbols: int,
    memory: int,
) -> Model:
    """The Model of shares that people wrote. Without a prior, the chain's long-run shares.

    Raises UserError, one sentence, for what is no chain.
    """
    size = symbols**memory
    names = f"{symbols}" if memory == 1 else f"{size} ({symbols} to the power of memory)"
    if len(rows) != size:
        raise UserError(
            f"[mechanism] transitions must be {names} rows, one for each symbol that the next one "
            f"follows, but there are {len(rows)}."
        )
    transitions: list[int] = []
    notes: list[str] = []
    raised: list[str] = []
    for at, row in enumerate(rows):
        where = f"[mechanism] transitions: {row_name(at, symbols, memory)}"
        if len(row) != symbols:
            raise UserError(f"{where} must have {symbols} numbers, but has {len(row)}.")
        notes += check_shares(row, where)
        try:
            transitions += whole_shares(row, ROW_SCALE, ROW_SCALE - 1)
        except ValueError:
            raise UserError(
                f"{where} says what follows for certain: leave another symbol 1/16384 or more."
            ) from None
        rare = [share for share in row if 0 < share * ROW_SCALE < Fraction(1, 2)]
        raised += [f"{float(share):g} in {row_name(at, symbols, memory)}" for share in rare]
    if raised:
        named = raised[0] if len(raised) == 1 else f"{raised[0]} and {len(raised) - 1} more"
        was = "was" if len(raised) == 1 else "were"
        notes.append(
            f"[mechanism] transitions: {named} {was} raised to 1/{ROW_SCALE}, the least above 0"
            " that a Task can state."
        )
    if prior is None:
        found = stationary(transitions, symbols, memory)
        if found is None:
            raise UserError(
                "[mechanism] prior is missing, and the transitions don't make up for it: in the "
                "long run they leave some symbols for ever."
            )
        return Model(tuple(whole_shares(found, PRIOR_SCALE)), tuple(transitions), tuple(notes))
    if len(prior) != size:
        raise UserError(f"[mechanism] prior must have {names} numbers, but has {len(prior)}.")
    notes += check_shares(prior, "[mechanism] prior")
    for at, share in enumerate(prior):
        if share * PRIOR_SCALE < Fraction(1, 2):
            raise UserError(
                f"[mechanism] prior must be above 0 for every symbol (1/65536 or more), but is "
                f"{float(share):g} for {at}: who has that value would have no plan."
            )
    return Model(tuple(whole_shares(prior, PRIOR_SCALE)), tuple(transitions), tuple(notes))


def check_shares(shares: Sequence[Fraction], what: str) -> tuple[str, ...]:
    """Raise UserError unless none is negative and they sum to 1, up to a rounding of each.

    So [0.333, 0.333, 0.333] will do, and [0.3333, 0.3333, 0.333] won't. Gives a sentence for what
    does not sum to 1 exactly, or none.
    """
    if any(share < 0 for share in shares):
        raise UserError(f"{what} must have no number below 0, but has {float(min(shares)):g}.")
    total = sum(shares, Fraction(0))
    if total == 1:
        return ()
    digits = 0
    while digits < _DIGITS and any((share * 10**digits).denominator > 1 for share in shares):
        digits += 1
    rounding = Fraction(len(shares), 2 * 10**digits)
    if abs(total - 1) > min(rounding, _MOST_OFF):
        near = abs(total - 1) <= _MOST_OFF
        why = ", which no rounding of its decimals explains" if near else ""
        raise UserError(f"{what} must sum to 1, but sums to {float(total):.6g}{why}.")
    return (
        f"{what} sums to {float(total):.6g}, not to 1, as its decimals are rounded: it was taken in"
        " proportion.",
    )
