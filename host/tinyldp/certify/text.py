"""A certificate for people."""

from __future__ import annotations

import textwrap

from tinyldp import figures
from tinyldp.certify.bounds import digits_up, exp_bounds, log_upper
from tinyldp.certify.certificate import Certificate
from tinyldp.certify.crr import Figures
from tinyldp.certify.crr_table import TableFigures
from tinyldp.certify.epochs import Disclosure
from tinyldp.certify.paper import Claim, WindowClaim
from tinyldp.certify.rounds import Entry
from tinyldp.certify.table_statements import table_lines
from tinyldp.figures import counted
from tinyldp.study import DELTA_UNIT, EPSILON_UNIT

_WIDTH = 88
_INDENT = 14


def text_certificate(certificate: Certificate) -> str:
    """Figures first, each rounded up; then what they mean and where they end."""
    c = certificate
    lines = [
        f"Task {c.task_id}, {c.mechanism}" + (f" over {c.oracle}" if c.oracle else ""),
        "",
        _line("epsilon", digits_up(c.epsilon)),
        _line("delta", digits_up(c.delta)),
    ]
    if c.per_window is not None:
        lines.append(_line(f"in {counted(c.w or 0, 'step')}", f"epsilon {digits_up(c.per_window)}"))
    lines.append(_line("target", _target(c)))
    if c.entries:
        lines.append(_line("entries", _entries(c.entries)))
    for each in c.disclosures or ():
        lines.append(_line(each.name, _disclosure(each)))
    if c.crr is not None:
        told = _crr(c.crr) + _with_delta(c.crr)
        lines += [_line(label, text) for label, text in told]
    if c.table is not None:
        told = table_lines(c.table) + _with_delta(c.table)
        lines += [_line(label, text) for label, text in told]
    lines.append(_line("curve", "epsilon    delta"))
    for epsilon, delta in c.curve:
        lines.append(_line("", f"{digits_up(epsilon):<10} {digits_up(delta)}"))
    lines += [
        _line("neighbours", c.relation),
        _line("means", c.definition),
        _line("obtained by", c.method),
        _line("lifetime", c.lifetime),
    ]
    if c.paper is not None:
        lines.append(_line("the paper", _paper(c.paper)))
    lines += [_line("assumes" if i == 0 else "", text) for i, text in enumerate(c.assumptions)]
    lines += [_line("warning", text) for text in c.warnings]
    return "\n".join(lines)


def _line(label: str, text: str) -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        # A long label is followed by a space, too.
        initial_indent=f"{f'{label} ':<{_INDENT}}",
        subsequent_indent=" " * _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _target(c: Certificate) -> str:
    stated = [
        f"{name} {figures.stated(value, unit)}"
        for name, value, unit in (
            ("epsilon", c.target_epsilon, EPSILON_UNIT),
            ("delta", c.target_delta, DELTA_UNIT),
        )
        if value is not None
    ]
    if not stated:
        return "none stated"
    return f"{', '.join(stated)}: {'met' if c.within_target else 'EXCEEDED'}"


def _entries(entries: tuple[Entry, ...]) -> str:
    shown = [
        f"{digits_up(entry.loss)} (charged {float(entry.charged):.6g})"
        for entry in (entries[0], entries[-1])
    ]
    count, losing = len(entries), sum(not entry.holds for entry in entries)
    verdict = f"{losing} OF {count} MORE THAN THEIR SPEND" if losing else "none more than its spend"
    if count == 1:
        return f"the only one loses {shown[0]}: {verdict}"
    return f"{count}, which lose from {shown[0]} to {shown[1]}: {verdict}"


def _crr(found: Figures) -> list[tuple[str, str]]:
    walk = found.walk
    reached = (
        "some release tells as much as epsilon"
        if found.reached
        else f"no release tells more than {digits_up(log_upper(walk.factor))}"
    )
    if walk.fault is not None:
        reached = f"NOT KEPT: {walk.fault}"
    drift = (
        f"at most {digits_up(max(walk.drift))} within {walk.depth} releases,"
        f" {digits_up(walk.sampled_drift)} along {walk.sampled:,} steps of longer histories; "
    )
    if found.drift is None or not found.bounded:
        drift += "no bound beyond"
    else:
        drift += f"never above {digits_up(exp_bounds(found.drift)[1])}"
    lines = [
        (
            "own belief",
            f"in {counted(walk.histories, 'series', 'series')} of releases that were followed, with"
            f" {counted(walk.beliefs, 'belief')}: {reached}",
        ),
        ("drift", f"factor between the device's law of the output and the exact one: {drift}"),
        ("exact belief", f"epsilon {digits_up(found.step)} each, with the drift"),
        ("wrong model", f"epsilon {digits_up(found.fallback)} each, between any two values"),
    ]
    if found.opening is not None:
        lines.append(
            (f"first {found.w}", f"epsilon {digits_up(found.opening)}, from the first start on")
        )
    return lines


def _with_delta(found: Figures | TableFigures) -> list[tuple[str, str]]:
    """What the steps that a study names tell but with its delta, if it has one."""
    if found.with_delta is None or found.delta is None:
        return []
    epsilon = f"epsilon {digits_up(found.with_delta)}"
    steps = counted(found.w or 0, "step")
    return [("with delta", f"in {steps} {epsilon}, but with probability {digits_up(found.delta)}")]


def _disclosure(disclosure: Disclosure) -> str:
    each = f"epsilon {digits_up(disclosure.loss)} each"
    times = f"{disclosure.times} of {each}"
    if disclosure.factor > 1:
        times = (
            f"{disclosure.times} in either life, {disclosure.factor * disclosure.times} of {each}"
        )
    return f"{times}: {digits_up(disclosure.total)}"


def _paper(claim: Claim | WindowClaim) -> str:
    if isinstance(claim, WindowClaim):
        return claim.statement if claim.holds else f"{claim.statement} It does not hold here."
    epsilon = f"epsilon {float(claim.epsilon):.6g}" if claim.epsilon else "any epsilon above 0"
    text = f"claims {epsilon}, delta {float(claim.delta):.6g}: "
    example = claim.counterexample
    if example is None:
        return text + "holds for these integers (its proof does not)."
    return text + (
        f"does not hold. For the series {example.series} and {example.neighbour},"
        f' "{example.event}" has probability {float(example.probability):.6g} against'
        f" {float(example.neighbour_probability):.6g}, exactly {example.exact[0]}"
        f" against {example.exact[1]}."
    )
