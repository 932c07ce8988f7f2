"""What a simulation found."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.certify.bounds import float_up
from tinyldp.certify.epochs import lifetime_loss
from tinyldp.coordinate import Decision
from tinyldp.coordinate.epochs import EpochDecision
from tinyldp.crr.lp import losses_of
from tinyldp.crr_study import LOSS_NAMES, RULE_NAMES
from tinyldp.estimate.crr import Population
from tinyldp.estimate.heavy import Frequencies
from tinyldp.planning.krr import krr_loss
from tinyldp.study import EPSILON_UNIT, MECHANISMS, METHODS
from tinyldp_protocol.task import SCALE, Task

Array = npt.NDArray[Any]

# How the reports of an oracle's round are drawn.
ONE_BY_ONE = "device by device"
AGGREGATE = "aggregate"
# The stream of CRR that is the Task's own chain.
MODEL = "model"
# Relative errors are of this share at least.
_FLOOR = 0.001


@dataclass(frozen=True)
class Simulation:
    """devices that took steps each, in seconds of wall-clock time; the same seed, the same rest.

    notes: sentences on what was simulated, where that is not what one may think.
    """

    task: Task
    devices: int
    steps: int
    seed: int
    seconds: float
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def device_steps_per_second(self) -> float:
        return self.devices * self.steps / max(self.seconds, 1e-9)

    def to_json(self) -> dict[str, Any]:
        return {
            "task_id": self.task.id.hex(),
            "devices": self.devices,
            "steps": self.steps,
            "seed": self.seed,
            "seconds": self.seconds,
            "device_steps_per_second": self.device_steps_per_second,
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class StreamSimulation(Simulation):
    """A fleet's displacements, in steps: index of release minus index of arrival.

    offsets: (m,) ascending, without holes. counts: (m,) how often each occurred.
    inner: (m,) the same without the ends of the segment, where the law does not hold.
    expected: E|displacement| by the exact law, or None when there is none at hand.
    arrived, released: (steps,) the fleet's mean symbol, as it came in and as released.
    """

    offsets: Array
    counts: Array
    inner: Array
    expected: float | None
    arrived: Array
    released: Array

    @property
    def mean_displacement(self) -> float:
        """Mean of |displacement| of all values, the ends of the segment included."""
        return float(np.abs(self.offsets) @ self.counts / self.counts.sum())

    @property
    def max_delay(self) -> int:
        """The largest displacement that occurred; negative ones are no delay."""
        return max(0, int(self.offsets[-1]))

    def to_json(self) -> dict[str, Any]:
        return {
            **super().to_json(),
            "mean_displacement": self.mean_displacement,
            "expected_displacement": self.expected,
            "max_delay": self.max_delay,
        }


@dataclass(frozen=True)
class OracleSimulation(Simulation):
    """Rounds of estimates of one population's frequencies.

    truth: (d,) the fleet's frequencies. estimates: (d,) of the first round, within low
    and high: (d,) of `confidence`. mse: mean squared error over all rounds and values;
    expected_mse: what the integers of the Task promise. method: ONE_BY_ONE or AGGREGATE.
    """

    truth: Array
    estimates: Array
    low: Array
    high: Array
    confidence: float
    mse: float
    expected_mse: float
    method: str

    def to_json(self) -> dict[str, Any]:
        return {
            **super().to_json(),
            "method": self.method,
            "mse": self.mse,
            "expected_mse": self.expected_mse,
        }


@dataclass(frozen=True)
class RoundSimulation(Simulation):
    """A method's releases of a whole stream, of this source.

    truth: (steps, d) the fleet's frequencies. decisions: one for each step. drawn:
    ONE_BY_ONE or AGGREGATE. cfpu: answers over devices and steps; expected_cfpu: by the
    formula. expected_mse: what is derived for LBU, LSP and LPU (see theory), else None.
    max_window_spend: of any device in any w consecutive steps, ledger units. refused:
    queries that a device's own ledger would not answer; 0 unless the host asks for too much.
    """

    source: str
    truth: Array
    decisions: tuple[Decision, ...]
    drawn: str
    answers: int
    expected_cfpu: float
    expected_mse: float | None
    max_window_spend: int
    refused: int

    @property
    def estimates(self) -> Array:
        """(steps, d) what was released."""
        return np.array([decision.release for decision in self.decisions])

    @property
    def mse(self) -> float:
        """Mean over steps and values of the squared error."""
        return float(np.square(self.estimates - self.truth).mean())

    @property
    def mre(self) -> float:
        """Mean over steps and values of |error| / max(truth, 0.001)."""
        return float((np.abs(self.estimates - self.truth) / np.maximum(self.truth, _FLOOR)).mean())

    @property
    def publications(self) -> int:
        return sum(decision.published for decision in self.decisions)

    @property
    def cfpu(self) -> float:
        return self.answers / (self.devices * self.steps)

    def to_json(self) -> dict[str, Any]:
        """max_window_spend is in epsilon: 1.0 is a loss of epsilon = 1."""
        assert self.task.epsilon is not None
        return {
            **super().to_json(),
            "method": _name(METHODS, self.task.method),
            "source": self.source,
            "oracle": _name(MECHANISMS, self.task.mechanism),
            "epsilon": self.task.epsilon / EPSILON_UNIT,
            "w": self.task.w,
            "mse": self.mse,
            "expected_mse": self.expected_mse,
            "mre": self.mre,
            "publications": self.publications,
            "cfpu": self.cfpu,
            "expected_cfpu": self.expected_cfpu,
            "max_window_spend": self.max_window_spend / EPSILON_UNIT,
            "refused": self.refused,
            "drawn": self.drawn,
        }


@dataclass(frozen=True)
class EpochSimulation(Simulation):
    """Thresh or HeavyThresh over a Task's epochs, devices * steps of their steps.

    decisions: one for each epoch. truth, published: (epochs, k) what the fleet held and what
    stood; k = 1, the mean of 0..1, or for HeavyThresh the frequencies of `items`: (k,), those
    that occur, else None. lives: (epochs, 2) votes and estimates that a device has left, on
    average. found: HeavyThresh: the heavy hitters of each update.
    """

    decisions: tuple[EpochDecision, ...]
    truth: Array
    published: Array
    lives: Array
    items: Array | None
    found: tuple[Frequencies, ...]

    @property
    def updates(self) -> tuple[int, ...]:
        """The epochs with a new estimate."""
        return tuple(decision.t for decision in self.decisions if decision.published)

    @property
    def mean_error(self) -> float:
        """Mean over epochs (and items) of |published - truth|."""
        return float(np.abs(self.published - self.truth).mean())

    @property
    def max_error(self) -> float:
        return float(np.abs(self.published - self.truth).max())

    @property
    def votes_left(self) -> float:
        """Of a device at the end, on average; estimates_left likewise."""
        return float(self.lives[-1, 0])

    @property
    def estimates_left(self) -> float:
        return float(self.lives[-1, 1])

    @property
    def certified_epsilon(self) -> float:
        """What the Task's whole life costs a device, whatever it says (see certify)."""
        return float_up(lifetime_loss(self.task))

    def to_json(self) -> dict[str, Any]:
        result = {
            **super().to_json(),
            "mechanism": _name(MECHANISMS, self.task.mechanism),
            "epochs": len(self.decisions),
            "updates": len(self.updates),
            "updated": list(self.updates),
            "mean_error": self.mean_error,
            "max_error": self.max_error,
            "votes_left": self.votes_left,
            "estimates_left": self.estimates_left,
            "certified_epsilon": self.certified_epsilon,
            "outcomes": [decision.outcome for decision in self.decisions],
        }
        polls = [decision for decision in self.decisions if decision.poll is not None]
        if polls:
            result["polls"] = [_poll(decision) for decision in polls]
        if self.items is None:
            result["published"] = self.published[:, 0].tolist()
            result["truth"] = self.truth[:, 0].tolist()
        else:
            pairs = zip(self.updates, self.found, strict=True)
            result["heavy_hitters"] = [_hitters(t, found) for t, found in pairs]
        return result


