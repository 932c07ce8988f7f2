"""The device package's own couplings as policies."""

from __future__ import annotations

from typing import Any

from tinyldp.crr.steps import DevicePolicy, Policy, Step
from tinyldp_protocol.task import CRR, Task

_ARRAYS = ("_carried", "belief", "target", "kept", "marginal", "fill")
_NUMBERS = ("count", "length", "size")


def device_policy(task: Task) -> Policy:
    """What a device with this Task does, step by step or block by block."""
    # Imported for who runs them.
    if task.mechanism == CRR:
        from tinyldp_device.coupling import Coupling

        return DevicePolicy(Coupling(task))
    from tinyldp_device.blocks import BlockCoupling

    return BlockPolicy(BlockCoupling(task))


class BlockPolicy:
    """The device package's own BlockCoupling, as a Policy; steps are remembered.

    A step's memory is what is carried: the belief about the next L symbols. coupling: it, fresh,
    or one with a fault.
    """

    def __init__(self, coupling: Any, most: int = 2_000) -> None:
        self._coupling = coupling
        self._most = most
        self._known: dict[Any, tuple[Step, list[Any], list[int]]] = {}
        coupling.make(coupling.block)
        self._first = self._seen()

    def first(self) -> Step:
        return self._first

    def after(self, step: Step, released: int) -> Step:
        coupling = self._coupling
        self._load(step)
        coupling.update(list(coupling.kept[: coupling.count]).index(released))
        known = self._known.get(tuple(coupling._carried))
        if known is not None:
            return known[0]
        coupling.make(coupling.block)
        return self._seen()

    def ends(self, step: Step) -> list[Step]:
        coupling, found = self._coupling, []
        for length in range(1, coupling.block):
            self._load(step)
            coupling.make(length)
            found.append(self._step((length, step.memory)))
        return found

    def _load(self, step: Step) -> None:
        coupling = self._coupling
        held = self._known.get(step.memory)
        if held is None:
            coupling._carried[:] = type(coupling._carried)("H", step.memory)
            coupling.make(coupling.block)
            return
        for name, numbers in zip(_ARRAYS, held[1], strict=True):
            getattr(coupling, name)[:] = numbers
        for name, number in zip(_NUMBERS, held[2], strict=True):
            setattr(coupling, name, number)

    def _seen(self) -> Step:
        coupling = self._coupling
        step = self._step(tuple(coupling._carried))
        if len(self._known) < self._most:
            arrays = [getattr(coupling, name)[:] for name in _ARRAYS]
            self._known[step.memory] = step, arrays, [getattr(coupling, name) for name in _NUMBERS]
        return step

    def _step(self, memory: Any) -> Step:
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
