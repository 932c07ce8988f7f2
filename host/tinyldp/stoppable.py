"""What is stopped at the end of a with statement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TypeVar


class Stoppable(ABC):
    """Something to be stopped at the end of a with statement, whatever happens in it."""

    @abstractmethod
    def stop(self) -> None:
        """Stop at once; does nothing the second time."""

    def __enter__(self: StoppableT) -> StoppableT:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


StoppableT = TypeVar("StoppableT", bound=Stoppable)
