"""Numbers of rows: the same for equal rows, different for others, however they are asked for."""

from __future__ import annotations

import numpy as np
import pytest

from tinyldp.crr.index import RowIndex


class Plain:
    """The same with a dictionary."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, ...], int] = {}

    def numbers(self, rows: np.ndarray) -> list[int]:
        return [self.known.setdefault(tuple(row.tolist()), len(self.known)) for row in rows]


def agree(index: RowIndex, plain: Plain, rows: np.ndarray, names: dict[int, int]) -> None:
    mine, its = index.numbers(rows), plain.numbers(rows)
    for a, b in zip(mine.tolist(), its, strict=True):
        assert names.setdefault(a, b) == b
    assert len(set(names.values())) == len(names) == index.size == len(plain.known)
    assert (index.rows[mine] == rows).all()


@pytest.mark.parametrize("width", [1, 2, 4, 33])
def test_rows_are_numbered_as_a_dictionary_does(width: int) -> None:
    rng = np.random.default_rng(width)
    index, plain, names = RowIndex(width), Plain(), {}
    for _ in range(60):
        rows = rng.integers(0, rng.choice([2, 10, 65536]), (int(rng.integers(1, 200)), width))
        agree(index, plain, rows, names)


def test_rows_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowIndex, "_hashes", lambda self, rows: rows[:, 0].astype(np.uint64) % 3)
    rng = np.random.default_rng(1)
    index, plain, names = RowIndex(2), Plain(), {}
    for _ in range(20):
        agree(index, plain, rng.integers(0, 6, (40, 2)), names)


def test_what_is_kept_is_numbered_anew() -> None:
    rng = np.random.default_rng(2)
    rows = np.unique(rng.integers(0, 1000, (500, 3)), axis=0)
    index = RowIndex(3)
    numbers = index.numbers(rows)
    kept = np.sort(rng.permutation(numbers)[:100])
    saved = index.rows[kept].copy()
    index.clear(kept)
    assert index.size == 100
    assert index.numbers(saved).tolist() == list(range(100))
    again = index.numbers(rows)
    assert len(set(again.tolist())) == index.size == len(rows)
    assert (index.rows[again] == rows).all()
