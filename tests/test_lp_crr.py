"""The linear program: what is known in closed form, and no rule below it."""

import itertools
import math

import numpy as np
import pytest

from tinyldp.crr.lp import block_loss, least_loss, loss_matrix


@pytest.mark.parametrize("epsilon", [0.5, 1, 2])
@pytest.mark.parametrize("loss", [1, 2])
@pytest.mark.parametrize("preserve", [False, True])
def test_without_rare_values_a_plain_mixture_is_the_optimum(epsilon, loss, preserve):
    """The theorem of Sequence Information Privacy, for metrics, where every belief >= kappa."""
    q = math.exp(-epsilon)
    kappa = q / (1 + q)
    rng = np.random.default_rng(5)
    for n in (2, 3):
        if n * kappa >= 1:
            continue
        belief = kappa + (1 - n * kappa) * rng.dirichlet(np.ones(n))
        losses = loss_matrix(loss, n)
        plain = q * belief @ losses @ belief
        assert least_loss(belief, q, losses, preserve).cost == pytest.approx(plain, abs=1e-9)


def test_rare_values_cost_less_when_dropped_than_when_kept():
    """Worked values: belief (.95, .05) and (.81, .19) at epsilon 1."""
    q, losses = math.exp(-1), loss_matrix(1, 2)
    assert least_loss(np.array([0.95, 0.05]), q, losses).cost == pytest.approx(0.05)
    kept = least_loss(np.array([0.95, 0.05]), q, losses, preserve=True)
    assert kept.cost == pytest.approx(0.0864086, abs=1e-6)
    assert np.array([0.95, 0.05]) @ kept.kernel == pytest.approx([0.95, 0.05])
    raised = least_loss(np.array([0.81, 0.19]), q, losses)
    assert np.array([0.81, 0.19]) @ raised.kernel == pytest.approx([0.731, 0.269], abs=1e-3)


@pytest.mark.parametrize("preserve", [False, True])
def test_the_optimum_keeps_its_bounds_and_nothing_random_is_below_it(preserve):
    rng = np.random.default_rng(6)
    q = math.exp(-1)
    for n in (3, 5):
        belief = rng.dirichlet(np.ones(n))
        losses = loss_matrix(3, n)
        found = least_loss(belief, q, losses, preserve)
        law = belief @ found.kernel
        assert found.kernel.sum(axis=1) == pytest.approx(1)
        assert (found.kernel <= law / q + 1e-9).all()
        assert (found.kernel >= law * q - 1e-9).all()
        assert belief @ (found.kernel * losses).sum(axis=1) == pytest.approx(found.cost)
        # Any mixture of a law with itself is within the bounds, and a little of the truth is.
        for _ in range(50):
            other = belief if preserve else rng.dirichlet(np.ones(n))
            assert belief @ losses @ other >= found.cost - 1e-9


def test_excluded_values_are_given_the_law_itself():
    belief = np.array([0.5, 0.0, 0.5])
    found = least_loss(belief, math.exp(-1), loss_matrix(1, 3))
    assert found.kernel[1] == pytest.approx(belief @ found.kernel)


def test_the_loss_of_blocks_adds_up_over_their_places():
    losses = loss_matrix(3, 3)
    together = block_loss(losses, 2)
    for (a, b), (c, d) in itertools.product(itertools.product(range(3), repeat=2), repeat=2):
        assert together[3 * a + b, 3 * c + d] == losses[a, c] + losses[b, d]


def test_what_is_too_large_is_refused_before_it_is_tried():
    with pytest.raises(ValueError, match="too large"):
        least_loss(np.full(65, 1 / 65), 0.5, loss_matrix(1, 65))


def test_a_table_of_losses_is_read_row_by_row():
    assert loss_matrix(4, 2, np.array([0, 3, 3, 0])).tolist() == [[0, 3], [3, 0]]
    with pytest.raises(ValueError, match="costs"):
        loss_matrix(4, 2)
