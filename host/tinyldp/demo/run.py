"""The whole line on this computer: real MicroPython devices, two links, one host."""

from __future__ import annotations

import contextlib
import io
import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich import box
from rich.console import Console
from rich.table import Table

from tinyldp.certify import certificate_path, certify, write_certificate
from tinyldp.collect.collector import Collector
from tinyldp.collect.store import Store
from tinyldp.demo.broker import broker
from tinyldp.demo.fleet import (
    DEVICES,
    STUDIES,
    Device,
    install,
    make_devices,
    start_device,
    write_studies,
)
from tinyldp.demo.wiretap import Wiretap, lengths, read_capture
from tinyldp.errors import UserError
from tinyldp.lanes import open_lane
from tinyldp.lanes.cable import Cable
from tinyldp.lanes.unix import Unix
from tinyldp.planning import plan
from tinyldp.progress import Progress
from tinyldp.recordings import load_recording, sample_recordings
from tinyldp.replay import displacements, replay
from tinyldp.report import render_report, report_data
from tinyldp.stoppable import Stoppable
from tinyldp.study import Study, load_study

# Seconds without a new frame after which the rest is not waited for.
_PATIENCE = 30
# All that a demo leaves in its output folder.
_LEAVES = {
    *(f"demo-{name}.{kind}" for name in STUDIES for kind in ("toml", "task", "task.cert.json")),
    *("demo.db", "demo.db-wal", "demo.db-shm", "capture", "report.html"),
    *("broker.conf", "broker.yaml", "broker.log"),
}


def run_demo(output: Path, recordings: Sequence[Path] | None, steps: int) -> dict[str, Any]:
    """Play `steps` readings through each of six devices: what arrived, and whether all held.

    Leaves in `output` the studies, their Tasks and certificates, the database, a capture of all
    that went over the links, and report.html. Raises UserError for what a person
    gave or lacks.
    """
    paths = recordings or sample_recordings()
    loaded = [load_recording(path) for path in paths[:DEVICES]]
    folder = _fresh(output)
    written = write_studies(folder)
    certificates: list[dict[str, Any]] = []
    for path in written:
        planned = plan(path)
        certificate = certify(planned.task)
        write_certificate(certificate, certificate_path(planned.path))
        certificates.append(certificate.to_json())
    studies = [load_study(path) for path in written]
    devices = make_devices(studies, loaded, steps)
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        lane = stack.enter_context(open_lane("unix"))
        assert isinstance(lane, Unix)
        install(lane)
        server = stack.enter_context(broker(folder))
        cables = {
            f"serial-{device.number}": stack.enter_context(Cable())
            for device in devices
            if device.link == "serial"
        }
        wiretap = stack.enter_context(Wiretap(server.address))
        with _Hosts(folder, studies, certificates, devices, cables, server.address) as hosts:
            for device in devices:
                cable = cables.get(f"serial-{device.number}")
                start_device(lane, device, cable.device_end if cable else server.address)
            _wait(devices, hosts)
        wiretap.save(cables, folder / "capture")
    store = Store(folder / "demo.db")
    try:
        result = _result(devices, store, folder)
    finally:
        store.close()
    return {"broker": server.name, "seconds": round(time.monotonic() - started, 1), **result}


def _fresh(output: Path) -> Path:
    """The output folder, emptied of an earlier demo but never of anything else."""
    try:
        if output.is_dir() and any(output.iterdir()):
            if {path.name for path in output.iterdir()} - _LEAVES:
                raise UserError(f"{output} holds something else; name another with --output.")
            shutil.rmtree(output)
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{output} cannot be written: {error.strerror}.") from None
    return output


