"""How soon a change of a study's stream is found: the epoch of the update that follows.

At epoch t a device votes if its sum has moved from its reference's by more than the level
whose votes count at t. Of Thresh both are binomial, here normal, so that near a level some devices
vote and some do not; of HeavyThresh all are taken to see the same change. Who votes in vain has a
vote less for the next time.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from tinyldp.planning import epochs
from tinyldp.planning.epochs import Change
from tinyldp.study import Study
from tinyldp_protocol.task import Task

# Equal parts of the devices, by how their references came out.
_PARTS = 32
# Of an update, for a change to be called found.
_LEAST_CHANCE = 0.5
_NEVER = 1e-9


def expected_delay(
    study: Study,
    task: Task,
    change: Change,
    votes: int,
    share: float = 1.0,
    means: tuple[float, float] | None = None,
) -> float | None:
    """Epochs from a change to its update, on average of where one follows while it lasts.

    votes: that each device has left. share: of the devices, which the change is one of. means:
    before and after it, None for HeavyThresh. None where an update is less likely than not.
    """
    assert study.devices is not None
    seen = _shares(study, task, change, means)
    left = np.zeros((_PARTS, votes + 1))
    left[:, votes] = 1
    waiting, found, late = 1.0, 0.0, 0.0
    for t in range(change.at, change.until + 1):
        twos = (t & -t).bit_length() - 1
        voting = seen[max(0, len(seen) - 1 - twos)]
        voters = float((voting * (1 - left[:, 0])).mean()) * share * study.devices
        if voters >= 1:
            now = waiting * epochs.update_chance(study, task.thresholds[0], voters)
            waiting -= now
            found += now
            late += now * (t - change.at)
        used = left[:, 1:] * voting[:, None]
        left[:, 1:] -= used
        left[:, :-1] += used
        if waiting < _NEVER:
            break
    return late / found if found >= _LEAST_CHANCE else None


def _shares(
    study: Study, task: Task, change: Change, means: tuple[float, float] | None
) -> list[np.ndarray]:
    """For each level, the share of each part of the devices that moves by more."""
    moved = change.size * epochs.scale(study)
    if means is None:
        return [np.full(_PARTS, float(moved > level)) for level in task.levels]
    # Sums are binomial, of so many trials.
    before, after = ((epochs.most(study) * mean * (1 - mean)) ** 0.5 for mean in means)
    law = NormalDist()
    middles = [moved + before * law.inv_cdf((i + 0.5) / _PARTS) for i in range(_PARTS)]
    if not after:
        return [np.array([float(abs(m) > level) for m in middles]) for level in task.levels]
    return [
        np.array([law.cdf((m - level) / after) + law.cdf((-m - level) / after) for m in middles])
        for level in task.levels
    ]
