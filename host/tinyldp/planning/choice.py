"""The integers of a study: its own, or those that meet its target with least cost."""

from __future__ import annotations

from fractions import Fraction

from tinyldp.planning import oracles, refusal
from tinyldp.planning.crr import choose_crr
from tinyldp.planning.epochs import choose_epochs
from tinyldp.planning.jitter import jittersort_weights
from tinyldp.planning.rounds import choose_rounds
from tinyldp.planning.switches import Progress, ranswitch_threshold, staswitch_threshold
from tinyldp.study import DELTA_UNIT, EPSILON_UNIT, ORACLES, Study
from tinyldp_protocol.task import GRR, JITTERSORT, OUE, RANSWITCH, Task


def choose(study: Study, progress: Progress | None = None) -> Task:
    """The Task of a study that states integers, or a target.

    Least cost is the least displacement for RanSwitch and StaSwitch, the least
    latency for JitterSort and the least variance for the oracles (and rounds); Thresh and
    HeavyThresh spend what they are given, CRR epsilon in each release. progress: told how
    far long work is.

    Raises UserError, one sentence, when no integers meet the target.
    """
    if study.method is not None:
        return choose_rounds(study)
    if study.settings is not None:
        return choose_epochs(study)
    if study.crr is not None:
        return choose_crr(study, progress).task
    if study.thresholds is not None:
        return study.task()
    assert study.epsilon is not None
    epsilon = Fraction(study.epsilon, EPSILON_UNIT)
    if study.mechanism in ORACLES:
        return _oracle(study, epsilon)
    assert study.k is not None
    assert study.delta is not None
    target = refusal.Target(study.k, epsilon, Fraction(study.delta, DELTA_UNIT))
    return _stream(study, target, progress)


def _stream(study: Study, target: refusal.Target, progress: Progress | None) -> Task:
    k, epsilon, delta = target.k, target.epsilon, target.delta
    if study.mechanism == JITTERSORT:
        halves = None if study.window is None else (study.window // 2,)
        weights = jittersort_weights(k, epsilon, delta, halves)
        if weights is None:
            raise refusal.of_jittersort(target, study.window)
        return study.task(weights, 2 * len(weights) - 1)
    if study.mechanism == RANSWITCH:
        assert study.window is not None
        threshold = ranswitch_threshold(study.window, k, epsilon, delta)
        if threshold is None:
            raise refusal.of_ranswitch(target, study.window)
        return study.task([threshold])
    if k > refusal.STASWITCH_MAX_K:
        raise refusal.of_large_k(target)
    threshold = staswitch_threshold(k, epsilon, delta, progress)
    if threshold is None:
        raise refusal.of_staswitch(target)
    return study.task([threshold])


def _oracle(study: Study, epsilon: Fraction) -> Task:
    if study.mechanism == OUE:
        return study.task([oracles.oue_threshold(epsilon)])
    if study.mechanism == GRR:
        threshold = oracles.grr_threshold(study.domain, epsilon)
        if threshold is None:
            raise refusal.of_grr(epsilon, study.domain)
        return study.task([threshold])
    found = oracles.olh_integers(study.domain, epsilon, study.buckets)
    if found is None:
        assert study.buckets is not None
        raise refusal.of_olh(epsilon, study.buckets)
    return study.task([found[0]], buckets=found[1])
