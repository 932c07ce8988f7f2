"""Cut the power at each block write of a save on littlefs; print what came up, by name.

Arguments: size of the payload; how many bytes of the block that was being written arrive.
"""

import sys

from cut_flash import Flash, cut_again, formatted, mounted, unplugged

SIZE = int(sys.argv[1])
Flash.arrives = int(sys.argv[2])
OLD = b"o" * SIZE
NEW = b"n" * SIZE

first, state = formatted()
state.create(OLD)
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
    for again, after in cut_again(data):
        try:
            payload = mounted(Flash(bytearray(after))).load()
        except Exception as error:
            print(n, again, repr(error))
            payload = None
        unplugged()
        found["old" if payload == OLD else "new" if payload == NEW else "neither"] += 1
    n += 1
print(n - 1, found["old"], found["new"], found["neither"])
