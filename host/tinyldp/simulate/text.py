"""What a simulation found, for people."""

from __future__ import annotations

from tinyldp.laws import why_no_law
from tinyldp.simulate.simulation import AGGREGATE, OracleSimulation, Simulation, StreamSimulation
from tinyldp.study import TITLES
from tinyldp_protocol.task import OLH

# What no reader should take a simulation for.
CAUTION = (
    "Simulated devices, with words from a seeded generator: never use such words for people's data."
)


def text_simulation(simulation: Simulation) -> str:
    """A table of what was simulated and found, and a sentence on what it is not."""
    title = TITLES[simulation.task.mechanism]
    rows = [
        ("mechanism", title),
        ("Task", simulation.task.id.hex()),
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
            notes.append(why_no_law(simulation.task))
        else:
            rows.append(("by the exact law, far from the ends", f"{simulation.expected:.3f} steps"))
        rows.append(("largest delay", f"{simulation.max_delay:,} steps"))
    if isinstance(simulation, OracleSimulation):
        rows.append(("reports drawn", simulation.method))
        rows.append(("mean squared error", f"{simulation.mse:.3e}"))
        rows.append(("expected", f"{simulation.expected_mse:.3e}"))
        if simulation.method == AGGREGATE and simulation.task.mechanism == OLH:
            notes.append(
                "OLH's counts were drawn as if its hash were ideal: each alone follows its"
                " exact law, together they are taken to be independent."
            )
    width = max(len(name) for name, _ in rows)
    return "\n".join([f"{name:{width}}  {value}" for name, value in rows] + ["", *notes])
