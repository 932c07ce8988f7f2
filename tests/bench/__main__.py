"""`make bench`: every speed and size figure, with the floors below which it fails.

Speeds are ratios of two things timed in turn in one run, so that they hold on a
slow or busy computer too.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.bench import (
    certify_time,
    crr_path,
    epochs_path,
    fleet_path,
    host_path,
    rounds_path,
    wire,
)
from tinyldp.lanes import open_lane

HERE = Path(__file__).parent


@dataclass
class Figure:
    """One measured figure; limit and sense ("at most", "at least") may be absent."""

    name: str
    value: float
    unit: str
    sense: str = ""
    limit: float | None = None

    @property
    def held(self) -> bool:
        if self.limit is None:
            return True
        return self.value <= self.limit if self.sense == "at most" else self.value >= self.limit


def device_figures() -> list[Figure]:
    """The per-sample path on the unix lane."""
    with open_lane("unix") as lane:
        lane.install(compiled=True)
        lane.put({"main.py": (HERE / "device_path.py").read_bytes()})
        result = lane.run("main.py", timeout=300)
    if result.exit_code:
        raise SystemExit((result.stdout + result.stderr).decode())
    figures = []
    for name, ratios in json.loads(result.stdout).items():
        figures.append(Figure(f"{name}: a sample", ratios["path"], "calls", "at most", 60))
        figures.append(Figure(f"{name}: its word drawn and tested", ratios["refill"], "calls"))
    return figures


def host_figures() -> list[Figure]:
    found = host_path.measure()
    floors = {"ratio without storage": 0.25, "ratio with storage": 0.08}
    return [
        Figure(f"host frames, {name}", value, "of cbor2.loads", "at least", floors[name])
        if name in floors
        else Figure(f"host frames, {name}", value, "frames/s")
        for name, value in found.items()
    ]


def wire_figures() -> list[Figure]:
    figures = []
    for batch, limit in ((1, 22), (16, 3)):
        mine = wire.tinyldp_bytes(batch)
        figures += [
            Figure(f"tinyldp on a serial line, batch {batch}", mine, "bytes", "at most", limit),
            Figure(f"SenML-CBOR, batch {batch}", wire.senml_cbor_bytes(batch), "bytes"),
            Figure(f"JSON, batch {batch}", wire.json_bytes(batch), "bytes"),
        ]
    return figures


def fleet_figures() -> list[Figure]:
    """Simulation and aggregation, beside PyPI's packages and the device package."""
    floors = {
        ("client", "GRR", 16): 20,
        ("client", "GRR", 128): 20,
        ("client", "OUE", 16): 10,
        ("client", "OUE", 128): 5,
        ("aggregation", "GRR", 16): 50,
        ("aggregation", "GRR", 128): 50,
        ("aggregation", "OUE", 16): 5,
        ("aggregation", "OUE", 128): 5,
        ("aggregation", "OLH", 16): 10,
        ("aggregation", "OLH", 128): 10,
    }
    figures = []
    for key, ratio in fleet_path.oracle_ratios().items():
        what, oracle, symbols = key
        name = f"{oracle} {what}, d = {symbols}: others take"
        figures.append(Figure(name, ratio, "times", "at least", floors.get(key)))
    for name, ratio in fleet_path.stream_ratios().items():
        figures.append(Figure(f"{name} step: CPython takes", ratio, "times", "at least", 15))
    seconds = fleet_path.aggregate_seconds()
    figures.append(Figure("GRR round of 10^9 devices, as counts", seconds, "s", "at most", 1))
    return figures


def crr_figures() -> list[Figure]:
    """A chain of four states; floors leave room for what a busy computer takes."""
    figures = [
        Figure(f"CRR, {rule}, step: CPython takes", ratio, "times", "at least", 15)
        for rule, ratio in crr_path.ratios().items()
    ]
    for (symbols, block), ratio in crr_path.block_ratios().items():
        name = f"CRR, blocks of {block}, n = {symbols}, step: CPython takes"
        figures.append(Figure(name, ratio, "times", "at least", 50))
    took = crr_path.seconds()
    figures.append(Figure("CRR, 10^5 devices, 1,000 steps, n = 4", took, "s", "at most", 60))
    return figures


def rounds_figures() -> list[Figure]:
    """10^6 devices for 800 steps, d = 5, counts drawn directly."""
    return [
        Figure(f"{name.upper()} over {oracle.upper()}", seconds, "s", "at most", 10)
        for (name, oracle), seconds in rounds_path.seconds().items()
    ]


def epochs_figures() -> list[Figure]:
    """16 epochs of 8,192 steps; HeavyThresh 8 of 4,096, w = 1024, 100,000 items."""
    limits = {"Thresh, 20,000 devices": 20}
    return [
        Figure(name, seconds, "s", "at most" if name in limits else "", limits.get(name))
        for name, seconds in epochs_path.seconds().items()
    ]


def certify_figures() -> list[Figure]:
    figures = []
    for k, limit in ((8, 10), (9, 60)):
        seconds, size = certify_time.measure(k)
        figures.append(Figure(f"certify StaSwitch k={k}", seconds, "s", "at most", limit))
        figures.append(Figure(f"certify StaSwitch k={k}, memory", size, "GiB", "at most", 4))
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures: list[Figure] = []
    for title, measure in (
        ("device path (calls: times an empty method call)", device_figures),
        ("host", host_figures),
        ("bytes for each one-byte sample", wire_figures),
        ("simulation and aggregation (the better of pure-ldp, multi-freq-ldpy)", fleet_figures),
        ("conditional randomized response (on one core)", crr_figures),
        ("rounds of 10^6 devices, 800 steps (on one core)", rounds_figures),
        ("epochs (on one core)", epochs_figures),
        ("certificates", certify_figures),
    ):
        print(f"measuring: {title} ...", file=sys.stderr, flush=True)
        figures += measure()
    if options.json:
        print(json.dumps([{**asdict(figure), "held": figure.held} for figure in figures], indent=2))
    else:
        for figure in figures:
            limit = f"   {figure.sense} {figure.limit:g}" if figure.limit is not None else ""
            mark = "" if figure.held else "   FAILED"
            print(f"{figure.name:45} {figure.value:12,.2f} {figure.unit:15}{limit}{mark}")
    return 0 if all(figure.held for figure in figures) else 1


sys.exit(main())
