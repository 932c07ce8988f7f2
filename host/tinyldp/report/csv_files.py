"""The released symbols as CSV, for people who want to look at them with tools of their own."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinyldp.coordinate import entry_task
from tinyldp.errors import UserError
from tinyldp.estimate import expected_variance
from tinyldp.estimate.frequency import CONFIDENCE
from tinyldp.files import TABLE, replacing_text
from tinyldp.report.crr import OF_STEPS, OF_VALUES, crr_tables, smoothed_series
from tinyldp.report.data import is_drawn
from tinyldp.report.epochs import EPOCH_COLUMNS, OF_MEANS, epoch_tables
from tinyldp.report.rounds import REASONS, looking
from tinyldp.report.symbols import clean
from tinyldp.study import CRRS
from tinyldp_protocol.task import Task

if TYPE_CHECKING:
    from tinyldp.collect.records import Stream
    from tinyldp.collect.store import Store


def write_csv(
    store: Store, folder: str | Path, data: dict[str, Any] | None = None
) -> tuple[list[Path], list[str]]:
    """Write one file for each stream, PSEUDONYM-NONCE.csv, and for each Task with a method
    its rounds, TASK-steps.csv, of epochs TASK-epochs.csv and for HeavyThresh TASK-items.csv,
    and of both their devices, TASK-devices.csv. For each Task of CRR also TASK-shares.csv, the
    steps of crr.crr_tables, and for each of its streams PSEUDONYM-NONCE-smoothed.csv up to its
    first loss (with a table up to its last block): step, symbol, smoothed (the most probable value
    given all that the device released) and the probability of this value.

    data: what report_data gave of the same store, which spares the work of smoothing again.
    Gives their paths, and a sentence for each stream that claims the impossible
    and is left out.

    The columns are step (0-based, in the order of release) and symbol (empty when
    its frame is lost or not here yet); of oracles, step and report: GRR's value, of
    OUE and OLH the bytes in hexadecimal. Of rounds: each step's decision, what its dissimilarity
    and its publication cost each who was asked (ledger units), the variance of a frequency in
    what it published, averaged over the values, and the release that stands then, raw. Of
    epochs: epochs.epoch_tables's columns; the items found at each update, and their intervals,
    which hold at once. Of each device questions, answers and refusals by reason. The folder is
    made if there is none. Raises UserError when it cannot be written.
    """
    folder = Path(folder)
    paths: list[Path] = []
    left_out = []
    rounds: set[bytes] = set()
    smoothed: dict[str, Task] = {}
    named: dict[int, Path] = {}
    try:
        folder.mkdir(exist_ok=True)
        for stream in store.streams():
            task = store.task(stream.task_id)
            if task.batch is None:
                if task.id not in rounds:
                    rounds.add(task.id)
                    write = _write_rounds if task.epochs is None else _write_epochs
                    paths += [*write(store, folder, task), _write_devices(store, folder, task)]
                continue
            if task.mechanism in CRRS:
                smoothed[stream.task_id] = task
            # A store that comes from elsewhere must not choose other folders.
            name = re.sub("[^0-9A-Za-z]", "_", stream.pseudonym) + "-"
            name += re.sub("[^0-9A-Za-z]", "_", stream.nonce)
            path = folder / f"{name}.csv"
            try:
                symbols, present = store.values(stream.boot)
            except UserError as error:
                left_out.append(str(error))
                continue
            with replacing_text(path, TABLE) as file:
                writer = csv.writer(file, lineterminator="\n")
                oracle = not is_drawn(task)
                writer.writerow(("step", "report" if oracle else "symbol"))
                said = (
                    [bytes(row).hex() for row in symbols] if symbols.ndim > 1 else symbols.tolist()
                )
                pairs = zip(said, present.tolist(), strict=True)
                writer.writerows((i, n if here else "") for i, (n, here) in enumerate(pairs))
            paths.append(path)
            named[stream.boot] = path
        if data is None:
            paths += _write_shares(folder, crr_tables(store, store.streams(), smoothed, CONFIDENCE))
        else:
            paths += _write_shares(folder, data["crr"])
        for task_id, task in smoothed.items():
            mine = [stream for stream in store.streams() if stream.task_id == task_id]
            paths += _write_smoothed(store, mine, task, named)
    except OSError as error:
        raise UserError(f"{folder} can't be written: {error.strerror}.") from None
    return paths, left_out


def _write_smoothed(
    store: Store, streams: list[Stream], task: Task, named: dict[int, Path]
) -> list[Path]:
    """What each series of CRR most probably was, beside what was released."""
    paths = []
    for boot, values, probabilities in smoothed_series(store, streams, task):
        paths.append(named[boot].with_name(f"{named[boot].stem}-smoothed.csv"))
        symbols, present = (part[: len(values)].tolist() for part in store.values(boot))
        symbols = [symbol if here else "" for symbol, here in zip(symbols, present, strict=True)]
        with replacing_text(paths[-1], TABLE) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("step", "symbol", "smoothed", "probability"))
            columns = (symbols, values.tolist(), probabilities.round(6).tolist())
            writer.writerows((i, *row) for i, row in enumerate(zip(*columns, strict=True)))
    return paths


def _write_shares(folder: Path, tables: list[dict[str, Any]]) -> list[Path]:
    """What CRR's series come to, Task by Task."""
    paths = []
    for table in tables:
        paths.append(folder / f"{table['task']}-shares.csv")
        with replacing_text(paths[-1], TABLE) as file:
            writer = csv.writer(file, lineterminator="\n")
            values = [f"{name} {value}" for value in table["followed"] for name in OF_VALUES]
            writer.writerow([*OF_STEPS, *values])
            for row in table["steps"]:
                shares = [row[name][i] for i in range(len(table["followed"])) for name in OF_VALUES]
                writer.writerow([*(row[name] for name in OF_STEPS), *shares])
    return paths


