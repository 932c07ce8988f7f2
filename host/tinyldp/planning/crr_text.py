"""What CRR hides and costs, in words: of a device's rules, and of a table."""

from __future__ import annotations

from fractions import Fraction

from tinyldp.certify.bounds import digits_up
from tinyldp.certify.crr import within
from tinyldp.crr.steps import q_of
from tinyldp.crr_study import LOSS_NAMES, RULE_NAMES
from tinyldp.figures import counted, stated
from tinyldp.planning.crr_costs import CrrCosts
from tinyldp.planning.crr_table_costs import TableCosts
from tinyldp.study import EPSILON_UNIT
from tinyldp_protocol.task import Task


def described(task: Task) -> str:
    text = f"CRR, {RULE_NAMES[task.rule]} with {LOSS_NAMES[task.loss]} loss"
    if task.block is not None:
        text += f", blocks of {task.block} steps, memory {task.memory or 1}"
    share = float(q_of(task))
    text += f", threshold {task.thresholds[0]} of 2^24"
    # With a table nothing is drawn with it.
    if task.table is None:
        text += f" ({100 * share:.3g} % of releases are drawn without a look at the value)"
    return text


def cost_lines(task: Task, costs: CrrCosts) -> list[str]:
    """What is hidden, how far releases are off, and beside what, for people."""
    unit = "step" if task.block is None else f"block of {task.block} steps"
    hides = (
        f"Hides: a {unit}, with epsilon {digits_up(Fraction(costs.epsilon))} of what its release "
        "adds to all that is known before it (twice that between any two values, whatever the "
        "model)"
    )
    if costs.sequence_epsilon is not None:
        together = digits_up(Fraction(costs.sequence_epsilon))
        hides += f"; {counted(costs.w or 0, 'step')} together, {together}"
    lines = [f"{hides}{_beside_target(task)}."]
    lines.append(
        "  Later releases tell of the same values again, as far as these follow each other: all "
        "that is ever told of one may be more, up to epsilon for each release."
    )
    lines.append(
        f"Accuracy: {LOSS_NAMES[task.loss]} loss {costs.loss:.4g} a step on average "
        f"(+- {costs.spread:.2g}, over {costs.beliefs:,} releases)."
    )
    if costs.optimum is not None and costs.gap is not None and costs.largest_gap is not None:
        of = "any rule that keeps the shares" if task.rule == 1 else "any rule"
        lines.append(
            f"  The least of {of} (linear program) is {costs.gap:.2g} less on average, "
            f"{costs.largest_gap:.2g} at most, over {costs.compared} of these."
        )
    else:
        lines.append("  The least of any rule is not known here: its linear program is too large.")
    if costs.rarest < 1:
        lines.append(
            "  Some values are rare, the device's rule is made for them: the least of its beliefs"
            f" is {costs.rarest:.2g} of what the paper's formula needs to be private."
        )
    lines += _beside(task, costs)
    lines.append(_tables(costs))
    lines += [f"Warning: {warning}" for warning in costs.warnings]
    return lines


def _beside(task: Task, costs: CrrCosts) -> list[str]:
    """k-RR's losses, under the same guarantees one after the other."""
    each = costs.epsilon / (task.block or 1)
    of = "" if task.block is None else f", a block's {costs.epsilon:.4g} over its {task.block}"
    lines = [
        f"  k-RR with epsilon {each:.4g} a step{of}: {costs.krr:.4g}.",
        f"  k-RR with twice that, which CRR guarantees whatever the model: {costs.krr_double:.4g}.",
    ]
    matched = costs.sequence
    if matched is not None and costs.krr_sequence is not None:
        w = task.w or matched.steps
        cut = f" ({w} would take too long)" if matched.steps < w else ""
        lines.append(
            f"  k-RR with epsilon {matched.epsilon:.4g}, of which a sequence of "
            f"{counted(matched.steps, 'step')}{cut} tells as much, {matched.budget:.4g}: "
            f"{costs.krr_sequence:.4g}."
        )
    return lines


def table_lines(task: Task, costs: TableCosts) -> list[str]:
    """What is hidden, how far releases are off, and beside what, for people."""
    hides = (
        f"Hides: a block of {counted(task.block or 1, 'step')}, with epsilon "
        f"{digits_up(Fraction(costs.epsilon))} of what is known before it, after each start too "
        "(twice that between any two values, whatever the model)"
    )
    if costs.sequence_epsilon is not None:
        together = digits_up(Fraction(costs.sequence_epsilon))
        hides += f"; {counted(costs.w or 1, 'step')} together, {together}"
    return [
        f"{hides}{_beside_target(task)}.",
        f"Accuracy: {LOSS_NAMES[task.loss]} loss {costs.loss:.4g} a step on average.",
        f"  The least of any table (linear program) is {costs.optimum:.4g}: rounding to the "
        f"device's integers costs {max(0.0, costs.loss - costs.optimum):.2g}.",
        f"  The table releases {costs.released} of {costs.blocks} blocks.",
        f"  The rule min_error at the same epsilon: {costs.min_error:.4g} (+- {costs.spread:.2g}"
        f"){' - less loss than the table' if costs.min_error < costs.loss else ''}.",
        f"  k-RR at the same epsilon of blocks: {costs.krr_block:.4g}, of steps: {costs.krr:.4g}.",
        _tables(costs),
        *(f"Warning: {warning}" for warning in costs.warnings),
    ]


def _tables(costs: CrrCosts | TableCosts) -> str:
    return f"Tables: {costs.table_bytes:,} bytes of a board's memory, the model among them."


def _beside_target(task: Task) -> str:
    """How what is hidden is to the Task's target, at a sentence's end."""
    if task.epsilon is None:
        return ""
    target = Fraction(task.epsilon, EPSILON_UNIT)
    shown = f"epsilon {stated(target, EPSILON_UNIT)}"
    return f" (target: {shown})" if within(task, target) else f": MORE THAN THE TARGET ({shown})"