class _Hosts(Stoppable):
    """One collector for each study, into one database, until stop().

    failure: what ended a collector before its time, or None. received(): frames so far.
    """

    def __init__(
        self,
        folder: Path,
        studies: list[Study],
        certificates: list[dict[str, Any]],
        devices: list[Device],
        cables: dict[str, Cable],
        mqtt: str,
    ) -> None:
        self.failure: BaseException | None = None
        self._done = threading.Event()
        self._threads: list[threading.Thread] = []
        self._progress = Progress(
            {d.pseudonym.hex(): -(-len(d.readings) // d.task.batch) for d in devices}
        )
        for study, certificate in zip(studies, certificates, strict=True):
            ports = [
                cables[f"serial-{device.number}"].host_end
                for device in devices
                if device.study is study and device.link == "serial"
            ]
            store = Store.create(folder / "demo.db", study.task(), certificate)
            collector = Collector(study.task(), store, ports, mqtt, study.name)
            arguments = (collector, store)
            self._threads.append(threading.Thread(target=self._collect, args=arguments))
        for thread in self._threads:
            thread.start()

    def _collect(self, collector: Collector, store: Store) -> None:
        try:
            collector.run(self._done.is_set, self._progress.update)
        except BaseException as failure:
            self.failure = failure
        finally:
            store.close()

    def received(self) -> int:
        return self._progress.received()

    def stop(self) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()
        self._progress.stop()


def _wait(devices: list[Device], hosts: _Hosts) -> None:
    """Wait until every device's process has ended; UserError names one that failed.

    Returns early when nothing arrives any more: what is missing will show.
    """
    received = -1
    deadline = 0.0
    for device in devices:
        process = device.process
        assert process is not None
        while process.running:
            if hosts.failure is not None:
                raise hosts.failure
            if hosts.received() > received:
                received = hosts.received()
                deadline = time.monotonic() + _PATIENCE
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)
        ended = process.wait()
        if ended.exit_code:
            output = ended.stderr + ended.stdout
            last = output.decode(errors="replace").strip().splitlines()[-1:]
            raise UserError(f"Device {device.number} stopped: {' '.join(last) or 'no message'}")


def _result(devices: list[Device], store: Store, folder: Path) -> dict[str, Any]:
    """Compare what arrived with what each device's words dictate; write the report."""
    originals = {device.pseudonym.hex(): device.symbols() for device in devices}
    moved = {
        device.pseudonym.hex(): displacements(device.task, device.words, len(device.readings))
        for device in devices
    }
    names = {device.pseudonym.hex(): f"{device.number} {device.recording}" for device in devices}
    data = report_data(store, moved, names)
    page = folder / "report.html"
    render_report(store, page, originals, moved, "tinyldp demo", data)
    table = []
    for device in devices:
        name = device.pseudonym.hex()
        rows = [row for row in data["streams"] if row["device"] == name]
        exact = len(rows) == 1 and _as_dictated(device, originals[name], store, rows[0])
        table.append(
            {
                "number": device.number,
                "recording": device.recording,
                **(rows[0] if rows else {"device": name, "mechanism": device.study.name}),
                "exact": exact,
            }
        )
    return {
        "held": all(row["exact"] for row in table) and not data["alarms"],
        "devices": table,
        "alarms": data["alarms"],
        "rejections": data["rejections"],
        "wire": lengths(read_capture(folder / "capture")),
        "report": str(page.resolve()),
    }


def _as_dictated(
    device: Device, symbols: npt.NDArray[np.int64], store: Store, row: dict[str, Any]
) -> bool:
    """Whether the stream is the one that the device package makes of the same words here."""
    values, present = store.values(row["boot"])
    return (
        row["nonce"] == device.nonce
        and bool(present.all())
        and np.array_equal(values, replay(device.task, device.words, symbols))
    )


def text_result(result: dict[str, Any]) -> str:
    """The result for people: a line for each device, the verdict, where the report is."""
    out = io.StringIO()
    console = Console(file=out, width=110, highlight=False, emoji=False, markup=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("device", "recording", "mechanism", "link"):
        table.add_column(title)
    for title in ("sent", "received", "lost", "duplicate", "mean displacement", "exact law"):
        table.add_column(title, justify="right")
    for row in result["devices"]:
        link = row.get("link", "")
        cells = [
            row["number"],
            row["recording"],
            row["mechanism"],
            "mqtt" if link.startswith("mqtt") else "serial",
            *(row.get(key, "-") for key in ("sent", "received", "lost", "duplicates")),
            *(_steps(row.get(f"displacement_{which}")) for which in ("measured", "exact")),
        ]
        table.add_row(*map(str, cells), style=None if row["exact"] else "red")
    console.print(table)
    lines = [out.getvalue().rstrip(), ""]
    for kind, found in result["wire"].items():
        sizes = " or ".join(f"{n} bytes" for n in found)
        lines.append(f"{sum(found.values()):7,} {kind} messages, each of {sizes or 'any length'}")
    lines.append("")
    lines += [f"ALARM {alarm['name']}: {alarm['detail']}" for alarm in result["alarms"]]
    if result["held"]:
        lines.append("Every stream arrived exactly as its words dictate.")
        lines.append(
            "(The devices' random words were kept to check this, so these streams protect nobody:"
            " quality TEST. Without that, their certificates say what the order gives away.)"
        )
    else:
        wrong = [str(row["number"]) for row in result["devices"] if not row["exact"]]
        lines.append(f"NOT as the words dictate: device {', '.join(wrong)}." if wrong else "")
    lines.append(f"Pictures of original and released: {result['report']}")
    return "\n".join(lines)


def _steps(displacement: float | None) -> str:
    return "-" if displacement is None else f"{displacement:.3f}"
