"""What a Task with epochs (mechanisms 7 Thresh, 8 HeavyThresh) has of its own.

As task.py states the other fields:

    19  epochs      2..2^14
    20  rounds      steps of an epoch: 2..2^20, Thresh: rounds * (symbols - 1)
                    at most 2^24
    21  votes       that a device may cast in favour: 1..epochs
    22  estimates   that a device may give: 1..epochs
    23  levels      of differences that are above them: floor(log2 epochs) + 1
                    numbers, not descending, up to what a difference can be:
                    of sums of symbols, rounds * (symbols - 1); of signed sums
                    of counts, 2 * rounds
    24  failure     probability that the accuracy aimed at is missed, over 2^30:
                    1..2^30-1
    25  polls       epochs that ask whether votes are left: 1..epochs
                                                              (may be absent)
    26  coordinates of the hash: 2..2^15                     (HeavyThresh only)
    27  items       different ones that a device counts in an epoch: 1..1024,
                    at most rounds                           (HeavyThresh only)
"""

from tinyldp_protocol.task import SCALE, THRESH, between


def check_epochs(task):
    """Raises TaskError unless every bound of these fields holds."""
    if task.mechanism == THRESH:
        between("rounds", task.rounds, 2, SCALE // (task.symbols - 1))
        most = task.rounds * (task.symbols - 1)
    else:
        between("items", task.items, 1, task.rounds)
        most = 2 * task.rounds
    count = 0
    while task.epochs >> count:
        count += 1
    between("the number of levels", len(task.levels), count, count)
    last = 0
    for level in task.levels:
        between("level", level, last, most)
        last = level
