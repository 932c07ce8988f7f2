from collections.abc import Mapping, Sequence

SCALE: int
RANSWITCH: int
STASWITCH: int
JITTERSORT: int
GRR: int
OUE: int
OLH: int
THRESH: int
HEAVYTHRESH: int
CRR: int
CRR_BATCH: int
LBU: int
LSP: int
LBD: int
LBA: int
LPU: int
LPD: int
LPA: int
PRESERVE: int
MIN_ERROR: int
TABLE: int
MAX_VALUES: int
MAX_REPORT: int
OF_EPOCHS: tuple[str, ...]
OF_CRR: tuple[str, ...]
FIELDS: tuple[str, ...]
LISTS: tuple[str, ...]
OPTIONAL: tuple[str, ...]

class TaskError(ValueError): ...

def between(name: str, n: object, least: int, most: int) -> None: ...

class Task:
    mechanism: int
    window: int
    k: int
    w: int | None
    epsilon: int | None
    delta: int | None
    symbols: int
    bins: Sequence[int] | None
    missing: int | None
    thresholds: Sequence[int]
    spends: Sequence[int]
    tick: int
    batch: int
    resend: int
    beacon: int
    outbox: int
    buckets: int
    method: int | None
    epochs: int
    rounds: int
    votes: int
    estimates: int
    levels: Sequence[int]
    failure: int
    polls: int | None
    coordinates: int
    items: int
    rule: int
    loss: int
    prior: Sequence[int]
    transitions: Sequence[int]
    costs: Sequence[int] | None
    block: int
    memory: int | None
    table: Sequence[int] | None
    width: int
    payload: int
    id: bytes
    def __init__(self, numbers: Mapping[str, int | Sequence[int] | None]) -> None: ...

def put_task(buf: bytearray | None, pos: int, task: Task) -> int: ...
def get_task(buf: bytes | bytearray, end: int) -> Task: ...
def write_file(task: Task) -> bytes: ...
def read_file(data: bytes) -> Task: ...
