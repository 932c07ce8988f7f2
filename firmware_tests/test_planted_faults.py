"""Faults planted in the shipped source, each found by a public command's verdict.

The packages are copied to a folder that comes first on a subprocess's path, and patched
there; `tinyldp audit` then installs the patched device on its lane. What catches each
fault is named beside it: a bound above the certificate, or the promise that is broken.
"""

from __future__ import annotations

import functools
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from tests.collecting import make_task
from tests.planning_studies import write_study
from tinyldp.lanes.packages import package_folder
from tinyldp.lanes.unix import Unix
from tinyldp_protocol.task import (
    GRR,
    JITTERSORT,
    OLH,
    OUE,
    SCALE,
    STASWITCH,
    Task,
    write_file,
)

# Few frames: else most of what a short segment costs is frames.
QUICK = {"batch": 32, "outbox": 2, "beacon": 1 << 20, "resend": 1 << 20}
ORACLE = QUICK | {"batch": 32, "epsilon": 1 << 16}


def lie_threshold(values: int) -> int:
    """Of each lie among so many values, at epsilon = 1."""
    return math.ceil(SCALE / (math.e + values - 1))


# Each Task, and the segments (reports, of an oracle) that its audits take.
FLUSH = {"window": 6, "k": 6, "thresholds": [SCALE // 7], "symbols": 64, "epsilon": 1 << 16}
TASKS: dict[str, tuple[Task, int]] = {
    "ranswitch": (make_task(window=3, symbols=64, thresholds=[SCALE // 10], **QUICK), 500),
    "staswitch": (
        make_task(
            mechanism=STASWITCH,
            window=4,
            k=4,
            symbols=64,
            thresholds=[SCALE // 12],
            epsilon=2 << 16,
            **QUICK,
        ),
        600,
    ),
    "ranswitch flush": (make_task(**FLUSH, **QUICK), 1200),
    "staswitch flush": (make_task(mechanism=STASWITCH, **FLUSH, **QUICK), 1200),
    "jittersort": (
        make_task(
            mechanism=JITTERSORT,
            window=5,
            k=2,
            symbols=64,
            thresholds=[SCALE - 4 * (SCALE // 5), SCALE // 5, SCALE // 5],
            epsilon=1 << 16,
            **QUICK,
        ),
        900,
    ),
    "grr": (make_task(mechanism=GRR, symbols=4, thresholds=[lie_threshold(4)], **ORACLE), 20_000),
    "oue": (make_task(mechanism=OUE, symbols=10, thresholds=[lie_threshold(2)], **ORACLE), 10_000),
    "olh": (
        make_task(mechanism=OLH, symbols=10, buckets=3, thresholds=[lie_threshold(3)], **ORACLE),
        20_000,
    ),
}

# Module, what its source says once, and what it says with the fault.
Edit = tuple[str, str, str]
SWITCH = "tinyldp_device/switch.py"
JITTER = "tinyldp_device/jittersort.py"
ORACLES = "tinyldp_device/oracles.py"


@dataclass(frozen=True)
class Fault:
    """What is planted in the device, the Task that it runs, and what of an audit catches it."""

    task: str
    name: str
    caught_by: str
    edits: tuple[Edit, ...]
    soak: bool = False

    def parameter(self) -> ParameterSet:
        marks = [pytest.mark.soak] if self.soak else []
        return pytest.param(self, id=f"{self.task}: {self.name}", marks=marks)


FIRST_SWITCH = (
    (SWITCH, "self._late = None\n", "self._late = None\n        self._begun = False\n"),
    (
        SWITCH,
        "if word < switching:",
        "begun, self._begun = self._begun, True\n            if begun and word < switching:",
    ),
)
STAYING = (
    (
        SWITCH,
        "if ahead < held:\n                break",
        "if ahead >= held:\n                ahead = 0\n            break",
    ),
)
BIT = "SCALE >> 1 if i == value else self.threshold"
FAULTS = (
    Fault("ranswitch", "first word unused", "epsilon", FIRST_SWITCH),
    Fault("staswitch", "first word unused", "epsilon", FIRST_SWITCH, soak=True),
    Fault(
        "jittersort",
        "first word unused",
        "law, start",
        ((JITTER, "while word >= weight:", "while self._now and word >= weight:"),),
    ),
    Fault(
        "grr",
        "first word unused",
        "first report",
        (
            (ORACLES, "self._lies = task.symbols - 1", "self._lies = 0"),
            (
                ORACLES,
                "if lie >= self._lies:\n            return value",
                "lies, self._lies = self._lies, 3\n"
                "        if lie >= lies:\n            return value",
            ),
        ),
    ),
    Fault(
        "oue",
        "first word unused",
        "first report",
        (
            (
                ORACLES,
                "self._symbols = task.symbols\n",
                "self._symbols = task.symbols\n        self._begun = False\n",
            ),
            (ORACLES, BIT, f"(i == value) * SCALE if i == 0 and not self._begun else {BIT}"),
            (ORACLES, "report[i >> 3] |=", "self._begun = True\n                report[i >> 3] |="),
        ),
        soak=True,
    ),
    Fault(
        "olh",
        "first word unused",
        "fresh keys",
        ((ORACLES, "word %= PRIME", "word = word % PRIME if i else 0"),),
        soak=True,
    ),
    Fault(
        "grr",
        "lie drawn from all symbols",
        "epsilon",
        (
            (
                ORACLES,
                "lie = self._entropy.word() // self.threshold\n        if lie >= self._lies:",
                "word = self._entropy.word()\n        lie = word // self.threshold\n"
                "        if lie >= self._lies:",
            ),
            (
                ORACLES,
                "if lie >= value:\n            lie += 1\n",
                "lie = word * (self._lies + 1) // (self._lies * self.threshold)\n",
            ),
        ),
    ),
    Fault(
        "olh",
        "lie drawn from all buckets",
        "law",
        ((ORACLES, "lie + 1 if lie >= bucket else lie", "(self._entropy.word() * 3) >> 24"),),
        soak=True,
    ),
    Fault(
        "oue",
        "last bit never randomized",
        "epsilon",
        ((ORACLES, BIT, f"(i == value) * SCALE if i == self._symbols - 1 else {BIT}"),),
    ),
    Fault(
        "oue",
        "bits set but never cleared",
        "law",
        ((ORACLES, "report[i >> 3] = 0", "pass"),),
    ),
    Fault(
        "staswitch",
        "age does not travel with the value",
        "delay",
        ((SWITCH, "late[other] = late[at] + ahead", "late[other] += ahead"),),
    ),
    Fault("ranswitch flush", "flush stays instead of drawing again", "law, end", STAYING),
    Fault(
        "staswitch flush", "flush stays instead of drawing again", "law, end", STAYING, soak=True
    ),
    Fault(
        "jittersort",
        "ties broken by arrival",
        "law",
        (
            (JITTER, "skip = word // share", "skip = word * 0"),
            (
                JITTER,
                "slots[at] = slots[held]\n        keys[at] = keys[held]\n",
                "for i in range(at, held):\n            slots[i] = slots[i + 1]\n"
                "            keys[i] = keys[i + 1]\n",
            ),
        ),
    ),
    Fault(
        "ranswitch",
        "buffer not emptied in order",
        "same values",
        ((SWITCH, "slots[other] = slots[at]", "pass"),),
        soak=True,
    ),
    Fault(
        "oue",
        "one word for two bits",
        "independent bits",
        (
            (
                ORACLES,
                "if entropy.word() <",
                "if not i & 1:\n                word = entropy.word()\n            if word <",
            ),
        ),
        soak=True,
    ),
    Fault(
        "grr",
        "every second report is the last one again",
        "fresh reports",
        (
            (
                ORACLES,
                "self._lies = task.symbols - 1",
                "self._lies = task.symbols - 1\n        self._odd = 0\n        self._word = 0",
            ),
            (
                ORACLES,
                "lie = self._entropy.word() // self.threshold\n        if lie >= self._lies:",
                "self._odd ^= 1\n        if self._odd:\n"
                "            self._word = self._entropy.word()\n"
                "        lie = self._word // self.threshold\n        if lie >= self._lies:",
            ),
        ),
        soak=True,
    ),
    Fault(
        "grr",
        "one value in the middle never randomized",
        "law of every value",
        (
            (
                ORACLES,
                "if lie >= self._lies:\n            return value",
                "if lie >= self._lies or value == 2:\n            return value",
            ),
        ),
        soak=True,
    ),
)


def copied(folder: Path, edits: tuple[Edit, ...], packages: tuple[str, ...]) -> Path:
    """The packages in a folder, with these edits, each of which must match exactly once."""
    for package in packages:
        shutil.copytree(
            package_folder(package), folder / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    for module, old, new in edits:
        source = (folder / module).read_text()
        assert source.count(old) == 1, f"{old!r} does not occur once in {module}"
        (folder / module).write_text(source.replace(old, new))
    return folder


def tinyldp(packages: Path, *arguments: str) -> tuple[int, Any]:
    """Exit code and JSON of a command that finds these packages first."""
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    command = [sys.executable, "-m", "tinyldp", *arguments, "--json"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    # A crash has no verdict: it counts as no catch.
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@functools.cache
def audited(task: str, edits: tuple[Edit, ...]) -> tuple[int, Any]:
    """An audit of one of TASKS, and of a device with these edits."""
    chosen, segments = TASKS[task]
    with tempfile.TemporaryDirectory() as folder:
        packages = copied(Path(folder), edits, ("tinyldp_device", "tinyldp_protocol"))
        path = Path(folder, "a.task")
        path.write_bytes(write_file(chosen))
        return tinyldp(packages, "audit", str(path), "--segments", str(segments))


def broken(verdict: Any) -> list[str]:
    """What of an audit's verdict is above the certificate, or was not kept."""
    found = [promise["name"] for promise in verdict["promises"] if not promise["held"]]
    for parameter in ("epsilon", "delta"):
        if verdict[f"{parameter}_lower"] > verdict[parameter]:
            found.append(parameter)
    return found


@pytest.mark.parametrize("fault", [fault.parameter() for fault in FAULTS])
def test_audit_catches(fault: Fault, need: Callable[[str, str | None], None]) -> None:
    """A sound device fails this at most three times in 10^6 runs, for each Task."""
    need("unix", Unix.missing())
    code, verdict = audited(fault.task, ())
    assert (code, verdict["held"], broken(verdict)) == (0, True, [])
    code, verdict = audited(fault.task, fault.edits)
    assert (code, verdict["held"]) == (1, False)
    assert [name for name in broken(verdict) if name.startswith(fault.caught_by)], broken(verdict)


PLANNING = "tinyldp/planning"
# Mechanism, its study's target and options, and thresholds rounded toward less noise.
ROUNDED: tuple[tuple[str, str, str, Edit], ...] = (
    (
        "grr",
        "epsilon = 1.0",
        "",
        (
            f"{PLANNING}/oracles.py",
            "math.ceil(SCALE / (low + values - 1))",
            "math.floor(SCALE / (low + values - 1))",
        ),
    ),
    (
        "olh",
        "epsilon = 1.0",
        "",
        (
            f"{PLANNING}/oracles.py",
            "math.ceil(SCALE / (low + values - 1))",
            "math.floor(SCALE / (low + values - 1))",
        ),
    ),
    (
        "oue",
        "epsilon = 1.0",
        "",
        (
            f"{PLANNING}/oracles.py",
            "math.ceil(SCALE / (low + 1))",
            "math.floor(SCALE / (low + 1))",
        ),
    ),
    (
        "ranswitch",
        "epsilon = 4.0\ndelta = 0.125\nk = 5",
        "",
        (
            f"{PLANNING}/choice.py",
            "raise refusal.of_ranswitch(target, study.window)\n"
            "        return study.task([threshold])",
            "raise refusal.of_ranswitch(target, study.window)\n"
            "        return study.task([threshold - 1])",
        ),
    ),
    (
        "staswitch",
        "epsilon = 4.0\ndelta = 0.2\nk = 4",
        "",
        (
            f"{PLANNING}/choice.py",
            "raise refusal.of_staswitch(target)\n    return study.task([threshold])",
            "raise refusal.of_staswitch(target)\n    return study.task([threshold - 1])",
        ),
    ),
    (
        "jittersort",
        "epsilon = 4.0\ndelta = 0.01\nk = 3",
        "",
        (
            f"{PLANNING}/choice.py",
            "return study.task(weights, 2 * len(weights) - 1)",
            "weights[0] += 2 * (weights[-1] // 2)\n"
            "        weights[-1] -= weights[-1] // 2\n"
            "        return study.task(weights, 2 * len(weights) - 1)",
        ),
    ),
)


@pytest.mark.parametrize(
    ("name", "privacy", "options", "edit"), ROUNDED, ids=[case[0] for case in ROUNDED]
)
def test_certify_catches_thresholds_rounded_toward_less_noise(
    name: str, privacy: str, options: str, edit: Edit, tmp_path: Path
) -> None:
    study = write_study(tmp_path, name, privacy, options)
    task = tmp_path / "s.task"
    for number, edits in enumerate(((), (edit,))):
        packages = copied(tmp_path / str(number), edits, ("tinyldp",))
        assert tinyldp(packages, "plan", str(study))[0] == 0
        code, certificate = tinyldp(packages, "certify", str(task))
        assert (code, certificate["within_target"]) == ((1, False) if edits else (0, True))
        task.unlink()
