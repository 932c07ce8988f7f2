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

from tests.bench import host_path, wire
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures: list[Figure] = []
    for title, measure in (
        ("device path (calls: times an empty method call)", device_figures),
        ("host", host_figures),
        ("bytes for each one-byte sample", wire_figures),
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
