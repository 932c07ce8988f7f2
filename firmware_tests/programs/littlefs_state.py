"""Cut the power at each block write of a save on littlefs; print what came up, by name.

Arguments: size of the payload; how many bytes of the block that was being written arrive.
"""

import os
import sys

from tinyldp_device.boards.files import FileSlot
from tinyldp_device.state import State

BLOCK = 512
BLOCKS = 64
SIZE = int(sys.argv[1])
ARRIVES = int(sys.argv[2])
OLD = b"o" * SIZE
NEW = b"n" * SIZE


class Cut(Exception):
    pass


class Flash:
    """NOR flash in memory: erased to ones, and written until `power` runs out."""

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
            n = min(n, ARRIVES)
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


first = Flash()
os.VfsLfs2.mkfs(first, readsize=32, progsize=32)
mounted(first).create(OLD)
unplugged()

n = 0
found = {"old": 0, "new": 0, "neither": 0}
complete = False
while not complete:
    flash = Flash(bytearray(first.data))
    state = mounted(flash)
    assert state.load() == OLD
    flash.power = flash.writes + n
    try:
        state.save(NEW)
        complete = True
    except Exception:
        pass
    data = flash.data
    unplugged()
    # A second cut, in the repair after the first.
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
        try:
            payload = mounted(Flash(bytearray(after))).load()
        except Exception as error:
            print(n, again, repr(error))
            payload = None
        unplugged()
        found["old" if payload == OLD else "new" if payload == NEW else "neither"] += 1
    n += 1
print(n - 1, found["old"], found["new"], found["neither"])
