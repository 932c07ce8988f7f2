"""On a lane: law.py TASK STEPS SPACING. Prints how often each displacement was seen.

Indices are played through the mechanism; of the values that came in SPACING
apart, far enough for independence, the displacement is counted.
"""

import json
import sys

from tinyldp_device.entropy import Entropy, Urandom
from tinyldp_device.mechanism import make_mechanism
from tinyldp_protocol.task import read_file


def main(path, steps, spacing):
    with open(path, "rb") as file:
        task = read_file(file.read())
    entropy = Entropy(Urandom(), 256)
    mechanism = make_mechanism(task, entropy)
    seen = {}
    latest = 0
    for i in range(steps):
        value = mechanism.step(i & 65535)
        if value is None:
            continue
        moved = (i - task.window + 1 - value) & 65535
        if moved > 32767:
            moved -= 65536
        if moved > latest:
            latest = moved
        if value % spacing == 0 and i > 8 * task.window:
            seen[moved] = seen.get(moved, 0) + 1
    print(json.dumps({"seen": seen, "latest": latest}))


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
