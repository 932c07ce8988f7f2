"""What a device must have released, recomputed from its random words.

Nothing is imitated: the device package itself runs here, on the same bytes, which
it consumes in the same order (boot nonce, start-up health test, one pool of words
after the other). Only where the device's words were kept can this be done, so it
is for demonstrations and tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from io import BytesIO
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from tinyldp.errors import UserError
from tinyldp.study import STREAMS, refuse_rounds
from tinyldp_device.entropy import Entropy, EntropyError, Replay
from tinyldp_device.mechanism import make_mechanism, pool_words, step_words
from tinyldp_protocol.hashing import PRIME
from tinyldp_protocol.task import CRR, CRR_BATCH, JITTERSORT, OLH, OUE, SCALE, Task

# Indices are released modulo this, the largest alphabet.
_INDICES = 65536


def boot_nonce(words: bytes) -> bytes:
    """The 8 bytes that a device with these words draws as its boot nonce."""
    return bytes(words[:8])


def bytes_needed(task: Task, n: int, pool: int | None = None) -> int:
    """Bytes of random words that suffice to release n values, but for a chance of 2^-88.

    pool: words in the device's pool, by default as many as the device takes.
    """
    pool = pool or pool_words(task)
    need = step_words(task)
    size = 3 * pool
    tested = -(-1024 // size)
    # What is left of a pool, less than a step's words, is thrown away; and a word that is
    # drawn again costs a step's room at most.
    steps = n + math.ceil(_redraws(task, n))
    drawn = -(-steps // (pool // need)) if need <= pool else steps * -(-need // pool)
    # One pool more: the device draws the next one before it needs it.
    return 8 + (tested + drawn + 1) * size


def _redraws(task: Task, n: int) -> float:
    """A number of words that draws made in vain do not exceed, but for a chance of 2^-88.

    The switches draw again at the end of the segment: with h values left until the
    slot lies inside the stream, each time with probability p + (h-1) q. A sum of
    such waits exceeds 68 times its mean with a probability below
    exp(-(68 - 1 - ln 68)) (Janson 2018, theorem 2.1).

    Elsewhere m draws each fail with a probability of at most f, which is small. Of
    R failures E[2^R] = ((1-f) / (1-2f))^m < exp(2mf), so that R reaches 89 + 3mf
    with a probability below 2^-89.
    """
    if task.mechanism < JITTERSORT:
        q = task.thresholds[0] / SCALE
        p = 1 - (task.window - 1) * q
        return 68 * sum(1 / (p + (left - 1) * q) for left in range(1, task.window))
    if task.mechanism == JITTERSORT:
        return 89 + 3 * n * task.window / SCALE
    if task.mechanism == OLH:
        return 89 + 3 * 2 * n * (1 - 512 * PRIME / SCALE)
    if task.mechanism in (CRR, CRR_BATCH):
        # Above the last whole share of at most 2^15 units.
        return 89 + 3 * n * (1 << 15) / SCALE
    return 0


def replay(
    task: Task, words: bytes | BinaryIO, symbols: Iterable[int], pool: int | None = None
) -> npt.NDArray[Any]:
    """What a device must have released, whole segment, flush included.

    words: all random bytes that the device was given, from the boot nonce on; a
    file is read to its end.
    symbols: (n,) what its quantizer gave it, each in 0..task.symbols-1.
    pool: words in the device's pool, by default as many as the device takes; the
    start-up test throws whole pools away, so that another pool means other words.
    Gives (n,) symbols in the order of release, of OUE and OLH (n, task.width)
    bytes (uint8).
    Raises UserError when the words run out or the health test refuses them.
    """
    refuse_rounds(task, "A replay")
    source = BytesIO(words if isinstance(words, bytes) else words.read())
    wide = task.mechanism in (OUE, OLH)
    need = step_words(task)
    released: list[int | bytes] = []
    try:
        entropy = Entropy(Replay(source), pool or pool_words(task), allow_test=True)
        mechanism = make_mechanism(task, entropy)
        for symbol in symbols:
            # As the agent's service() does before each tick.
            entropy.refill(need)
            out = mechanism.step(int(symbol))
            if out is not None:
                released.append(out if isinstance(out, int) else bytes(out))
        entropy.refill(need)
        while (out := mechanism.flush()) is not None:
            released.append(out if isinstance(out, int) else bytes(out))
            entropy.refill(need)
    except EntropyError as error:
        reason = error.args[0]
        if reason == "missing":
            reason = "they end"
        raise UserError(
            f"The random words cannot be used after {len(released)} released values: {reason}."
        ) from None
    if wide:
        joined = b"".join(released)  # type: ignore[arg-type]
        return np.frombuffer(joined, np.uint8).reshape(-1, task.width)
    return np.array(released, dtype=np.int64)


def displacements(
    task: Task, words: bytes | BinaryIO, n: int, pool: int | None = None
) -> npt.NDArray[np.int64]:
    """How far each released value was moved: (n,) steps, in the order of release.

    Entry r is r minus the index at which the r-th released value came in; positive
    is late. The mechanisms do not look at values, so indices take their place.
    Raises UserError as replay does, and for an oracle or CRR, which move nothing.
    """
    if task.mechanism in (CRR, CRR_BATCH):
        raise UserError("CRR releases values in their order: there is no displacement.")
    if task.mechanism not in STREAMS:
        raise UserError("An oracle releases each value at once: there is no displacement.")
    indices = SimpleNamespace(
        mechanism=task.mechanism,
        window=task.window,
        thresholds=task.thresholds,
        symbols=_INDICES,
        method=None,
        epochs=None,
    )
    origins = replay(indices, words, (i % _INDICES for i in range(n)), pool)  # type: ignore[arg-type]
    # A displacement beyond half the alphabet has no probability to speak of (laws.py).
    half = _INDICES // 2
    return (np.arange(len(origins)) - origins + half) % _INDICES - half
