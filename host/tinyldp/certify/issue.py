"""Task -> Certificate."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from tinyldp.certify import (
    crr,
    crr_table,
    epochs,
    jittersort,
    oracles,
    ranswitch,
    rounds,
    staswitch,
    statements,
    table_statements,
)
from tinyldp.certify.bounds import digits_up, exp_bounds, log_upper
from tinyldp.certify.certificate import Certificate
from tinyldp.certify.paper import Claim, crr_claim, epochs_claim, ranswitch_claim, rounds_claim
from tinyldp.crr.device import device_policy
from tinyldp.errors import UserError
from tinyldp.figures import counted
from tinyldp.study import CRRS, DELTA_UNIT, EPSILON_UNIT, MECHANISMS, METHODS, STREAMS
from tinyldp_protocol.task import HEAVYTHRESH, OLH, RANSWITCH, STASWITCH, TABLE, Task

_NAMES = {number: name for name, number in MECHANISMS.items()}
_METHODS = {number: name for name, number in METHODS.items()}
# The curve: from 0 to twice the certified epsilon.
_POINTS = 4

Curve = Callable[[Fraction], Fraction]
# Called with what is done, and its total.
Told = Callable[[int, int], None]


def certify(task: Task, point: Fraction | None = None, progress: Told | None = None) -> Certificate:
    """The certificate of a Task, from its integers alone.

    point: the epsilon at which delta is certified, in place of the one that follows. progress: told
    the points of a stream's curve, or the histories of CRR, that are done, and their total.

    A stream's certified point is at the Task's epsilon, or where it names none, where
    delta falls no further; an oracle's epsilon is what one report loses, with delta 0,
    that of rounds is what any w steps lose, that of epochs what a whole life loses, that of CRR
    what a step (a block) tells.
    Raises UserError for what can't be certified: StaSwitch with k above 9, JitterSort
    without an epsilon.
    """
    found = _certified(task, point, progress)
    return replace(found, assumptions=(*found.assumptions, statements.missing(task)))


def _certified(task: Task, point: Fraction | None, progress: Told | None) -> Certificate:
    if task.method is not None:
        return _certify_rounds(task, point)
    if task.epochs is not None:
        return _certify_epochs(task, point)
    if task.rule == TABLE:
        return _certify_table(task, point)
    if task.mechanism in CRRS:
        return _certify_crr(task, point, progress)
    if task.mechanism in STREAMS:
        return _certify_stream(task, point, progress)
    return _certify_oracle(task, point)


def _certify_stream(task: Task, point: Fraction | None, progress: Told | None) -> Certificate:
    name = _NAMES[task.mechanism]
    delta_of, method = stream_curve(task)
    if progress is not None:
        delta_of = _telling_points(delta_of, progress)
    target_epsilon = _scaled(task.epsilon, EPSILON_UNIT)
    target_delta = _scaled(task.delta, DELTA_UNIT)
    epsilon = target_epsilon if point is None else point
    if epsilon is None:
        epsilon = natural_epsilon(task)
    delta = delta_of(epsilon)
    # The target is for the Task's own epsilon, whichever point is looked at.
    at_target = delta
    if point is not None and target_epsilon is not None:
        at_target = delta_of(target_epsilon)
    within = target_delta is None or at_target <= target_delta
    claim = None
    if task.mechanism == RANSWITCH:
        claim = ranswitch_claim(task.window, task.k, task.thresholds[0])
    return Certificate(
        task_id=task.id.hex(),
        mechanism=name,
        relation=statements.stream_relation(task.k),
        definition=statements.STREAM_DEFINITION,
        epsilon=epsilon,
        delta=delta,
        curve=_curve(delta_of, epsilon),
        method=method,
        paper=claim,
        w=None,
        per_window=None,
        lifetime=statements.STREAM_LIFETIME,
        # Without a delta, the Task's epsilon asks for a point of the curve, for no bound.
        target_epsilon=None if target_delta is None else target_epsilon,
        target_delta=target_delta,
        within_target=within,
        assumptions=(
            statements.ORDER_ONLY,
            statements.ENTROPY,
            statements.SERVER,
            statements.flush(name),
        ),
        warnings=_warnings(task, claim, epsilon, delta, within),
    )


def stream_curve(task: Task) -> tuple[Curve, str]:
    """delta(epsilon) of a stream mechanism, and how it is obtained."""
    if task.mechanism == RANSWITCH:
        return (
            lambda epsilon: ranswitch.delta(task.window, task.k, task.thresholds[0], epsilon),
            statements.RANSWITCH_METHOD,
        )
    if task.mechanism == STASWITCH:
        return (
            lambda epsilon: staswitch.delta(task.k, task.thresholds[0], epsilon),
            statements.staswitch_method(task.k),
        )
    return (
        lambda epsilon: jittersort.delta(task.thresholds, task.k, epsilon),
        statements.JITTERSORT_METHOD,
    )


def natural_epsilon(task: Task) -> Fraction:
    if task.mechanism == RANSWITCH:
        return ranswitch.natural_epsilon(task.window, task.thresholds[0])
    if task.mechanism == STASWITCH:
        return staswitch.natural_epsilon(task.k, task.thresholds[0])
    raise UserError(
        "JitterSort has no epsilon of its own: name the point of its privacy curve that the"
        " certificate reports, as epsilon in the study's [privacy]."
    )


def _certify_oracle(task: Task, point: Fraction | None) -> Certificate:
    ratio = oracles.ratio(task)
    epsilon = log_upper(ratio) if point is None else point
    delta = Fraction(0) if point is None else oracles.delta(task, point)
    target = _scaled(task.epsilon, EPSILON_UNIT)
    within = target is None or ratio <= exp_bounds(target)[0]
    olh = task.mechanism == OLH
    return Certificate(
        task_id=task.id.hex(),
        mechanism=_NAMES[task.mechanism],
        relation=statements.ORACLE_RELATION,
        definition=statements.OLH_DEFINITION if olh else statements.ORACLE_DEFINITION,
        epsilon=epsilon,
        delta=delta,
        curve=_curve(lambda point: oracles.delta(task, point), epsilon),
        method=statements.OLH_METHOD if olh else statements.ORACLE_METHOD,
        paper=None,
        w=task.w,
        per_window=None if task.w is None else task.w * log_upper(ratio),
        lifetime=statements.oracle_lifetime(task.w),
        target_epsilon=target,
        target_delta=None,
        within_target=within,
        assumptions=(
            statements.ENTROPY,
            statements.SERVER,
            *((statements.HASH_KEYS,) if olh else ()),
        ),
        warnings=_warnings(task, None, epsilon, delta, within),
    )


def _certify_rounds(task: Task, point: Fraction | None) -> Certificate:
    assert task.method is not None
    assert task.w is not None
    assert task.epsilon is not None
    checked = rounds.entries(task)
    loss = rounds.window_loss(task, checked)
    within = all(entry.holds for entry in checked)
    epsilon = loss if point is None else point
    delta = rounds.delta(loss, epsilon)
    warnings = _warnings(task, None, epsilon, delta, within)
    losing = [i for i, entry in enumerate(checked) if not entry.holds]
    if losing:
        entry = checked[losing[0]]
        warnings += (
            f"More than the ledger charges is lost by {len(losing)} of"
            f" {counted(len(checked), 'entry', 'entries')}, the first of them entry"
            f" {losing[0]}: up to epsilon {digits_up(entry.loss)} for a spend of"
            f" {entry.spend}/65536.",
        )
    return Certificate(
        task_id=task.id.hex(),
        mechanism=_METHODS[task.method],
        relation=statements.rounds_relation(task.w),
        definition=statements.ROUNDS_DEFINITION,
        epsilon=epsilon,
        delta=delta,
        curve=_curve(lambda point: rounds.delta(loss, point), epsilon),
        method=statements.ROUNDS_METHOD,
        paper=rounds_claim(task, within),
        w=task.w,
        per_window=loss,
        lifetime=statements.rounds_lifetime(task.w, 2 * task.spends[0] > task.epsilon),
        target_epsilon=_scaled(task.epsilon, EPSILON_UNIT),
        target_delta=None,
        within_target=within,
        assumptions=(
            statements.HOSTILE_SERVER,
            statements.LEDGER,
            statements.OWN_STEPS,
            statements.ONE_LEDGER,
            statements.ENTROPY,
            *((statements.HASH_KEYS,) if task.mechanism == OLH else ()),
        ),
        warnings=warnings,
        oracle=_NAMES[task.mechanism],
        entries=checked,
    )


def _certify_epochs(task: Task, point: Fraction | None) -> Certificate:
    loss = epochs.lifetime_loss(task)
    target = _scaled(task.epsilon, EPSILON_UNIT)
    assert target is not None
    within = epochs.within(task, target)
    epsilon = loss if point is None else point
    delta = rounds.delta(loss, epsilon)
    warnings = _warnings(task, None, epsilon, delta, within)
    if not within:
        warnings += (statements.UNDERCHARGED,)
    heavy = task.mechanism == HEAVYTHRESH
    return Certificate(
        task_id=task.id.hex(),
        mechanism=_NAMES[task.mechanism],
        relation=statements.EPOCHS_RELATION,
        definition=statements.EPOCHS_DEFINITION,
        epsilon=epsilon,
        delta=delta,
        curve=_curve(lambda point: rounds.delta(loss, point), epsilon),
        method=statements.EPOCHS_METHOD,
        paper=epochs_claim(task),
        w=None,
        per_window=None,
        lifetime=statements.epochs_lifetime(task.epochs * task.rounds),
        target_epsilon=target,
        target_delta=None,
        within_target=within,
        assumptions=(
            statements.ANY_SERVER,
            statements.COUNTERS,
            statements.ALLOWANCE,
            statements.ENTROPY,
            *((statements.FULL_TABLE,) if heavy else ()),
        ),
        warnings=warnings,
        disclosures=epochs.disclosures(task),
    )


def _certify_crr(task: Task, point: Fraction | None, progress: crr.Progress | None) -> Certificate:
    delta = _scaled(task.delta, DELTA_UNIT)
    found = crr.figures(task, device_policy(task), delta, progress)
    target = _scaled(task.epsilon, EPSILON_UNIT)
    holds = found.walk.fault is None
    within = holds and (target is None or crr.within(task, target))
    epsilon = found.epsilon if point is None else point
    delta_of = _delta_of(found.epsilon, holds)
    at = delta_of(epsilon)
    warnings = _warnings(task, None, epsilon, at, within)
    if not holds:
        warnings += (statements.crr_fault(found.walk.fault or ""),)
    if not found.bounded:
        warnings += (statements.crr_no_bound(task.block),)
    return Certificate(
        task_id=task.id.hex(),
        mechanism=_NAMES[task.mechanism],
        relation=statements.crr_relation(task.block),
        definition=statements.CRR_DEFINITION,
        epsilon=epsilon,
        delta=at,
        curve=_curve(delta_of, epsilon),
        method=statements.crr_method(found.walk.depth, found.walk.sampled, found.bounded),
        paper=crr_claim(found),
        w=task.w,
        per_window=found.sequence,
        lifetime=statements.crr_lifetime(task.w, task.block),
        target_epsilon=target,
        # Of w steps together: no target of a step's.
        target_delta=None,
        within_target=within,
        assumptions=(
            statements.CRR_MODEL,
            statements.CRR_BOOT,
            statements.CRR_PUBLIC,
            statements.ENTROPY,
            statements.SERVER,
        ),
        warnings=warnings,
        crr=found,
    )


def _certify_table(task: Task, point: Fraction | None) -> Certificate:
    found = crr_table.table_figures(task, _scaled(task.delta, DELTA_UNIT))
    target = _scaled(task.epsilon, EPSILON_UNIT)
    holds = found.fault is None
    within = holds and (target is None or crr.within(task, target))
    epsilon = found.epsilon if point is None else point
    delta_of = _delta_of(found.epsilon, holds)
    at = delta_of(epsilon)
    warnings = _warnings(task, None, epsilon, at, within)
    if found.fault is not None:
        warnings += (statements.table_fault(found.fault),)
    return Certificate(
        task_id=task.id.hex(),
        mechanism=_NAMES[task.mechanism],
        relation=statements.crr_relation(task.block),
        definition=table_statements.TABLE_DEFINITION,
        epsilon=epsilon,
        delta=at,
        curve=_curve(delta_of, epsilon),
        method=table_statements.table_method(found.vertices, task.memory or 1),
        paper=None,
        w=task.w,
        per_window=found.sequence,
        lifetime=table_statements.table_lifetime(task.w, found.block),
        target_epsilon=target,
        # Of w steps together: no target of a block's.
        target_delta=None,
        within_target=within,
        assumptions=(
            statements.CRR_MODEL,
            table_statements.TABLE_BOOT,
            table_statements.TABLE_INCOMPLETE,
            table_statements.TABLE_PLANNED,
            statements.CRR_PUBLIC,
            statements.ENTROPY,
            statements.SERVER,
        ),
        warnings=warnings,
        table=found,
    )


def _delta_of(loss: Fraction, holds: bool) -> Curve:
    """Of a release that tells up to `loss`; where that does not hold, nothing is promised."""
    return lambda point: rounds.delta(loss, point) if holds else Fraction(1)


def _warnings(
    task: Task, claim: Claim | None, epsilon: Fraction, delta: Fraction, within: bool
) -> tuple[str, ...]:
    found: list[str] = []
    if not within:
        found.append(
            f"What is certified exceeds the Task's target: epsilon {digits_up(epsilon)},"
            f" delta {digits_up(delta)}."
        )
    if claim is not None and not claim.holds:
        found.append(
            "The paper's figure for this mechanism is not a guarantee: it fails for the event"
            " named with it."
        )
    telling = _telling(task)
    if telling:
        found.append(
            f"With probability up to {digits_up(telling)} what is released is impossible for"
            " the neighbouring series, and so tells the order of the two values for certain;"
            " this is part of delta at every epsilon."
        )
    if task.mechanism == STASWITCH and task.k > staswitch.COMPARED_K:
        found.append(
            f"For k = {task.k} the worst start of StaSwitch is taken over from k up to"
            f" {staswitch.COMPARED_K}, not proved."
        )
    return tuple(found)


def _telling(task: Task) -> Fraction:
    """Probability of what the neighbouring series can't give."""
    if task.mechanism == RANSWITCH:
        return 1 - (1 - ranswitch.probabilities(task.window, task.thresholds[0])[0]) ** (task.k - 1)
    if task.mechanism == STASWITCH:
        return staswitch.law(task.k, task.thresholds[0]).impossible
    return Fraction(0)


def _curve(delta_of: Curve, epsilon: Fraction) -> tuple[tuple[Fraction, Fraction], ...]:
    points = sorted({epsilon * i / _POINTS for i in range(2 * _POINTS + 1)})
    return tuple((point, delta_of(point)) for point in points)


def _telling_points(delta_of: Curve, progress: Told) -> Curve:
    """The same; the point that is certified is one more than those of the curve."""
    done = itertools.count(1)
    total = 2 * _POINTS + 2

    def told(epsilon: Fraction) -> Fraction:
        delta = delta_of(epsilon)
        progress(min(next(done), total), total)
        return delta

    return told


def _scaled(number: int | None, unit: int) -> Fraction | None:
    return None if number is None else Fraction(number, unit)
