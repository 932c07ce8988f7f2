"""The series behind CRR's releases: posteriors, shares and their intervals, and what was told.

Coverage is tested beside intervals of 0.7 and of 1.3 times the width, which must fail.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from tests.crr_tasks import random_crr, sticky, threshold
from tests.faults import planted
from tests.simulating import FALSE_ALARM, make_task, played, random_words
from tinyldp.crr.beliefs import Beliefs
from tinyldp.crr.blocks import BlockBeliefs
from tinyldp.crr.couplings import stored
from tinyldp.errors import UserError
from tinyldp.estimate import crr
from tinyldp.estimate.crr import Population, decode, population
from tinyldp.simulate.chains import Chain
from tinyldp.simulate.crr import CrrFleet, make_fleet
from tinyldp.simulate.words import DrawnWords
from tinyldp_device.blocks import NOWHERE, BlockCoupling
from tinyldp_device.coupling import BELIEF, Coupling
from tinyldp_protocol.task import CRR_BATCH, RANSWITCH, SCALE, Task

# Alike in all: none of its beliefs has a rare value, so that every kernel can be inverted.
LOOSE = sticky(3, 1.5, 0.45)
STICKY = sticky(3, 1.5, 0.85)
# Groups of devices, each with intervals of its own.
GROUPS, SIZE = 300, 60
AT = [4, 9, 14, 19, 24]
STEPS = 26


def series(task: Task, n: int, steps: int, seed: int, model: Task | None = None) -> tuple:
    """(n, steps) values that follow the model's chain, and what the Task's devices release."""
    first, second = np.random.SeedSequence(seed).spawn(2)
    chain = Chain(model or task, n, DrawnWords(n, first))
    fleet = CrrFleet(task, n, DrawnWords(n, second))
    values = np.array([chain.next() for _ in range(steps)])
    released = np.array([fleet.step(row)[0] for row in values])
    return values.T, released.T


def kernel_of(coupling: Coupling, q: float) -> np.ndarray:
    """M as its definition has it, from the device's own integers."""
    n = coupling.symbols
    joint = np.array(coupling.joint, dtype=float).reshape(n, n)
    marginal = np.array(coupling.marginal) / coupling.total
    told = joint / np.maximum(np.array(coupling.served), 1)[:, None]
    return np.where(np.array(coupling.served)[:, None] > 0, q * marginal + (1 - q) * told, marginal)


@pytest.mark.parametrize("seed", range(4))
def test_posteriors_are_those_of_all_paths(seed: int) -> None:
    """Against the sum over all series of values, with the device's own couplings."""
    rng = np.random.default_rng(seed)
    task = random_crr(rng, n=int(rng.integers(2, 4)))
    n, steps = task.symbols, 5
    q = task.thresholds[0] / SCALE
    coupling = Coupling(task)
    kernels, released = [], []
    for _ in range(steps):
        coupling.make()
        kernels.append(kernel_of(coupling, q))
        share = np.array(coupling.marginal) / coupling.total
        released.append(int(rng.choice(n, p=share)))
        coupling.update(released[-1])
    prior = np.array(task.prior) / 2**15
    rows = np.array(task.transitions).reshape(n, n) / 2**14
    expected = np.zeros((steps, n))
    for path in itertools.product(range(n), repeat=steps):
        chance = prior[path[0]] * np.prod([rows[a, b] for a, b in itertools.pairwise(path)])
        for step, value in enumerate(path):
            chance *= kernels[step][value, released[step]]
        expected[range(steps), path] += chance
    expected /= expected.sum(axis=1, keepdims=True)
    found = decode(task, np.array([released]))
    assert found.posterior[0] == pytest.approx(expected, abs=1e-9)
    assert (found.leakage[0] <= -np.log(q) + 1e-6).all()


