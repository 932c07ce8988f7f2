"""What a board would run, had its power been cut at each block write of a journal.

Reads the files `journal` (records: block, offset, size, each 2 bytes little-endian, and
the bytes; a size of 65535 stands for an erased block), `main` (the main.py that is flashed)
and `versions` (lines: version, path, SHA-256). Prints a line for each stretch of cuts that
left the board running the same: version or "nothing", how many, pseudonym in hex. Each
write is tried undone, torn in its middle and done.

Arguments: block size, number of blocks; records left out of the journal, as "100-120".
"""

import hashlib
import os
import sys

from tinyldp_device.boards.files import FileSlot
from tinyldp_device.state import State

BLOCK = int(sys.argv[1])
BLOCKS = int(sys.argv[2])
FIRST, LAST = [int(number) for number in sys.argv[3].split("-")] if sys.argv[3:] else (0, 0)
ERASED = 65535
image = bytearray(BLOCK * BLOCKS)
view = memoryview(image)


class Disk:
    """The image, and what is written over it from here on."""

    def __init__(self):
        self.own = {}

    def readblocks(self, block, buf, offset=0):
        own = self.own.get(block)
        if own is None:
            start = block * BLOCK + offset
            buf[:] = view[start : start + len(buf)]
        else:
            buf[:] = own[offset : offset + len(buf)]

    def writeblocks(self, block, buf, offset=0):
        if block not in self.own:
            self.own[block] = bytearray(view[block * BLOCK : block * BLOCK + BLOCK])
        self.own[block][offset : offset + len(buf)] = buf

    def ioctl(self, op, arg):
        if op == 4:
            return BLOCKS
        if op == 5:
            return BLOCK
        if op == 6:
            self.own[arg] = bytearray(b"\xff" * BLOCK)
            return 0
        return 0


def whole(name):
    with open(name, "rb") as file:
        return file.read()


def tree(folder):
    for entry in os.ilistdir(folder):
        path = folder + "/" + entry[0]
        if entry[1] & 0x4000:
            for found in tree(path):
                yield found
        else:
            yield path


def runs():
    """Version and pseudonym; raises when it is neither whole nor nothing."""
    try:
        source = whole("/cut/main.py")
    except OSError:
        return "nothing", ""
    if source != main:
        raise ValueError("another main.py")
    names = {}
    exec(source[: source.index(b"if version()")].decode(), names)
    version = names["version"]()
    if version is None:
        return "nothing", ""
    folder = "/cut/tinyldp/" + version
    found = {}
    for path in tree(folder):
        found[path[len(folder) + 1 :]] = hashlib.sha256(whole(path)).digest()
    if found != versions[version]:
        raise ValueError("a version in pieces")
    payload = State(FileSlot("tinyldp/state0"), FileSlot("tinyldp/state1")).load()
    return version, "".join(["%02x" % byte for byte in payload[:8]])


def look():
    try:
        filesystem = os.VfsLfs2(Disk())
    except OSError:
        return "nothing", ""
    os.mount(filesystem, "/cut")
    os.chdir("/cut")
    try:
        return runs()
    except Exception as error:
        return "broken: %r" % error, ""
    finally:
        os.chdir("/")
        os.umount("/cut")


main = whole("main")
versions = {}
for line in whole("versions").decode().split("\n"):
    if line:
        version, path, digest = line.split()
        versions.setdefault(version, {})[path] = bytes.fromhex(digest)

stretch = []


def tell(now):
    if stretch and stretch[0] == now:
        stretch[1] += 1
        return
    if stretch:
        print(stretch[0][0], stretch[1], stretch[0][1])
    stretch[:] = [now, 1]


journal = open("journal", "rb")
record = 0
while True:
    head = journal.read(6)
    if not head:
        break
    block = head[0] | head[1] << 8
    start = block * BLOCK + (head[2] | head[3] << 8)
    size = head[4] | head[5] << 8
    data = b"\xff" * BLOCK if size == ERASED else journal.read(size)
    record += 1
    if FIRST <= record < LAST:
        continue
    half = len(data) // 2
    image[start : start + half] = data[:half]
    tell(look())
    image[start : start + len(data)] = data
    tell(look())
tell(None)
