"""The integers of Thresh and HeavyThresh, and what can't work.

n devices, T epochs of l steps, m subgroups, the smallest of L devices, failure d; log is log2.

    tuned   a = epsilon / (4 votes), b = epsilon / (2 estimates): all of epsilon is spent
    paper   a = 4 sqrt(2n ln(12mT/d)) / (L - 3 sqrt(n ln(12mT/d) / 2))
            b = 2Q / (R - Q), Q = sqrt(ln(12T/d) / 2n), R = log(T) u/2
            and floor(epsilon / 4a) votes, floor(epsilon / 4b) estimates
    levels  (b + 1) u + ignore for b = 0 .. floor(log T), with
            u = 2 sqrt(ln(12nT/d) / 2l); HeavyThresh: u = 2 sqrt(2 ln(16wnT/d) / l), of the
            hash times sqrt(w), and 16 for 12 elsewhere

Source: Joseph et al. 2018, with constants of a and b as public code has them. What
can be a share of [privacy] epsilon for polls is taken off first. Thresholds are rounded toward
more noise, levels down, and no level is above what two epochs can differ by.

A change is one by which a subgroup's mean, or for HeavyThresh its hash, moves; HeavyThresh's is
taken to be what the largest of w normal coordinates makes of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist

from tinyldp.certify.bounds import log_upper
from tinyldp.certify.epochs import lifetime_loss, ratio
from tinyldp.epoch_study import EpochSettings
from tinyldp.errors import UserError
from tinyldp.estimate.heavy import CONFIDENCE, half_width, scale_of, square_bound
from tinyldp.figures import counted, stated
from tinyldp.planning.oracles import oue_threshold
from tinyldp.study import EPSILON_UNIT, Study
from tinyldp_protocol.task import HEAVYTHRESH, SCALE, Task

# A setting that is offered finds a change at once as often as this.
_SURE = 0.95
_LEAST_CAPS = 2
# Standard deviations of a 95 % interval, and all that a share or a mean can be.
_SIDES = 1.96
_WHOLE = 1.0
_MORE = (1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 64, 80, 100)


@dataclass(frozen=True)
class Change:
    """A change of a stream: the epochs that it lasts, how large it is, and when it is voted on.

    every: an epoch's number must be a multiple of this, None where it is never voted on.
    first: the first such epoch, None where it is over before.
    """

    at: int
    until: int
    size: float
    every: int | None

    @property
    def first(self) -> int | None:
        if self.every is None:
            return None
        first = -(-self.at // self.every) * self.every
        return first if first <= self.until else None


@dataclass(frozen=True)
class Chosen:
    """What the planner chooses. thresholds: of a vote, an estimate, and maybe a poll."""

    votes: int
    estimates: int
    thresholds: list[int]
    levels: list[int]


class _Degenerate(Exception):
    """Its argument says why nothing can come of a study."""


def choose_epochs(study: Study) -> Task:
    """The Task of a study of Thresh or HeavyThresh.

    Raises UserError, one sentence, where nothing can come of it: with the reason, and a setting
    near to the study's that works.
    """
    try:
        chosen = _chosen(study)
    except _Degenerate as reason:
        raise UserError(f"{reason}; {_mended(study)}.") from None
    task = study.epoch_task(
        votes=chosen.votes,
        estimates=chosen.estimates,
        thresholds=chosen.thresholds,
        levels=chosen.levels,
    )
    # What it really costs, which the device is charged: rounded up, and no more than was stated.
    return study.epoch_task(
        votes=chosen.votes,
        estimates=chosen.estimates,
        thresholds=chosen.thresholds,
        levels=chosen.levels,
        epsilon=max(1, math.ceil(lifetime_loss(task) * EPSILON_UNIT)),
    )


def settings_of(study: Study) -> tuple[EpochSettings, int]:
    """(settings, devices), which each study of epochs has."""
    assert study.settings is not None
    assert study.devices is not None
    return study.settings, study.devices


def unit(study: Study) -> float:
    """u, the distance of two levels, as a share of 1 (HeavyThresh: of the hash times sqrt(w))."""
    settings, n = settings_of(study)
    inner = n * settings.epochs / float(settings.failure)
    if study.mechanism == HEAVYTHRESH:
        assert settings.coordinates is not None
        inner *= 16 * settings.coordinates
        return 2 * math.sqrt(2 * math.log(inner) / settings.rounds)
    return 2 * math.sqrt(math.log(12 * inner) / (2 * settings.rounds))


def most(study: Study) -> int:
    """By what two epochs of a device can differ: of sums, or of signed sums of counts."""
    settings, _ = settings_of(study)
    if study.mechanism == HEAVYTHRESH:
        return 2 * settings.rounds
    return settings.rounds * (study.domain - 1)


def scale(study: Study) -> int:
    """What a change of 1 is, of what two epochs differ by."""
    return most(study) // (2 if study.mechanism == HEAVYTHRESH else 1)


def margin(study: Study) -> float:
    """By how much a share of votes must exceed T/N for an update."""
    settings, n = settings_of(study)
    return math.sqrt(math.log(10 * settings.epochs / float(settings.failure)) / (2 * n))


def update_chance(study: Study, threshold: int, voters: float | None = None) -> float:
    """That an update follows when so many vote for it; None: all of the smallest subgroup."""
    settings, n = settings_of(study)
    lie = threshold / SCALE
    above = (settings.smallest if voters is None else voters) / n * (1 - 2 * lie) - margin(study)
    return NormalDist().cdf(above / math.sqrt(lie * (1 - lie) / n))


def error(study: Study, threshold: int) -> tuple[float, float]:
    """(standard deviation at most, half a 95 % interval) of an estimate with this threshold.

    HeavyThresh: the deviation of an item's share; the interval is that of all items together,
    as it is to be expected where the study's stream is what devices have, and at most without one.
    """
    settings, n = settings_of(study)
    noise = scale_of(threshold)
    if study.mechanism != HEAVYTHRESH:
        deviation = noise / (2 * math.sqrt(n))
        return deviation, _SIDES * deviation
    w = settings.coordinates
    assert w is not None
    noise *= noise / n
    square = bound = 1.0
    stream = study.stream
    if stream is not None:
        rest = stream.support - stream.heavy
        left = 1 - stream.heavy * stream.weight
        square = stream.heavy * stream.weight**2 + (left * left / rest if rest else 0.0)
        # The host does not know it, and bounds it from the answers.
        bound = square_bound(square, noise, w)
    deviation = math.sqrt(noise + square / w)
    return deviation, half_width(noise, bound, w, CONFIDENCE, study.domain)


def shows(study: Study, threshold: int, sure: bool = False) -> bool:
    """Whether an estimate tells anything: of the mean, which side of 0 to 1 it may lie on; of
    items, that the stream's heavy ones are. sure: nearly always, else as is expected."""
    deviation, interval = error(study, threshold)
    if study.mechanism != HEAVYTHRESH:
        return interval < _WHOLE / 2
    return interval + sure * NormalDist().inv_cdf(_SURE) * deviation < _largest(study)


