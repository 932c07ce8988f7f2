"""What everything takes: `python -m firmware_tests.footprint` writes FOOTPRINT.md and budgets.json.

A budget is only ever lowered by this; a rise has to be written into budgets.json by hand.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

from firmware_tests.asking import MEASURING, Host, query
from firmware_tests.microbit import (
    EACH,
    LEAST_FREE,
    PROGRAMS,
    TASKS,
    lba,
    program,
    start,
    state_files,
    thresh,
)
from tinyldp.flash.build import build_microbit, modules_of, program_of
from tinyldp.flash.microbit import flash_microbit
from tinyldp.lanes import LANES, open_lane
from tinyldp.lanes.flatten import Module, minified
from tinyldp.lanes.packages import compile_module, sources
from tinyldp_protocol.task import Task

ROOT = Path(__file__).parent.parent
BUDGETS = Path(__file__).with_name("budgets.json")
# What a part of a full agent defines: none may be left out to fit.
PARTS = {
    "hardware entropy": "HardwareRng.fill",
    "health tests": "Entropy._fill",
    "start-up health test": "Entropy._start",
    "quantizer": "Quantizer.symbol",
    "outbox": "Outbox.add",
    "acks and boot nonce": "SmallSerial._take",
    "COBS": "SmallSerial.frame",
    "CRC-32": "Crc32.feed",
    "hello and status": "SmallSignals._signal",
    "resending": "Outbox.resend",
    "stored state": "State.load",
    "boots": "Identity.__init__",
}
# Of a device that is asked.
ROUND_PARTS = {
    **{part: method for part, method in PARTS.items() if not method.startswith("Outbox")},
    "acks and boot nonce": "SmallSerial._is_ack",
    "hello and status": "SmallSignals._signal",
    "queries": "QuerySerial._is_query",
    "answers": "SmallRoundAgent._hear",
    "refusals": "SmallRoundAgent._say",
    "ledger": "Ledger.ask",
    "stored answers": "Ledger.keep",
    "window": "Ledger._room",
    "oracle": "Grr.step",
    "allowance": "RoundIdentity.__init__",
}
EPOCH_PARTS = {
    **{
        part: method
        for part, method in ROUND_PARTS.items()
        if part not in ("window", "oracle", "ledger")
    },
    "one answer a phase": "Lifetime.ask",
    "stored answers": "Lifetime.keep",
    "allowance": "LifeIdentity.__init__",
    "epochs": "Epochs.settle",
    "counters for life": "Lifetime.count",
    "votes": "Thresh.vote",
    "estimates": "Thresh.estimate",
}
# The largest that a symbol and an epoch may be together.
LONG = {"rounds": 1 << 14, "symbols": 1025, "epochs": 1 << 14, "levels": [1 << 20] * 15}
ROUND_TASKS = {
    "LBA GRR d=5 w=20": lba(),
    "Thresh 2^14 rounds": thresh(**LONG, polls=16, thresholds=[1 << 20] * 3),
}
Sizes = dict[str, dict[str, int]]


def module_sizes() -> Sizes:
    """Source, minified and .mpy bytes of each module."""
    sizes: Sizes = {}
    for path, source in sources().items():
        if source:
            tree = ast.parse(source)
            sizes[path] = {
                "source": len(source),
                "minified": len(minified(Module(tree.body))),
                "mpy": len(compile_module(path, source, 31)),
            }
    return sizes


def build_sizes() -> Sizes:
    """Bytes of code of each Task's build, and its longest line."""
    sizes: Sizes = {}
    for name, task in {**TASKS, **ROUND_TASKS}.items():
        steps = build_microbit(task).files["steps"]
        sizes[name] = {"code": len(steps), "longest line": max(map(len, steps.split(b"\n")))}
    return sizes


def parts_of(task: Task) -> dict[str, str]:
    """What defines each part of a full agent with this Task."""
    if task.epochs is not None:
        return EPOCH_PARTS
    return PARTS if task.method is None else ROUND_PARTS


