"""Flash in memory whose power is cut at a block write, with littlefs on it."""

import os

from tinyldp_device.boards.files import FileSlot
from tinyldp_device.state import State

BLOCK = 512
BLOCKS = 64


class Cut(Exception):
    pass


class Flash:
    """NOR flash: erased to ones, and written until `power` runs out.

    arrives: how many bytes of the block that is being written then still arrive.
    """

    arrives = 0

    def __init__(self, data=None):
        self.data = data or bytearray(b"\xff" * (BLOCK * BLOCKS))
        self.power = 1 << 20
        self.writes = 0

    def readblocks(self, block, buf, offset=0):
        start = block * BLOCK + offset
        buf[:] = self.data[start : start + len(buf)]

    def writeblocks(self, block, buf, offset=0):
        start = block * BLOCK + offset
        n = len(buf)
        if self.writes >= self.power:
            n = min(n, Flash.arrives)
        self.data[start : start + n] = bytes(buf)[:n]
        if self.writes >= self.power:
            # From here on nothing arrives any more.
            self.data = bytearray(self.data)
            raise Cut
        self.writes += 1

    def ioctl(self, op, arg):
        if op == 4:
            return BLOCKS
        if op == 5:
            return BLOCK
        if op == 6:
            if self.writes >= self.power:
                raise Cut
            start = arg * BLOCK
            self.data[start : start + BLOCK] = b"\xff" * BLOCK
            return 0
        return 0


def mounted(flash):
    filesystem = os.VfsLfs2(flash, readsize=32, progsize=32)
    os.mount(filesystem, "/cut")
    return State(FileSlot("/cut/state0"), FileSlot("/cut/state1"))


def unplugged():
    try:
        os.umount("/cut")
    except Exception:
        pass


def formatted():
    """A flash with an empty file system, and the state on it."""
    flash = Flash()
    os.VfsLfs2.mkfs(flash, readsize=32, progsize=32)
    return flash, mounted(flash)


def cut_again(data):
    """Cut the power at writes of the repair that follows a cut, too: yields when, and the flash."""
    for again in (0, 1, 2, 1 << 20):
        flash = Flash(bytearray(data))
        try:
            state = mounted(flash)
            flash.power = flash.writes + again
            state.load()
        except Exception:
            pass
        after = flash.data
        unplugged()
        yield again, after
