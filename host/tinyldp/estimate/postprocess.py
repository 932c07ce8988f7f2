"""Estimates made to look like frequencies: non-negative, and adding up to 1.

Only on request: what comes out is biased, and the variance and the interval of the
raw estimate do not belong to it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyldp.errors import UserError

Floats = npt.NDArray[np.float64]


def norm_sub(frequencies: npt.ArrayLike) -> Floats:
    """Set negative estimates to 0, shift the others until they add up to 1, and again.

    frequencies: (d,). What was set to 0 stays 0 (Wang et al. 2020, Norm-Sub). Where
    none is positive, all get 1/d.
    """
    x = _vector(frequencies)
    kept = x > 0
    while kept.any():
        shifted = x + (1 - x[kept].sum()) / kept.sum()
        negative = kept & (shifted < 0)
        if not negative.any():
            return np.where(kept, shifted, 0.0)
        kept &= ~negative
    return np.full(len(x), 1 / len(x))


def simplex(frequencies: npt.ArrayLike) -> Floats:
    """The nearest point, in the Euclidean sense, that is non-negative and adds up to 1.

    frequencies: (d,). It is max(x - t, 0) for the one t that makes the sum 1, found
    by sorting (Duchi et al. 2008, figure 1).
    """
    x = _vector(frequencies)
    falling = np.sort(x)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(x) + 1)
    last = np.flatnonzero(falling > excess)[-1]
    return np.maximum(x - excess[last], 0)


POSTPROCESSING = {"norm-sub": norm_sub, "simplex": simplex}


def postprocess(name: str, frequencies: npt.ArrayLike) -> Floats:
    """The post-processing of this name, applied to (d,); UserError when there is none."""
    check_name(name)
    return POSTPROCESSING[name](frequencies)


def check_name(name: str) -> None:
    """Raise UserError when no post-processing has this name."""
    if name not in POSTPROCESSING:
        known = ", ".join(POSTPROCESSING)
        raise UserError(f"There is no post-processing {name!r}; there are: {known}.")


def _vector(frequencies: npt.ArrayLike) -> Floats:
    x = np.asarray(frequencies, dtype=np.float64)
    if x.ndim != 1 or len(x) == 0 or not np.isfinite(x).all():
        raise UserError("Post-processing takes one list of finite frequencies.")
    return x
