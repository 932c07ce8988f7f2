"""Modules with a fault planted in their source, to show that a check can fail."""

from __future__ import annotations

import inspect
from types import ModuleType


def planted(module: ModuleType, old: str, new: str) -> ModuleType:
    """A second copy of a module in which `old`, which must occur once, reads `new`."""
    source = inspect.getsource(module)
    assert source.count(old) == 1, f"{old!r} does not occur once in {module.__name__}"
    faulty = ModuleType(module.__name__)
    # Where dataclasses look for a class's module, they find the sound one.
    exec(compile(source.replace(old, new), f"{module.__name__} with a fault", "exec"), vars(faulty))
    return faulty
