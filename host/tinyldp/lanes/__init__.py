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
from tinyldp.lanes.serial import Serial
from tinyldp.lanes.unix import Unix
from tinyldp.lanes.wasm import Wasm

__all__ = ["LANES", "Cable", "Lane", "Process", "Result", "open_lane"]

LANES: dict[str, type[Lane]] = {lane.name: lane for lane in (CPython, Unix, Wasm, Microbit)}


def open_lane(name: str) -> Lane:
    """A fresh, empty lane; use it in a with statement.

    serial:PORT is a real board on a port; the other lanes are in LANES.
    Raises UserError for an unknown name and for a lane that this computer lacks.
    """
    kind, _, port = name.partition(":")
    if kind == Serial.name and port:
        return Serial(port)
    if name not in LANES:
        known = ", ".join([*LANES, "serial:PORT"])
        raise UserError(f"There is no lane {name!r}; there are {known}.")
    reason = LANES[name].missing()
    if reason is not None:
        raise UserError(f"The lane {name} is not available: {reason}.")
    return LANES[name]()
