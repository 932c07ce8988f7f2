"""What a Task of conditional randomized response (mechanisms 9 CRR, 10 CRR_BATCH) has of its own.

As task.py states the other fields. Probabilities of beliefs are over 2^15, those of the model
over 2^14:

  28  rule        1 preserve: the output's marginal is the belief, 2 min_error:
                  the loss is least, 3 table: see there        (CRR: 1 and 2,
                  CRR_BATCH: 2 and 3)
  29  loss        1 Hamming, 2 absolute, 3 squared difference, 4 costs
  30  prior       belief about the first symbol, of memory > 1 about the first
                  ones together (the first is the most significant): each
                  1 or more, in sum 2^15
  31  transitions a row of symbols numbers for each symbol, of memory > 1 for
                  each memory symbols in a row (the oldest is the most
                  significant), one row after the other: each number below
                  2^14, in sum 2^14 a row
  32  costs       symbols x symbols numbers in 0..1023, row by row: symmetric,
                  0 on the diagonal                            (loss 4 only)
  33  block       symbols that are released together: 2..10, symbols^block
                  at most 1024                              (CRR_BATCH only)
  34  memory      symbols that the next one depends on: 1..block
                                         (CRR_BATCH only; absent: 1)
  35  table       how likely each block is released for each, over 2^15, with
                  S = symbols^block, at most 45: S rows of S numbers, one row
                  after the other, each in sum 2^15; in a column all are 0, or
                  max * e^2 <= min * 2^28 with e = T / 2^10       (rule 3 only)

They have symbols 2..32, the fields of streams but window and k, and w as oracles have. Their
thresholds are [T], a multiple of 2^10 in 2^10..2^24 - 2^10: with probability T / 2^24 a step
depends on no reading, and T / 2^24 is e^-epsilon. With a table nothing is drawn with T: what the
bound of its columns says is that no two blocks differ by more than 2 epsilon, so that a device
takes no table that tells more, whoever made it.
"""

from tinyldp_protocol.task import MIN_ERROR, PRESERVE, TABLE, TaskError, between


def check_crr(task):
    """Raises TaskError unless every bound of these fields holds."""
    symbols = task.symbols
    threshold = task.thresholds[0]
    if threshold & 1023:
        raise TaskError("The threshold must be a multiple of 1024, but is %d." % threshold)
    if task.block is None:
        between("rule", task.rule, PRESERVE, MIN_ERROR)
    else:
        between("rule", task.rule, MIN_ERROR, TABLE)
        between("symbols ^ block", _power(symbols, task.block), 1, 1024)
    first = _power(symbols, task.memory or 1)
    between("the size of the prior", len(task.prior), first, first)
    between("the size of transitions", len(task.transitions), first * symbols, first * symbols)
    _check_shares("prior", task.prior, 0, first, 1, 32767, 1 << 15)
    for at in range(0, first * symbols, symbols):
        _check_shares("each row of transitions", task.transitions, at, symbols, 0, 16383, 1 << 14)
    if (task.costs is None) == (task.loss == 4):
        raise TaskError("A Task has costs if, and only if, its loss is 4.")
    if task.costs is not None:
        between("the number of costs", len(task.costs), symbols * symbols, symbols * symbols)
        for at in range(symbols * symbols):
            x = at // symbols
            y = at % symbols
            cost = task.costs[at]
            between("a number of costs", cost, 0, 0 if x == y else 1023)
            if cost != task.costs[y * symbols + x]:
                raise TaskError("costs must be symmetric, but those of %d, %d aren't." % (x, y))
    if (task.table is None) == (task.rule == TABLE):
        raise TaskError("A Task has a table if, and only if, its rule is 3.")
    if task.table is not None:
        _check_table(task.table, _power(symbols, task.block), threshold >> 10)


def _check_table(table, blocks, fresh):
    between("symbols ^ block, with a table,", blocks, 4, 45)
    size = blocks * blocks
    between("the size of the table", len(table), size, size)
    for at in range(0, size, blocks):
        _check_shares("each row of the table", table, at, blocks, 0, 1 << 15, 1 << 15)
    for y in range(blocks):
        least = 1 << 15
        most = 0
        for x in range(blocks):
            least = min(least, table[x * blocks + y])
            most = max(most, table[x * blocks + y])
        # In units of 2^14, rounded up: no product exceeds 2^30.
        most *= fresh
        if (most >> 14) * fresh + ((most & 16383) * fresh + 16383 >> 14) > least << 14:
            raise TaskError("Column %d of the table tells more than 2 epsilon." % y)


def _power(symbols, exponent):
    """symbols to this exponent; where that is above 1024, a lower one that is, too."""
    power = 1
    while exponent > 0 and power <= 1024:
        power *= symbols
        exponent -= 1
    return power


def _check_shares(name, shares, at, count, least, most, whole):
    left = whole
    for i in range(at, at + count):
        between("a number of " + name, shares[i], least, most)
        left -= shares[i]
        if left < 0:
            break
    if left:
        raise TaskError("%s must make up exactly %d." % (name, whole))
