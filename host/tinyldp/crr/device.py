"""The device package's own couplings as policies."""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from typing import Any, ClassVar

from tinyldp.crr.steps import Policy, Step
from tinyldp_device.blocks import BlockCoupling
from tinyldp_device.coupling import Coupling
from tinyldp_protocol.task import CRR, Task


def device_policy(task: Task) -> Policy:
    """What a device with this Task does, step by step or block by block."""
    if task.mechanism == CRR:
        return DevicePolicy(Coupling(task))
    return BlockPolicy(BlockCoupling(task))


class _Remembered:
    """A coupling of the device package as a Policy: each memory's step is worked out once.

    A step's memory is what the coupling carries from one to the next. coupling: fresh, or one with
    a fault, for who checks the checker. Subclasses say how theirs is made, updated and read.
    """

    # How many steps are remembered, and what of the coupling is: its state when a step is made.
    _most: ClassVar[int]
    _arrays: ClassVar[tuple[str, ...]]
    _numbers: ClassVar[tuple[str, ...]]

    def __init__(self, coupling: Any) -> None:
        self._coupling = coupling
        self._known: dict[Hashable, tuple[Step, list[Any], list[int]]] = {}
        self._first = self._made()

    def first(self) -> Step:
        return self._first

    def after(self, step: Step, released: int) -> Step:
        self._load(step)
        self._update(released)
        known = self._known.get(tuple(self._carried()))
        return self._made() if known is None else known[0]

    def _carried(self) -> Any:
        """The coupling's array that a step's memory is."""
        raise NotImplementedError

    def _make(self) -> None:
        raise NotImplementedError

    def _update(self, released: int) -> None:
        raise NotImplementedError

    def _step(self, memory: Hashable) -> Step:
        """What the coupling is now."""
        raise NotImplementedError

    def _load(self, step: Step) -> None:
        """Make the coupling what it was at this step."""
        held = self._known.get(step.memory)
        if held is None:
            carried: Any = step.memory
            self._carried()[:] = array("H", carried)
            self._make()
            return
        for name, numbers in zip(self._arrays, held[1], strict=True):
            getattr(self._coupling, name)[:] = numbers
        for name, number in zip(self._numbers, held[2], strict=True):
            setattr(self._coupling, name, number)

    def _made(self) -> Step:
        """Make the coupling of what is carried; its step."""
        self._make()
        step = self._step(tuple(self._carried()))
        if len(self._known) < self._most:
            arrays = [getattr(self._coupling, name)[:] for name in self._arrays]
            numbers = [getattr(self._coupling, name) for name in self._numbers]
            self._known[step.memory] = step, arrays, numbers
        return step


class DevicePolicy(_Remembered):
    """Of Coupling: a step's memory is its belief."""

    _most = 20_000
    _arrays = ("belief", "served", "marginal", "joint")
    _numbers = ("total",)

    def ends(self, step: Step) -> list[Step]:
        return []

    def _carried(self) -> Any:
        return self._coupling.belief

    def _make(self) -> None:
        self._coupling.make()

    def _update(self, released: int) -> None:
        self._coupling.update(released)

    def _step(self, memory: Hashable) -> Step:
        coupling = self._coupling
        size = len(coupling.belief)
        joint = [coupling.joint[x * size : (x + 1) * size] for x in range(size)]
        rows = tuple({y: units for y, units in enumerate(row) if units} for row in joint)
        return Step(tuple(coupling.belief), tuple(coupling.marginal), rows, memory)


class BlockPolicy(_Remembered):
    """Of BlockCoupling: a step's memory is the belief about the next L symbols."""

    _most = 2_000
    _arrays = ("carried", "belief", "target", "kept", "marginal", "fill")
    _numbers = ("count", "length", "size")

    def ends(self, step: Step) -> list[Step]:
        found = []
        for length in range(1, self._coupling.block):
            self._load(step)
            self._coupling.make(length)
            found.append(self._step((length, step.memory)))
        return found

    def _carried(self) -> Any:
        return self._coupling.carried

    def _make(self) -> None:
        self._coupling.make(self._coupling.block)

    def _update(self, released: int) -> None:
        coupling = self._coupling
        coupling.update(list(coupling.kept[: coupling.count]).index(released))

    def _step(self, memory: Hashable) -> Step:
        coupling = self._coupling
        size, count = coupling.size, coupling.count
        kept = list(coupling.kept[:count])
        marginal = [0] * size
        for k in range(count):
            marginal[kept[k]] = coupling.marginal[k]
        rows: list[dict[int, int]] = []
        for x in range(size):
            if coupling.target[x] >= count:
                rows.append({})
            elif x == kept[0]:
                rows.append({kept[k]: coupling.fill[k] for k in range(count) if coupling.fill[k]})
            else:
                rows.append({kept[coupling.target[x]]: coupling.belief[x]})
        return Step(tuple(coupling.belief[:size]), tuple(marginal), tuple(rows), memory)