def _write_rounds(store: Store, folder: Path, task: Task) -> list[Path]:
    """The steps of one Task's rounds."""
    task_id = task.id.hex()
    asked = {(question.t, question.phase): question for question in store.questions(task_id)}
    # By phase: that of the publication is the last one.
    entries = {question.t: question.entry for question in asked.values()}
    steps = folder / f"{task_id}-steps.csv"
    with replacing_text(steps, TABLE) as file:
        writer = csv.writer(file, lineterminator="\n")
        head = ("step", "outcome", "published", "dis", "err", "dissimilarity_units", "units")
        more = ("answers", "devices", "variance", *(f"value {k}" for k in range(task.symbols)))
        writer.writerow((*head, *more))
        for row in store.decisions(task_id):
            variance = None
            if row.published and row.n and row.t in entries:
                variance = expected_variance(entry_task(task, entries[row.t]), row.n)
            looked = looking(task, asked.get((row.t, 0)))["dissimilarity_units"]
            told = (row.t, clean(row.outcome), int(row.published), row.dis, row.err, looked)
            writer.writerow((*told, row.units, row.n, row.users, variance, *row.release))
    return [steps]


def _write_epochs(store: Store, folder: Path, task: Task) -> list[Path]:
    """The epochs of one Task, and the items that were found."""
    task_id = task.id.hex()
    table = epoch_tables(store, {task_id: task})[0]
    if table["problem"] is not None:
        raise UserError(table["problem"])
    paths = [folder / f"{task_id}-epochs.csv"]
    with replacing_text(paths[0], TABLE) as file:
        writer = csv.writer(file, lineterminator="\n")
        names = [name for name in EPOCH_COLUMNS if not table["heavy"] or name not in OF_MEANS]
        writer.writerow(names)
        writer.writerows([_plain(step[name]) for name in names] for step in table["steps"])
    if table["heavy"]:
        paths.append(folder / f"{task_id}-items.csv")
        with replacing_text(paths[1], TABLE) as file:
            writer = csv.writer(file, lineterminator="\n")
            names = ("item", "frequency", "low", "high")
            writer.writerow(("t", *names))
            for found in table["found"]:
                writer.writerows(
                    (found["t"], *(item[name] for name in names)) for item in found["items"]
                )
    return paths


def _plain(value: object) -> object:
    return int(value) if isinstance(value, bool) else value


def _write_devices(store: Store, folder: Path, task: Task) -> Path:
    """What was asked of each device of a Task."""
    task_id = task.id.hex()
    devices = folder / f"{task_id}-devices.csv"
    with replacing_text(devices, TABLE) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("device", "asked", "answered", *REASONS.values()))
        for peer in store.peers(task_id):
            refused = (peer.refusals.get(reason, 0) for reason in REASONS)
            writer.writerow((clean(peer.pseudonym), peer.asked, peer.answers, *refused))
    return devices
