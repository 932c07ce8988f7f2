"""Ctrl-C as a wish to stop, that is granted when nothing is half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interruptible(stop: Callable[[], bool]) -> Iterator[Callable[[], bool]]:
    """Gives a function that is true when stop() is, or after a signal that would interrupt.

    A message that was half taken in when KeyboardInterrupt is raised would be acknowledged,
    and not stored, by whatever is committed afterwards. So the first signal only asks; the
    next one interrupts. Only signals that raise KeyboardInterrupt are taken, and only in
    the main thread: others do not get them.
    """
    asked = False

    def ask(number: int, _frame: Any) -> None:
        nonlocal asked
        asked = True
        signal.signal(number, signal.default_int_handler)

    def stopped() -> bool:
        try:
            return asked or stop()
        except KeyboardInterrupt:
            return True

    taken = []
    if threading.current_thread() is threading.main_thread():
        for number in {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:
            if signal.getsignal(number) is signal.default_int_handler:
                signal.signal(number, ask)
                taken.append(number)
    try:
        yield stopped
    finally:
        for number in taken:
            signal.signal(number, signal.default_int_handler)
