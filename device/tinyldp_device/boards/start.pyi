from collections.abc import Callable
from typing import Protocol, type_check_only

from tinyldp_device.boards.files import FileSlot
from tinyldp_device.boards.repl import ReplLine
from tinyldp_device.entropy import Source

@type_check_only
class _Board(Protocol):
    def source(self) -> Source: ...
    def slots(self) -> tuple[FileSlot, FileSlot]: ...
    def open_line(self) -> ReplLine: ...

class Clock:
    ticks_ms: Callable[[], int]
    ticks_add: Callable[[int, int], int]
    ticks_diff: Callable[[int, int], int]
    def __init__(self, line: ReplLine) -> None: ...
    def sleep_ms(self, ms: int) -> None: ...

def start(board: _Board, task_path: str, sample: Callable[[], int | None]) -> None: ...
