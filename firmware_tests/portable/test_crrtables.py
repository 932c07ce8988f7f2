"""crrtables: which block a word releases, and how its symbols leave."""

from helpers import Mixed, Words, krr_table, table_task

from tinyldp_device.crrtables import CrrTable
from tinyldp_protocol.task import SCALE

PRIOR = [16384, 16384]
CHAIN = [12288, 4096, 4096, 12288]
# No number is in the same place in two rows, and one block is never released.
ROWS = [8000, 4000, 0, 20768] + [5000, 9000, 0, 18768] + [3000, 1768, 0, 28000] + [1, 767, 0, 32000]


def task_of_two(block=2, table=None, **changed):
    """A Task of blocks of two symbols."""
    table = table or ROWS
    given = {"symbols": 2, "block": block, "prior": PRIOR, "transitions": CHAIN, "table": table}
    given.update(changed)
    return table_task(**dict(given, thresholds=[1024]))


def drain(device):
    found = []
    symbol = device.flush()
    while symbol is not None:
        found.append(symbol)
        symbol = device.flush()
    assert device.flush() is None
    return found


def released(task, symbols, words):
    """The block that these words release for this one, and how many of them were used."""
    entropy = Words(words)
    device = CrrTable(task, entropy)
    found = [device.step(symbol) for symbol in symbols]
    assert found[:-1] == [None] * (len(symbols) - 1)
    return found[-1:] + drain(device), entropy.used


def test_each_word_of_a_block():
    """On both sides of each edge of each row."""
    task = task_of_two()
    for x in range(4):
        edge = 0
        for y in range(4):
            first = edge * 512
            edge += ROWS[4 * x + y]
            for word in (first, edge * 512 - 1) if edge * 512 > first else ():
                found = released(task, [x >> 1, x & 1], [word])
                assert found == ([y >> 1, y & 1], 1), (x, y, word)
        assert edge * 512 == SCALE


def test_the_least_significant_bits_of_a_word_count_for_nothing():
    task = task_of_two()
    for x in range(4):
        for unit in (0, 1, 4999, 5000, 13999, 14000, 32767):
            given = [x >> 1, x & 1]
            expected = released(task, given, [unit << 9])
            for low in (1, 255, 511):
                assert released(task, given, [unit << 9 | low]) == expected


def test_the_first_symbol_is_the_most_significant():
    # Three symbols, and the ternary number of a block.
    table = krr_table(27, 200)
    prior, chain = [10923, 10923, 10922], [5462, 5461, 5461] * 3
    given = {"symbols": 3, "block": 3, "prior": prior, "transitions": chain, "table": table}
    task = table_task(**dict(given, thresholds=[1024]))
    for x in (0, 5, 11, 26):
        edge = 0
        for y in range(27):
            block = [x // 9, x // 3 % 3, x % 3]
            assert released(task, block, [edge * 512])[0] == [y // 9, y // 3 % 3, y % 3]
            edge += table[27 * x + y]


def test_how_symbols_leave():
    """Truth is told by the middle of a row, and an incomplete last block never."""
    for block in (2, 3, 5):
        blocks = 2**block
        task = task_of_two(block, krr_table(blocks, 1))
        # The unit in the middle belongs to the block itself, with each row.
        words = Words([SCALE // 2] * 5)
        for steps in range(3 * block + 2):
            words.used = 0
            device = CrrTable(task, words)
            given = [i // 2 % 2 for i in range(steps)]
            found = [device.step(symbol) for symbol in given]
            assert found[: block - 1] == [None] * min(steps, block - 1)
            assert None not in found[block - 1 :]
            found += drain(device)
            whole = steps // block * block
            assert found[block - 1 :] == given[:whole] or steps < block, (block, steps, found)
            assert steps >= block or found == [None] * steps
            # A word a block, and none for what is never released.
            assert words.used == steps // block


def test_what_is_not_released_uses_no_word_and_depends_on_none():
    task = task_of_two(3, krr_table(8, 1))
    words = Words([SCALE // 2])
    device = CrrTable(task, words)
    device.step(1)
    device.step(1)
    assert (device.flush(), words.used) == (None, 0)


def test_no_step_depends_on_the_ones_before():
    """Neither a belief nor anything else is carried from block to block."""
    task = task_of_two()
    for history in ([], [0, 0], [1, 1, 0, 1], [1, 0, 0, 0, 1, 1]):
        for x in range(4):
            for word in (0, 4000 * 512, 9000 * 512, SCALE - 1):
                entropy = Words([77] * (len(history) // 2) + [word])
                device = CrrTable(task, entropy)
                for symbol in history:
                    device.step(symbol)
                # What is left of the block before leaves first.
                last = device.step(x >> 1)
                assert (last is None) == (not history)
                found = [device.step(x & 1)] + drain(device)
                assert found == released(task, [x >> 1, x & 1], [word])[0]


def test_frequencies_are_those_of_the_table():
    """Of words that hit every eighth unit once."""
    task = task_of_two()
    device = CrrTable(task, Words([]))
    for x in range(4):
        device._entropy = Words([unit << 9 for unit in range(0, 32768, 8)])
        counts = [0] * 4
        for _ in range(4096):
            device.step(x >> 1)
            y = 2 * device.step(x & 1) + device.flush()
            counts[y] += 1
        for y in range(4):
            assert abs(counts[y] * 8 - ROWS[4 * x + y]) < 16


def released_by(task, steps, seed=5):
    """A checksum of what the device gives."""
    device = CrrTable(task, Mixed(seed))
    total = 0
    for i in range(steps):
        y = device.step(i * i // 3 % task.symbols)
        total = (total * 31 + (99 if y is None else y)) & 0xFFFFFF
    for y in drain(device):
        total = (total * 31 + y) & 0xFFFFFF
    return total


def test_reproducible_words_give_these_steps():
    """The same on every lane, and for whoever else implements it."""
    tasks = [table_task(), task_of_two(), task_of_two(3, krr_table(8, 900))]
    assert [released_by(task, 101) for task in tasks] == [9521729, 3945830, 303241]
