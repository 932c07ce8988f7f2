"""An audit of rounds: servers of every greed against the device's own code, and what they guess.

See hostile for what they do. Where a value out of d is guessed right with probability p, the
answers gave away at least ln(p (d - 1) / (1 - p)): Bayes' rule with a uniform prior.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinyldp.audit.attack import CONFIDENCE
from tinyldp.audit.hostile import GREEDS, recover, write_growth
from tinyldp.audit.intervals import lower
from tinyldp.certify import certify
from tinyldp.errors import UserError
from tinyldp.figures import counted
from tinyldp.simulate.pictures import check_picture
from tinyldp.study import METHOD_TITLES
from tinyldp_protocol.task import Task

_DEVICES = 1000
_FEWEST, _MOST = 100, 100_000
WINDOWS = 4


@dataclass(frozen=True)
class Siege:
    """What servers of one greed guessed, of every window, and of the window they did best in.

    epsilon_lower: what any one window gave away at least. growth: the share of the values
    that was guessed right from the first 1, 2, ... windows together.
    """

    greed: str
    best_window: float
    epsilon_lower: float
    growth: tuple[float, ...]


@dataclass(frozen=True)
class RoundAudit:
    """Lower bounds on what a window gives away, beside the certificate's upper one.

    bound: the share of values that no guess from one window exceeds, but by chance. held:
    no lower bound exceeds the certificate.
    """

    task_id: str
    mechanism: str
    lane: str
    devices: int
    windows: int
    confidence: float
    epsilon: float
    epsilon_lower: float
    bound: float
    sieges: tuple[Siege, ...]
    seconds: float

    @property
    def held(self) -> bool:
        return self.epsilon_lower <= self.epsilon

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "held": self.held}


def audit_rounds(
    task: Task,
    devices: int | None = None,
    confidence: float = CONFIDENCE,
    progress: Callable[[int, int], None] | None = None,
    picture: str | Path | None = None,
    seed: int = 0,
) -> RoundAudit:
    """Besiege `devices` devices with each greed for WINDOWS windows.

    confidence: of all lower bounds together. picture: of the growth over the windows, for
    the greed that guesses best. seed: of the values and the devices' randomness. Raises
    UserError unless the Task has a method.
    """
    if not 0 < confidence < 1:
        raise UserError(f"The confidence must lie between 0 and 1, but is {confidence}.")
    devices = devices or _DEVICES
    if not _FEWEST <= devices <= _MOST:
        raise UserError(
            f"An audit of rounds takes {_FEWEST} to {_MOST:,} devices, not {devices:,}."
        )
    if picture is not None:
        check_picture(picture)
    began = time.monotonic()
    certificate = certify(task)
    recovered = []
    for number, greed in enumerate(GREEDS):

        def done(n: int, all_: int, before: int = number * devices) -> None:
            if progress:
                progress(before + n, len(GREEDS) * all_)

        recovered.append(recover(task, devices, WINDOWS, seed=seed, greed=greed, progress=done))
    wrong = (1 - confidence) / sum(len(one.windows) for one in recovered)
    sieges = []
    for greed, one in zip(GREEDS, recovered, strict=True):
        right = lower(one.windows, devices, wrong).max()
        odds = float(right * (task.symbols - 1) / (1 - right))
        sieges.append(
            Siege(
                greed=greed,
                best_window=float(one.windows.max() / devices),
                epsilon_lower=max(0.0, float(np.log(odds))),
                growth=tuple((one.growth / devices).tolist()),
            )
        )
    if picture is not None:
        write_growth(max(recovered, key=lambda one: one.growth[-1]), picture)
    assert task.method is not None
    return RoundAudit(
        task_id=task.id.hex(),
        mechanism=METHOD_TITLES[task.method].lower(),
        lane="cpython",
        devices=devices,
        windows=WINDOWS,
        confidence=confidence,
        epsilon=float(certificate.epsilon),
        epsilon_lower=max(siege.epsilon_lower for siege in sieges),
        bound=recovered[0].bound(),
        sieges=tuple(sieges),
        seconds=round(time.monotonic() - began, 1),
    )


def text_round_audit(result: RoundAudit) -> str:
    """The audit as a table for people."""
    windows = "".join(f"{counted(k, 'window'):>12}" for k in _counts(result))
    lines = [
        f"Audit of Task {result.task_id} ({result.mechanism}) on the lane {result.lane}: "
        f"{result.devices:,} devices under each siege, {result.seconds:g} s.",
        "",
        f"{'asks':<12}{'epsilon at least':>18}{'best window':>14}{windows}",
    ]
    lines += [
        f"{siege.greed:<12}{siege.epsilon_lower:>18.4f}{siege.best_window:>14.1%}"
        + "".join(f"{share:>12.1%}" for share in siege.growth)
        for siege in result.sieges
    ]
    lines += [
        f"{'certified':<12}{result.epsilon:>18.4f}{result.bound:>14.1%}",
        "",
        "Each device holds one value throughout, and the server asks for more than it may have.",
        "Shares are of values that are guessed right: under “best window” from the answers of the",
        "one window that tells the most, under “1 window”, “2 windows”, ... from those of all",
        "windows up to then together, which may tell more and more: the budget is for any one",
        "window, not for all of them. Lower bounds (Clopper-Pearson) are right with a confidence",
        f"of {result.confidence:.12g}, together.",
        "",
        "The certificate stands." if result.held else "THE DEVICE BREAKS ITS CERTIFICATE.",
    ]
    return "\n".join(lines)


def _counts(result: RoundAudit) -> range:
    return range(1, result.windows + 1)
