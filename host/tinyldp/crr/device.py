"""The device package's own couplings as policies."""

from __future__ import annotations

from tinyldp.crr.steps import DevicePolicy, Policy
from tinyldp_protocol.task import CRR, Task


def device_policy(task: Task) -> Policy:
    """What a device with this Task does, step by step or block by block."""
    from tinyldp_device.coupling import Coupling

    if task.mechanism == CRR:
        return DevicePolicy(Coupling(task))
    raise NotImplementedError