def parts(task: Task) -> dict[str, list[str]]:
    """The parts of a full agent by the modules of a build; KeyError when one is missing."""
    found = modules_of(task, program_of(task))
    methods = {
        f"{node.name}.{item.name}": path
        for path, module in found.items()
        for node in module.body
        if isinstance(node, ast.ClassDef)
        for item in node.body
        if isinstance(item, ast.FunctionDef)
    }
    result: dict[str, list[str]] = {}
    for part, method in parts_of(task).items():
        result.setdefault(methods[method], []).append(part)
    return result


def free_heap(task: Task) -> int:
    """On the micro:bit: heap that is free while the agent runs, or answers."""
    if task.method is not None or task.epochs is not None:
        return _free_while_asked(task)
    with open_lane("microbit") as lane:
        source = program_of(task).replace("run(agent, task.tick, sample, time)", "play()")
        source = source.replace("task = None\n", FREE + "\n\ntask = None\n")
        source = source.replace("import time\n", "import gc\nimport time\n")
        with start(lane, task, state_files(b"somebody"), source) as board:
            free = re.search(rb"free (\d+)", board.wait(300).stdout)
    assert free is not None
    return int(free[1])


def _free_while_asked(task: Task) -> int:
    if task.epochs is not None:
        # What an epoch takes does not depend on how long it is.
        task = thresh(
            **{**LONG, "rounds": 2, "levels": [100] * 15}, polls=16, thresholds=[1 << 20] * 3
        )
    with open_lane("microbit") as lane, flash_microbit(task, lane, MEASURING)[2] as board:
        host = Host(board)
        heard = b""
        for t in range(1, 10):
            host.asks(query(task, t))
            if task.epochs is not None:
                host.asks(query(task, t, 1, 1))
            heard += bytes(host.text)
    return min(int(n) for n in re.findall(rb"free (\d+)\r\n", heard))


def steps_a_second(task: Task) -> int:
    """On the micro:bit."""
    source = program("microbit_speed.py", STEPS=300, WINDOW=task.window or 1)
    with open_lane("microbit") as lane, start(lane, task, {}, source) as board:
        steps = re.search(rb"steps (\d+)", board.wait(300).stdout)
    assert steps is not None
    return int(steps[1])


FREE = """
def play():
    i = 0
    while i < 100:
        agent.tick(sample())
        agent.service()
        i += 1
    gc.collect()
    print("free", gc.mem_free())
    if i < 0:
        run(agent, task.tick, sample, time)
"""


def printed(lane: str, *args: str, stdin: str = "") -> dict[str, int]:
    """What programs/footprint.py prints on a lane."""
    with open_lane(lane) as opened:
        opened.install(compiled=lane in ("unix", "wasm"))
        for path in (PROGRAMS / "footprint.py", PROGRAMS.parent / "portable" / "helpers.py"):
            opened.put({path.name: path.read_bytes()})
        result = opened.run("footprint.py", *args, stdin=stdin.encode(), timeout=120)
    assert result.exit_code == 0, (result.stdout + result.stderr).decode()
    lines = result.stdout.decode().split("\n")
    return {line.split()[0]: int(line.split()[1]) for line in lines if line}


def heap_after_import() -> dict[str, int]:
    """On wasm, whose pointers have 4 bytes as a board's: compiled modules."""
    names = [
        path[:-3].replace("/", ".")
        for path in sources()
        if "/boards/" not in path and "__init__" not in path and "mqtt" not in path
    ]
    # A run for each: what it imports counts, too.
    return {name: printed("wasm", name)[name] for name in names}


def rises(measured: Sizes, budgets: Sizes) -> list[str]:
    """Every budget that is exceeded, or missing."""
    found = []
    for name, sizes in measured.items():
        for what, size in sizes.items():
            budget = budgets.get(name, {}).get(what)
            if budget is None:
                found.append(f"{name} has no budget for {what}: it has {size}")
            elif size > budget:
                found.append(f"{name}: {what} rose from {budget} to {size}")
    return found


