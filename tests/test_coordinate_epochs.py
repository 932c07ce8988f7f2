"""The coordinator of epochs: what it asks, when it updates, and what it says stands."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, getcontext
from typing import Any

import numpy as np
import pytest

from tests.epochs_tasks import epoch_task
from tests.rounds_studies import rounds_task
from tests.simulating import random_task
from tinyldp.coordinate import (
    EXHAUSTED,
    HELD,
    PUBLISHED,
    UNANSWERED,
    Ask,
    Coordinator,
    EpochCoordinator,
    EpochDecision,
    Standing,
    entry_task,
    make_coordinator,
)
from tinyldp.errors import UserError
from tinyldp.estimate import supports
from tinyldp.estimate.mean import exact_mean, mean
from tinyldp.simulate import oracles
from tinyldp_device.epochs import polled
from tinyldp_protocol.messages import COUNTER_MAX
from tinyldp_protocol.task import GRR, HEAVYTHRESH, OLH, OUE, SCALE, THRESH, Task

N = 1000
NONE, ALL = 0, N


def epoch(
    coordinator: EpochCoordinator, votes: int, ones: int = 500, n: int = N, voters: int = N
) -> EpochDecision:
    """One epoch: so many votes, then so many ones of n answers to whatever is asked."""
    coordinator.begin()
    ask = coordinator.heard([votes, 0], voters)
    assert ask is not None
    assert ask.phase == 1
    assert coordinator.heard([ones], n) is None
    assert coordinator.decision is not None
    return coordinator.decision


def needed_ones(task: Task, n: int) -> int:
    """The least number of votes that is enough, with 60 digits."""
    getcontext().prec = 60
    failure = Decimal(task.failure) / 2**30
    above = ((10 * task.epochs / failure).ln() / (2 * n)).sqrt()
    return math.floor(n * (Decimal(task.thresholds[0]) / SCALE + above)) + 1


def test_everyone_is_asked_for_votes_and_estimates_in_each_epoch() -> None:
    coordinator = EpochCoordinator(epoch_task(), N)
    assert coordinator.begin() == Ask(1, 0, 0, None)
    # The first update is forced, whatever the votes are.
    assert coordinator.heard([NONE, 0], N) == Ask(1, 1, 1, None)
    assert coordinator.heard([500], N) is None
    assert coordinator.begin() == Ask(2, 0, 0, None)
    assert coordinator.heard([NONE, 0], N) == Ask(2, 1, 0, None)
    assert coordinator.heard([240], N) is None
    assert coordinator.begin() == Ask(3, 0, 0, None)
    assert coordinator.heard([ALL, 0], N) == Ask(3, 1, 1, None)


@pytest.mark.parametrize("n", [1, 7, 100, 999, 12_345, 10**6])
@pytest.mark.parametrize("failure", [1, 1 << 27, (1 << 30) - 1])
def test_an_update_takes_more_votes_than_noise_gives(n: int, failure: int) -> None:
    task = epoch_task(failure=failure)
    least = needed_ones(task, n)
    for ones in {0, least - 1, least, n}:
        if 0 <= ones <= n:
            coordinator = EpochCoordinator(task, n)
            epoch(coordinator, 0, 0, n, n)
            decision = epoch(coordinator, ones, 0, n, n)
            assert decision.update == (ones >= least)
            assert (ones / n > (decision.needed or 0)) == decision.update


def test_what_is_published_stands_until_the_next_update() -> None:
    task = epoch_task()
    coordinator = EpochCoordinator(task, N)
    first = epoch(coordinator, NONE, 400)
    assert (first.outcome, first.published, first.estimate_t) == (PUBLISHED, True, 1)
    assert first.release[0] == pytest.approx(float(exact_mean(task.thresholds[1], 400, N)))
    found = mean(task.thresholds[1], 400, N)
    assert (first.low, first.high, first.drift) == (found.low, found.high, 0.0)
    held = epoch(coordinator, NONE, 10)
    assert (held.outcome, held.published, held.update) == (HELD, False, False)
    assert held.release[0] == first.release[0]
    assert (held.estimate_t, held.estimate_n) == (1, N)
    assert (held.estimate_low, held.estimate_high) == (found.low, found.high)
    second = epoch(coordinator, ALL, 700)
    assert (second.outcome, second.estimate_t) == (PUBLISHED, 3)
    assert second.release[0] > first.release[0]


def test_after_the_last_estimate_it_holds_and_says_exhausted() -> None:
    coordinator = EpochCoordinator(epoch_task(estimates=2), N)
    epoch(coordinator, NONE, 400)
    second = epoch(coordinator, ALL, 600)
    for _ in range(3):
        decision = epoch(coordinator, ALL, 100)
        assert (decision.outcome, decision.update) == (EXHAUSTED, False)
        assert decision.release[0] == second.release[0]
        assert (decision.low, decision.high) == (0, 1)
    # Those that voted may have no votes left.
    held = epoch(coordinator, NONE)
    assert (held.outcome, held.low, held.high) == (HELD, 0, 1)


def test_nobody_is_no_reason_for_an_update() -> None:
    coordinator = EpochCoordinator(epoch_task(), N)
    decision = epoch(coordinator, 0, 0, 0, 0)
    assert (decision.update, decision.outcome, decision.needed) == (False, UNANSWERED, None)
    assert decision.release.size == 0
    assert (decision.low, decision.drift) == (None, 1.0)
    # The first update comes when somebody is there.
    assert epoch(coordinator, NONE).outcome == PUBLISHED
    assert epoch(coordinator, 0, 0, 0, 0).outcome == UNANSWERED
    # Devices may have counted an update that no answer came of: so does the host.
    lost = epoch(coordinator, ALL, 0, 0)
    assert (lost.update, lost.outcome, lost.estimate_t) == (True, UNANSWERED, 2)
    assert epoch(coordinator, ALL).outcome == EXHAUSTED


def test_an_update_without_answers_leaves_the_mean_unknown() -> None:
    """Devices may compare with its epoch, so that no votes say nothing of the estimate's."""
    coordinator = EpochCoordinator(epoch_task(estimates=3), N)
    epoch(coordinator, NONE, 400)
    assert epoch(coordinator, NONE).drift < 1
    for decision in (epoch(coordinator, ALL, 0, 0), epoch(coordinator, NONE)):
        assert (decision.estimate_t, decision.low, decision.high) == (1, 0, 1)
        assert decision.drift == 1
        assert decision.estimate_high is not None
        assert decision.estimate_high < 1
    assert epoch(coordinator, ALL, 400).published
    assert epoch(coordinator, NONE).drift < 1


