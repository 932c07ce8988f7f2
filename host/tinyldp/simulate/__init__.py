"""Whole fleets in NumPy, on the same random words as the devices, and their counts drawn directly.

Words come from seeded generators here. They serve simulated devices alone: no data of
people is ever randomized with this package.
"""

from tinyldp.callable import make_callable
from tinyldp.simulate.crr_sweeps import CrrSweep
from tinyldp.simulate.fleet import STEPS, simulate
from tinyldp.simulate.pictures import write_picture
from tinyldp.simulate.simulation import (
    CrrSimulation,
    EpochSimulation,
    OracleSimulation,
    RoundSimulation,
    Simulation,
    StreamSimulation,
)
from tinyldp.simulate.sweeps import SWEEP_STEPS, Sweep, sweep, text_sweep, write_sweep_picture
from tinyldp.simulate.text import text_simulation

__all__ = [
    "STEPS",
    "SWEEP_STEPS",
    "CrrSimulation",
    "CrrSweep",
    "EpochSimulation",
    "OracleSimulation",
    "RoundSimulation",
    "Simulation",
    "StreamSimulation",
    "Sweep",
    "simulate",
    "sweep",
    "text_simulation",
    "text_sweep",
    "write_picture",
    "write_sweep_picture",
]

make_callable(__name__)
