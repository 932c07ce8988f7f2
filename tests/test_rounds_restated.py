"""The re-statement of LDP-IDS against examples worked by hand, and with planted faults.

Two values (d = 2), randomized response that lies once in four: an estimate is (count/n - 1/4) / 1/2
and its variance 3/16 / (n/4) = 3/(4n), since 1-p-q = 0. Ledger units per unit: 8.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from tests.oracle.rounds import methods
from tests.oracle.rounds.methods import Asked, Setting, Step

F = Fraction
UNIT = 8
WINDOW = 3


def make_setting(method: str, w: int = WINDOW, grid: int = 2, **changed: Any) -> Setting:
    spends = {UNIT * part // grid for part in range(1, 2 * w * grid + 1)}
    known: dict[str, Any] = {
        "oracle": "grr",
        "d": 2,
        "scale": 4,
        "thresholds": dict.fromkeys(spends, 1),
    }
    return Setting(method, w=w, unit=UNIT, grid=grid, **(known | changed))


def run(setting: Setting, script: str, users: int = 100) -> list[Step]:
    """One letter a step: 'P' far from the last release, 'a' at the last release, '0' no answer.

    '-' answers the dissimilarity as 'P' does, and nobody the publication. All others have four
    answers for each user wanted (everyone: 400), as if all had value 0, or all 1; first 0.
    """
    shown, current = 1, 1

    def answer(number: int, query: Asked) -> tuple[tuple[int, ...], int]:
        nonlocal shown, current
        act = script[number]
        if act == "0" or (act == "-" and query.phase == methods.PUBLICATION):
            return (0, 0), 0
        if query.phase == methods.DISSIMILARITY:
            current = shown if act == "a" else 1 - shown
        if query.phase == methods.PUBLICATION or setting.method in ("lbu", "lsp", "lpu"):
            shown = current
        n = 4 * (query.users or 400)
        return ((n // 4, 3 * n // 4) if current else (3 * n // 4, n // 4)), n

    return methods.run(setting, [users] * len(script), answer)


def asked(steps: list[Step]) -> list[list[int]]:
    """Spends of each step in units, or its users."""
    return [
        [query.spend // UNIT if query.users is None else query.users for query in step.asked]
        for step in steps
    ]


# Oracles ----------------------------------------------------------------------------------------


def test_estimates_and_variance_by_hand():
    """Of 8 answers 4 and 2 and 2 speak for the values; d = 3, a lie 1/8, so p = 6/8, p-q = 5/8.

    Estimates (3/8, 1/8, 1/8) / (5/8). V = 7/64 / (8 25/64) + 1/8 / (3 8 5/8) = 7/200 + 1/120.
    """
    setting = make_setting("lbu", d=3, scale=8)
    assert methods.estimate(setting, 16, (4, 2, 2), 8) == (F(3, 5), F(1, 5), F(1, 5))
    assert methods.variance(setting, 16, 8) == F(7, 200) + F(1, 120)


def test_unary_and_hashed_by_hand():
    """OUE: p = 1/2, q = 1/4: 3/16 / (4 1/16) + 1/4 / (2 4 1/4). OLH over 3: p = 1/2, q = 1/3."""
    oue = make_setting("lbu", oracle="oue")
    assert methods.variance(oue, 16, 4) == F(3, 4) + F(1, 8)
    assert methods.estimate(oue, 16, (2, 1), 4) == (1, 0)
    olh = make_setting("lbu", oracle="olh", buckets=3, collision=F(1, 3), d=5)
    assert methods.probabilities(olh, 16) == (F(1, 2), F(1, 3))
    assert methods.variance(olh, 16, 4) == F(2, 9) * 36 / 4 + F(1, 6) * 6 / (5 * 4)


def test_dissimilarity_by_hand():
    """Estimates (1, 0) of (3, 1); from (0, 0) that is 1/2 less 3/16, from itself -3/16."""
    setting = make_setting("lbd")
    assert methods.dissimilarity(setting, UNIT, (3, 1), 4, (F(0), F(0))) == F(1, 2) - F(3, 16)
    assert methods.dissimilarity(setting, UNIT, (3, 1), 4, (F(1), F(0))) == -F(3, 16)


def test_estimates_are_not_clipped_first():
    """All four answers for value 0: the estimate is (3/2, -1/2), and 5/4 off from nothing."""
    setting = make_setting("lbd")
    assert methods.estimate(setting, UNIT, (4, 0), 4) == (F(3, 2), F(-1, 2))
    assert methods.dissimilarity(setting, UNIT, (4, 0), 4, (F(0), F(0))) == F(5, 4) - F(3, 16)


@pytest.mark.parametrize(("oracle", "buckets"), [("grr", 0), ("oue", 0), ("olh", 2)])
def test_dissimilarity_is_unbiased(oracle: str, buckets: int):
    """Two devices with a 0, one with a 1: enumerate what they may support.

    OLH with an ideal hash: another value is supported by 1 of `buckets`, independently.
    """
    setting = make_setting("lbd", oracle=oracle, buckets=buckets, collision=F(1, 2), scale=5)
    p, q = methods.probabilities(setting, UNIT)
    release = (F(1, 3), F(3, 4))
    laws = {(0, 0): F(1)}
    for value in (0, 0, 1):
        each: dict[tuple[int, int], F] = {}
        for (a, b), chance in laws.items():
            for x in (0, 1):
                for y in (0, 1):
                    if oracle == "grr":
                        share = F(0) if x == y else p if (x, y)[value] else q
                    else:
                        on = (p, q) if value == 0 else (q, p)
                        share = (on[0] if x else 1 - on[0]) * (on[1] if y else 1 - on[1])
                    key = (a + x, b + y)
                    each[key] = each.get(key, F(0)) + chance * share
        laws = each
    assert sum(laws.values()) == 1
    mean = sum(
        chance * methods.dissimilarity(setting, UNIT, counts, 3, release)
        for counts, chance in laws.items()
    )
    assert mean == ((F(2, 3) - release[0]) ** 2 + (F(1, 3) - release[1]) ** 2) / 2


# Methods ----------------------------------------------------------------------------------------


def test_lbu_by_hand():
    """Two units in each step, each a publication."""
    steps = run(make_setting("lbu"), "PPaP")
    assert asked(steps) == [[2], [2], [2], [2]]
    assert [step.release for step in steps] == [(1, 0), (0, 1), (0, 1), (1, 0)]
    assert all(step.published and step.dis is None and step.err is None for step in steps)


def test_lsp_by_hand():
    """All six units of three steps at once; a silent step keeps the release and its turn."""
    steps = run(make_setting("lsp"), "PPPPPP0PPP")
    assert asked(steps) == [[6], [], [], [6], [], [], [6], [], [], [6]]
    assert [step.published for step in steps] == [x == "1" for x in "1001000001"]
    assert steps[5].release == steps[8].release == (0, 1)


def test_lpu_by_hand():
    """A third of 100 users in each step, of whom one is left over, who spend all six units."""
    steps = run(make_setting("lpu"), "P0P")
    assert asked(steps) == [[33], [33], [34]]
    assert {query.spend for step in steps for query in step.asked} == {6 * UNIT}
    assert [step.release for step in steps] == [(1, 0), (1, 0), (0, 1)]
    assert asked(run(make_setting("lpu"), "PPPPP", users=2)) == [[], [1], [1], [], [1]]


def test_lbd_by_hand():
    """Parts of half a unit, three units: half of 6 is 3; of 3, 1; of 2, 1; then the 3 come back.

    Then 1 + 1 are spent of the last two steps: half of 4; then 1 + 2: half of 3.
    """
    steps = run(make_setting("lbd"), "PPPPP")
    assert [step.parts for step in steps] == [3, 1, 1, 2, 1]
    assert [step.asked[0] for step in steps] == [Asked(0, UNIT, None)] * 5
    assert [step.asked[1].spend for step in steps] == [12, 4, 4, 8, 4]


def test_lbd_recycles_after_w_steps():
    """The first step's 3 parts are still spent in the third (half of 3 is 1), not in the fourth.

    A spend of 1 part lies once in four, one of more once in ten: err tells them apart.
    """
    thresholds = {part * UNIT // 2: 5 if part == 1 else 2 for part in range(1, 13)}
    steps = run(make_setting("lbd", thresholds=thresholds, scale=20), "PaaaP")
    one, more = F(3, 16) / F(1600, 4), F(9, 100) / (1600 * F(16, 25))
    assert [step.err for step in steps] == [more, one, one, more, more]
    assert [step.parts for step in steps] == [3, 0, 0, 0, 3]


def test_lbd_with_nothing_left_approximates():
    """w = 4 in whole units: 2, then 1, then half of 1 is none: err is not even defined."""
    steps = run(make_setting("lbd", w=4, grid=1), "PPPPP")
    assert [step.parts for step in steps] == [2, 1, 0, 0, 1]
    assert [step.err is None for step in steps] == [False, False, True, True, False]
    assert steps[2].dis == F(1) - F(3, 6400)
    assert steps[2].release == steps[1].release


def test_lba_by_hand():
    """One unit a step when every step publishes.

    Step 1 publishes with 1. Nothing for two steps: step 4 has 3, and pays back in 5 and 6. Step 7
    has 1 again, step 11 no more than w although four steps were saved up.
    """
    assert [step.parts for step in run(make_setting("lba"), "PPPP")] == [1, 1, 1, 1]
    steps = run(make_setting("lba"), "PaaPPPPaaaPPPP")
    assert [step.parts for step in steps] == [1, 0, 0, 3, 0, 0, 1, 0, 0, 0, 3, 0, 0, 1]
    assert [step.err is None for step in steps] == [x == "1" for x in "00001100000110"]
    assert [step.asked[0] for step in steps] == [Asked(0, UNIT, None)] * 14
    assert steps[3].asked[1] == Asked(1, 3 * UNIT, None)
    assert steps[5].release == steps[3].release


def test_lba_saves_up_from_the_first_step():
    """Step 1 has 1 unit, step 2 has 2, with nothing published so far."""
    steps = run(make_setting("lba"), "0PPP")
    assert [step.parts for step in steps] == [0, 2, 0, 1]


def test_lpd_by_hand():
    """100 users, w = 3: 16 for the dissimilarity, of the 50 for publications half, 25.

    Then half of 50 - 25, of 50 - 37, and as the 25 are back, of 50 - 18, of 50 - 22.
    """
    steps = run(make_setting("lpd"), "PPPPP")
    assert asked(steps) == [[16, 25], [16, 12], [16, 6], [16, 16], [16, 14]]
    assert {query.spend for step in steps for query in step.asked} == {6 * UNIT}
    assert [step.err for step in steps][:2] == [F(3, 100), F(3, 48)]


def test_lpd_recycles_after_w_steps():
    """25 users published in step 1; steps 2 and 3 have (50-25)/2, step 4 has 25 again."""
    steps = run(make_setting("lpd"), "PaaaP")
    assert [step.err for step in steps] == [F(3, 100), F(3, 48), F(3, 48), F(3, 100), F(3, 100)]
    odd = run(make_setting("lpd"), "PP", users=31)
    assert asked(odd) == [[5, 7], [5, 4]]


def test_lpd_has_least_users():
    steps = run(make_setting("lpd", least_users=8), "PPPPP")
    assert [step.parts for step in steps] == [25, 12, 0, 19, 15]


def test_lpa_by_hand():
    """100 users, w = 3: a unit is 16 users; the units are those of LBA."""
    steps = run(make_setting("lpa"), "PaaPPPPaaaPPPP")
    assert [step.parts for step in steps] == [1, 0, 0, 3, 0, 0, 1, 0, 0, 0, 3, 0, 0, 1]
    assert [query.users for query in steps[3].asked] == [16, 48]
    assert steps[3].err == F(3, 4 * 48)


def test_nobody_is_asked_while_resting():
    """When users are lost: of 100, 16 + 25 are asked, of 60 then 10 + (60/2 - 25) / 2.

    Of 40 these 53 are more than all. Then the 41 have rested: 6, and (40/2 - 2) / 2. In the last
    step 15 rest: of 22, 3 are asked, and of the 4 left over 22/2 - 9, halved: 1.
    """
    current = iter([(400, 0), (0, 400)] * 9)
    steps = methods.run(
        make_setting("lpd"), [100, 60, 40, 40, 22], lambda number, query: (next(current), 400)
    )
    assert asked(steps) == [[16, 25], [10, 2], [], [6, 9], [3, 1]]
    assert steps[1].err == F(3, 8)
    more = methods.run(make_setting("lpd"), [100, 44], lambda number, query: (next(current), 400))
    assert asked(more) == [[16, 25], [3]]
    silent = run(make_setting("lpd"), "00", users=100)
    steps = [methods.lpd(make_setting("lpd"), silent, 40, lambda query: ((9, 0), 9))]
    assert asked(steps) == [[6, 2]]


def test_too_few_users_for_a_group_approximate():
    """5 users, w = 3: no group for the dissimilarity."""
    for method in ("lpd", "lpa"):
        steps = run(make_setting(method), "PP", users=5)
        assert [(step.asked, step.dis, step.parts) for step in steps] == [((), None, 0)] * 2


@pytest.mark.parametrize("method", ["lbd", "lba", "lpd", "lpa"])
def test_what_nobody_answers(method: str):
    """Without a dissimilarity nothing is decided; a silent publication is spent all the same."""
    setting = make_setting(method)
    steps = run(setting, "P0-aaP")
    assert [step.published for step in steps] == [True, False, False, False, False, True]
    assert [len(step.asked) for step in steps] == [2, 1, 2, 1, 1, 2]
    assert (steps[1].dis, steps[1].err, steps[1].parts) == (None, None, 0)
    assert steps[2].release == steps[0].release
    assert steps[2].parts == {"lbd": 1, "lba": 2, "lpd": 12, "lpa": 2}[method]
    assert steps[5].parts == {"lbd": 3, "lba": 2, "lpd": 25, "lpa": 2}[method]


def test_a_tie_approximates():
    """12 answers: V = 1/16 each. From (0, 1/2) to (1/2, 1/2): dis = 1/8 - 1/16."""
    setting = make_setting("lbd")
    for release, published in ((F(0), False), (F(-1, 100), True)):
        past = [Step((), (), None, None, 0, True, (release, F(1, 2)))]
        step = methods.lbd(setting, past, 12, lambda query: ((6, 6), 12))
        assert (step.err, step.published) == (F(1, 16), published)
        assert (step.dis == F(1, 16)) != published


# Windows ----------------------------------------------------------------------------------------


def every_script(setting: Setting, length: int, users: int) -> list[list[Step]]:
    """All ways to publish or not in `length` steps."""
    return [
        run(setting, "".join("Pa"[choice >> t & 1] for t in range(length)), users)
        for choice in range(1 << length)
    ]


LARGEST = {
    "lbu": lambda w, grid: 2 * w * UNIT,
    "lsp": lambda w, grid: 2 * w * UNIT,
    "lba": lambda w, grid: 2 * w * UNIT,
    # Half of one part is none, so the last part is left over.
    "lbd": lambda w, grid: 2 * w * UNIT - UNIT // grid,
}


@pytest.mark.parametrize("method", LARGEST)
@pytest.mark.parametrize("w", [2, 3, 4])
def test_windows_reach_what_they_may_spend(method: str, w: int):
    """2w units, of them w for publications; every way to decide in 2w steps."""
    grid = {2: 1, 3: 1, 4: 2}[w]
    setting = make_setting(method, w=w, grid=grid)
    runs = every_script(setting, 2 * w, 24)
    largest = max(max(methods.window_sums(steps, w)) for steps in runs)
    assert largest == LARGEST[method](w, grid)


@pytest.mark.parametrize("method", ["lpu", "lpd", "lpa"])
@pytest.mark.parametrize(("w", "users"), [(2, 8), (3, 12), (3, 17), (4, 24)])
def test_nobody_is_asked_twice_within_w_steps(
    method: str, w: int, users: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(methods, "rested", lambda setting, past, users: users)
    largest = 0
    for steps in every_script(make_setting(method, w=w), 2 * w, users):
        sums = methods.window_users(steps, w)
        assert max(sums) <= users
        largest = max(largest, *sums)
        pool, resting, last = list(range(users)), [], {}
        for t, step in enumerate(steps):
            groups = [query.users or 0 for query in step.asked]
            for group in methods.take(pool, resting, groups, w):
                assert all(t - last.get(user, -w) >= w for user in group)
                last |= dict.fromkeys(group, t)
    if users % (2 * w) == 0:
        assert largest >= users - (method == "lpd")


def early(setting: Setting, past: list[Step]) -> int:
    """Fault: what was spent w-1 steps ago is free again."""
    first = max(0, len(past) - (setting.w - 2))
    return sum(step.parts for step in past[first:])


def forgetful(setting: Setting, past: list[Step]) -> int:
    """Fault: nothing is paid back."""
    last = max((number for number, step in enumerate(past, 1) if step.parts), default=0)
    return min(len(past) + 1 - last, setting.w)


@pytest.mark.parametrize(
    ("method", "name", "fault"),
    [
        ("lbd", "recently", early),
        ("lpd", "recently", early),
        ("lba", "absorbed", forgetful),
        ("lpa", "absorbed", forgetful),
    ],
)
def test_windows_show_a_fault(
    method: str, name: str, fault: Callable, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(methods, name, fault)
    monkeypatch.setattr(methods, "rested", lambda setting, past, users: users)
    setting = make_setting(method, w=4)
    runs = every_script(setting, 8, 24)
    if method.startswith("lp"):
        assert max(max(methods.window_users(steps, 4)) for steps in runs) > 24
    else:
        assert max(max(methods.window_sums(steps, 4)) for steps in runs) > 8 * UNIT
