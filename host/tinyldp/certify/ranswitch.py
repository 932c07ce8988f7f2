"""RanSwitch's exact privacy, in closed form.

Two streams differ by exchanging the values x and y at positions i < j = i + m.
While only x is in the buffer, each of m steps releases it with probability q:
the other stream can't do that yet. From then on both runs choose the two slots
alike, until one of the two is current: staying (p) in one run is a switch (q) in
the other, and after it both runs are the same. So

    delta(epsilon) = d0 + (1 - d0) max(0, (p - e^epsilon q) / (p + q)),
    d0 = 1 - (1 - q)^m,

which grows with m: neighbours at the largest distance, m = k-1, decide. A flush
that draws again keeps p : q. Proved for p >= q, tight, for any window >= k.
"""

from __future__ import annotations

from fractions import Fraction

from tinyldp.certify.bounds import ceil_to, exp_bounds, log_upper
from tinyldp_protocol.task import SCALE


def delta(window: int, k: int, threshold: int, epsilon: Fraction) -> Fraction:
    """Least delta, rounded up by less than 2^-100, for which it is (epsilon, delta)-private.

    window: slots, at least k; k: neighbours exchange two values less than k apart;
    threshold: 2^24 q; epsilon >= 0.
    """
    return delta_at(window, k, threshold, exp_bounds(epsilon)[0])


def delta_at(window: int, k: int, threshold: int, factor: Fraction) -> Fraction:
    """The same, exactly, with e^epsilon given as a rational."""
    q, p = probabilities(window, threshold)
    unseen = (1 - q) ** (k - 1)
    return 1 - unseen + unseen * max(Fraction(0), (p - factor * q) / (p + q))


def probabilities(window: int, threshold: int) -> tuple[Fraction, Fraction]:
    """q of each switch distance, and p of staying. Raises ValueError unless 0 < q <= p."""
    if not 0 < threshold * window <= SCALE:
        raise ValueError("RanSwitch's guarantee is proved for 0 < q <= p only")
    q = Fraction(threshold, SCALE)
    return q, 1 - (window - 1) * q


def natural_epsilon(window: int, threshold: int) -> Fraction:
    """ln(p/q), rounded up to 2^-16: from there on delta falls no further."""
    q, p = probabilities(window, threshold)
    return ceil_to(log_upper(p / q), 1 << 16)