def test_one_answer_works() -> None:
    coordinator = EpochCoordinator(epoch_task(), 1)
    decision = epoch(coordinator, 1, 1, 1, 1)
    assert (decision.outcome, decision.n) == (PUBLISHED, 1)
    assert (decision.low, decision.high) == (0, 1)


def test_the_epochs_end() -> None:
    coordinator = EpochCoordinator(epoch_task(epochs=4, levels=[1, 2, 3]), N)
    assert coordinator.last == 4
    for t in range(1, 5):
        assert epoch(coordinator, NONE).t == t
    with pytest.raises(RuntimeError):
        coordinator.begin()


def test_a_host_goes_on_from_what_it_knew() -> None:
    task = epoch_task(estimates=2)
    one = EpochCoordinator(task, N)
    for votes in (NONE, NONE, ALL):
        epoch(one, votes)
    other = EpochCoordinator(task, N, 4, updates=one.updates, standing=one.standing)
    for votes in (NONE, ALL, NONE):
        mine, its = epoch(one, votes), epoch(other, votes)
        assert str(mine) == str(its)
    assert its.estimate_t == 3
    # Without it the first update is forced: there is nothing to publish otherwise.
    assert epoch(EpochCoordinator(task, N, 4), NONE).update


def test_polls_are_spread_over_the_epochs() -> None:
    for epochs in (2, 3, 16, 17, 100):
        levels = [1] * epochs.bit_length()
        for polls in (1, 2, 3, epochs):
            if polls <= epochs:
                task = epoch_task(
                    epochs=epochs, levels=levels, polls=polls, thresholds=[1, 1, 1], votes=1,
                    estimates=1,
                )  # fmt: skip
                asked = [t for t in range(1, epochs + 1) if polled(task, t)]
                assert len(asked) == polls
                assert {b - a for a, b in itertools.pairwise(asked)} <= {epochs // polls}
    assert not any(polled(epoch_task(), t) for t in range(1, 17))


def test_a_poll_tells_the_share_that_has_votes() -> None:
    task = epoch_task(polls=2, thresholds=[6_000_000, 4_000_000, 5_000_000])
    coordinator = EpochCoordinator(task, N)
    for t in range(1, 9):
        coordinator.begin()
        coordinator.heard([NONE, 600 if t == 8 else 0], N)
        coordinator.heard([500], N)
        assert coordinator.decision is not None
        assert (coordinator.decision.poll is None) == (t != 8)
    assert coordinator.decision is not None
    assert coordinator.decision.poll == mean(5_000_000, 600, N)


# Tallies -----------------------------------------------------------------------------------------


def reports(*rows: tuple[int, ...]) -> Any:
    return np.array(rows, dtype=np.uint8).reshape(len(rows), -1)


def test_tallies_of_thresh() -> None:
    task = epoch_task(polls=1, thresholds=[1, 1, 1])
    coordinator = EpochCoordinator(task, N)
    vote = reports((0,), (1,), (2,), (3,), (3,))
    assert coordinator.tally(Ask(16, 0, 0, None), vote).tolist() == [3, 3]
    assert coordinator.tally(Ask(16, 1, 1, None), vote[:2]).tolist() == [1]
    nobody = np.empty((0, 1), np.uint8)
    assert coordinator.tally(Ask(16, 0, 0, None), nobody).tolist() == [0, 0]
    for ask, wrong in [
        # There is no poll at 15, and no bit of one in an estimate.
        (Ask(15, 0, 0, None), (2,)),
        (Ask(16, 0, 0, None), (4,)),
        (Ask(16, 1, 0, None), (2,)),
        (Ask(16, 1, 0, None), (0, 0)),
    ]:
        with pytest.raises(UserError):
            coordinator.tally(ask, reports(wrong))


def test_tallies_of_heavythresh() -> None:
    task = epoch_task(HEAVYTHRESH, coordinates=300)
    coordinator = EpochCoordinator(task, N)
    vote, estimate = Ask(2, 0, 0, None), Ask(2, 1, 1, None)
    assert coordinator.tally(vote, reports((1, 0, 0), (0, 0, 0))).tolist() == [1, 0]
    rows = [(1, 43, 1), (1, 43, 1), (0, 43, 1), (0, 0, 0), (0, 0, 0), (1, 5, 0)]
    found = coordinator.tally(estimate, reports(*rows))
    assert {j: n for j, n in enumerate(found.tolist()) if n} == {0: -2, 5: 1, 299: 1}
    parts = [coordinator.tally(estimate, reports(row)) for row in rows]
    assert (np.sum(parts, axis=0) == found).all()
    for ask, wrong in [
        (vote, (1, 1, 0)),
        (vote, (2, 0, 0)),
        (estimate, (1, 44, 1)),
        (estimate, (2, 0, 0)),
        (estimate, (1, 0)),
    ]:
        with pytest.raises(UserError):
            coordinator.tally(ask, reports(wrong))


def test_what_cannot_be_a_tally_is_refused() -> None:
    for mechanism, wrong in [
        (THRESH, [([1, 0, 0], 5), ([6, 0], 5), ([-1, 0], 5), ([1.0, 0.0], 5), ([0, 0], -1)]),
        (HEAVYTHRESH, [([0] * 63, 5), ([3, -3] + [0] * 62, 5)]),
    ]:
        for counts, n in wrong:
            coordinator = EpochCoordinator(epoch_task(mechanism), N)
            coordinator.begin()
            if len(counts) > 3:
                coordinator.heard([0, 0], N)
            with pytest.raises(ValueError, match="counts"):
                coordinator.heard(counts, n)
    with pytest.raises(RuntimeError):
        EpochCoordinator(epoch_task(), N).heard([0, 0], 1)


@pytest.mark.parametrize("oracle", ["grr", "oue", "olh"])
def test_a_coordinator_of_rounds_tallies_as_estimates_do(oracle: str) -> None:
    task = rounds_task("lba", 300 if oracle == "grr" else 5, oracle=oracle)
    rng = np.random.default_rng(4)
    coordinator = Coordinator(task, N)
    entry = entry_task(task, 3)
    drawn = oracles.reports(
        entry, rng.integers(0, task.symbols, 50), rng.integers(0, SCALE, (50, 40))
    )
    rows = np.ascontiguousarray(drawn).view(np.uint8).reshape(50, entry.width)
    ask = Ask(0, 0, 3, None)
    assert (coordinator.tally(ask, rows) == supports(entry, drawn)).all()
    assert not coordinator.tally(ask, rows[:0]).any()
    with pytest.raises(UserError):
        coordinator.tally(ask, rows[:, :0])
    # All bits set: no symbol, no value, and no key.
    with pytest.raises(UserError):
        coordinator.tally(ask, np.full((1, entry.width), 255, np.uint8))


def test_the_coordinator_that_a_task_wants() -> None:
    epochs = make_coordinator(epoch_task(), N)
    assert isinstance(epochs, EpochCoordinator)
    assert (epochs.begin().t, epochs.two_phases, epochs.last) == (1, True, 16)
    # Where rounds go on from step 0, there is no epoch 0.
    assert make_coordinator(epoch_task(), N, 0).begin() == Ask(1, 0, 0, None)
    rounds = make_coordinator(rounds_task("lba"), N)
    assert isinstance(rounds, Coordinator)
    assert (rounds.begin(), rounds.two_phases, rounds.last) == (
        Ask(0, 0, 0, None),
        True,
        COUNTER_MAX,
    )
    assert not make_coordinator(rounds_task("lbu"), N).two_phases
    for wrong in (GRR, OUE, OLH):
        with pytest.raises(UserError):
            make_coordinator(random_task(np.random.default_rng(1), wrong), N)
    with pytest.raises(UserError):
        EpochCoordinator(rounds_task("lba"), N)


# Between updates ---------------------------------------------------------------------------------


def test_drift_is_bounded_by_the_least_level_that_counts() -> None:
    task = epoch_task()
    standing = Standing(1, N, np.array([0.5]), 0.4, 0.6)
    yes = mean(task.thresholds[0], 360, N, 0.975).high
    for t, level in [(3, 2500), (2, 2000), (4, 1500), (8, 1000), (16, 500)]:
        coordinator = EpochCoordinator(task, N, t, updates=1, standing=standing)
        drift = epoch(coordinator, 360).drift
        assert drift == pytest.approx((1 - yes) * level / 8192 + yes)


def test_devices_whose_votes_are_used_up_may_have_moved_by_anything() -> None:
    """One vote and four estimates: what has voted once says no ever after."""
    task = epoch_task(votes=1, estimates=4)
    standing = Standing(4, N, np.array([0.5]), 0.4, 0.6)
    lie = task.thresholds[0] / SCALE
    quiet, loud = round(N * lie), round(N * (1 - lie))

    def drift(cast: list[tuple[int, int]]) -> float:
        coordinator = EpochCoordinator(task, N, 8, updates=2, standing=standing, cast=cast)
        return epoch(coordinator, quiet).drift

    nobody = drift([(quiet, N)] * 6)
    assert drift([]) < nobody < 1
    assert drift([(quiet, N), (loud, N)]) == 1
    # As many as half of them, in one epoch or in two.
    for cast in ([((quiet + loud) // 2, N)], [((3 * quiet + loud) // 4, N)] * 2):
        assert 0.5 < drift(cast) < 0.9
    # With a second vote, who has voted in the one epoch has one left.
    task = epoch_task(votes=2, estimates=4)
    assert drift([(quiet, N), (loud, N)]) < drift([(loud, N), (loud, N)]) == 1
