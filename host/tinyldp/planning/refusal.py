"""Why a target can't be met, and what could be: one sentence each.

Figures are rounded so that they can be stated as a target: up, but for limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tinyldp.certify import staswitch
from tinyldp.certify.bounds import exp_bounds
from tinyldp.errors import UserError
from tinyldp.figures import counted, down, stated, up
from tinyldp.planning.jitter import (
    MOST_L,
    jittersort_epsilon,
    jittersort_least,
    jittersort_weights,
)
from tinyldp.planning.oracles import grr_domain
from tinyldp.planning.switches import (
    ranswitch_best,
    ranswitch_epsilon,
    ranswitch_threshold,
    ranswitch_window,
    staswitch_best,
    staswitch_epsilon,
)
from tinyldp.study import DELTA_UNIT, EPSILON_UNIT
from tinyldp_protocol.hashing import PRIME

STASWITCH_MAX_K = staswitch.MAX_K
# More than the error of StaSwitch's figures, which are floats.
_SLACK = Fraction(1, 10**9)


@dataclass(frozen=True)
class Target:
    """(epsilon, delta) for neighbours that exchange two values less than k steps apart."""

    k: int
    epsilon: Fraction
    delta: Fraction

    def __str__(self) -> str:
        return f"{self.at_epsilon()} with {self.with_delta()} at k = {self.k}"

    def at_epsilon(self) -> str:
        return f"epsilon {stated(self.epsilon, EPSILON_UNIT)}"

    def with_delta(self) -> str:
        return f"delta {stated(self.delta, DELTA_UNIT)}"


def of_ranswitch(target: Target, window: int) -> UserError:
    k, epsilon, delta = target.k, target.epsilon, target.delta
    least = ranswitch_best(window, k, epsilon)[1]
    nearest = _nearest(target, least, ranswitch_epsilon(window, k, delta))
    if window > k:
        enough = ranswitch_window(k, epsilon, delta)
        wider = "" if enough is None else f"RanSwitch with a window of {enough} would, and "
        return UserError(
            f"RanSwitch with a window of {window} can't meet {target}: {nearest}; "
            f"{wider}{_jittersort(target)}."
        )
    return UserError(
        f"RanSwitch can't meet {target}: {_limit(target)}; {nearest}; {_jittersort(target)}."
    )


def of_staswitch(target: Target) -> UserError:
    k, epsilon, delta = target.k, target.epsilon, target.delta
    found = staswitch_epsilon(k, delta)
    nearest = _nearest(
        target,
        Fraction(staswitch_best(k, epsilon)[1]) + _SLACK,
        None if found is None else Fraction(found) + _SLACK,
    )
    return UserError(
        f"StaSwitch can't meet {target}: {_limit(target)}; {nearest}; {_others(target)}."
    )


def of_large_k(target: Target) -> UserError:
    return UserError(
        f"StaSwitch can be planned and certified for k up to {STASWITCH_MAX_K} only, "
        f"and here k is {target.k}; {_others(target)}."
    )


def of_jittersort(target: Target, window: int | None) -> UserError:
    """window: what the study asks for, or None."""
    k, epsilon, delta = target.k, target.epsilon, target.delta
    if window is not None:
        halves = (window // 2,)
        nearest = _nearest(
            target, jittersort_least(k, epsilon, halves), jittersort_epsilon(k, delta, halves)
        )
        return UserError(
            f"JitterSort with a window of {window} can't meet {target}: {nearest}; "
            f"{_jittersort(target)}."
        )
    nearest = _nearest(target, jittersort_least(k, epsilon), jittersort_epsilon(k, delta))
    return UserError(
        f"JitterSort can't meet {target}, which is beyond the resolution of weights over 2^24 and "
        f"at most {2 * MOST_L + 1} slots: {nearest}; {_ranswitch(target)}."
    )


def of_grr(epsilon: Fraction, domain: int) -> UserError:
    largest = grr_domain(epsilon)
    others = "OLH does" if domain <= PRIME else "fewer symbols do"
    return UserError(
        f"GRR can't meet epsilon {stated(epsilon, EPSILON_UNIT)} over a domain of {domain}: "
        f"in steps of 2^-24 the truth would be no likelier than each lie; "
        f"every domain up to {largest} works, and beyond it {others}."
    )


def of_olh(epsilon: Fraction, buckets: int) -> UserError:
    largest = grr_domain(epsilon)
    return UserError(
        f"OLH can't meet epsilon {stated(epsilon, EPSILON_UNIT)} with {buckets} buckets: "
        f"in steps of 2^-24 the truth would be no likelier than each lie; "
        f"up to {largest} buckets work, "
        "and without [mechanism] buckets the best number is chosen."
    )


def _limit(target: Target) -> str:
    """What no mechanism that looks k-1 steps ahead can do: delta >= (k-1) / (e^eps + k^2 - 1)."""
    k = target.k
    bound = Fraction(k - 1) / (exp_bounds(target.epsilon)[1] + k * k - 1)
    verb = "can have" if target.delta < bound else "has"
    steps = "one step" if k == 2 else f"{k - 1} steps"
    return (
        f"no mechanism that looks {steps} ahead {verb} a delta below {down(bound)} at that epsilon"
    )


def _nearest(target: Target, delta: Fraction, epsilon: Fraction | None) -> str:
    """The least delta at the target's epsilon, and the least epsilon at its delta."""
    points = []
    if delta + Fraction(1, 1000) < 1:
        points.append(f"{target.at_epsilon()} with delta {up(delta, DELTA_UNIT)}")
    if epsilon is not None:
        points.append(f"epsilon {up(epsilon, EPSILON_UNIT)} with {target.with_delta()}")
    return f"the nearest is {' or '.join(points)}" if points else "nor anything near it"


def _jittersort(target: Target) -> str:
    weights = jittersort_weights(target.k, target.epsilon, target.delta)
    if weights is None:
        return "JitterSort can't meet it either"
    return f"JitterSort meets the target with a latency of {2 * len(weights) - 2} steps"


def _ranswitch(target: Target) -> str:
    window = ranswitch_window(target.k, target.epsilon, target.delta)
    if window is None:
        return "RanSwitch can't meet it either, with up to 1024 slots"
    wide = f" with a window of {window}" if window > target.k else ""
    return f"RanSwitch{wide} meets the target with a latency of {counted(window - 1, 'step')}"


def _others(target: Target) -> str:
    """RanSwitch, whose latency is StaSwitch's own, or else JitterSort."""
    k = target.k
    if ranswitch_threshold(k, k, target.epsilon, target.delta) is not None:
        return _ranswitch(target)
    return _jittersort(target)
