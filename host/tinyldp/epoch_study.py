"""What a study of Thresh or HeavyThresh states besides what every study does.

[mechanism]  epochs, rounds (steps of an epoch)
             profile   "tuned" (if absent) or "paper": who chooses votes and estimates
             votes, estimates  tuned: how often a device may speak truthfully
             subgroups (if absent 1) whose data may change by themselves, and
             smallest_subgroup, the devices of the smallest one (if absent all)
             failure   probability that the accuracy is missed (if absent 0.1)
             ignore    changes of this size cast no vote (if absent 0)
             polls, poll_epsilon  epochs that ask who has votes left, and what each
                       such answer costs
             dictionary, coordinates (if absent 1024), items (slots of a device's
                       table, if absent 256)                (HeavyThresh only)
[stream]     source    Thresh: "means"; HeavyThresh: "heavy"
             seed
             at        epochs from which on the next of means, or of sets of heavy
                       items, holds; the first is 1
             means     of the fleet, in 0..1, one for each of `at`
             groups    shares of the devices, each of which changes at its own one of
                       `at` after the first; the rest keeps the first mean
             heavy, weight, support  so many items have this share each (if absent 5
                       of 0.15), among so many that occur (if absent 64,
                       or all items, or all that a table has room for)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from tinyldp.errors import UserError
from tinyldp.figures import counted
from tinyldp.sections import Sections, nearest, short
from tinyldp_protocol.task import SCALE

PROFILES = ("tuned", "paper")
FAILURE_UNIT = 1 << 30
COORDINATES = 1024
ITEMS = 256

OF_EPOCHS = (
    *("profile", "epochs", "rounds", "subgroups", "smallest_subgroup", "votes", "estimates"),
    *("failure", "ignore", "polls", "poll_epsilon", "dictionary", "coordinates", "items"),
)
OF_THEIR_STREAM = ("means", "at", "groups", "heavy", "weight", "support")
_OF_HEAVY = ("dictionary", "coordinates", "items")


@dataclass(frozen=True, slots=True)
class EpochSettings:
    """[mechanism] of Thresh or HeavyThresh, defaults filled in.

    smallest: devices of the smallest subgroup. votes, estimates: None for the paper's
    profile. failure, ignore, poll_epsilon: exact. coordinates and items: None for Thresh.
    """

    profile: str
    epochs: int
    rounds: int
    subgroups: int
    smallest: int
    votes: int | None
    estimates: int | None
    failure: Fraction
    ignore: Fraction
    polls: int | None
    poll_epsilon: Fraction | None
    coordinates: int | None
    items: int | None

    @property
    def failure_units(self) -> int:
        """Over 2^30, rounded down, as a Task has it."""
        return int(self.failure * FAILURE_UNIT)


@dataclass(frozen=True, slots=True)
class EpochStream:
    """[stream] of Thresh ("means") or HeavyThresh ("heavy"): what a simulation plays.

    at: epochs, ascending from 1. means, one for each of them, and groups are of "means"; heavy,
    weight and support of "heavy", else 0.
    """

    source: str
    at: tuple[int, ...]
    means: tuple[float, ...] = ()
    groups: tuple[float, ...] = ()
    heavy: int = 0
    weight: float = 0.0
    support: int = 0


def epoch_settings(sections: Sections, heavy: bool, devices: int, most: int) -> EpochSettings:
    """heavy: of HeavyThresh. most: what a step can add to a sum, symbols - 1 for Thresh, else 2."""
    title = "HeavyThresh" if heavy else "Thresh"
    for key in _OF_HEAVY:
        if not heavy and sections.given("mechanism", key) is not None:
            raise UserError(f"[mechanism] {key} is for HeavyThresh alone, not for Thresh.")
    epochs = _between(sections, "epochs", 2, 1 << 14)
    rounds = _between(sections, "rounds", 2, 1 << 20)
    if rounds * most > SCALE:
        raise UserError(
            f"[mechanism] rounds must be {SCALE // most} or less with {most + 1} symbols, "
            f"so that a sum stays below 2^24, but is {rounds}."
        )
    profile = sections.text("mechanism", "profile") or "tuned"
    if profile not in PROFILES:
        raise UserError(
            '[mechanism] profile must be "tuned" or "paper", '
            f'not "{short(profile)}"{nearest(profile, PROFILES)}.'
        )
    subgroups, smallest = _subgroups(sections, devices)
    votes, estimates = _caps(sections, profile, epochs, title)
    polls, poll_epsilon = _polls(sections, epochs)
    return EpochSettings(
        profile=profile,
        epochs=epochs,
        rounds=rounds,
        subgroups=subgroups,
        smallest=smallest,
        votes=votes,
        estimates=estimates,
        failure=_share(sections, "failure", Fraction(1, 10), FAILURE_UNIT),
        ignore=_ignore(sections, heavy),
        polls=polls,
        poll_epsilon=poll_epsilon,
        coordinates=_between(sections, "coordinates", 2, 1 << 15, COORDINATES) if heavy else None,
        items=_between(sections, "items", 1, min(1024, rounds), min(ITEMS, rounds))
        if heavy
        else None,
    )


def epoch_stream(sections: Sections, settings: EpochSettings, symbols: int) -> EpochStream | None:
    """The [stream] of a study, or None."""
    heavy = settings.items is not None
    source = sections.text("stream", "source")
    if source is None:
        for key in OF_THEIR_STREAM:
            if sections.given("stream", key) is not None:
                raise UserError(f"[stream] source is missing: {key} is a part of one.")
        return None
    name = "heavy" if heavy else "means"
    title = "HeavyThresh" if heavy else "Thresh"
    if source != name:
        raise UserError(f'[stream] source must be "{name}" for {title}, not "{short(source)}".')
    foreign = ("means", "groups") if heavy else ("heavy", "weight", "support")
    for key in foreign:
        if sections.given("stream", key) is not None:
            raise UserError(f'[stream] {key} is not for source = "{name}".')
    at = _at(sections, settings.epochs)
    if settings.items is None:
        return _means(sections, at)
    stream = _heavy(sections, at, symbols, settings.items)
    check_support(stream, settings.items)
    return stream


def check_support(stream: EpochStream, items: int) -> None:
    """Raise UserError unless a device's table has room for all that occur."""
    if stream.support > items:
        raise UserError(
            f"[stream] support must be {items} or less, the items of a device's table, "
            f"but is {stream.support}: which of more it keeps depends on their order."
        )