def changes(study: Study, levels: list[int], sure: bool = False) -> list[Change]:
    """Those of the study's stream, none without one.

    sure: on which nearly all devices vote, however their own epochs came out; else those that
    are voted on if they came out as is expected.
    """
    settings, _ = settings_of(study)
    stream = study.stream
    if stream is None:
        return []
    ends = [at - 1 for at in stream.at[1:]] + [settings.epochs]
    sizes = [
        abs(new - (stream.means[0] if stream.groups else old))
        for old, new in zip(stream.means, stream.means[1:], strict=False)
    ]
    if study.mechanism == HEAVYTHRESH:
        assert settings.coordinates is not None
        left = 1 - stream.heavy * stream.weight
        rest = left / max(1, stream.support - stream.heavy)
        # Two sets of heavy items without a common one.
        moved = abs(stream.weight - rest) * math.sqrt(2 * stream.heavy)
        sum_of_all = 2 * stream.heavy * abs(stream.weight - rest)
        hashed = moved * math.sqrt(2 * math.log(settings.coordinates))
        sizes = [min(sum_of_all, hashed)] * (len(stream.at) - 1)
    slack = 0.0
    if sure and study.mechanism != HEAVYTHRESH:
        # Two deviations of the difference of two sums, each of variance M/4 at most.
        slack = math.sqrt(2 * most(study))
    return [
        Change(at, end, size, every(levels, size * scale(study) - slack))
        for at, end, size in zip(stream.at[1:], ends[1:], sizes, strict=True)
    ]


def every(levels: list[int], difference: float) -> int | None:
    """A difference is voted on in epochs whose number this divides; None: in no epoch."""
    below = sum(difference > level for level in levels)
    return 1 << (len(levels) - below) if below else None


