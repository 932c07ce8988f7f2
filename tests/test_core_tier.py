"""The core tier keeps its rules, and the check of each rule finds a planted fault."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.core_tier import ALLOCATES, PER_SAMPLE, faults, is_core, syntax
from tinyldp.lanes.packages import sources

ROOT = Path(__file__).parent.parent
FILES = {path: source.decode() for path, source in sources().items()}


def test_the_tree_keeps_the_rules() -> None:
    assert faults(FILES) == []
    assert len([path for path in FILES if is_core(path)]) >= 12
    for module in PER_SAMPLE:
        assert any(path.endswith("/" + module) for path in FILES), module


def test_portable_tests_compile_on_the_oldest_micropython() -> None:
    for path in sorted((ROOT / "firmware_tests" / "portable").glob("*.py")):
        source = path.read_text()
        assert list(syntax(source, ast.parse(source))) == [], path.name


# A fault's name, and a line of source that has it.
PLANTED = [
    ("f-string", "def f(n):\n    return f'{n}'"),
    ("annotation", "x: int = 1"),
    ("annotation", "def f(n: int):\n    pass"),
    ("annotation", "def f(*, n: int = 1):\n    pass"),
    ("annotation", "def f() -> int:\n    pass"),
    ("walrus", "def f(n):\n    return (m := n)"),
    ("async", "async def f():\n    pass"),
    ("match", "def f(n):\n    match n:\n        case 1:\n            pass"),
    ("matrix product", "def f(n):\n    return n @ n"),
    ("underscore in a number", "X = 1_000"),
    ("positional-only parameter", "def f(n, /):\n    pass"),
    ("star in a display", "def f(n):\n    return [*n]"),
    ("star in a display", "def f(n):\n    return (1, *n)"),
    ("star in a display", "def f(n):\n    return {**n}"),
    ("float", "X = 1.5"),
    ("float", "X = 1e3"),
    ("float", "X = 2j"),
    ("true division", "def f(n):\n    return n / 2"),
    ("true division", "def f(n):\n    n /= 2"),
    ("integer beyond 30 bits", "X = 1073741824"),
    ("integer beyond 30 bits", "X = -1073741825"),
    ("integer beyond 30 bits", "X = 1 << 30"),
    ("integer beyond 30 bits", "def f(n):\n    return n & 0xFFFFFFFF"),
    ("import of time", "from time import ticks_ms"),
    ("import of random", "def f():\n    from random import random"),
    ("import of tinyldp.errors", "from tinyldp.errors import UserError"),
    ("import of tinyldp_device", "from tinyldp_device import agent"),
    ("import of None", "from . import agent"),
    ("import without from", "import array"),
    ("import alias", "from array import array as a"),
    ("import alias", "from array import *"),
    ("runs at import", "print()"),
    ("runs at import", "X = [1]"),
    ("runs at import", "X = len('x')"),
    ("runs at import", "for X in (1, 2):\n    pass"),
    ("runs at import", "if 1:\n    X = 1"),
    ("runs at import", "class C:\n    x = dict()"),
    ("runs at import", "class C:\n    @staticmethod\n    def f():\n        pass"),
    ("runs at import", "try:\n    X = 1\nfinally:\n    pass"),
    ("property is not on every board", "def f(n):\n    return property(n)"),
    ("memoryview is not on every board", "def f(n):\n    return memoryview(n)"),
]


@pytest.mark.parametrize(("fault", "source"), PLANTED)
def test_a_planted_fault_is_found(fault: str, source: str) -> None:
    path = "tinyldp_device/planted.py"
    assert fault in [line.partition(": ")[2] for line in faults({path: source + "\n"})]


def test_protocol_does_not_import_device() -> None:
    line = "from tinyldp_device.switch import RanSwitch\n"
    assert faults({"tinyldp_protocol/planted.py": line}) != []
    assert faults({"tinyldp_device/planted.py": line}) == []


def test_module_names_are_unique_over_both_packages() -> None:
    both = {"tinyldp_device/task.py": "", "tinyldp_protocol/task.py": ""}
    assert ["is called so" in line for line in faults(both)] == [True]
    boards = {"tinyldp_device/boards/serial.py": "", "tinyldp_device/links/serial.py": ""}
    assert len(faults(boards)) == 1


ALLOCATING = {
    "lambda": "lambda: 1",
    "generator": "(i for i in symbol)",
    "comprehension": "[i for i in symbol]",
    "list": "[symbol]",
    "dict": "{1: symbol}",
    "set": "{symbol}",
    "slice": "symbol[1:]",
    "star argument": "self.f(*symbol)",
    "tuple": "(symbol, 1)",
    "formatting": "'%d' % symbol",
}


@pytest.mark.parametrize("fault", ALLOCATING)
def test_an_allocation_on_the_path_of_a_sample_is_found(fault: str) -> None:
    method = f"    def step(self, symbol):\n        x = {ALLOCATING[fault]}\n"
    assert f"{fault} in step()" in in_switch(method)


def test_statements_that_allocate_are_found() -> None:
    assert "with in step()" in in_switch(
        "    def step(self):\n        with self:\n            pass\n"
    )
    assert "generator in step()" in in_switch("    def step(self):\n        yield 1\n")
    assert "generator in step()" in in_switch("    def step(self):\n        yield from ()\n")
    assert "closure in step()" in in_switch(
        "    def step(self):\n        def f():\n            pass\n"
    )
    assert set(ALLOCATES.values()) - {"with", "closure"} <= set(ALLOCATING)
    # Raising ends the path: what the exception needs may be allocated.
    assert in_switch("    def step(self):\n        raise ValueError((self, 1))\n") == []


def in_switch(method: str) -> list[str]:
    rest = "".join(f"    def {name}(self):\n        pass\n" for name in ("flush", "_release"))
    found = faults({"tinyldp_device/switch.py": "class S:\n" + rest + method})
    return [line.partition(": ")[2] for line in found]


def test_a_stale_list_of_functions_is_found() -> None:
    found = faults({"tinyldp_device/quantize.py": "X = 1\n"})
    assert found == ["tinyldp_device/quantize.py:1: there is no symbol: PER_SAMPLE is out of date"]


def test_what_is_allowed() -> None:
    source = '''"""Docstring."""

try:
    from hashlib import sha256
except ImportError:
    sha256 = None

from tinyldp_protocol.cbor import Reader

X = -1073741824
Y = (1, (2, 3), "x", X, 1 << 29)


class C:
    """Docstring."""

    x = 1

    def f(self, n):
        a, b = n
        return a // b, [i for i in n]
'''
    assert faults({"tinyldp_device/planted.py": source}) == []
    assert faults({"tinyldp_device/boards/planted.py": "import machine\nX = 1.5 / 2\n"}) == []
