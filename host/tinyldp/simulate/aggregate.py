"""Support counts of a round of reports, drawn directly: the cost does not grow with n.

A value is supported by a report that speaks for it: GRR, it is the report; OUE, its
bit is set; OLH, its hash is the reported bucket. Given how many devices hold each
value, the counts have exactly (to the rounding of floats near 2^-52) the law that they
have when every device reports on its own:

GRR  A report is the true value with 1 - d T / N and else uniform over all d values.
     So the counts are binomials of what was kept, and one multinomial of the rest.
OUE  Bits are independent: for each value a binomial of those who hold it, with 1/2,
     and one of the others, with T / N.
OLH  As OUE, with the bucket's truth and the exact chance that the reported bucket is
     another value's. Each count alone is exact. Together they are so for an ideal
     hash only: the real one, being pairwise independent, leaves a report's support
     for different values slightly dependent.

The generator is for simulation alone: no data of people is randomized here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.estimate.chances import support_chances
from tinyldp_protocol.task import GRR, SCALE, Task

Array = npt.NDArray[Any]


def supports(task: Task, counts: Array, rng: np.random.Generator) -> Array:
    """(d,) how many reports support each value.

    counts: (d,) how many devices hold each value, d = task.symbols.
    Raises ValueError for counts of another length, UserError for a mechanism that is no
    oracle.
    """
    if counts.shape != (task.symbols,):
        raise ValueError("counts must have one number for each symbol")
    if task.mechanism == GRR:
        kept = rng.binomial(counts, 1 - task.symbols * task.thresholds[0] / SCALE)
        rest = int(counts.sum() - kept.sum())
        return kept + rng.multinomial(rest, np.full(task.symbols, 1 / task.symbols))
    own, other = map(float, support_chances(task))
    return rng.binomial(counts, own) + rng.binomial(counts.sum() - counts, other)
