"""On a lane: simulated.py NAME... Prints what a mechanism gives for each NAME, one line each.

NAME.task is its Task. NAME.words begins with a boot nonce and the start-up test, both
thrown away; then come the words of one pool, as many as were thrown away. NAME.symbols
holds the readings' symbols, 2 bytes each, little-endian.
"""

import sys
from binascii import hexlify

from tinyldp_device.entropy import Entropy, Replay
from tinyldp_device.mechanism import make_mechanism
from tinyldp_protocol.task import read_file


def show(task, out):
    if not isinstance(out, int):
        return hexlify(out).decode()
    return hexlify(bytes([out & 255, out >> 8][: task.width])).decode()


def main(names):
    for name in names:
        with open(name + ".task", "rb") as file:
            task = read_file(file.read())
        with open(name + ".words", "rb") as file:
            size = len(file.read())
        with open(name + ".symbols", "rb") as file:
            symbols = file.read()
        with open(name + ".words", "rb") as file:
            mechanism = make_mechanism(task, Entropy(Replay(file), (size - 8) // 6, True))
            for i in range(0, len(symbols), 2):
                out = mechanism.step(symbols[i] | symbols[i + 1] << 8)
                if out is not None:
                    print(show(task, out), end="")
            while True:
                out = mechanism.flush()
                if out is None:
                    break
                print(show(task, out), end="")
        print()


main(sys.argv[1:])
