"""What error and communication the methods of LDP-IDS should have, from the Task's integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.coordinate import Decision, entry_task
from tinyldp.estimate import expected_variance
from tinyldp_protocol.task import LBA, LBD, LBU, LPU, LSP, Task

Array = npt.NDArray[Any]


def expected_mse(task: Task, counts: Array) -> float | None:
    """Expected MSE, given what the fleet held: (steps, d) counts. None for adaptive methods.

    V(n) is the variance of an estimate from n answers (estimate.report_variance), N the
    number of devices, c_t the frequencies at step t. All devices answer.

    LBU  V(N).
    LSP  V(N) + mean over t and k of (c_t - c_l)^2 with l the last sample before t or at it:
         the drift between publications. (The noise of a sample is independent of it, so
         there is no mixed term.)
    LPU  mean over t of V(n_t) + (N - n_t) / ((N - 1) n_t) * (1 - sum_k c_k^2) / d: a group of
         n_t differs from all N, from which it is taken without replacement, by the
         hypergeometric variance. None when a group is empty, or where groups are not like
         samples (series that devices play, see sources, are random by group only).
    """
    devices = int(counts[0].sum())
    if task.method not in (LBU, LSP, LPU):
        return None
    oracle = entry_task(task, 0)
    assert task.w is not None
    truth = counts / devices
    if task.method == LBU:
        return expected_variance(oracle, devices)
    steps = np.arange(len(counts))
    if task.method == LSP:
        drift = np.square(truth - truth[steps - steps % task.w]).mean()
        return expected_variance(oracle, devices) + float(drift)
    sizes = (steps + 1) * devices // task.w - steps * devices // task.w
    if not sizes.all():
        return None
    noise = expected_variance(oracle, 1) / sizes
    spread = (1 - np.square(truth).sum(axis=1)) / task.symbols
    sampling = (devices - sizes) / (max(1, devices - 1) * sizes) * spread
    return float((noise + sampling).mean())


def expected_cfpu(task: Task, decisions: tuple[Decision, ...]) -> float:
    """Answers over devices and steps, if all devices answer.

    LBU 1; LSP and LPU 1/w; LBD and LBA 1 + m/T with m publications in T steps; LPD and LPA
    the sum of the devices asked over N T (LDP-IDS, communication cost). LSP's last window
    may be cut short: its ceil(T/w) / T is meant, and LPU's floor(T N / w) / (T N).
    """
    steps = len(decisions)
    devices = decisions[0].users
    assert task.w is not None
    if task.method == LBU:
        return 1.0
    if task.method == LSP:
        return -(-steps // task.w) / steps
    if task.method == LPU:
        return steps * devices // task.w / (steps * devices)
    if task.method in (LBD, LBA):
        return 1 + sum(decision.published for decision in decisions) / steps
    asked = sum(decision.dissimilarity_users + decision.publication_users for decision in decisions)
    return asked / (steps * devices)
