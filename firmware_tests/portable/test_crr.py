"""crr: the belief, what each word makes of a symbol, and the same steps everywhere."""

from helpers import Mixed, Words, crr_task

from tinyldp_device.coupling import Coupling, loss_of, planned
from tinyldp_device.crr import Crr
from tinyldp_protocol.task import SCALE

# e = 4096: q = 1/4, K = 6554.
T = SCALE // 4


def two(**changed):
    """A Task over two symbols, of beliefs 3/4 and 1/4."""
    given = {"symbols": 2, "prior": [24576, 8192], "transitions": [12288, 4096, 8192, 8192]}
    given.update(changed)
    return crr_task(**given)


def made(belief, **changed):
    n = len(belief)
    given = {"symbols": n, "prior": [32768 // n] * (n - 1) + [32768 - 32768 // n * (n - 1)]}
    given["transitions"] = ([16384 // n] * (n - 1) + [16384 - 16384 // n * (n - 1)]) * n
    given.update(changed)
    coupling = Coupling(crr_task(**given))
    for x in range(n):
        coupling.belief[x] = belief[x]
    coupling.make()
    return coupling


class Frozen:
    """A coupling that stays."""

    def __init__(self, coupling):
        self.symbols = coupling.symbols
        self.served = coupling.served
        self.marginal = coupling.marginal
        self.total = coupling.total
        self.joint = coupling.joint

    def update(self, y):
        pass

    def make(self):
        pass


def released(coupling, x, words):
    crr = Crr(two(), Words(words))
    crr.coupling = Frozen(coupling)
    y = crr.step(x)
    assert crr._entropy.used == len(words)
    return y


def test_all_frequent_symbols_tell_the_truth():
    for rule in (1, 2):
        coupling = Coupling(two(rule=rule))
        coupling.make()
        assert (coupling.fresh, coupling.kappa, coupling.total) == (4096, 6554, 32768)
        assert list(coupling.joint) == [24576, 0, 0, 8192]
        assert list(coupling.marginal) == list(coupling.served) == [24576, 8192]


def test_a_rare_symbol_gives_away_what_would_show_it():
    # 1638 of 32768: 1638^2 // 6554 = 409 may tell the truth.
    coupling = made([31130, 1638])
    assert list(coupling.joint) == [31130 - 1229, 1229, 1229, 409]
    assert list(coupling.marginal) == [31130, 1638]
    # By the other rule it is never released.
    coupling = made([31130, 1638], rule=2)
    assert list(coupling.joint) == [31130, 0, 1638, 0]
    assert list(coupling.marginal) == [32768, 0]


def test_two_rare_symbols_give_to_each_other():
    # 5000 * 4000 // 6554 = 3051; they must give away 1186 and 1559.
    coupling = made([23768, 5000, 4000])
    assert list(coupling.joint) == [23395, 0, 373, 0, 3814, 1186, 373, 1186, 2441]
    # Those that are nearer first, where the others cost more than twice as much.
    coupling = made([5000, 23768, 4000], loss=3)
    assert list(coupling.joint) == [3814, 1186, 0, 1186, 21023, 1559, 0, 1559, 2441]


def test_a_triangle():
    # Three alike, each of which must give away 1186: 1186 between the first two; half of the
    # third's comes from there.
    coupling = made([17768, 5000, 5000, 5000])
    joint = list(coupling.joint)
    assert joint[5:8] == [3814, 593, 593]
    assert joint[9:12] == [593, 3814, 593]
    assert joint[:4] == [17768, 0, 0, 0]


def test_symbols_that_cannot_be_served():
    # e = 14746: K = 15523 or so, and all are rare; 1 unit could go nowhere.
    coupling = made([11000, 10884, 10882, 1, 1], thresholds=[14746 << 10])
    assert list(coupling.served) == list(coupling.marginal) == [11000, 10884, 10882, 0, 0]
    assert coupling.total == 32766
    assert list(coupling.joint[15:]) == [0] * 10


def test_symbols_of_no_belief():
    for rule in (1, 2):
        coupling = made([20000, 0, 12768, 0], rule=rule)
        assert list(coupling.marginal) == list(coupling.served) == [20000, 0, 12768, 0]
        # Both words sample it from the marginal, whatever the first one is.
        for first in (0, T, SCALE - 1):
            for second, y in ((0, 0), (19999 * 512 + 511, 0), (20000 * 512, 2), (SCALE - 1, 2)):
                for x in (1, 3):
                    assert released(coupling, x, [first, second]) == y


def test_each_word_of_a_step():
    coupling = made([31130, 1638])
    for x in (0, 1):
        # A sample of the marginal: 512 words a unit.
        for first in (0, T - 1):
            for second, y in ((0, 0), (31130 * 512 - 1, 0), (31130 * 512, 1), (SCALE - 1, 1)):
                assert released(coupling, x, [first, second]) == y
    for first in (T, SCALE - 1):
        # Row 0: 29901 of 31130 units, and 2^24 // 31130 = 538; row 1: 1229 of 1638, and 10242.
        for second, y in ((0, 0), (29901 * 538 - 1, 0), (29901 * 538, 1), (31130 * 538 - 1, 1)):
            assert released(coupling, 0, [first, second]) == y
        for second, y in ((0, 0), (1229 * 10242 - 1, 0), (1229 * 10242, 1), (1638 * 10242 - 1, 1)):
            assert released(coupling, 1, [first, second]) == y
        # What would favour a unit is drawn again.
        assert released(coupling, 0, [first, 31130 * 538, SCALE - 1, 0]) == 0
        assert released(coupling, 1, [first, 1638 * 10242, 1637 * 10242]) == 1


def test_the_belief_follows_what_was_released():
    coupling = Coupling(two())
    coupling.make()
    coupling.update(1)
    # Of x = 0: 1/4 * 24576; of x = 1: 1/4 * 8192 + 3/4 * 8192 * 32768 / 8192.
    assert list(coupling.belief) == [6144 * 3 // 4 + 26624 // 2, 6144 // 4 + 26624 // 2]
    coupling = made([31130, 1638], transitions=[16383, 1, 8192, 8192])
    coupling.update(0)
    # g_0 = 29901 * 32768 // 31130 = 31474, g_1 = 1229 * 32768 // 31130 = 1293.
    first = 4096 * 31130 + 12288 * 31474 + 8192 >> 14
    second = 4096 * 1638 + 12288 * 1293 + 8192 >> 14
    first += 32768 - first - second
    one = first + second * 8192 + 8192 >> 14
    assert list(coupling.belief) == [32768 - one, one]


def test_what_can_be_reached_keeps_a_unit():
    # The least noise: the posterior of what was not released is next to nothing.
    model = [0, 16383, 1, 1, 0, 16383, 16383, 1, 0]
    given = {"symbols": 3, "prior": [1, 1, 32766], "transitions": model, "thresholds": [1024]}
    crr = Crr(crr_task(**given), Words([]))
    coupling = crr.coupling
    for y in (2, 0, 1, 2, 2, 0):
        coupling.update(y)
        assert sum(coupling.belief) == 32768
        assert min(coupling.belief) > 0
        coupling.make()
    # And what can't be reached has none.
    model = [0, 16383, 1, 0, 0, 0, 16383, 1, 1, 0, 0, 16383, 0, 1, 1, 16382]
    coupling = made([16384, 16384, 0, 0], transitions=model)
    coupling.update(0)
    assert (coupling.belief[0], coupling.belief[3]) == (0, 1)


def test_unserved_symbols_keep_their_belief():
    stays = [16380 if x == y else 1 for x in range(5) for y in range(5)]
    changed = {"thresholds": [14746 << 10], "transitions": stays}
    coupling = made([11000, 10884, 10882, 1, 1], **changed)
    coupling.update(1)
    assert sum(coupling.belief) == 32768
    assert coupling.belief[1] > 10884
    assert list(coupling.belief[3:]) == [3, 3]


def test_losses():
    costs = [0, 5, 1023, 5, 0, 7, 1023, 7, 0]
    chain = {"symbols": 3, "prior": [1, 1, 32766], "transitions": [5461, 5461, 5462] * 3}
    for loss, expected in ((1, (1, 1, 1)), (2, (1, 2, 1)), (3, (1, 4, 1)), (4, (5, 1023, 7))):
        task = crr_task(loss=loss, costs=costs if loss == 4 else None, **chain)
        found = [loss_of(task, x, y) for x, y in ((0, 1), (0, 2), (1, 2))]
        assert tuple(found) == expected
        assert found == [loss_of(task, y, x) for x, y in ((0, 1), (0, 2), (1, 2))]


def test_the_plan():
    chain = {"symbols": 3, "prior": [1, 1, 32766], "transitions": [5461, 5461, 5462] * 3}
    plan = [(n >> 10 & 31, n >> 5 & 31, n & 31) for n in planned(crr_task(**chain))]
    assert plan == [
        (0, 1, 1), (0, 2, 2), (1, 2, 2),
        (0, 1, 2), (1, 0, 2), (2, 0, 1),
        (0, 1, 0), (0, 2, 0), (1, 2, 1),
    ]  # fmt: skip
    plan = [(n >> 10 & 31, n >> 5 & 31, n & 31) for n in planned(crr_task(loss=2, **chain))]
    assert plan == [
        (0, 1, 1), (1, 2, 2),
        (0, 2, 2), (0, 1, 2), (1, 0, 2), (2, 0, 1), (0, 1, 0), (1, 2, 1),
        (0, 2, 0),
    ]  # fmt: skip


def released_by(task, steps, seed=5):
    """What a Crr gives: a checksum of it and of its beliefs."""
    crr = Crr(task, Mixed(seed))
    total = 0
    for i in range(steps):
        total = (total * 31 + crr.step(i * i // 3 % task.symbols)) & 0xFFFFFF
        for units in crr.coupling.belief:
            total = (total * 31 + units) & 0xFFFFFF
    assert crr.flush() is None
    return total


def test_reproducible_words_give_these_steps():
    """The same on every lane, and for whoever else implements it."""
    tasks = [crr_task(rule=rule, loss=loss) for rule in (1, 2) for loss in (1, 2, 3)]
    found = [released_by(task, 60) for task in tasks]
    assert found == [8573257, 11832034, 11832034, 8977862, 9129484, 5036018]


def test_the_largest_numbers():
    for n, loss in ((2, 1), (3, 2), (8, 3), (32, 1)):
        stays = [16385 - n if x == y else 1 for x in range(n) for y in range(n)]
        given = {"symbols": n, "prior": [1] * (n - 1) + [32769 - n], "transitions": stays}
        for rule in (1, 2):
            for threshold in (1024, SCALE - 1024):
                if n < 32 or rule == 2 and threshold == 1024:
                    task = crr_task(rule=rule, loss=loss, thresholds=[threshold], **given)
                    released_by(task, 1 if n == 32 else 20)
