"""crrblocks: beliefs about blocks, their couplings, and how their symbols leave."""

from helpers import Mixed, Words, crr_task

from tinyldp_device.blocks import NOWHERE, BlockCoupling
from tinyldp_device.crrblocks import CrrBlocks
from tinyldp_protocol.task import CRR_BATCH, SCALE

T = SCALE // 4


def task_of(symbols, memory=1, stays=12000, **changed):
    """A Task whose chain stays with what the last symbol was."""
    first = symbols**memory
    given = {"symbols": symbols, "memory": memory}
    given["prior"] = [32768 // first] * (first - 1) + [32768 - 32768 // first * (first - 1)]
    others = (16384 - stays) // (symbols - 1)
    stays = 16384 - others * (symbols - 1)
    given["transitions"] = [
        stays if y == s % symbols else others for s in range(first) for y in range(symbols)
    ]
    given.update(changed)
    return crr_task(CRR_BATCH, **given)


def made(task, length=None):
    coupling = BlockCoupling(task)
    coupling.make(length or task.block)
    return coupling


def wrong(coupling):
    """What is wrong with a coupling, or nothing."""
    size = coupling.size
    belief = list(coupling.belief)[:size]
    if sum(belief) != 32768:
        return "belief"
    released = [0] * coupling.count
    for x in range(size):
        row = [coupling.joint(x, k) for k in range(coupling.count)]
        if sum(row) != (belief[x] if coupling.target[x] != NOWHERE else 0):
            return "rows"
        if (coupling.target[x] == NOWHERE) != (belief[x] == 0):
            return "unserved"
        for k in range(coupling.count):
            released[k] += row[k]
    if released != list(coupling.marginal)[: coupling.count]:
        return "marginal"
    # Then J_xy <= b_x is all that is asked.
    return "caps" if min(released) < coupling.kappa else ""


def test_the_belief_about_a_block():
    # 3/4 stays.
    task = task_of(2, stays=12288, block=3, prior=[24576, 8192])
    coupling = BlockCoupling(task)
    coupling.make(3)
    exact = []
    for o in range(8):
        units = 24576 if o < 4 else 8192
        units = units * (3 if o >> 2 == o >> 1 & 1 else 1) // 4
        exact.append(units * (3 if o >> 1 & 1 == o & 1 else 1) // 4)
    # A unit for each block, of each stage; the rest in proportion.
    for o in range(8):
        assert abs(coupling.belief[o] - exact[o]) <= 6, (list(coupling.belief), exact)
    assert sum(coupling.belief) == 32768
    # The same of a shorter one, in the same places.
    coupling.make(2)
    assert (coupling.size, coupling.length) == (4, 2)
    assert sum(list(coupling.belief)[:4]) == 32768
    assert abs(coupling.belief[0] - 24576 * 3 // 4) < 5


def test_a_short_block_below_the_memory():
    prior = [10000, 2000, 300, 4000, 5000, 600, 868, 10000]
    coupling = BlockCoupling(task_of(2, memory=3, block=3, prior=prior))
    coupling.make(3)
    assert list(coupling.belief) == prior
    coupling.make(2)
    assert list(coupling.belief)[:4] == [12000, 4300, 5600, 10868]
    coupling.make(1)
    assert list(coupling.belief)[:2] == [16300, 16468]


def test_no_block_that_can_be_reached_is_lost():
    # The least probable ones have far less than a unit.
    coupling = made(task_of(2, stays=16380, block=10))
    assert min(coupling.belief) == 1
    assert sum(coupling.belief) == 32768
    # Nor has any a unit that can't be: 2 never follows 0.
    chain = [8192, 8192, 0, 8192, 4192, 4000, 1, 16382, 1]
    coupling = made(task_of(3, block=3, transitions=chain))
    for o in range(27):
        never = o // 9 == 0 and o // 3 % 3 == 2 or o // 3 % 3 == 0 and o % 3 == 2
        assert (coupling.belief[o] == 0) == never
        assert (coupling.target[o] == NOWHERE) == never
    assert wrong(coupling) == ""


def test_frequent_blocks_tell_the_truth():
    coupling = made(task_of(2, stays=8192, block=2, thresholds=[T]))
    assert (coupling.count, coupling.kappa) == (4, 6554)
    assert sorted(coupling.kept) == [0, 1, 2, 3]
    for k in range(4):
        assert coupling.joint(coupling.kept[k], k) == coupling.belief[coupling.kept[k]]
    assert wrong(coupling) == ""


def test_a_dropped_block_goes_to_the_nearest():
    # 00 and 11 are frequent. 01 is as near to both: to the one that is more probable.
    coupling = made(task_of(2, stays=15000, block=2, prior=[17000, 15768], thresholds=[SCALE // 2]))
    assert list(coupling.kept)[: coupling.count] == [0, 3]
    assert list(coupling.target)[:4] == [0, 0, 0, 1]
    assert list(coupling.fill)[:2] == [coupling.belief[0], 0]
    assert wrong(coupling) == ""


def test_couplings_are_admissible():
    for symbols, block, memory in ((2, 3, 1), (2, 5, 2), (3, 2, 2), (4, 2, 1), (5, 3, 1)):
        for stays in (5000, 12000, 16300):
            for threshold in (1024, T, SCALE // 2, SCALE - 1024):
                for loss in (1, 3):
                    given = {"block": block, "loss": loss, "thresholds": [threshold]}
                    task = task_of(symbols, memory, stays, **given)
                    device = CrrBlocks(task, Mixed(symbols))
                    for i in range(2 * block + 1):
                        assert wrong(device.coupling) == "", (symbols, block, stays, threshold)
                        device.step(i * i % symbols)
                    for length in range(1, block + 1):
                        device.coupling.make(length)
                        assert wrong(device.coupling) == ""


def test_how_symbols_leave():
    """Truth is told where there is next to no noise."""
    for block, memory in ((2, 1), (3, 3), (5, 2)):
        task = task_of(2, memory, 8192, block=block, thresholds=[1024])
        for steps in range(3 * block + 2):
            device = CrrBlocks(task, Words([SCALE - 1, 0] * 20))
            given = [i // 2 % 2 for i in range(steps)]
            found = [device.step(symbol) for symbol in given]
            assert found[: block - 1] == [None] * min(steps, block - 1)
            assert None not in found[block - 1 :]
            rest = device.flush()
            while rest is not None:
                found.append(rest)
                rest = device.flush()
            assert device.flush() is None
            assert found[block - 1 :] == given or steps < block, (block, steps, found)
            # Two words a block, the last one, which is shorter, included.
            assert device._entropy.used == 2 * (-(-steps // block))


def test_each_word_of_a_block():
    task = task_of(2, stays=15000, block=2, prior=[17000, 15768], thresholds=[SCALE // 2])
    coupling = made(task)
    first = coupling.marginal[0]
    own = coupling.belief[1]
    share = SCALE // own
    for word, released in ((0, 0), (first * 512 - 1, 0), (first * 512, 1), (SCALE - 1, 1)):
        # A sample, whatever was read.
        for x in range(4):
            device = CrrBlocks(task, Words([SCALE // 2 - 1, word]))
            device.step(x >> 1)
            assert [device.step(x & 1), device.flush(), device.flush()] == [released] * 2 + [None]
    # 01 goes to 00, with a word of its own all the same.
    for words in ([0], [own * share - 1], [own * share, 0], [SCALE - 1, SCALE - 1, 5]):
        device = CrrBlocks(task, Words([SCALE // 2] + words))
        device.step(0)
        assert [device.step(1), device.flush(), device.flush()] == [0, 0, None]
        assert device._entropy.used == 1 + len(words)


class Looked:
    """Units that count how often they are looked at."""

    def __init__(self, units):
        self.units = units
        self.looks = 0

    def __getitem__(self, k):
        self.looks += 1
        return self.units[k]


def test_a_block_that_is_told_takes_as_long_as_one_that_is_sampled():
    """All units are counted, whichever block is read and whatever is released, and why."""
    task = task_of(2, stays=15000, block=3, thresholds=[SCALE // 16])
    seen = set()
    for first in (0, SCALE - 1):
        for word in (0, SCALE // 3, SCALE - 1):
            for x in range(8):
                device = CrrBlocks(task, Words([first, word, 0, 0, 0]))
                coupling = device.coupling
                marginal = coupling.marginal = Looked(coupling.marginal)
                fill = coupling.fill = Looked(coupling.fill)
                # Units that are changed by the belief are none of this.
                coupling.make = coupling.update = lambda length: None
                device._block = x
                device._taken = 3
                device._release()
                seen.add((x, device._released))
                assert marginal.looks + fill.looks == coupling.count > 2, (first, word, x)
    assert len(seen) > 16


def test_the_belief_follows_what_was_released():
    task = task_of(2, stays=14000, block=2, prior=[16384, 16384])
    device = CrrBlocks(task, Words([SCALE - 1, 0]))
    assert (device.step(0), device.step(0), device.flush()) == (None, 0, 0)
    # Another 0 follows, then.
    belief = list(device.coupling.belief)
    assert belief[0] > 20000
    assert belief[0] > belief[3] * 3


def released_by(task, steps, seed=5):
    """What the device gives: a checksum of it and of its beliefs."""
    device = CrrBlocks(task, Mixed(seed))
    total = 0
    for i in range(steps):
        y = device.step(i * i // 3 % task.symbols)
        total = (total * 31 + (99 if y is None else y)) & 0xFFFFFF
        for x in range(device.coupling.size):
            total = (total * 31 + device.coupling.belief[x]) & 0xFFFFFF
    y = device.flush()
    while y is not None:
        total = (total * 31 + y) & 0xFFFFFF
        y = device.flush()
    return total


def test_reproducible_words_give_these_steps():
    """The same on every lane, and for whoever else implements it."""
    tasks = [task_of(n, memory, loss=loss, block=w) for n, w, memory, loss in (
        (2, 3, 1, 1), (2, 4, 4, 2), (3, 3, 2, 3), (4, 2, 1, 1),
    )]  # fmt: skip
    assert [released_by(task, 25) for task in tasks] == [15953494, 5194205, 3881074, 15190594]


def test_the_largest_numbers():
    costs = [0, 1023, 1023, 0]
    for threshold in (1024, SCALE - 1024):
        given = {"loss": 4, "costs": costs, "thresholds": [threshold]}
        task = task_of(2, memory=5, stays=16383, block=5, **given)
        released_by(task, 11)
    task = task_of(2, memory=1, stays=16383, block=10, loss=4, costs=costs, thresholds=[T])
    released_by(task, 10)
