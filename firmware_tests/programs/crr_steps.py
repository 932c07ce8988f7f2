"""Steps of CRR: crr_steps.py MECHANISM RULE LOSS SYMBOLS STEPS prints checksums on their way.

Of what is released, and of the belief after it.
"""

import sys

from helpers import Mixed, crr_task

from tinyldp_device.mechanism import make_mechanism

mechanism, rule, loss, symbols, steps = [int(text) for text in sys.argv[1:6]]
stays = 16384 - 700 * (symbols - 1)
task = crr_task(
    mechanism,
    rule=rule,
    loss=loss,
    symbols=symbols,
    # Some are rare, and some words make others so.
    prior=[32768 - 500 * (symbols - 1)] + [500] * (symbols - 1),
    transitions=[stays if x == y else 700 for x in range(symbols) for y in range(symbols)],
)
device = make_mechanism(task, Mixed(symbols))
total = 0
for i in range(steps):
    y = device.step(i // 5 * i % symbols)
    total = (total * 31 + (symbols if y is None else y)) & 0xFFFFFF
    for units in device.coupling.belief:
        total = (total * 31 + units) & 0xFFFFFF
    if (i + 1) % (steps // 10) == 0:
        print(i + 1, total)