def _at(sections: Sections, epochs: int) -> tuple[int, ...]:
    at = sections.integers("stream", "at")
    if at is None:
        return (1,)
    if not at or at[0] != 1 or any(b <= a for a, b in pairwise(at)):
        raise UserError("[stream] at must be a list of epochs that ascend, the first of them 1.")
    if at[-1] > epochs:
        raise UserError(f"[stream] at names epoch {at[-1]}, and there are {epochs} epochs.")
    return at


def _means(sections: Sections, at: tuple[int, ...]) -> EpochStream:
    means = sections.decimals("stream", "means")
    if means is None:
        raise UserError("[stream] means is missing.")
    if len(means) != len(at):
        raise UserError(
            f"[stream] there must be one of means for each of at, but there are "
            f"{counted(len(means), 'mean')} for {counted(len(at), 'epoch')}."
        )
    for mean in means:
        if not 0 <= mean <= 1:
            raise UserError(f"[stream] means must lie in 0..1, but one is {float(mean):g}.")
    groups = sections.decimals("stream", "groups") or ()
    if any(share <= 0 for share in groups) or sum(groups) > 1:
        raise UserError("[stream] groups must be above 0 and no more than 1 together.")
    if groups and len(groups) != len(at) - 1:
        raise UserError(
            f"[stream] there must be one of groups for each change, but there are "
            f"{counted(len(groups), 'group')} for {counted(len(at) - 1, 'change')}."
        )
    return EpochStream("means", at, tuple(map(float, means)), tuple(map(float, groups)))


