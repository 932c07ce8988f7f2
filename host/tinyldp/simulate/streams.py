"""RanSwitch, StaSwitch and JitterSort for a whole fleet, step by step.

All devices of a fleet take each step together; what a device does is bit for bit
what tinyldp_device does with the same words (Stateful Switch, algorithms RanSwitch
and StaSwitch; JitterSort: least key first, ties broken by a fresh word).

A value travels as one 32-bit token: above, the step (modulo 2^16) at which it came
in; below, its symbol. So how far it was moved is known when it is released, and
StaSwitch's lateness need not be kept beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinyldp.simulate.words import GivenWords, Words, below, within
from tinyldp_protocol.task import JITTERSORT, RANSWITCH, SCALE, STASWITCH, Task

Array = npt.NDArray[Any]

# Devices that are simulated together: few enough for the processor's cache.
DEVICES = 8192
_SHIFT = 16
_LOW = 0xFFFF
# Steps for which a switch has room beyond its window, before the buffer is moved down.
_ROOM = 128
# JitterSort's keys are kept in 16 bits, relative to a step that moves along.
_LATEST_KEY = 60_000


class RanSwitchFleet:
    """n switching buffers of task.window slots.

    The slots are rows of one buffer along which the fleet moves: row `_at` is the
    current slot, followed by the others in order. Copies of the current slot are
    kept for a moment in the row after the window, so that "stay" is one more switch
    distance and no device needs a case of its own.
    """

    def __init__(self, task: Task, n: int, words: Words) -> None:
        self._window = task.window
        self._threshold = task.thresholds[0]
        self._words = words
        self._rows = task.window + 1 + max(_ROOM, 4 * task.window)
        self._slots = np.zeros((self._rows, n), dtype=np.uint32)
        self._flat = self._slots.reshape(-1)
        self._n = n
        self._at = 0
        self._held = 0
        self._step = 0
        self._columns = np.arange(n)
        self._distance = np.empty(n, dtype=np.uint32)
        self._index = np.empty(n, dtype=np.intp)

    def feed(self, symbols: Array) -> Array:
        """Steps with symbols (steps, n); (released, n) tokens, fewer while the buffers fill."""
        filling = min(len(symbols), max(0, self._window - 1 - self._held))
        out = np.empty((len(symbols) - filling, self._n), dtype=np.uint32)
        for i, row in enumerate(symbols):
            if self._at + self._held + 1 == self._rows:
                self._slots[: self._held] = self._slots[self._at : self._at + self._held]
                self._at = 0
            token = np.uint32((self._step & _LOW) << _SHIFT)
            np.bitwise_or(row, token, out=self._slots[self._at + self._held], casting="unsafe")
            self._step += 1
            self._held += 1
            if self._held == self._window:
                self._release(self._words.row(), out[i - filling])
        return out

    def finish(self) -> Array:
        """(held, n) tokens: the rest, released at the end of the segment."""
        out = np.empty((self._held, self._n), dtype=np.uint32)
        for row in out:
            if self._at + self._window == self._rows:
                self._slots[: self._held] = self._slots[self._at : self._at + self._held]
                self._at = 0
            self._release(self._inside(), row)
        return out

    def _inside(self) -> Array:
        """(n,) words that lead to a slot inside the stream, drawn again until they do."""
        words = self._words.row().copy()
        devices = self._columns
        while True:
            ahead = self._ahead(words[devices], self._slots[self._at, devices])
            outside = (ahead >= self._held - 1) & (ahead < self._window - 1)
            devices = devices[outside]
            if not len(devices):
                return words
            words[devices] = self._words.again(devices)

    def _ahead(self, words: Array, current: Array, out: Array | None = None) -> Array:
        """Switch distances less one; window - 1 stands for "stay"."""
        out = np.floor_divide(words, self._threshold, out=out)
        return np.minimum(out, self._window - 1, out=out)

    def _release(self, words: Array, out: Array) -> None:
        at = self._at
        n = self._n
        current = self._slots[at]
        self._slots[at + self._window] = current
        ahead = self._ahead(words, current, self._distance)
        index = self._index
        np.multiply(ahead, n, out=index, dtype=np.intp)
        np.add(index, self._columns, out=index)
        others = self._flat[(at + 1) * n : (at + 1 + self._window) * n]
        # Every index is in range; "wrap" spares numpy a checked copy.
        np.take(others, index, out=out, mode="wrap")
        others[index] = current
        self._at = at + 1
        self._held -= 1


class StaSwitchFleet(RanSwitchFleet):
    """RanSwitch in which no value is released more than k-1 steps late."""

    def _ahead(self, words: Array, current: Array, out: Array | None = None) -> Array:
        out = np.floor_divide(words, self._threshold, out=out)
        # A value came in when its slot was filled: its lateness is the difference.
        slot = self._step - self._held
        room = current >> np.uint32(_SHIFT)
        room += np.uint32((self._window - 1 - slot) & _LOW)
        room &= np.uint32(_LOW)
        np.putmask(out, out >= room, self._window - 1)
        return out


class JitterSortFleet:
    """n buffers that release the value of least key, arrival step + jitter.

    keys, tokens: (n, window), slot by slot as on the device, where the last slot's
    content moves into the place of what was released.
    """

    def __init__(self, task: Task, n: int, words: Words) -> None:
        self._window = task.window
        self._words = words
        self._middle = task.window // 2
        weights = np.array(task.thresholds, dtype=np.int64)
        weights[1:] *= 2
        # C_j of the device's rule, and 0 before it.
        self._bounds = np.concatenate([[0], np.cumsum(weights)]).astype(np.uint32)
        self._keys = np.zeros((n, task.window), dtype=np.uint16)
        self._tokens = np.zeros((n, task.window), dtype=np.uint32)
        self._n = n
        self._rows = np.arange(n)
        self._held = 0
        self._step = 0
        self._base = 0

    def feed(self, symbols: Array) -> Array:
        """Steps with symbols (steps, n); (released, n) tokens, fewer while the buffers fill."""
        filling = min(len(symbols), max(0, self._window - 1 - self._held))
        out = np.empty((len(symbols) - filling, self._n), dtype=np.uint32)
        for i, row in enumerate(symbols):
            token = np.uint32((self._step & _LOW) << _SHIFT)
            self._tokens[:, self._held] = row.astype(np.uint32) | token
            self._keys[:, self._held] = self._jitter(self._words.row()) + (self._step - self._base)
            self._step += 1
            self._held += 1
            if self._held == self._window:
                self._release(out[i - filling])
                if self._step - self._base > _LATEST_KEY:
                    self._rebase()
        return out

    def finish(self) -> Array:
        """(held, n) tokens: the rest, released at the end of the segment."""
        out = np.empty((self._held, self._n), dtype=np.uint32)
        for row in out:
            self._release(row)
        return out

    def _jitter(self, words: Array) -> Array:
        """(n,) Z in 0..2L."""
        j = np.searchsorted(self._bounds, words, side="right") - 1
        odd = (words - self._bounds[j]) & 1
        return np.where(odd == 1, self._middle + j, self._middle - j)

    def _rebase(self) -> None:
        # No key that is held lies further back than this.
        shift = self._step - self._base - self._window
        self._keys -= np.uint16(shift)
        self._base += shift

    def _release(self, out: Array) -> None:
        held = self._held
        keys = self._keys[:, :held]
        least = keys.min(axis=1)
        # Slots with the least key, device by device, each in slot order.
        ties = np.flatnonzero(keys == least[:, np.newaxis])
        count = np.bincount(ties // held, minlength=self._n)
        share = (SCALE // count).astype(np.uint32)
        words = below(self._words, (count * share).astype(np.uint32))
        place = np.cumsum(count) - count + words // share
        slot = ties[place] - self._rows * held
        out[:] = self._tokens[self._rows, slot]
        last = held - 1
        self._tokens[self._rows, slot] = self._tokens[:, last]
        self._keys[self._rows, slot] = self._keys[:, last]
        self._held = last


Fleet = RanSwitchFleet | JitterSortFleet


def make_fleet(task: Task, n: int, words: Words) -> Fleet:
    """n devices with the stream mechanism that the Task names."""
    kinds = {RANSWITCH: RanSwitchFleet, STASWITCH: StaSwitchFleet, JITTERSORT: JitterSortFleet}
    if task.mechanism not in kinds:
        raise ValueError("not a mechanism for streams")
    return kinds[task.mechanism](task, n, words)


def symbols_of(tokens: Array) -> Array:
    """The symbols that tokens carry, of the same shape, uint16."""
    return tokens.astype(np.uint16)


def origins_of(tokens: Array) -> Array:
    """The steps modulo 2^16 at which tokens came in, of the same shape, uint16."""
    return (tokens >> np.uint32(_SHIFT)).astype(np.uint16)


def release(task: Task, symbols: Array, words: Array) -> Array:
    """What n devices release in one whole segment, flush included.

    symbols: (n, T) integers in 0..task.symbols-1, in order of arrival. words: (n, m)
    integers below 2^24, each device's own, from its first release (JitterSort: first
    arrival) on. Both are best transposed views of arrays in order of time.
    Gives (n, T) symbols in order of release, uint16.
    Raises ValueError for a symbol outside the alphabet and when the words end.
    """
    if symbols.ndim != 2 or not within(symbols, task.symbols):
        raise ValueError("symbols must be an array (devices, steps) within the alphabet")
    n, steps = symbols.shape
    released = np.empty((steps, n), dtype=np.uint16)
    for start in range(0, n, DEVICES):
        part = slice(start, min(n, start + DEVICES))
        fleet = make_fleet(task, part.stop - start, GivenWords(words[part]))
        tokens = fleet.feed(symbols[part].T)
        released[: len(tokens), part] = tokens
        released[len(tokens) :, part] = fleet.finish()
    return released.T
