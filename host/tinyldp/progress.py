"""What a person sees of long work: a bar for each device, or for the files of one."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from tinyldp.figures import counted
from tinyldp.stoppable import Stoppable

if TYPE_CHECKING:
    # What only plans need not load: it takes longer than all else.
    from tinyldp.collect.collector import Snapshot

_SECONDS = 2.0


class Progress(Stoppable):
    """Shows snapshots on standard error: bars on a terminal, else a line now and then.

    expected: frames that each pseudonym (hexadecimal) will send, where that is known.
    title: said with the first snapshot, when all links are open.
    """

    def __init__(self, expected: Mapping[str, int] | None = None, title: str = "") -> None:
        self._expected = dict(expected or {})
        self._title = title
        self._lock = threading.Lock()
        # What had come before, and what has come, by device and boot: one that ends, or is
        # forgotten by its collector, keeps its number.
        self._counts: dict[str, dict[str, tuple[int, int]]] = {}
        # How far rounds are, where there are any.
        self._step: int | None = None
        self._epochs: int | None = None
        self._bars: Bars | None = None
        self._rows: dict[str, TaskID] = {}
        self._next = time.monotonic() + _SECONDS
        console = Console(stderr=True)
        if console.is_terminal:
            self._bars = Bars(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:,.0f} {task.fields[unit]}"),
                console=console,
            )
            self._bars.start()

    def stop(self) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None

    def update(self, snapshot: Snapshot) -> None:
        """Show a collector's snapshot; several collectors may take turns."""
        with self._lock:
            if self._title:
                self._print(self._title)
                self._title = ""
            for sentence in snapshot.news:
                self._print(sentence)
            if snapshot.step is not None:
                self._step = snapshot.step
            for device in snapshot.devices:
                boots = self._counts.setdefault(device.pseudonym, {})
                before = boots.get(device.nonce, (device.before, 0))[0]
                boots[device.nonce] = before, device.received
                if self._bars is not None:
                    expected = self._expected.get(device.pseudonym)
                    title = f"{device.pseudonym} on {device.link}"
                    unit = "frames" if snapshot.step is None else "answers"
                    done = _since(boots)
                    self._bar(self._bars, device.pseudonym, title, done, expected, unit)
            self._epochs = snapshot.epochs
            if self._bars is not None and snapshot.step is not None:
                if snapshot.epochs is None:
                    self._bar(self._bars, "", "rounds", snapshot.step + 1, None, "steps")
                else:
                    self._bar(self._bars, "", "epochs", snapshot.step, snapshot.epochs, "epochs")
            if self._bars is None and time.monotonic() >= self._next:
                self._next = time.monotonic() + _SECONDS
                self._line()

    def received(self) -> int:
        """Frames, or in rounds answers, received since the start, from all boots of all devices."""
        with self._lock:
            return self._total()

    def _total(self) -> int:
        return sum(map(_since, self._counts.values()))

    def _bar(
        self, bars: Bars, key: str, title: str, done: int, total: int | None, unit: str
    ) -> None:
        if key not in self._rows:
            self._rows[key] = bars.add_task(title, total=total, unit=unit)
        bars.update(self._rows[key], completed=done, unit=unit)

    def _print(self, sentence: str) -> None:
        if self._bars is not None:
            self._bars.console.print(sentence, markup=False, highlight=False)
        else:
            print(sentence, file=sys.stderr, flush=True)

    def _line(self) -> None:
        received = self._total()
        total = f" of {sum(self._expected.values()):,}" if self._expected else ""
        unit = "frame" if self._step is None else "answer"
        got = f"{received:,}{total} {unit}s" if total else counted(received, unit)
        said = f"{counted(len(self._counts), 'device')} heard, {got} received"
        if self._step is not None and self._epochs is not None:
            said = f"Epoch {self._step:,} of {self._epochs:,}: {said}"
        elif self._step is not None:
            said = f"Step {self._step:,}: {said}"
        self._print(said)


def _since(boots: Mapping[str, tuple[int, int]]) -> int:
    return sum(received - before for before, received in boots.values())


class _Row(Stoppable):
    """One bar on standard error, gone when the work is done; nothing without a terminal.

    columns: what is shown beside the bar.
    """

    def __init__(self, *columns: ProgressColumn) -> None:
        console = Console(stderr=True)
        self._bars: Bars | None = None
        self._row: TaskID | None = None
        if console.is_terminal:
            self._bars = Bars(BarColumn(), *columns, console=console, transient=True)
            self._bars.start()

    def stop(self) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None

    def _show(self, done: int, total: int, what: str = "") -> bool:
        """Move the bar; False when there is none."""
        if self._bars is None:
            return False
        if self._row is None:
            self._row = self._bars.add_task("", total=total)
        self._bars.update(self._row, completed=done, total=total, description=what)
        return True


class FileProgress(_Row):
    """A bar on standard error while files are copied; without a terminal a line at the end."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        super().__init__(TextColumn("{task.completed:.0f}/{task.total:.0f} {task.description}"))

    def update(self, done: int, total: int, path: str) -> None:
        """`done` of `total` files are there, and `path` comes next."""
        if not self._show(done, total, path) and done == total:
            print(f"{counted(done, 'file')} {self._verb}", file=sys.stderr, flush=True)


class WorkProgress(_Row):
    """A bar on standard error for long work; without a terminal a line now and then.

    what: the things of which so many are done, such as "device steps".
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._next = time.monotonic() + _SECONDS
        super().__init__(
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} {task.description}"),
            TimeRemainingColumn(),
        )

    def update(self, done: int, total: int) -> None:
        """`done` of `total` are done."""
        if not self._show(done, total, self._what) and time.monotonic() >= self._next:
            self._next = time.monotonic() + _SECONDS
            print(f"{done:,} of {total:,} {self._what}", file=sys.stderr, flush=True)