def _heavy(sections: Sections, at: tuple[int, ...], symbols: int, items: int) -> EpochStream:
    heavy = _number(sections, "heavy", 5)
    support = _number(sections, "support", min(64, symbols, items))
    weight = sections.decimal("stream", "weight")
    weight = Fraction(3, 20) if weight is None else weight
    for key, n, least, most in (("support", support, 2, symbols), ("heavy", heavy, 1, support)):
        if not least <= n <= most:
            raise UserError(f"[stream] {key} must lie in {least}..{most}, but is {n}.")
    if len(at) > 1 and support < 2 * heavy:
        raise UserError(
            f"[stream] support must be {2 * heavy} or more, for {heavy} heavy items to be replaced "
            f"by {heavy} others, but is {support}."
        )
    if not 0 < weight <= 1 or heavy * weight > 1:
        raise UserError(
            "[stream] weight must be above 0 and the heavy items' no more than 1 together, "
            f"but is {float(weight):g}."
        )
    return EpochStream("heavy", at, heavy=heavy, weight=float(weight), support=support)


def _number(sections: Sections, key: str, default: int) -> int:
    n = sections.integer("stream", key)
    return default if n is None else n


def _between(
    sections: Sections, key: str, least: int, most: int, default: int | None = None
) -> int:
    n = sections.integer("mechanism", key)
    if n is None:
        if default is None:
            raise UserError(f"[mechanism] {key} is missing.")
        return default
    if not least <= n <= most:
        raise UserError(f"[mechanism] {key} must lie in {least}..{most}, but is {n}.")
    return n


def _subgroups(sections: Sections, devices: int) -> tuple[int, int]:
    subgroups = _between(sections, "subgroups", 1, devices, 1)
    smallest = sections.integer("mechanism", "smallest_subgroup")
    if smallest is None:
        if subgroups > 1:
            raise UserError(
                "[mechanism] smallest_subgroup is missing: say how many devices the smallest of "
                f"{subgroups} subgroups has."
            )
        return 1, devices
    if not 1 <= smallest <= devices // subgroups:
        raise UserError(
            f"[mechanism] smallest_subgroup must lie in 1..{devices // subgroups} for "
            f"{counted(subgroups, 'subgroup')} of {counted(devices, 'device')}, but is {smallest}."
        )
    return subgroups, smallest


def _caps(
    sections: Sections, profile: str, epochs: int, title: str
) -> tuple[int | None, int | None]:
    caps = []
    for key in ("votes", "estimates"):
        n = sections.integer("mechanism", key)
        if profile == "paper":
            if n is not None:
                raise UserError(
                    "[mechanism] votes and estimates follow from the other settings with "
                    'profile = "paper": remove both.'
                )
        elif n is None:
            raise UserError(
                f'[mechanism] {key} is missing: {title} with profile = "tuned" needs votes and '
                "estimates, how often a device may speak truthfully."
            )
        elif not 1 <= n <= epochs:
            raise UserError(f"[mechanism] {key} must lie in 1..{epochs}, the epochs, but is {n}.")
        caps.append(n)
    return caps[0], caps[1]


def _polls(sections: Sections, epochs: int) -> tuple[int | None, Fraction | None]:
    polls, cost = (
        sections.integer("mechanism", "polls"),
        sections.decimal("mechanism", "poll_epsilon"),
    )
    if (polls is None) != (cost is None):
        missing, other = ("polls", "poll_epsilon") if polls is None else ("poll_epsilon", "polls")
        raise UserError(f"[mechanism] {missing} is missing: {other} alone is no poll.")
    if polls is None or cost is None:
        return None, None
    if not 1 <= polls <= epochs:
        raise UserError(f"[mechanism] polls must lie in 1..{epochs}, the epochs, but is {polls}.")
    if cost <= 0:
        shown = sections.shown("mechanism", "poll_epsilon")
        raise UserError(f"[mechanism] poll_epsilon must be above 0, but is {shown}.")
    return polls, cost


def _share(sections: Sections, key: str, default: Fraction, unit: int) -> Fraction:
    value = sections.decimal("mechanism", key)
    if value is None:
        return default
    if not Fraction(1, unit) <= value < 1:
        raise UserError(
            f"[mechanism] {key} must be below 1, and 2^-30 or more, "
            f"but is {sections.shown('mechanism', key)}."
        )
    return value


def _ignore(sections: Sections, heavy: bool) -> Fraction:
    value = sections.decimal("mechanism", "ignore")
    if value is None:
        return Fraction(0)
    if not 0 <= value < 1:
        what = "the largest hashed change is 1" if heavy else "the largest change is 1"
        raise UserError(
            f"[mechanism] ignore must be 0 or more and below 1 ({what}), "
            f"but is {sections.shown('mechanism', 'ignore')}."
        )
    return value
