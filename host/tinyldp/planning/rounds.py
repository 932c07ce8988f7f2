"""The entries of a round-based Task, and the oracle that makes them.

Every spend has the threshold with the least noise whose exact loss is at most the
spend, and there is one number of buckets (OLH) for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tinyldp.coordinate.entries import entry_task
from tinyldp.errors import UserError
from tinyldp.estimate import expected_variance
from tinyldp.planning import oracles, refusal
from tinyldp.study import EPSILON_UNIT, ORACLES, Study
from tinyldp_protocol.hashing import PRIME
from tinyldp_protocol.task import GRR, LBD, MAX_REPORT, OLH, OUE, Task


def choose_rounds(study: Study) -> Task:
    """The Task of a study of rounds: of its oracle, or of the one with the least variance.

    Compared are the variances at telling_entry(). Raises UserError, one sentence, when
    no thresholds meet all of the spends.
    """
    spends = study.spends
    assert spends is not None
    if study.mechanism is not None:
        return _task(study, study.mechanism, spends)
    largest = {GRR: 65536, OUE: 8 * MAX_REPORT, OLH: PRIME}
    found: list[Task] = []
    for mechanism in ORACLES:
        if study.domain <= largest[mechanism]:
            try:
                found.append(_task(study, mechanism, spends))
            except UserError:
                continue
    if not found:
        raise UserError(
            f"No oracle works for {study.title} over a domain of {study.domain}: beyond {PRIME} "
            "symbols there is GRR alone, and in steps of 2^-24 its truth would be no likelier "
            "than each lie."
        )
    return min(found, key=lambda task: telling_variance(task, 1))


def telling_entry(rounds: Task | Study) -> int:
    """The entry of the spend that every step or sample has: the only one, or of one unit."""
    if rounds.method != LBD:
        return 0
    assert rounds.spends is not None
    assert rounds.epsilon is not None
    assert rounds.w is not None
    return list(rounds.spends).index(rounds.epsilon // (2 * rounds.w))


def telling_variance(task: Task, n: int) -> float:
    """Variance of an estimated frequency from n reports at telling_entry()."""
    return expected_variance(entry_task(task, telling_entry(task)), n)


def _task(study: Study, mechanism: int, spends: Sequence[int]) -> Task:
    epsilons = [Fraction(spend, EPSILON_UNIT) for spend in spends]
    least = epsilons[0]
    if mechanism == OUE:
        return study.task([oracles.oue_threshold(each) for each in epsilons], mechanism=OUE)
    values, buckets = study.domain, None
    if mechanism == OLH:
        telling = epsilons[telling_entry(study)]
        found = oracles.olh_integers(study.domain, telling, study.buckets, least)
        if found is None:
            assert study.buckets is not None
            raise refusal.of_olh(least, study.buckets)
        values = buckets = found[1]
    thresholds = [oracles.grr_threshold(values, each) for each in epsilons]
    if None in thresholds:
        raise refusal.of_grr(least, study.domain)
    return study.task(
        [threshold for threshold in thresholds if threshold is not None],
        buckets=buckets,
        mechanism=mechanism,
    )
