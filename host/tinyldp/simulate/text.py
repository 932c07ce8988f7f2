"""What a simulation found, for people."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from tinyldp.certify.bounds import digits_up
from tinyldp.crr_study import LOSS_NAMES, RULE_NAMES
from tinyldp.figures import counted
from tinyldp.laws import why_no_law
from tinyldp.report.nats import mean_nats, most_nats
from tinyldp.simulate.simulation import (
    AGGREGATE,
    MODEL,
    CrrSimulation,
    EpochSimulation,
    OracleSimulation,
    RoundSimulation,
    Simulation,
    StreamSimulation,
)
from tinyldp.study import EPSILON_UNIT, METHOD_TITLES, TITLES
from tinyldp_protocol.task import OLH

# What no reader should take a simulation for.
CAUTION = (
    "Simulated devices, with words from a seeded generator: never use such words for people's data."
)
# A bound from the votes, and so above the levels on which devices vote.
_MOVED = "may have moved"


def text_simulation(simulation: Simulation) -> str:
    """A table of what was simulated and found, and a sentence on what it is not."""
    task = simulation.task
    title = TITLES[task.mechanism]
    if task.method is not None:
        title = f"{METHOD_TITLES[task.method]} over {title}"
    rows = [
        ("mechanism", title),
        ("Task", task.id.hex()),
        ("devices", f"{simulation.devices:,}"),
        ("steps", f"{simulation.steps:,}"),
        ("seed", str(simulation.seed)),
        ("seconds", f"{simulation.seconds:.2f}"),
        ("device steps a second", f"{simulation.device_steps_per_second:,.0f}"),
    ]
    notes = [CAUTION, *simulation.notes]
    if isinstance(simulation, StreamSimulation):
        rows.append(("mean displacement", f"{simulation.mean_displacement:.3f} steps"))
        if simulation.expected is None:
            notes.append(why_no_law(task))
        else:
            rows.append(("by the exact law, far from the ends", f"{simulation.expected:.3f} steps"))
        rows.append(("largest delay", counted(simulation.max_delay, "step")))
    if isinstance(simulation, OracleSimulation):
        rows.append(("reports drawn", simulation.method))
        rows.append(("mean squared error", f"{simulation.mse:.3e}"))
        rows.append(("expected", f"{simulation.expected_mse:.3e}"))
        aggregated = simulation.method == AGGREGATE
    elif isinstance(simulation, RoundSimulation):
        rows += _rounds(simulation)
        aggregated = simulation.drawn == AGGREGATE
    else:
        aggregated = False
    table: list[str] = []
    if isinstance(simulation, EpochSimulation):
        rows += _epochs(simulation)
        table = ["", *_epoch_table(simulation)]
        notes.append(
            f"{_MOVED.capitalize()}: the most since the last update that the votes, as noisy as"
            " they are, leave open; devices vote on less (plan)."
        )
        notes.append("What an epoch's steps come to is drawn directly, reports device by device.")
    if isinstance(simulation, CrrSimulation):
        rows += _crr(simulation)
        notes.append(
            "Leakage: how much likelier or less likely, in nats, a release made some value than all"
            " before it did; later ones add to it. Learned: by how many nats it improves a"
            " guess at the values, which is less. Both are of those who know the chain; smoothing"
            " helps as far as the series follow it."
        )
    if aggregated and task.mechanism == OLH:
        notes.append(
            "OLH's counts were drawn as if its hash were ideal: each alone follows its"
            " exact law, together they are taken to be independent."
        )
    width = max(len(name) for name, _ in rows)
    return "\n".join([f"{name:{width}}  {value}" for name, value in rows] + [*table, "", *notes])


def _rounds(simulation: RoundSimulation) -> list[tuple[str, str]]:
    assert simulation.task.epsilon is not None
    derived = simulation.expected_mse
    spent = simulation.max_window_spend / EPSILON_UNIT
    outcomes = Counter(decision.outcome for decision in simulation.decisions)
    return [
        ("stream", simulation.source),
        ("reports drawn", simulation.drawn),
        ("decisions", ", ".join(f"{n:,} {outcome}" for outcome, n in outcomes.most_common())),
        ("mean squared error", f"{simulation.mse:.3e}"),
        ("derived", "not for adaptive methods" if derived is None else f"{derived:.3e}"),
        ("mean relative error", f"{simulation.mre:.3f}"),
        ("answers a device and step (CFPU)", f"{simulation.cfpu:.4f}"),
        ("by the formula", f"{simulation.expected_cfpu:.4f}"),
        (
            f"most spent in {counted(simulation.task.w or 0, 'step')}",
            f"{spent:.4f} of epsilon = {simulation.task.epsilon / EPSILON_UNIT:.4g}",
        ),
        ("queries refused", f"{simulation.refused:,}"),
    ]


def _crr(simulation: CrrSimulation) -> list[tuple[str, str]]:
    task = simulation.task
    block = task.block or 1
    each = simulation.epsilon / block
    unit = "step" if block == 1 else f"block of {block}"
    smoothed = simulation.smoothed_loss
    shares = simulation.shares
    learned = ""
    if shares is not None:
        learned = f"; {mean_nats(shares.learned[-1])} learned of its values on average"
    sample = []
    if len(simulation.original) < simulation.devices:
        after = "" if smoothed is None else f", after smoothing {smoothed:.4f}"
        first = f"loss of the first {counted(len(simulation.original), 'device')}"
        sample.append((first, f"{simulation.sample_loss:.4f}{after}"))
    elif smoothed is not None:
        sample.append(("mean loss after smoothing", f"{smoothed:.4f}"))
    return [
        ("stream", "the Task's own chain" if simulation.source == MODEL else simulation.source),
        ("rule", RULE_NAMES[task.rule]),
        ("mean loss", f"{simulation.mean_loss:.4f} ({LOSS_NAMES[task.loss]}, a step)"),
        (f"k-RR, epsilon = {each:.4g} a step", f"{simulation.response_loss(each):.4f}"),
        (
            f"k-RR, epsilon = {2 * each:.4g} a step",
            f"{simulation.response_loss(2 * each):.4f}, with what CRR guarantees without its model",
        ),
        *sample,
        (
            f"leakage of a {unit}",
            f"{mean_nats(simulation.leakage.sum() / -(-simulation.steps // block))} on average,"
            f" {most_nats(simulation.largest.max(), simulation.epsilon)} at most;"
            f" allowed {digits_up(Fraction(simulation.epsilon))}",
        ),
        (
            "leakage of all of a device",
            f"{mean_nats(simulation.leakage.sum())} on average,"
            f" {most_nats(simulation.most[-1], simulation.total_bound)} at most;"
            f" allowed {digits_up(Fraction(simulation.total_bound))}{learned}",
        ),
    ]


def _epochs(simulation: EpochSimulation) -> list[tuple[str, str]]:
    task = simulation.task
    at = ", ".join(str(t) for t in simulation.updates)
    rows = [
        ("epochs", f"{len(simulation.decisions):,}"),
        ("updates", f"{len(simulation.updates)}, in epoch {at}" if at else "none"),
        ("mean error", f"{simulation.mean_error:.4f}"),
        ("largest error", f"{simulation.max_error:.4f}"),
        ("votes left", f"{simulation.votes_left:.2f} of {task.votes}, on average"),
        ("estimates left", f"{simulation.estimates_left:.2f} of {task.estimates}, on average"),
        ("certified epsilon", f"{simulation.certified_epsilon:.4f}, for a device's whole life"),
    ]
    for t, found in zip(simulation.updates, simulation.found, strict=False):
        items = ", ".join(
            f"{item} ({frequency:.3f})"
            for item, frequency in zip(found.items, found.frequencies, strict=True)
        )
        rows.append((f"heavy in epoch {t}", f"{items or 'none'}, each +- {found.error:.3f}"))
    return rows


def _epoch_table(simulation: EpochSimulation) -> list[str]:
    """A line for each epoch: limits are of the last update's truth, which has moved since."""
    mean = simulation.items is None
    head = f"{'epoch':>6}  {'votes':>6}  {'needed':>6}"
    if mean:
        head += f"  {'true':>6}  {'published':>9}  {'95 %':>14}"
    lines = [head + f"  {_MOVED}  outcome"]
    for at, decision in enumerate(simulation.decisions):
        share = f"{decision.ones / decision.votes_n:.3f}" if decision.votes_n else "none"
        needed = "" if decision.needed is None else f"{decision.needed:.3f}"
        line = f"{decision.t:6}  {share:>6}  {needed:>6}"
        if mean:
            low, high = decision.estimate_low, decision.estimate_high
            limits = "" if low is None or high is None else f"{low:.3f} to {high:.3f}"
            line += f"  {simulation.truth[at, 0]:6.3f}  {simulation.published[at, 0]:9.3f}"
            line += f"  {limits:>14}"
        line += f"  {decision.drift:{len(_MOVED)}.3f}  {decision.outcome}"
        if decision.poll is not None:
            line += f", {100 * decision.poll.mean:.0f} % have votes left"
        lines.append(line)
    return lines
