from collections.abc import Sequence

from tinyldp_device.state import State
from tinyldp_protocol.task import Task

FRESH: int
STORED: int

BLOCK_AT: int
STEP_AT: int
WAIT_AT: int
BOUND_AT: int
T_AT: int
BINDING_AT: int
PHASE_AT: int
ENTRY_AT: int
TASK_AT: int
RING_AT: int
LAST_STEP: int

class Ledger:
    t: int
    now: int
    bound: int
    def __init__(
        self,
        state: State,
        task: Task,
        cap: int | None,
        horizon: int | None,
        word: int = 0,
        block: int | None = None,
    ) -> None: ...
    def step(self) -> bool: ...
    def ask(self, t: int, phase: int, entry: int) -> int: ...
    def keep(self, phase: int, report: Sequence[int]) -> None: ...
    def report(self, phase: int) -> bytes: ...
    def entry(self, phase: int) -> int: ...
    def checkpoint(self) -> None: ...

def provision(state: State, horizon: int, block: int = 1, word: int = 0) -> None: ...
def word_at(buf: Sequence[int], pos: int) -> int: ...