@pytest.mark.parametrize("seed", range(6))
def test_posteriors_of_blocks_are_those_of_all_paths(seed: int) -> None:
    """Two whole blocks and a short one, of memory 1 to the block; a second device goes on."""
    rng = np.random.default_rng(seed)
    n, block = (2, 3) if seed % 2 else (3, 2)
    memory = 1 + seed % block
    task = random_crr(rng, n=n, block=block, memory=memory, thresholds=[threshold(3)])
    q = task.thresholds[0] / SCALE
    steps = 2 * block + 1
    coupling = BlockCoupling(task)
    tables, released = [], []
    for length in (block, block, 1):
        coupling.make(length)
        share = np.array(coupling.marginal[: coupling.count]) / BELIEF
        k = int(rng.choice(coupling.count, p=share))
        told = np.full(coupling.size, share[k])
        for x in range(coupling.size):
            if coupling.target[x] != NOWHERE:
                told[x] = q * share[k] + (1 - q) * coupling.joint(x, k) / coupling.belief[x]
        tables.append(told)
        chosen = coupling.kept[k]
        released += [chosen // n**i % n for i in reversed(range(length))]
        coupling.update(k)

    def number(symbols: tuple[int, ...]) -> int:
        return int(np.polyval(symbols, n))

    prior = np.array(task.prior) / 2**15
    rows = np.array(task.transitions).reshape(-1, n) / 2**14

    def posterior(length: int) -> np.ndarray:
        found = np.zeros((length, n))
        for path in itertools.product(range(n), repeat=length):
            chance = prior[number(path[:memory])]
            for step in range(memory, length):
                chance *= rows[number(path[step - memory : step]), path[step]]
            for told, start in zip(tables, range(0, length, block), strict=False):
                chance *= told[number(path[start : start + block])]
            found[range(length), path] += chance
        return found / found.sum(axis=1, keepdims=True)

    found = decode(task, np.array([released, released]), ended=[True, False])
    assert found.posterior[0] == pytest.approx(posterior(steps), abs=1e-9)
    assert found.posterior[1, :-1] == pytest.approx(posterior(steps - 1), abs=1e-9)
    assert np.isnan(found.posterior[1, -1]).all()
    assert found.known.sum(axis=1).tolist() == [steps, steps - 1]
    assert found.leakage[0, ::block].min() >= 0
    assert found.leakage[0].max() > 0
    assert found.leakage[0].max() <= -np.log(q) + 1e-6
    assert (np.delete(found.leakage[0], np.arange(0, steps, block)) == 0).all()


@pytest.mark.parametrize("seed", range(4))
def test_devices_of_different_length_are_decoded_as_each_alone(seed: int) -> None:
    """One with whole blocks only beside others whose last block is short."""
    rng = np.random.default_rng(seed)
    task = random_crr(rng, n=2, block=3, memory=1 + seed % 2, thresholds=[threshold(2)])
    lengths = (12, 11, 12, 10)
    symbols = np.zeros((len(lengths), 12), int)
    present = np.arange(12) < np.array(lengths)[:, np.newaxis]
    for i, length in enumerate(lengths):
        values = rng.integers(0, 2, length)
        words = random_words(rng, (1, 8 * length))[0]
        symbols[i, :length] = played(task, values, words)[0]
    together = decode(task, symbols, present, ended=True)
    for i, length in enumerate(lengths):
        alone = decode(task, symbols[i : i + 1, :length], ended=True)
        assert together.posterior[i, :length] == pytest.approx(alone.posterior[0], abs=1e-12)
        assert together.leakage[i, :length] == pytest.approx(alone.leakage[0], abs=1e-12)


def test_shares_behind_blocks() -> None:
    task = sticky(3, 1.5, 0.85)
    names = ("symbols", "loss", "thresholds", "prior", "transitions")
    task = make_task(CRR_BATCH, rule=2, block=2, **{name: getattr(task, name) for name in names})
    chain = Chain(task, 300, DrawnWords(300, np.random.SeedSequence(1)))
    values = np.array([chain.next() for _ in range(12)])
    beliefs = BlockBeliefs(task)
    fleet = make_fleet(task, 300, DrawnWords(300, np.random.SeedSequence(2)), beliefs)
    released = np.concatenate([fleet.release(values[at : at + 2])[0] for at in range(0, 12, 2)])
    found = population(task, released.T)
    truth = np.array([(values == value).mean(axis=1) for value in range(3)]).T
    # 36 errors of a normal law: none beyond 5.5, but once in a million.
    assert (np.abs(found.smoothed - truth) < 5.5 * np.sqrt(found.spreads)).all()
    assert np.isnan(found.raw).all()
    assert found.total == pytest.approx(np.cumsum(found.leakage))
    impossible = np.full((1, 2), 2)
    kept = beliefs.kept[0, : beliefs.count[0]].tolist()
    left_out = next(block for block in range(9) if block not in kept)
    impossible[0] = divmod(left_out, 3)
    with pytest.raises(UserError, match="No device can have released"):
        decode(task, impossible)


def test_smoothing_errs_less_than_what_was_released() -> None:
    values, released = series(STICKY, 400, 60, 1)
    found = decode(STICKY, released)
    assert found.posterior.shape == (400, 60, 3)
    assert np.allclose(found.posterior.sum(axis=2), 1)
    smoothed = (found.posterior.argmax(axis=2) != values).mean()
    assert smoothed < 0.8 * (released != values).mean()
    # A model that is wrong in its direction helps less: the chain matters.
    turned = sticky(3, 1.5, 0.34)
    assert smoothed < 0.8 * (decode(turned, released).posterior.argmax(axis=2) != values).mean()


def covered(found: Population, kind: str, truth: np.ndarray, width: float) -> int:
    """How many of the intervals, `width` times as wide, hold the truth."""
    middle = getattr(found, "raw" if kind == "raw" else "smoothed")
    spread = getattr(found, "variances" if kind == "raw" else "spreads")
    half = 1.959963984540054 * np.sqrt(spread)
    if kind == "raw":
        # All are counted, and many lies told: a half of a device is allowed for.
        half += 0.5 / SIZE
    return int((np.abs(middle - truth) <= width * half)[:, 0].sum())


def coverage(task: Task, model: Task, kind: str, seed: int) -> dict[float, int]:
    """Of GROUPS * len(AT) intervals of the share of value 0, by their width."""
    values, released = series(task, GROUPS * SIZE, STEPS, seed, model)
    held = dict.fromkeys((0.7, 1.0, 1.3), 0)
    beliefs = Beliefs(task)
    for group in range(GROUPS):
        part = slice(group * SIZE, (group + 1) * SIZE)
        found = population(task, released[part], steps=AT, beliefs=beliefs)
        truth = np.array([(values[part, AT] == value).mean(axis=0) for value in range(3)]).T
        low = found.low if kind == "raw" else found.smoothed_low
        high = found.high if kind == "raw" else found.smoothed_high
        assert ((low <= truth) & (truth <= high))[:, 0].sum() == covered(found, kind, truth, 1)
        for width in held:
            held[width] += covered(found, kind, truth, width)
    return held


def plausible(held: int) -> bool:
    """Whether so many of the intervals may hold the truth, at 95 % each; wrong once in 10^6.

    Steps five apart are taken as independent: so much further their errors hardly go together.
    A two-hundredth is allowed for the normal approximation.
    """
    n = GROUPS * len(AT)
    low = binom.ppf(FALSE_ALARM / 2, n, 0.945)
    high = binom.ppf(1 - FALSE_ALARM / 2, n, 0.955)
    return bool(low <= held <= high)


@pytest.mark.parametrize(
    ("task", "model", "kind"),
    [
        (LOOSE, LOOSE, "raw"),
        (LOOSE, STICKY, "raw"),
        (STICKY, STICKY, "smoothed"),
    ],
    ids=["raw", "raw, of other series", "smoothed"],
)
def test_intervals_cover(task: Task, model: Task, kind: str) -> None:
    held = coverage(task, model, kind, 5)
    assert plausible(held[1.0])
    assert not plausible(held[0.7])
    assert not plausible(held[1.3])


def test_a_fault_in_the_decoder_is_seen() -> None:
    """Intervals of half the width, on one step of many devices."""
    faulty = planted(crr, "sums.values[1] / n**2", "sums.values[1] / n**2 / 4")
    values, released = series(STICKY, 3000, 12, 6)
    found = faulty.population(STICKY, released, steps=[11])
    sound = population(STICKY, released, steps=[11])
    assert found.smoothed.tolist() == sound.smoothed.tolist()
    assert found.spreads[0, 0] == pytest.approx(sound.spreads[0, 0] / 4)
    assert abs(sound.smoothed[0, 0] - (values[:, 11] == 0).mean()) < 5 * sound.spreads[0, 0] ** 0.5


def test_series_that_do_not_follow_the_chain_are_told() -> None:
    """False alarms: 9 normal numbers beyond 5.5, once in three million."""
    _, released = series(STICKY, 2000, 40, 7)
    assert np.abs(population(STICKY, released, steps=[0]).surprise).max() < 5.5
    # As often in each state, but seldom where it was.
    other = np.array(STICKY.transitions).reshape(3, 3)[:, [1, 0, 2]].ravel().tolist()
    _, released = series(STICKY, 2000, 40, 7, sticky(3, 1.5, 0.85, transitions=other))
    found = population(STICKY, released, steps=[0])
    assert found.surprise[0, 1] > 8
    assert found.surprise[0, 0] < -8
    assert 0 < found.excess[0, 1] < 1


@pytest.mark.parametrize("blocks", [{}, {"block": 2}], ids=["steps", "blocks"])
def test_no_release_tells_more_than_is_certified_through_rounding(blocks: dict[str, int]) -> None:
    """Of all thresholds some have a logarithm that 32 bits round up."""
    reached = 0
    for share in range(200, 16200, 400):
        task = random_crr(np.random.default_rng(share), n=2, thresholds=[share << 10], **blocks)
        epsilon = -np.log(share / 2**14)
        beliefs = BlockBeliefs(task) if blocks else Beliefs(task)
        told = beliefs.leakage[0].astype(np.float64)
        assert told.max() <= epsilon
        reached += told.max() > epsilon - 1e-6
    assert reached > 10
    # What is more than rounding is not hidden.
    assert stored(np.array([1.000001]), np.exp(-1))[0] == np.float32(1.000001)


def test_what_comes_after_a_loss_is_not_used() -> None:
    _, released = series(STICKY, 4, 20, 8)
    present = np.ones((4, 20), dtype=bool)
    present[1, 7] = False
    present[2, 0] = False
    found = decode(STICKY, released, present)
    assert found.known.sum(axis=1).tolist() == [20, 7, 0, 20]
    whole = decode(STICKY, released)
    cut = decode(STICKY, released[1:2, :7])
    assert found.posterior[0].tolist() == whole.posterior[0].tolist()
    assert np.allclose(found.posterior[1, :7], cut.posterior[0])
    assert np.isnan(found.posterior[1, 7:]).all()
    assert np.isnan(found.posterior[2]).all()
    assert np.isnan(found.leakage[1, 7:]).all()
    both = population(STICKY, released, present, steps=[3, 10])
    assert both.devices.tolist() == [3, 2]
    assert np.allclose(both.smoothed[1], whole.posterior[[0, 3], 10].mean(axis=0))
    with pytest.raises(UserError, match="Of no device everything is there up to step 5"):
        population(STICKY, released[1:3, :], present[1:3] & (np.arange(20) < 5), steps=[5])


def test_totals_are_sums_of_leakages() -> None:
    _, released = series(STICKY, 50, 30, 9)
    found, each = population(STICKY, released), decode(STICKY, released).leakage
    assert np.allclose(found.leakage, each.mean(axis=0))
    assert np.allclose(found.largest, each.max(axis=0))
    assert np.allclose(found.total, np.cumsum(each, axis=1).mean(axis=0))
    assert np.allclose(found.most, np.cumsum(each, axis=1).max(axis=0))
    assert np.allclose(found.released.sum(axis=1), 1)
    gain = decode(STICKY, released).gain
    assert np.allclose(found.gain, gain.mean(axis=0))
    assert np.allclose(found.learned, np.cumsum(gain, axis=1).mean(axis=0))
    # Of the first step, by the definition.
    coupling = Coupling(STICKY)
    coupling.make()
    belief = np.array(coupling.belief) / BELIEF
    kernel = kernel_of(coupling, STICKY.thresholds[0] / SCALE)
    after = belief * kernel[:, released[0, 0]] / (belief @ kernel[:, released[0, 0]])
    assert gain[0, 0] == pytest.approx((after * np.log(after / belief)).sum(), abs=1e-6)
    # It is no more than the conditional mean that the sequence bounds rest on.
    epsilon = -np.log(STICKY.thresholds[0] / SCALE)
    assert 0 < gain.mean() < epsilon * np.tanh(epsilon / 2) + 1e-6


@pytest.mark.parametrize(
    ("released", "present", "said"),
    [
        (np.zeros((2, 0), dtype=int), None, "integers of shape"),
        (np.zeros((2, 3)), None, "integers of shape"),
        (np.full((2, 3), 3), None, "outside 0..2"),
        (np.zeros((2, 3), dtype=int), np.ones((3, 2), dtype=bool), "the shape of the released"),
    ],
)
def test_what_does_not_fit_is_refused(
    released: np.ndarray, present: np.ndarray | None, said: str
) -> None:
    with pytest.raises(UserError, match=said):
        decode(STICKY, released, present)


def test_other_mechanisms_and_steps_are_refused() -> None:
    other = make_task(RANSWITCH, window=3, k=3, symbols=3, thresholds=[1000])
    with pytest.raises(UserError, match="Only releases of CRR"):
        decode(other, np.zeros((1, 2), dtype=int))
    with pytest.raises(UserError, match=r"steps must lie in 0\.\.1"):
        population(STICKY, np.zeros((1, 2), dtype=int), steps=[2])
