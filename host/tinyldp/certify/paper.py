"""What the papers claim, beside what is true.

Stateful Switch claims for RanSwitch (window k) that it is (epsilon, delta)-private with

    epsilon = ln[(p^2 (1-q)^(2(k-1)) - q) / (q^2 (1-q)^(2(k-1)))],  delta = q,

and, where q > p (1-q)^(k-1), for any epsilon > 0. Its definition compares single
outputs; that holds for every mechanism once each output alone is improbable, and
does not survive post-processing. By sets of outputs the claim fails for every
k >= 3. Its theorem for StaSwitch has the same definition and rests on averages over
a long stream; no figure of it is evaluated here.

Thresh's paper claims epsilon-LDP for a whole life, with caps of a quarter of epsilon for votes
and another for estimates.

Sequence Information Privacy claims that M(y|x) = e^-epsilon b(y) for y other than x, b the belief,
is the optimum for any belief; with a symbol below 1 / (e^epsilon + 1) it is not even private.

LDP-IDS claims w-event epsilon-LDP for its methods, which is true of what they are here.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tinyldp.certify import ranswitch
from tinyldp.certify.bounds import digits_up, float_up, log_upper
from tinyldp.certify.crr import Figures
from tinyldp.certify.epochs import disclosures
from tinyldp.crr.model import PRIOR_SCALE
from tinyldp.study import EPSILON_UNIT, METHOD_TITLES
from tinyldp_protocol.task import LBD, LPA, LPD, SCALE, Task


@dataclass(frozen=True)
class Counterexample:
    """An event, its two exact probabilities, and how they are computed from the integers."""

    series: str
    neighbour: str
    event: str
    probability: Fraction
    neighbour_probability: Fraction
    exact: tuple[str, str]

    def to_json(self) -> dict[str, Any]:
        return {
            "series": self.series,
            "neighbour": self.neighbour,
            "event": self.event,
            "probability": float(self.probability),
            "neighbour_probability": float(self.neighbour_probability),
            "exact": list(self.exact),
        }


@dataclass(frozen=True)
class Claim:
    """A paper's figure. It is no guarantee; holds says whether it is true, by sets of outputs.

    factor: e^epsilon, exactly. counterexample: where it does not hold.
    """

    factor: Fraction
    delta: Fraction
    holds: bool
    counterexample: Counterexample | None

    @property
    def epsilon(self) -> Fraction:
        return log_upper(self.factor)

    def to_json(self) -> dict[str, Any]:
        return {
            "epsilon": float_up(self.epsilon),
            "delta": float(self.delta),
            "holds": self.holds,
            "counterexample": self.counterexample and self.counterexample.to_json(),
        }


@dataclass(frozen=True)
class WindowClaim:
    """LDP-IDS's figure for any w steps, and whether it is true of this Task.

    statement: what the paper says, and where its text can't be meant.
    """

    epsilon: Fraction
    holds: bool
    statement: str

    def to_json(self) -> dict[str, Any]:
        return {
            "epsilon": float_up(self.epsilon),
            "delta": 0.0,
            "holds": self.holds,
            "counterexample": None,
            "statement": self.statement,
        }


def crr_claim(found: Figures) -> WindowClaim:
    """Sequence Information Privacy: its closed form, for the rarest symbol of this Task."""
    form = found.closed_form
    what = f"the rarest value, {form.symbol}, has probability {form.belief / PRIOR_SCALE:.4g}"
    text = (
        "Sequence Information Privacy releases the truth with e^-epsilon b + 1 - e^-epsilon, b its "
        f"probability, and y else with e^-epsilon b(y). In {form.where} {what}: that would tell "
        f"epsilon {digits_up(log_upper(form.factor))} of it, "
    )
    if form.holds:
        text += (
            f"no more than {digits_up(found.epsilon)}. The formula is private only where no value "
            "is below 1 / (e^epsilon + 1); here a device's rule replaces it elsewhere."
        )
    else:
        text += (
            f"and not the {digits_up(found.epsilon)} that it is said to; the device's rule, which "
            "this certificate is about, is another one."
        )
    return WindowClaim(found.epsilon, form.holds, text)


def epochs_claim(task: Task) -> WindowClaim:
    """Joseph et al. 2018: the epsilon at which this Task's caps are the paper's, or below."""
    votes, estimates = disclosures(task)[:2]
    cap = 4 * max(votes.times * votes.loss, estimates.times * estimates.loss)
    late = 2 * (votes.times + 1) * votes.loss + (estimates.times + 1) * estimates.loss
    text = (
        "Joseph et al. claim epsilon-LDP for a whole life in which votes, and estimates, cost no"
        f" more than epsilon/4 each: for these, epsilon {digits_up(cap)}. That is true of what is"
        " counted before it is said, as here. A cap that is tested before it is counted lets one"
        f" more of each through when epsilon/4 is no multiple of its cost: {digits_up(late)} here."
    )
    if task.polls is not None:
        text += " The paper's remark on asking who has votes left has no figure."
    return WindowClaim(cap, votes.total + estimates.total <= cap, text)


def rounds_claim(task: Task, holds: bool) -> WindowClaim:
    """LDP-IDS: its methods are w-event epsilon-private; its server is trusted to keep to them."""
    assert task.epsilon is not None
    title = METHOD_TITLES[task.method or 0]
    text = f"LDP-IDS claims w-event epsilon-LDP for {title}, with a server that keeps to it."
    if task.method == LBD:
        text += (
            " As printed, each step's dissimilarity gets 2 epsilon/w, and a window could spend up"
            " to 2.5 epsilon: a misprint for epsilon/(2w), which this Task has."
        )
    elif task.method in (LPD, LPA):
        text += (
            " It needs the users of step t-w+1 to be asked again only after step t; one step"
            " earlier, and w steps could lose 2 epsilon. Here the device refuses that."
        )
    return WindowClaim(Fraction(task.epsilon, EPSILON_UNIT), holds, text)


def ranswitch_claim(window: int, k: int, threshold: int) -> Claim | None:
    """The paper's claim for these integers; None for a wide RanSwitch, which it does not treat."""
    if window != k:
        return None
    q, p = ranswitch.probabilities(window, threshold)
    unseen = (1 - q) ** (2 * (k - 1))
    # Not positive, or below 1: the paper lets any epsilon > 0 do.
    factor = max(Fraction(1), (p * p * unseen - q) / (q * q * unseen))
    if ranswitch.delta_at(window, k, threshold, factor) <= q:
        return Claim(factor, q, True, None)
    return Claim(factor, q, False, _counterexample(k, threshold))


def _counterexample(k: int, threshold: int) -> Counterexample:
    """The early release that the neighbour can't give, or for k = 2 the order of the two."""
    q, _ = ranswitch.probabilities(k, threshold)
    u, v = k, 2 * k - 1
    given = f"with q = {threshold}/{SCALE}"
    if k == 2:
        # Alone, the early release has just the claimed delta = q.
        event = f"{u} is released before {v}"
        probability, neighbour_probability = 1 - q * (1 - q), q * (1 - q)
        exact = (f"1 - q (1 - q) {given}", f"q (1 - q) {given}")
    else:
        event = f"{u} is among the first {k - 1} released"
        probability, neighbour_probability = 1 - (1 - q) ** (k - 1), Fraction(0)
        exact = (f"1 - (1 - q)^{k - 1} {given}", "0")
    return Counterexample(
        series=f"1, 2, ..., {v}" if v > 5 else ", ".join(map(str, range(1, v + 1))),
        neighbour=f"the same with {u} and {v} exchanged",
        event=event,
        probability=probability,
        neighbour_probability=neighbour_probability,
        exact=exact,
    )