def table(head: list[str], rows: list[list[Any]]) -> list[str]:
    line = "| " + " | ".join(head) + " |"
    rule = "|" + "---|" * len(head)
    return [line, rule, *("| " + " | ".join(map(str, row)) + " |" for row in rows), ""]


def write() -> None:
    """Measure all, lower the budgets, write FOOTPRINT.md."""
    modules = module_sizes()
    builds = build_sizes()
    heap = heap_after_import()
    lines = [
        "# Footprint",
        "",
        "Written by `python -m firmware_tests.footprint`; the budgets in",
        "`firmware_tests/budgets.json` may only fall, and a test fails when one rises.",
        "",
        "## Modules",
        "",
        "Bytes. Heap: after the import of the compiled module on the lane wasm (pointers of 4",
        "bytes, as on a board), with all that it imports.",
        "",
        *table(
            ["module", "source", "minified", ".mpy", "heap"],
            [
                [f"`{path}`", *sizes.values(), heap.get(path[:-3].replace("/", "."), "")]
                for path, sizes in modules.items()
            ],
        ),
        "## Instances",
        "",
        "Bytes of heap of one mechanism, by window with 16-bit values, oracles by symbols (wasm),",
        "with what its set-up leaves to a collection. Blocks by a table have one of S x S 16-bit",
        "numbers, S = symbols^block, at most 45.",
        "",
    ]
    instances = printed("wasm", "instances")
    lines += table(["mechanism", "bytes"], [[name, n] for name, n in instances.items()])
    lines += [
        "## Builds for the micro:bit",
        "",
        "Streams have 16-bit values, but CRR. Four reports a frame, an outbox of four frames;",
        "LBA and Thresh are asked and have a ledger, or counters for life, instead. Free heap:",
        f"after a collection, while the agent reports (at least {LEAST_FREE}); the board starts",
        "with 9.0 KB.",
        "",
    ]
    rows = []
    speeds: dict[str, list[Any]] = {"microbit": []}
    for name, task in TASKS.items():
        free = free_heap(task)
        builds[name]["heap not free"] = 9056 - free
        speeds["microbit"].append(steps_a_second(task))
        rows.append([name, builds[name]["code"], builds[name]["longest line"], free])
    for name, task in ROUND_TASKS.items():
        free = free_heap(task)
        builds[name]["heap not free"] = 9056 - free
        rows.append([name, builds[name]["code"], builds[name]["longest line"], free])
    lines += table(["Task", "bytes of code", "longest line", "free heap"], rows)
    lines += ["Modules of each build, and the parts of a full agent in them:", ""]
    for name, task in {**TASKS, **ROUND_TASKS}.items():
        with_parts = parts(task)
        lines += [f"**{name}**", ""]
        lines += [
            f"- `{path}`" + (": " + ", ".join(with_parts[path]) if path in with_parts else "")
            for path in modules_of(task, program_of(task))
            if path != "program"
        ]
        lines.append("")
    lines += [
        "## Steps a second",
        "",
        "Reading to finished frame, the same Tasks, on the computer that wrote this; the micro:bit",
        "is emulated, and a real one is slower. OUE draws a word for each of 16 bits.",
        "",
    ]
    for lane in ("wasm", "unix", "cpython"):
        # A run for each: all together would fill a small heap.
        found = [printed(lane, "speed", stdin=json.dumps(task)) for task in EACH.values()]
        speeds[lane] = [each["steps"] for each in found]
    names = [name.split()[0] for name in TASKS]
    lines += table(["lane", *names], [[lane, *steps] for lane, steps in speeds.items()])
    (ROOT / "FOOTPRINT.md").write_text("\n".join(lines).rstrip() + "\n")
    measured = {**modules, **builds}
    budgets: Sizes = json.loads(BUDGETS.read_text()) if BUDGETS.exists() else {}
    lowered = {
        name: {what: min(n, budgets.get(name, {}).get(what, n)) for what, n in sizes.items()}
        for name, sizes in measured.items()
    }
    BUDGETS.write_text(json.dumps(lowered, indent=1) + "\n")


if __name__ == "__main__":
    assert LANES["microbit"].missing() is None
    write()
