"""jittersort: traces worked out by hand, and what holds for every stream."""

from helpers import Mixed, Words, task_of

from tinyldp_device.jittersort import JitterSort
from tinyldp_protocol.task import JITTERSORT, SCALE

HALF = SCALE // 2
# Words that mean Z = 0, 1 and 2 where 2L+1 = 3 and the thresholds are [HALF, HALF / 2].
EARLY = HALF
MIDDLE = 0
LATE = HALF + 1


def released(words, values, start=0, **changed):
    """What each step gives, and what flush gives, and how many words were used."""
    entropy = words if hasattr(words, "state") else Words(words)
    mechanism = JitterSort(task_of(JITTERSORT, **changed), entropy)
    mechanism._now = start
    steps = [mechanism.step(value) for value in values]
    rest = []
    while True:
        value = mechanism.flush()
        if value is None:
            break
        rest.append(value)
    assert mechanism.flush() is None
    return steps, rest, getattr(entropy, "used", None)


def test_by_hand():
    # Value:key. [1:2 2:3 3:3] 1 leaves, 3 takes its slot. [3:3 2:3 4:6] two are least, the
    # second of them leaves. [3:3 4:6 5:5] 3 leaves. Flush [5:5 4:6] 5, then 4.
    words = [MIDDLE, MIDDLE, EARLY, 5, LATE, HALF, EARLY, 7, 8, 9]
    assert released(words, [1, 2, 3, 4, 5]) == ([None, None, 1, 2, 3], [5, 4], 10)


def test_equal_keys_are_chosen_by_a_fresh_word_in_the_order_of_slots():
    third = SCALE // 3
    for word, first in (
        (0, 1),
        (third - 1, 1),
        (third, 2),
        (2 * third - 1, 2),
        (2 * third, 3),
        (3 * third - 1, 3),
    ):
        words = [LATE, MIDDLE, EARLY, word, 0, 0]
        steps, rest, used = released(words, [1, 2, 3])
        assert steps[2] == first, word
        # The last takes the place of the one that left.
        assert rest == {1: [3, 2], 2: [1, 3], 3: [1, 2]}[first]
        assert used == 6


def test_a_word_that_would_favour_the_first_is_drawn_again():
    assert SCALE - 1 == 3 * (SCALE // 3)
    words = [LATE, MIDDLE, EARLY, SCALE - 1, SCALE - 1, SCALE // 3, 0, 0]
    assert released(words, [1, 2, 3]) == ([None, None, 2], [1, 3], 8)


def test_edges_of_the_thresholds():
    thresholds = [10, 5, 7, SCALE // 2 - 17]
    for word, z in (
        (0, 3), (9, 3), (10, 2), (11, 4), (18, 2), (19, 4), (20, 1), (21, 5), (32, 1), (33, 5),
        (34, 0), (35, 6), (SCALE - 2, 0), (SCALE - 1, 6),
    ):  # fmt: skip
        task = task_of(JITTERSORT, window=7, thresholds=thresholds)
        mechanism = JitterSort(task, Words([word]))
        mechanism.step(5)
        assert mechanism._keys[0] - mechanism._now == z, word


def test_short_streams():
    assert released([], []) == ([], [], 0)
    assert released([LATE, 5], [7]) == ([None], [7], 2)
    assert released([LATE, EARLY, 5, 5], [7, 8]) == ([None, None], [8, 7], 4)
    # Both have the key 3.
    assert released([LATE, MIDDLE, HALF, 5], [7, 8]) == ([None, None], [8, 7], 4)


def triangular(half):
    """Thresholds that fall off evenly from the middle."""
    rest = [SCALE // ((half + 1) * (half + 1)) * (half + 1 - j) for j in range(1, half + 1)]
    left = SCALE
    for weight in rest:
        left -= 2 * weight
    return [left] + rest


class Kept(Mixed):
    """Mixed's words, which are kept, too."""

    def __init__(self, seed):
        Mixed.__init__(self, seed)
        self.kept = []

    def word(self):
        self.kept.append(Mixed.word(self))
        return self.kept[-1]


def key_of(step, word, thresholds):
    """The contract's rule, word for word."""
    half = len(thresholds) - 1
    below = 0
    for j in range(half + 1):
        weight = thresholds[j] if j == 0 else 2 * thresholds[j]
        if word < below + weight:
            if j == 0:
                return step + half
            return step + half + j if (word - below) % 2 else step + half - j
        below += weight


def test_every_stream_leaves_in_the_order_of_its_keys():
    for half in (1, 4, 46):
        window = 2 * half + 1
        thresholds = triangular(half)
        for n in (0, 1, window - 1, window, window + 1, 3 * window, 400):
            entropy = Kept(half)
            changes = {"window": window, "thresholds": thresholds, "symbols": 65536}
            steps, rest, _ = released(entropy, range(n), **changes)
            assert steps[: window - 1] == [None] * min(window - 1, n)
            assert None not in steps[window - 1 :]
            out = [value for value in steps if value is not None] + rest
            assert sorted(out) == list(range(n))
            # One word while it fills, then two a step. (That one is drawn again is improbable.)
            assert len(entropy.kept) == 2 * n
            keys = []
            for i in range(n):
                at = i if i < window else 2 * i - window + 1
                keys.append(key_of(i, entropy.kept[at], thresholds))
            order = [keys[i] for i in out]
            assert order == sorted(order), (half, n)


def test_lateness():
    out = released(Mixed(1), range(5000), symbols=65536)[0]
    moved = [i - 2 - out[i] for i in range(2, 5000)]
    assert min(moved) == -2
    assert max(moved) == 2


def test_keys_go_round():
    values = [i * i % 251 for i in range(300)]
    first = released(Mixed(3), values)
    for start in (65000, 65235, 65534, 65535):
        assert released(Mixed(3), values, start) == first


def test_wide_symbols():
    values = [65535, 256, 0, 65280, 255]
    steps, rest, _ = released([MIDDLE] * 10, values, symbols=65536)
    assert steps[2:] + rest == values
