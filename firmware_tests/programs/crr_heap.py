"""CRR over 16 symbols, from readings to what is released, in a small heap: prints its memory.

RULE and STEPS are put before it. It collects at the top level: see the lane wasm.
"""

import gc
from array import array

import micropython
from filler import Filler

from tinyldp_device.crr import Crr
from tinyldp_device.entropy import Entropy
from tinyldp_device.minerror import MinError
from tinyldp_device.quantize import Quantizer

# Used, so that it comes along.
assert MinError
CHUNK = 20
SYMBOLS = 16


class Numbers:
    """A Task whose bounds were checked before it came to the board."""

    symbols = SYMBOLS
    bins = None
    missing = None
    thresholds = (6028 << 10,)
    rule = RULE  # noqa: F821
    loss = 1
    prior = array("H", [32768 // SYMBOLS] * SYMBOLS)
    transitions = array("H", bytearray(2 * SYMBOLS * SYMBOLS))


def play(first):
    """Steps with the heap locked; how many of them released what was read."""
    same = 0
    micropython.heap_lock()
    for i in range(first, first + CHUNK):
        symbol = quantizer.symbol(i >> 3 & 15)
        same += crr.step(symbol) == symbol
    micropython.heap_unlock()
    return same


for i in range(SYMBOLS * SYMBOLS):
    Numbers.transitions[i] = 100
for i in range(SYMBOLS):
    Numbers.transitions[i * SYMBOLS + i] = 16384 - 100 * (SYMBOLS - 1)
quantizer = Quantizer(Numbers)
crr = Crr(Numbers, Entropy(Filler(), 32))
for chunk in range(STEPS // CHUNK):  # noqa: F821
    found = play(chunk * CHUNK)
    gc.collect()
    print(found, gc.mem_alloc(), gc.mem_free())
