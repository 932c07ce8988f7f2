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
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from tinyldp.errors import UserError
from tinyldp_device.entropy import Entropy, EntropyError, Replay
from tinyldp_device.switch import make_switch
from tinyldp_protocol.task import SCALE, Task

# Words in a device's pool. The start-up test throws whole pools away, so the same
# bytes give other words with another pool.
POOL_WORDS = 64
# Indices are released modulo this, the largest alphabet.
_INDICES = 65536


def boot_nonce(words: bytes) -> bytes:
    """The 8 bytes that a device with these words draws as its boot nonce."""
    return bytes(words[:8])


def bytes_needed(task: Task, n: int, pool: int = POOL_WORDS) -> int:
    """Bytes of random words that suffice to release n values, but for a chance of 2^-89.

    A release takes one word, except at the end of the segment: with h values left
    it draws until the slot lies inside the stream, each time with probability
    p + (h-1) q. A sum of such waits exceeds 68 times its mean with a probability
    below exp(-(68 - 1 - ln 68)) (Janson 2018, theorem 2.1).
    """
    q = task.thresholds[0] / SCALE
    p = 1 - (task.window - 1) * q
    waits = sum(1 / (p + (left - 1) * q) for left in range(1, task.window))
    size = 3 * pool
    tested = -(-1024 // size)
    # One pool more: the device draws the next one before it needs it.
    drawn = -(-3 * (n + math.ceil(68 * waits)) // size) + 1
    return 8 + (tested + drawn) * size


def replay(
    task: Task, words: bytes | BinaryIO, symbols: Iterable[int], pool: int = POOL_WORDS
) -> npt.NDArray[np.int64]:
    """The symbols that a device must have released, whole segment, flush included.

    words: all random bytes that the device was given, from the boot nonce on; a
    file is read to its end.
    symbols: (n,) what its quantizer gave it, each in 0..task.symbols-1.
    pool: words in the device's pool. Gives (n,) symbols in the order of release.
    Raises UserError when the words run out or the health test refuses them.
    """
    source = BytesIO(words if isinstance(words, bytes) else words.read())
    released: list[int] = []
    try:
        entropy = Entropy(Replay(source), pool, allow_test=True)
        mechanism = make_switch(task, entropy)
        for symbol in symbols:
            out = mechanism.step(int(symbol))
            if out is not None:
                released.append(out)
        while (out := mechanism.flush()) is not None:
            released.append(out)
    except EntropyError as error:
        reason = error.args[0]
        if reason == "missing":
            reason = "they end"
        raise UserError(
            f"The random words cannot be used after {len(released)} released values: {reason}."
        ) from None
    return np.array(released, dtype=np.int64)


def displacements(
    task: Task, words: bytes | BinaryIO, n: int, pool: int = POOL_WORDS
) -> npt.NDArray[np.int64]:
    """How far each released value was moved: (n,) steps, in the order of release.

    Entry r is r minus the index at which the r-th released value came in; positive
    is late. The mechanisms do not look at values, so indices take their place.
    Raises UserError as replay does.
    """
    indices = SimpleNamespace(
        mechanism=task.mechanism,
        window=task.window,
        thresholds=task.thresholds,
        symbols=_INDICES,
    )
    origins = replay(indices, words, (i % _INDICES for i in range(n)), pool)  # type: ignore[arg-type]
    # A displacement beyond half the alphabet has no probability to speak of (laws.py).
    half = _INDICES // 2
    return (np.arange(len(origins)) - origins + half) % _INDICES - half
