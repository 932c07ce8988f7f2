"""What a simulation found, for people."""

from __future__ import annotations

from collections import Counter

from tinyldp.laws import why_no_law
from tinyldp.simulate.simulation import (
    AGGREGATE,
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
    notes = [CAUTION]
    if isinstance(simulation, StreamSimulation):
        rows.append(("mean displacement", f"{simulation.mean_displacement:.3f} steps"))
        if simulation.expected is None:
            notes.append(why_no_law(task))
        else:
            rows.append(("by the exact law, far from the ends", f"{simulation.expected:.3f} steps"))
        rows.append(("largest delay", f"{simulation.max_delay:,} steps"))
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
    if aggregated and task.mechanism == OLH:
        notes.append(
            "OLH's counts were drawn as if its hash were ideal: each alone follows its"
            " exact law, together they are taken to be independent."
        )
    width = max(len(name) for name, _ in rows)
    return "\n".join([f"{name:{width}}  {value}" for name, value in rows] + ["", *notes])


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
            f"most spent in {simulation.task.w} steps",
            f"{spent:.4f} of epsilon = {simulation.task.epsilon / EPSILON_UNIT:.4g}",
        ),
        ("queries refused", f"{simulation.refused:,}"),
    ]