def _chosen(study: Study) -> Chosen:
    """Raises _Degenerate."""
    settings, _ = settings_of(study)
    assert study.epsilon is not None
    epsilon = Fraction(study.epsilon, EPSILON_UNIT)
    polls = []
    if settings.polls is not None and settings.poll_epsilon is not None:
        epsilon -= settings.polls * settings.poll_epsilon
        if epsilon <= 0:
            raise _Degenerate(
                f"[mechanism] poll_epsilon {float(settings.poll_epsilon):g} in "
                f"{counted(settings.polls, 'poll')} leaves nothing of epsilon {_shown(study)}"
            )
        polls = [oue_threshold(settings.poll_epsilon)]
        if polls[0] >= SCALE // 2:
            raise UserError(
                f"[mechanism] poll_epsilon {float(settings.poll_epsilon):g} is too small: in steps "
                "of 2^-24 an answer would say nothing."
            )
    if settings.profile == "paper":
        votes, estimates, thresholds = _paper(study, settings, epsilon)
    else:
        votes, estimates = settings.votes or 0, settings.estimates or 0
        thresholds = [
            oue_threshold(epsilon / (4 * votes)),
            oue_threshold(epsilon / (2 * estimates)),
        ]
    thresholds += polls
    if max(thresholds) >= SCALE // 2:
        raise _Degenerate(
            f"epsilon {_shown(study)} is too small: in steps of 2^-24 a report would say nothing"
        )
    if estimates < _LEAST_CAPS:
        raise _Degenerate(
            f"there is no second estimate: each device may give {estimates}, and the first update "
            "is made at the start, before anything has changed"
        )
    distance = unit(study)
    top, one = most(study), scale(study)
    levels = [
        min(top, math.floor(((b + 1) * distance + float(settings.ignore)) * one))
        for b in range(settings.epochs.bit_length())
    ]
    chosen = Chosen(votes, estimates, thresholds, levels)
    _check_votes(study, settings, thresholds[0])
    _check_levels(study, settings, chosen)
    _check_error(study, chosen)
    return chosen


