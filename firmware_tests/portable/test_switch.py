"""switch: traces worked out by hand, and what holds for every stream."""

from helpers import Generator, Words, make_task

from tinyldp_device.switch import RanSwitch, StaSwitch
from tinyldp_protocol.task import SCALE, STASWITCH

T = SCALE // 8
# Words that mean d = 1, d = 2 and d = 0 in a window of 3.
ONE = 0
TWO = T
STAY = 2 * T


def task_of(mechanism, k, threshold=None, window=None, symbols=256):
    changes = {
        "k": k,
        "window": window or k,
        "symbols": symbols,
        "thresholds": [threshold or SCALE // (2 * k)],
    }
    if mechanism is StaSwitch:
        changes["mechanism"] = STASWITCH
    return make_task(**changes)


def released(mechanism, task, words, values):
    """What each step gives, and what flush gives, and how many words were used."""
    entropy = words if hasattr(words, "state") else Words(words)
    switch = mechanism(task, entropy)
    steps = [switch.step(value) for value in values]
    rest = []
    while True:
        value = switch.flush()
        if value is None:
            break
        rest.append(value)
    assert switch.flush() is None
    return steps, rest, getattr(entropy, "used", None)


def test_ranswitch_by_hand():
    # [1 2 3] d=1: 2 leaves. [1 3 4] d=2: 4 leaves. [3 1 5] d=0: 3 leaves. Flush [1 5]:
    # d=2 lies outside, d=1: 5 leaves. [1]: d=1 and d=2 lie outside, d=0: 1 leaves.
    words = [ONE, TWO, STAY, TWO, ONE, ONE, TWO, STAY]
    found = released(RanSwitch, task_of(RanSwitch, 3, T), words, [1, 2, 3, 4, 5])
    assert found == ([None, None, 2, 4, 3], [5, 1], 8), found


def test_staswitch_by_hand():
    # [1 2 3] d=1: 2 leaves, 1 is one late. [1 3 4] d=2 would make it three late: 1 leaves.
    # [3 4 5] d=0: 3 leaves. Flush [4 5]: d=2 lies outside, d=1: 5 leaves, 4 is one late.
    # [4]: d=1 lies outside; d=2 would make it three late: it stays, and leaves.
    words = [ONE, TWO, STAY, TWO, ONE, ONE, TWO]
    found = released(StaSwitch, task_of(StaSwitch, 3, T), words, [1, 2, 3, 4, 5])
    assert found == ([None, None, 2, 1, 3], [5, 4], 7), found


def test_staswitch_ages_travel_with_the_values():
    # 1 is moved to the slot of 3 (two late): it must leave there, whatever is drawn.
    words = [TWO, STAY, ONE, STAY, STAY]
    found = released(StaSwitch, task_of(StaSwitch, 3, T), words, [1, 2, 3, 4, 5])
    assert found == ([None, None, 3, 2, 1], [4, 5], 5), found
    # 6, which comes into the slot that 1 left, starts with no age: it may move by two.
    words = [TWO, STAY, ONE, STAY, STAY, TWO, STAY, STAY]
    found = released(StaSwitch, task_of(StaSwitch, 3, T), words, [1, 2, 3, 4, 5, 6, 7, 8])
    assert found == ([None, None, 3, 2, 1, 4, 5, 8], [7, 6], 8), found


def test_edges_of_the_thresholds():
    for word, first in (
        (0, 2), (T - 1, 2), (T, 3), (2 * T - 1, 3), (2 * T, 1), (SCALE - 1, 1),
    ):  # fmt: skip
        for mechanism in (RanSwitch, StaSwitch):
            steps, _, _ = released(
                mechanism, task_of(mechanism, 3, T), [word, STAY, STAY], [1, 2, 3]
            )
            assert steps[2] == first, (word, steps)


def test_short_streams():
    for mechanism in (RanSwitch, StaSwitch):
        task = task_of(mechanism, 3, T)
        assert released(mechanism, task, [], []) == ([], [], 0)
        # A lone value has one place to leave from; 1 and 2 steps ahead lie outside.
        assert released(mechanism, task, [ONE, TWO, STAY], [7]) == ([None], [7], 3)
        assert released(mechanism, task, [TWO, ONE, STAY], [7, 8]) == ([None, None], [8, 7], 3)


def test_a_window_larger_than_k():
    words = [4 * T - 1] + [SCALE - 1] * 4
    task = task_of(RanSwitch, 2, T, window=5)
    assert released(RanSwitch, task, words, [1, 2, 3, 4, 5])[0][4] == 5
    assert released(RanSwitch, task, [4 * T] + words, [1, 2, 3, 4, 5])[0][4] == 1


def test_every_stream_is_permuted():
    for mechanism in (RanSwitch, StaSwitch):
        for k in (2, 3, 10, 64):
            for n in (0, 1, k - 1, k, k + 1, 3 * k, 200):
                task = task_of(mechanism, k)
                steps, rest, _ = released(mechanism, task, Generator(k), range(n))
                assert steps[: k - 1] == [None] * min(k - 1, n)
                out = [value for value in steps if value is not None] + rest
                assert None not in steps[k - 1 :]
                assert sorted(out) == list(range(n)), (k, n)


def test_lateness():
    """StaSwitch is never more than k-1 late; RanSwitch on the same words is at times."""
    for k in (2, 3, 10):
        latest = []
        for mechanism in (RanSwitch, StaSwitch):
            task = task_of(mechanism, k, SCALE // k, symbols=65536)
            steps, rest, _ = released(mechanism, task, Generator(1), range(2000))
            out = [value for value in steps if value is not None] + rest
            latest.append(max([i - out[i] for i in range(2000)]))
            assert min([i - out[i] for i in range(2000)]) == 1 - k
        assert latest[1] == k - 1
        assert latest[0] > k - 1


def test_wide_symbols():
    for mechanism in (RanSwitch, StaSwitch):
        values = [65535, 256, 0, 65280, 255]
        task = task_of(mechanism, 3, T, symbols=65536)
        steps, rest, _ = released(mechanism, task, [STAY] * 5, values)
        assert steps[2:] + rest == values
