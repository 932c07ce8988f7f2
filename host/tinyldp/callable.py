"""Packages that are called like the one function they are named after.

`tinyldp.certify` is a package with parts of its own and, for who imports tinyldp, the
command of that name. A module may have a class of its own (Python reference, "Customizing
module attribute access"), and nothing is imported before it is used.
"""

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])(*arguments, **options)


def make_callable(name: str) -> None:
    """Let the package `name` be called as its function of the same name."""
    sys.modules[name].__class__ = _Callable
