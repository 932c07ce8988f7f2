"""Conditional randomized response of any kind: the one that a Task names."""

from tinyldp_protocol.task import CRR, TABLE


def make_crr(task, entropy):
    """A fresh instance, as mechanism.make_mechanism gives it. Each is imported where it is used."""
    if task.mechanism == CRR:
        from tinyldp_device.crr import Crr

        return Crr(task, entropy)
    if task.rule == TABLE:
        from tinyldp_device.crrtables import CrrTable

        return CrrTable(task, entropy)
    from tinyldp_device.crrblocks import CrrBlocks

    return CrrBlocks(task, entropy)
