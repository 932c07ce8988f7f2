"""Places where the device package runs: interpreters, an emulated board, a cable.

with open_lane("unix") as lane:
    lane.install()
    lane.put({"main.py": b"print('hello')"})
    result = lane.run("main.py", heap="32K")
"""

from tinyldp.errors import UserError
from tinyldp.lanes.cable import Cable
from tinyldp.lanes.cpython import CPython
from tinyldp.lanes.lane import Lane, Process, Result
from tinyldp.lanes.microbit import Microbit
from tinyldp.lanes.unix import Unix
from tinyldp.lanes.wasm import Wasm

__all__ = ["LANES", "Cable", "Lane", "Process", "Result", "open_lane"]

LANES: dict[str, type[Lane]] = {lane.name: lane for lane in (CPython, Unix, Wasm, Microbit)}


def open_lane(name: str) -> Lane:
    """A fresh, empty lane; use it in a with statement.

    Raises UserError for an unknown name and for a lane that this computer lacks.
    """
    if name not in LANES:
        raise UserError(f"There is no lane {name!r}; there are {', '.join(LANES)}.")
    reason = LANES[name].missing()
    if reason is not None:
        raise UserError(f"The lane {name} is not available: {reason}.")
    return LANES[name]()