def _paper(study: Study, settings: EpochSettings, epsilon: Fraction) -> tuple[int, int, list[int]]:
    n = study.devices or 0
    constant = 16 if study.mechanism == HEAVYTHRESH else 12
    per_failure = constant * settings.epochs / float(settings.failure)
    spread = n * math.log(settings.subgroups * per_failure)
    room = settings.smallest - 3 * math.sqrt(spread / 2)
    if room <= 0:
        raise _Degenerate(
            f"the paper's noise needs a smallest subgroup of more than "
            f"{3 * math.sqrt(spread / 2):,.0f} of {counted(n, 'device')}, and it has "
            f"{settings.smallest:,}"
        )
    q = math.sqrt(math.log(per_failure) / (2 * n))
    r = math.log2(settings.epochs) * unit(study) / 2
    if r <= q:
        raise _Degenerate(
            f"the paper's noise of an estimate needs R above Q, and R is {r:.3g} and Q {q:.3g}: "
            "there are too few devices for epochs of so many steps"
        )
    a, b = 4 * math.sqrt(2 * spread) / room, 2 * q / (r - q)
    thresholds = [oue_threshold(Fraction(a)), oue_threshold(Fraction(b))]
    if max(thresholds) >= SCALE // 2:
        return 1, 1, thresholds
    votes, estimates = (
        min(settings.epochs, epsilon // (4 * log_upper(ratio(each)))) for each in thresholds
    )
    if votes < 1:
        raise _Degenerate(
            f"no vote is allowed: with the paper's noise each costs {a:.3g}, and a quarter of "
            f"epsilon {_shown(study)} is less"
        )
    return int(votes), int(estimates), thresholds


def _check_votes(study: Study, settings: EpochSettings, threshold: int) -> None:
    n = study.devices or 0
    share = settings.smallest / n * (1 - 2 * threshold / SCALE)
    if share <= margin(study):
        who = "all devices" if settings.smallest == n else "all of the smallest subgroup"
        raise _Degenerate(
            f"even if {who} vote for an update there is none: with {settings.votes or 'so many'} "
            f"votes from epsilon {_shown(study)} the share of ones rises by {share:.3g}, and must "
            f"rise by {margin(study):.3g}"
        )


def _check_levels(study: Study, settings: EpochSettings, chosen: Chosen) -> None:
    one = scale(study)
    lowest = chosen.levels[0] / one
    if chosen.levels[0] >= most(study):
        raise _Degenerate(
            f"no change is ever voted on: with {settings.rounds:,} rounds even the lowest level is "
            "as large as a change can be"
        )
    for change in changes(study, chosen.levels):
        if not change.size:
            continue
        if change.every is None:
            raise _Degenerate(
                f"epochs of {settings.rounds:,} rounds are too short for the change at epoch "
                f"{change.at}: it is one of {change.size:.3g}, and the lowest level is {lowest:.3g}"
            )
        if change.first is None:
            raise _Degenerate(
                f"the change at epoch {change.at} is over before it is voted on: it is one of "
                f"{change.size:.3g}, on which devices vote in 1 of {change.every} epochs"
            )


def _check_error(study: Study, chosen: Chosen) -> None:
    """An estimate that shows nothing is noise, and costs privacy all the same."""
    if shows(study, chosen.thresholds[1]):
        return
    interval = error(study, chosen.thresholds[1])[1]
    start = (
        f"what is published would be noise: from {counted(study.devices or 0, 'device')} with"
        f" {counted(chosen.estimates, 'estimate')} from epsilon {_shown(study)}"
    )
    if study.mechanism != HEAVYTHRESH:
        raise _Degenerate(f"{start} the mean, in 0 to 1, is estimated within {interval:.3g}")
    largest = _largest(study)
    what = f"the heavy ones have {largest:.3g}" if largest < _WHOLE else "none has more than 1"
    raise _Degenerate(f"{start} shares of items are estimated within {interval:.3g}, and {what}")


def _largest(study: Study) -> float:
    """The share of the stream's heavy items, or the most that one can have."""
    stream = study.stream
    return stream.weight if stream is not None and stream.heavy else _WHOLE


def _mended(study: Study) -> str:
    """The end of a sentence: the first setting found that works."""
    for text, other in _others(study):
        try:
            chosen = _chosen(other)
        except (_Degenerate, UserError):
            continue
        seen = all(
            change.first for change in changes(other, chosen.levels, sure=True) if change.size
        )
        seen = seen and shows(other, chosen.thresholds[1], sure=True)
        if seen and update_chance(other, chosen.thresholds[0]) >= _SURE:
            return f"it works with {text}"
    return "and no setting near to it works"


def _others(study: Study) -> Iterator[tuple[str, Study]]:
    """Settings near to the study's, the nearest first, and how they differ."""
    settings, _ = settings_of(study)
    near = [("", study)]
    if settings.profile == "paper":
        for votes in (2, 1):
            text = f'profile = "tuned", votes = {votes} and estimates = 2'
            near.append((text, _with(study, profile="tuned", votes=votes, estimates=2)))
    else:
        if (settings.estimates or 0) < _LEAST_CAPS:
            near.append(("estimates = 2", _with(study, estimates=2)))
        for estimates in range((settings.estimates or 0) - 1, _LEAST_CAPS - 1, -1):
            near.append((f"estimates = {estimates}", _with(study, estimates=estimates)))
        for votes in range((settings.votes or 1) - 1, 0, -1):
            near.append((f"votes = {votes}", _with(study, votes=votes)))
    yield from near[1:]
    for text, other in near:
        start = f"{text} and " if text else ""
        yield from ((start + more, each) for more, each in _larger(other))
    for text, other in _more_budget(study):
        yield from ((f"{text} and {more}", each) for more, each in _more_devices(other))


def _larger(study: Study) -> Iterator[tuple[str, Study]]:
    settings, _ = settings_of(study)
    if settings.ignore:
        yield "ignore = 0", _with(study, ignore=Fraction(0))
    rounds = settings.rounds
    while (rounds := 2 * rounds) <= min(1 << 20, SCALE * settings.rounds // most(study)):
        yield f"rounds = {rounds}", _with(study, rounds=rounds)
    yield from _more_budget(study)
    yield from _more_devices(study)


def _more_budget(study: Study) -> Iterator[tuple[str, Study]]:
    assert study.epsilon is not None
    for times in _MORE:
        epsilon = Fraction(f"{float(Fraction(study.epsilon, EPSILON_UNIT)) * times:.2g}")
        units = int(epsilon * EPSILON_UNIT)
        yield f"epsilon = {float(epsilon):g}", replace(study, epsilon=units)


def _more_devices(study: Study) -> Iterator[tuple[str, Study]]:
    settings, n = settings_of(study)
    for times in _MORE:
        devices = int(float(f"{n * times:.2g}"))
        smallest = settings.smallest * devices // n
        text = counted(devices, "device")
        if settings.smallest < n:
            text += f", {smallest:,} of them in the smallest subgroup"
        yield text, replace(_with(study, smallest=smallest), devices=devices)


def _with(study: Study, **settings: object) -> Study:
    assert study.settings is not None
    return replace(study, settings=replace(study.settings, **settings))  # pyright: ignore[reportArgumentType]


def _shown(study: Study) -> str:
    return stated(Fraction(study.epsilon or 0, EPSILON_UNIT), EPSILON_UNIT)
