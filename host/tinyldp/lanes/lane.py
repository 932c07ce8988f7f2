"""What every lane is: put files, start, exchange bytes, reset, stop."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

from tinyldp.errors import UserError
from tinyldp.stoppable import Stoppable


@dataclass(frozen=True)
class Result:
    """How a program ended: exit code, and the output that was not read before."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class Process(Stoppable):
    """A program that runs on a lane, and the bytes to and from it."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """Of the process on this computer that runs it."""

    @abstractmethod
    def read(self, n: int, timeout: float = 10.0) -> bytes:
        """Up to n bytes: fewer when the program ends or `timeout` seconds have passed."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Send all of data."""

    @abstractmethod
    def reset(self) -> None:
        """Start the program anew, as after a power cut: its files stay."""

    @abstractmethod
    def wait(self, timeout: float = 60.0, stdin: bytes = b"") -> Result:
        """Send stdin, end the program's input and let it finish; TimeoutError if it does not."""


class Lane(Stoppable):
    """One place to run device code, with a file system of its own, empty at first."""

    name: ClassVar[str]
    # Told of files (done, in all, the next one) where start() has to copy them slowly.
    progress: Callable[[int, int, str], None] | None = None

    @classmethod
    @abstractmethod
    def missing(cls) -> str | None:
        """Why this computer cannot offer the lane, or None when it can."""

    @abstractmethod
    def put(self, files: Mapping[str, bytes]) -> None:
        """Write files: from paths relative to the lane's root to their contents."""

    @abstractmethod
    def install(self, compiled: bool = False) -> None:
        """Put the device and protocol packages there; compiled: as .mpy files."""

    @abstractmethod
    def start(self, main: str, *args: str, heap: str | None = None) -> Process:
        """Start a program that was put there; heap as in "32K", where it can be set."""

    def run(
        self,
        main: str,
        *args: str,
        heap: str | None = None,
        stdin: bytes = b"",
        timeout: float = 60.0,
    ) -> Result:
        """Run a program to its end; TimeoutError when it takes longer than `timeout` seconds."""
        with self.start(main, *args, heap=heap) as process:
            return process.wait(timeout, stdin)


def checked_path(path: str) -> str:
    """The path itself, when it stays inside a lane's root."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts:
        raise UserError(f"A lane has no place for {path!r}: it must be a relative path.")
    return path
