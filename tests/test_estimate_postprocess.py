"""Post-processing: named, non-negative, adding up to 1, and what it is said to be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyldp.errors import UserError
from tinyldp.estimate.postprocess import POSTPROCESSING, norm_sub, postprocess, simplex

vectors = st.lists(st.floats(-5, 5), min_size=1, max_size=30).map(np.array)


@given(vectors)
def test_results_are_frequencies_and_stay(x: np.ndarray) -> None:
    for name in POSTPROCESSING:
        y = postprocess(name, x)
        assert (y >= 0).all()
        assert y.sum() == pytest.approx(1)
        assert postprocess(name, y) == pytest.approx(y, abs=1e-12)
        # Order is kept.
        assert (np.diff(y[np.argsort(x, kind="stable")]) >= -1e-12).all()


@given(vectors)
def test_simplex_is_the_nearest(x: np.ndarray) -> None:
    y = simplex(x)
    # The condition of a projection onto a convex set, at each corner of it.
    for corner in np.eye(len(x)):
        assert (x - y) @ (corner - y) <= 1e-9


@given(vectors)
def test_norm_sub_shifts_what_it_keeps(x: np.ndarray) -> None:
    y = norm_sub(x)
    if (x > 0).any():
        assert (y[x <= 0] == 0).all()
        moved = (y - x)[y > 0]
        assert moved == pytest.approx(moved[0], abs=1e-9)


@given(vectors)
def test_both_agree_where_the_positive_add_up_to_one_or_more(x: np.ndarray) -> None:
    if x[x > 0].sum() >= 1:
        assert norm_sub(x) == pytest.approx(simplex(x), abs=1e-9)


def test_examples() -> None:
    assert norm_sub([0.7, 0.5, -0.2]) == pytest.approx([0.6, 0.4, 0])
    # What the small negative one gets back is where the two differ.
    assert norm_sub([0.5, 0.3, -0.01]) == pytest.approx([0.6, 0.4, 0])
    assert simplex([0.5, 0.3, -0.01]) == pytest.approx([0.57, 0.37, 0.06])
    # 0.02 falls below zero in the first round.
    assert norm_sub([0.9, 0.6, 0.02]) == pytest.approx([0.65, 0.35, 0])
    assert norm_sub([-1.0, -2.0]) == pytest.approx([0.5, 0.5])
    assert simplex([-1.0, -1.0]) == pytest.approx([0.5, 0.5])


def test_given_values_are_left_alone() -> None:
    x = np.array([0.7, 0.5, -0.2])
    for name in POSTPROCESSING:
        postprocess(name, x)
    assert x.tolist() == [0.7, 0.5, -0.2]


@pytest.mark.parametrize("x", [[], [[0.5, 0.5]], [np.nan, 1], [np.inf]])
def test_wrong_vectors(x: list) -> None:
    for name in POSTPROCESSING:
        with pytest.raises(UserError, match="one list of finite frequencies"):
            postprocess(name, x)


def test_unknown_name() -> None:
    with pytest.raises(UserError, match="no post-processing 'clip'; there are: norm-sub, simplex"):
        postprocess("clip", [1.0])
