"""What both ways of flashing share: what is wanted, the state on a board, and some refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from tinyldp.errors import UserError
from tinyldp_device.state import State
from tinyldp_protocol.task import Task

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Order:
    """What somebody wants on a board: see provision.flash; sample: the module's source."""

    task: Task
    sample: bytes | None
    new_identity: bool
    replace_main: bool
    cap: int | None
    horizon: int | None
    lifetime: int | None
    progress: Progress | None


class Files(Protocol):
    """A board's files: read() gives None where there is none."""

    def read(self, path: str, /) -> bytes | None: ...

    def put(self, path: str, content: bytes, /) -> None: ...


class Slot:
    """A slot of the stored state, in a file on the board."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path

    def read(self) -> bytes:
        return self._files.read(self._path) or b""

    def write(self, data: bytes | bytearray, /) -> None:
        self._files.put(self._path, bytes(data))


def stored_state(files: Files, paths: Iterable[str]) -> State:
    """The state that two files hold."""
    first, second = (Slot(files, path) for path in paths)
    return State(first, second)


def refuse_foreign_main(main: bytes) -> None:
    """Raise UserError when this main.py, which is not ours, says anything at all."""
    lines = (line.strip() for line in main.split(b"\n"))
    if any(line and not line.startswith(b"#") for line in lines):
        raise UserError(
            "main.py on the board is not tinyldp's: save it, then flash with --replace-main."
        )


def no_sample() -> UserError:
    """The board has nothing that reads its sensor."""
    return UserError("The board has no sample.py, which reads the sensor: name one with --sample.")


def no_identity(why: str) -> UserError:
    """The stored state is `why`: missing, damaged, ..."""
    return UserError(
        f"The stored state on the board is {why}, so it cannot vouch for its identity: "
        "give it another one with --new-identity."
    )