@dataclass(frozen=True)
class CrrSimulation(Simulation):
    """Conditional randomized response on a stream of this source.

    pairs: (steps, n, n) shares of the devices that had a value, and released a symbol.
    leakage, largest: (steps,) nats that a release told of some value, of a device on average and
    at most; most: (steps,) the largest sum of a device's so far. original, released, guessed:
    (devices, steps) of the first devices: what they measured and released, and the value of least
    expected loss given all that they released. shares: those devices' estimated shares of values.
    Both are None where nothing was smoothed.
    """

    source: str
    pairs: Array
    leakage: Array
    largest: Array
    most: Array
    original: Array
    released: Array
    guessed: Array | None
    shares: Population | None

    @property
    def epsilon(self) -> float:
        """What a step (of blocks: a block) tells at most: -ln q.

        That is against the device's belief, by a table against what was known before it.
        """
        return -math.log(self.task.thresholds[0] / SCALE)

    @property
    def total_bound(self) -> float:
        """What all releases of a device tell at most, in the same way."""
        return self.epsilon * -(-self.steps // (self.task.block or 1))

    @property
    def losses(self) -> Array:
        """(steps,) the mean loss."""
        return np.tensordot(self.pairs, self._costs, 2)

    @property
    def mean_loss(self) -> float:
        return float(self.losses.mean())

    @property
    def truth(self) -> Array:
        """(steps, n) shares of the values; told: of the released symbols."""
        return self.pairs.sum(axis=2)

    @property
    def told(self) -> Array:
        return self.pairs.sum(axis=1)

    def response_loss(self, epsilon: float) -> float:
        """The expected loss of k-RR on the same values, with this epsilon for each of them."""
        return krr_loss(self.truth.mean(axis=0), epsilon, self._costs)

    @property
    def sample_loss(self) -> float:
        """Mean loss of the first devices, as released; smoothed_loss: as guessed afterwards."""
        return float(self._costs[self.original, self.released].mean())

    @property
    def smoothed_loss(self) -> float | None:
        if self.guessed is None:
            return None
        return float(self._costs[self.original, self.guessed].mean())

    @property
    def _costs(self) -> Array:
        return losses_of(self.task)

    def to_json(self) -> dict[str, Any]:
        """Losses are means of a step, leakages in nats; krr_loss is k-RR's with the same epsilon
        for each value, krr_double_loss with twice that, which CRR guarantees without its model.
        """
        return {
            **super().to_json(),
            "mechanism": _name(MECHANISMS, self.task.mechanism),
            "source": self.source,
            "rule": RULE_NAMES[self.task.rule],
            "loss": LOSS_NAMES[self.task.loss],
            "epsilon": self.epsilon,
            "mean_loss": self.mean_loss,
            "krr_loss": self.response_loss(self.epsilon / (self.task.block or 1)),
            "krr_double_loss": self.response_loss(2 * self.epsilon / (self.task.block or 1)),
            "mean_leakage": float(self.leakage.mean()),
            "max_leakage": float(self.largest.max()),
            "max_total_leakage": float(self.most[-1]),
            "total_bound": self.total_bound,
            "learned": None if self.shares is None else float(self.shares.learned[-1]),
            "smoothed_devices": len(self.original),
            "smoothed_loss": self.smoothed_loss,
            "released_loss": self.sample_loss,
        }


def _poll(decision: EpochDecision) -> dict[str, Any]:
    poll = decision.poll
    assert poll is not None
    return {"t": decision.t, "with_votes": poll.mean, "low": poll.low, "high": poll.high}


def _hitters(t: int, found: Frequencies) -> dict[str, Any]:
    return {
        "t": t,
        "items": found.items.tolist(),
        "frequencies": found.frequencies.tolist(),
        "low": found.low.tolist(),
        "high": found.high.tolist(),
        "error": found.error,
        "confidence": found.confidence,
    }


def _name(names: dict[str, int], number: int | None) -> str:
    return next(name for name, its in names.items() if its == number)
